"""``options.state``: what all agents of a game see together, at every moment that a critic values."""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from gymnasium import spaces

from rlcore import ConfigError
from rlcore_devkit.playing import play

Make = Callable[..., Any]

TWO_BEHAVIORS = {
    "arguments": {"agents": 4},
    "behaviors": {"Odd": {"agents": ["*_1", "*_3"]}, "Even": {"agents": ["*_0", "*_2"]}},
}


@pytest.mark.parametrize("options", [{"arguments": {"agents": 3, "late": 1}}, TWO_BEHAVIORS], ids=["late", "behaviors"])
def test_the_state_of_agents_has_the_observation_of_each_and_ends_with_the_episode(
    make: Make, options: dict[str, Any]
) -> None:
    """Every agent finds its own observation at its place of the state, the last one in its final state."""
    environment = make("zoo_games:fading", 3, state="agents", **options)
    places: dict[str, int] = {}  # of the first agent of each behavior
    agents_before = 0
    for name, spec in environment.behaviors.items():
        assert [(o.name, o.shape) for o in spec.observations] == [
            ("observation", (2,)), ("state", (2 * options["arguments"]["agents"],)),
        ]  # fmt: skip
        places[name] = agents_before
        agents_before += spec.slots // 3
    finals = 0
    for batches in play(environment, 60):
        states = {name: batch.observations["state"] for name, batch in batches.items()}
        for env in range(3):
            shown = [state[environment.behaviors[name].env_index == env] for name, state in states.items()]
            assert len(np.unique(np.concatenate(shown), axis=0)) == 1
        for name, batch in batches.items():
            agents = len(environment.behaviors[name].env_index) // 3

            def own(state: Any, slot: int, first: int = places[name], agents: int = agents) -> Any:
                place = 2 * (first + slot % agents)
                return state[place : place + 2]

            for slot in np.flatnonzero(np.ones(3 * agents) if batch.needs_action is None else batch.needs_action):
                np.testing.assert_array_equal(own(states[name][slot], slot), batch.observations["observation"][slot])
            for row, slot in enumerate(batch.ended):
                assert batch.final_observations is not None
                seen, state = (batch.final_observations[part][row] for part in ("observation", "state"))
                np.testing.assert_array_equal(own(state, slot), seen)
                finals += 1
    assert finals > 20


def test_the_state_of_a_game_is_its_own_and_that_of_the_end_where_an_episode_ended(
    make: Make, zoo_games: ModuleType
) -> None:
    class Stately(zoo_games.fading):  # type: ignore[misc,name-defined]
        state_space = spaces.Box(0.0, 10.0, (2,), np.float32)

        def state(self) -> Any:
            return np.array([self.time, len(self.agents)], np.float32)

    zoo_games.stately = Stately  # type: ignore[attr-defined]
    environment = make("zoo_games:stately", 2, state="game")
    [spec] = environment.behaviors.values()
    assert [o.name for o in spec.observations] == ["observation", "state"]
    finals = 0
    for batches in play(environment, 40):
        [batch] = batches.values()
        acting = np.ones(6, np.bool_) if batch.needs_action is None else batch.needs_action
        seen, state = (batch.observations[name][acting] for name in ("observation", "state"))
        np.testing.assert_array_equal(state[:, 0], seen[:, 0])
        for env in range(2):
            assert set(state[spec.env_index[acting] == env, 1].tolist()) <= {float(acting[spec.env_index == env].sum())}
        if batch.ended.size:
            assert batch.final_observations is not None
            ended, last = (batch.final_observations[name] for name in ("observation", "state"))
            np.testing.assert_array_equal(last[:, 0], ended[:, 0])
            finals += len(ended)
    assert finals > 10


def test_turns_have_a_state_too(make: Make) -> None:
    environment = make("zoo_games:circle", 2, arguments={"players": 2}, state="agents")
    for batches in play(environment, 30):
        batch = batches["Agent"]
        acting = batch.needs_action
        assert acting is not None
        for slot in np.flatnonzero(acting):
            place = 2 * (slot % 2)
            np.testing.assert_array_equal(
                batch.observations["state"][slot][place : place + 2], batch.observations["observation"][slot]
            )


@pytest.mark.parametrize(
    ("state", "change", "message"),
    [
        ("game", {}, "has no state_space; write agents, or leave it out"),
        ("agents", {"space": spaces.Box(0, 255, (8, 8, 3), np.uint8)}, "observe an image, 'observation'; write game"),
        (
            "agents",
            {"space": spaces.Dict(state=spaces.Discrete(2))},
            "have an observation 'state' already; leave it out",
        ),
    ],
)
def test_a_state_that_does_not_exist_is_refused(
    make: Make, zoo_games: ModuleType, state: str, change: dict[str, Any], message: str
) -> None:
    class Changed(zoo_games.fading):  # type: ignore[misc,name-defined]
        def observation_space(self, agent: str) -> Any:
            return change.get("space", self.space)

    zoo_games.changed = Changed  # type: ignore[attr-defined]
    with pytest.raises(ConfigError) as refused:
        make("zoo_games:changed", 1, state=state)
    assert message in str(refused.value) and "environment.options.state" in str(refused.value)
