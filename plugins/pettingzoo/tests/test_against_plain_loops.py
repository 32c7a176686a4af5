"""The adapter gives every agent what a plain loop over the same game gives it."""

from __future__ import annotations

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


def turns_of(environment: PettingZooEnvironment, episodes: int) -> list[dict[str, Told]]:
    """Play in environment 0 of N; the others play too."""
    batches = environment.reset(SEEDS, np.zeros(environment.num_envs, np.int64))
    agents = {
        (name, int(slot)): agent for agent, (arrays, slot) in environment.seats[0].items() for name in [arrays.name]
    }
    played: list[dict[str, Told]] = []
    told: dict[str, Told] = {agent: [] for agent in agents.values()}
    count = 0
    while len(played) < episodes:
        actions = {}
        for name, spec in environment.behaviors.items():
            batch = batches[name]
            masks = [None] * spec.slots if batch.action_mask is None else batch.action_mask
            actions[name] = Actions(discrete=np.array([[pick(mask, spec.discrete[0], count)] for mask in masks]))
            for slot in np.flatnonzero(np.ones(spec.slots) if batch.needs_action is None else batch.needs_action):
                if (name, int(slot)) in agents:
                    ended = slot in batch.ended
                    seen = batch.observations["observation"][slot].ravel().tolist()
                    told[agents[name, int(slot)]].append(
                        (seen, np.float32(0 if ended else batch.reward[slot]), False, False)
                    )
        count += 1
        batches = environment.step(actions)
        for name, batch in batches.items():
            assert batch.final_observations is not None or not batch.ended.size
            for row, slot in enumerate(batch.ended.tolist()):
                if (name, slot) in agents:
                    seen = batch.final_observations["observation"][row].ravel().tolist()
                    flags = bool(batch.terminated[slot]), bool(batch.truncated[slot])
                    told[agents[name, slot]].append((seen, batch.reward[slot], *flags))
        if environment.episodes[0] > len(played):
            played.append(told)
            told = {agent: [] for agent in agents.values()}
            count = 0
    return played


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
    played = turns_of(environment, EPISODES)
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
            flags = (terminated[agent], truncated[agent]) if known else (False, False)
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
    batches = environment.reset(SEEDS, np.zeros(2, np.int64))
    for episode in range(EPISODES):
        began = batches["Agent"].observations["observation"][: 5 - late]
        told: list[Told] = [[(values(row), 0.0, False, False)] for row in began] + [[] for _ in range(late)]
        count = 0
        while environment.episodes[0] == episode:
            batch = batches["Agent"]
            acts = np.ones(10, np.bool_) if batch.needs_action is None else batch.needs_action
            for slot in range(5):
                if acts[slot] and count:
                    told[slot].append(
                        (values(batch.observations["observation"][slot]), batch.reward[slot], False, False)
                    )
            batches = environment.step({"Agent": Actions(np.full((10, 1), np.sin(count), np.float32))})
            count += 1
            batch = batches["Agent"]
            for row, slot in enumerate(batch.ended.tolist()):
                if slot < 5:
                    seen = values(batch.final_observations["observation"][row])
                    flags = bool(batch.terminated[slot]), bool(batch.truncated[slot])
                    told[slot].append((seen, batch.reward[slot], *flags))
        wanted = plain_parallel(game, SEEDS(0, episode))
        assert told == [wanted.get(agent, []) for agent in game.possible_agents]
