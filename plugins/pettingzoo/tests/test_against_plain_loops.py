"""The adapter gives every agent what a plain loop over the same game gives it."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import numpy as np
import pettingzoo
import pytest

from rlcore import Actions, EpisodeSeeds
from rlcore_pettingzoo.base import PettingZooEnvironment
from rlcore_pettingzoo.games import find_game

EPISODES = 12
SEEDS = EpisodeSeeds(7)

Told = list[tuple[Any, ...]]  # what one agent is told, in order: (observation, reward, terminated, truncated)


def pick(allowed: np.ndarray | None, options: int, count: int) -> int:
    choices = np.arange(options) if allowed is None else np.flatnonzero(allowed)
    return int(choices[(7 * count) % len(choices)])


def values(observation: Any) -> list[float]:
    seen = observation["observation"] if isinstance(observation, dict) else observation
    return np.asarray(seen, np.float32).ravel().tolist()


def plain_turns(game: Any, seed: int) -> dict[str, Told]:
    game.reset(seed=seed)
    told: dict[str, Told] = {agent: [] for agent in game.possible_agents}
    count = 0
    for agent in game.agent_iter():
        observation, reward, terminated, truncated, info = game.last()
        told[agent].append((values(observation), np.float32(reward), terminated, truncated and not terminated))
        mask = observation.get("action_mask") if isinstance(observation, dict) else info.get("action_mask")
        over = terminated or truncated
        game.step(None if over else pick(mask, int(game.action_space(agent).n), count))
        count += not over
    return told


def told_by(environment: PettingZooEnvironment, act: Callable[[Any, Any, int], Actions]) -> list[dict[str, Told]]:
    """Play in environment 0 of N, in each step ``act(spec, batch, steps of the game)``; the others play too."""
    batches = environment.reset(SEEDS, np.zeros(environment.num_envs, np.int64))
    agents = {(arrays.name, slot): agent for agent, (arrays, slot) in environment.seats[0].items()}
    played: list[dict[str, Told]] = []
    told: dict[str, Told] = {agent: [] for agent in agents.values()}
    count = 0
    while len(played) < EPISODES:
        for (name, slot), agent in agents.items():
            batch = batches[name]
            if batch.needs_action is None or batch.needs_action[slot]:
                reward = np.float32(0 if slot in batch.ended else batch.reward[slot])
                told[agent].append((values(batch.observations["observation"][slot]), reward, False, False))
        actions = {name: act(spec, batches[name], count) for name, spec in environment.behaviors.items()}
        count += 1
        batches = environment.step(actions)
        for (name, slot), agent in agents.items():
            batch = batches[name]
            if slot in batch.ended:
                seen = values(batch.final_observations["observation"][batch.ended.tolist().index(slot)])
                flags = bool(batch.terminated[slot]), bool(batch.truncated[slot])
                told[agent].append((seen, batch.reward[slot], *flags))
        if environment.episodes[0] > len(played):
            played.append(told)
            told = {agent: [] for agent in agents.values()}
            count = 0
    return played


def picked(spec: Any, batch: Any, count: int) -> Actions:
    masks = [None] * spec.slots if batch.action_mask is None else batch.action_mask
    return Actions(discrete=np.array([[pick(mask, spec.discrete[0], count)] for mask in masks]))


GAMES = {
    "circle": ("zoo_games:circle", {"players": 4}),
    "circle with masks in infos": ("zoo_games:circle", {"players": 3, "masks": "info"}),
    "tic-tac-toe": ("tictactoe_v3", {}),
    "connect four": ("connect_four_v3", {}),
    "hanabi": ("hanabi_v5", {"players": 3}),
    "leduc": ("leduc_holdem_v4", {}),
}


@pytest.mark.parametrize("case", GAMES)
def test_agents_that_act_in_turns_get_what_a_plain_loop_gives(make: Callable[..., Any], case: str) -> None:
    env_id, arguments = GAMES[case]
    try:
        environment = make(env_id, 3, arguments=arguments)
    except Exception as error:
        if "not installed" in str(error):
            pytest.skip(str(error))
        raise
    played = told_by(environment, picked)
    game = find_game(env_id, "aec" if ":" not in env_id else None).make(**arguments)
    rewards = 0.0
    for episode, told in enumerate(played):
        wanted = plain_turns(game, SEEDS(0, episode))
        for agent, theirs in wanted.items():
            ours = told[agent]
            assert len(ours) == len(theirs), (case, episode, agent)
            for place, (mine, other) in enumerate(zip(ours, theirs, strict=True)):
                # The reward before an agent's first action belongs to no transition.
                assert mine[0] == other[0] and (mine[1:] == other[1:] or (place == 0 and mine[2:] == other[2:]))
                rewards += abs(float(other[1]))
    assert rewards > 0
    environment.close()


def plain_parallel(game: pettingzoo.ParallelEnv, seed: int) -> dict[str, Told]:
    observations, _ = game.reset(seed=seed)
    told: dict[str, Told] = {agent: [(values(observations[agent]), 0.0, False, False)] for agent in game.agents}
    count = 0
    while game.agents:
        here = game.agents[:]
        action = np.float32(np.sin(count))
        seen, rewards, terminated, truncated, _ = game.step({agent: np.array([action]) for agent in here})
        for agent in {*here, *game.agents}:
            known = agent in here
            flags = (terminated[agent], truncated[agent] and not terminated[agent]) if known else (False, False)
            told.setdefault(agent, []).append(
                (values(seen[agent]), np.float32(rewards[agent] if known else 0.0), *flags)
            )
        count += 1
    return told


@pytest.mark.parametrize("late", [0, 2])
def test_agents_that_act_at_once_get_what_a_plain_loop_gives(make: Callable[..., Any], late: int) -> None:
    arguments = {"agents": 5, "late": late}
    environment = make("zoo_games:fading", 2, arguments=arguments)
    game = find_game("zoo_games:fading", None).make(**arguments)
    played = told_by(environment, lambda spec, batch, count: Actions(np.full((10, 1), np.sin(count), np.float32)))
    for episode, told in enumerate(played):
        wanted = plain_parallel(game, SEEDS(0, episode))
        assert told == {agent: wanted.get(agent, []) for agent in game.possible_agents}


# ---------------------------------------------------------------- generators that no reset(seed) reaches


@pytest.mark.parametrize(("own_generator", "limited"), [(True, True), (False, False)])
def test_the_promise_says_that_resets_do_not_repeat(
    make: Callable[..., Any], zoo_games: Any, own_generator: bool, limited: bool
) -> None:
    """Numbers of the process and of spaces are seeded; those of a generator of the game's own are not."""
    generator = np.random.default_rng()

    class Unseeded(zoo_games.circle):  # type: ignore[misc]
        def observe(self, agent: str) -> Any:
            drawn = generator.uniform() if own_generator else np.random.rand() + random.random()  # noqa: NPY002
            chance = self.observation_space(agent)["observation"].sample()[0] - 1
            return {**super().observe(agent), "observation": np.array([1 + drawn, 1 + chance], np.float32)}

    zoo_games.unseeded = Unseeded
    environment = make("zoo_games:unseeded", num_envs=1)
    reasons = (
        "zoo_games:unseeded begins other episodes with equal seeds: it has a generator that reset(seed) does not seed",
    )
    assert environment.resume_limits == (reasons if limited else ())
