"""Ranges and regions depend on the agent's success, and not on short episodes, which end first."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest
from crowds import NUM_ENVS, Crowd

from rlcore import Curriculum, load_checkpoint, save_checkpoint
from rlcore_curriculum.adaptive_curricula import adr, learning_progress
from rlcore_curriculum.adaptive_curricula.adr_settings import AdrSettings
from rlcore_curriculum.adaptive_curricula.learning_progress_settings import LearningProgressSettings

ADR: dict[str, Any] = {
    "initial": 0.5, "limits": (0.0, 1.0), "step": 0.05, "lower_threshold": 0.3, "upper_threshold": 0.8, "episodes": 20,
}  # fmt: skip


def ranges(run: Any, **blocks: Mapping[str, Any]) -> adr.AutomaticDomainRandomization:
    return adr.AutomaticDomainRandomization({name: AdrSettings(**(ADR | block)) for name, block in blocks.items()}, run)


def regions(run: Any) -> learning_progress.LearningProgress:
    return learning_progress.LearningProgress({"length": LearningProgressSettings(limits=(0.0, 1.0), bins=2)}, run)


@pytest.fixture
def run(simulation: Any) -> Any:
    return type(simulation.run)(num_envs=NUM_ENVS)


@pytest.mark.parametrize(("success_rate", "episodes", "moved"), [(0.4, 20, 0), (0.6, 50, 0), (0.95, 20, 4)])
def test_a_range_widens_by_mastery_and_not_by_the_order_of_ends(
    run: Any, success_rate: float, episodes: int, moved: int
) -> None:
    """At 0.4, 16 of 20 episodes succeed with probability 0.0003; at 0.6, 40 of 50 with probability 0.002."""
    for seed in range(3):
        curriculum = ranges(run, a={"episodes": episodes}, b={"episodes": episodes})
        Crowd(curriculum, success_rate, seed).play(1100)
        assert sum(bound.steps > 0 for pair in curriculum.bounds for bound in pair) == moved


def test_each_behaviors_episodes_are_in_an_order_of_their_own(simulation: Any, told: Any) -> None:
    curriculum = ranges(simulation.run, a={"behavior": "Walker"}, b={"behavior": "Runner"})
    for behavior in ("Walker", "Runner"):
        waiting = told([[1, 1]], [1.0], behavior=behavior)
        waiting.settled = int(waiting.numbers[0])  # an episode that started earlier has not ended
        for _ in range(20):
            curriculum.episodes_ended(waiting)
            waiting.numbers = waiting.numbers + 1
    curriculum.advance({"Walker": 0, "Runner": 0})
    assert [pair[1].steps for pair in curriculum.bounds] == [0, 0]
    curriculum.episodes_ended(told([[0, 0]], [0.0]))  # now it has ended
    assert [curriculum.advance({"Walker": 0, "Runner": 0}).redraw for _ in range(2)] == [True, False]
    assert [pair[1].steps for pair in curriculum.bounds] == [1, 0]


@pytest.mark.parametrize("kind", ["adr", "learning_progress"])
def test_episodes_whose_turn_has_not_come_are_saved(run: Any, tmp_path: Any, kind: str) -> None:
    def make() -> Curriculum:
        return ranges(run, a={}, b={}) if kind == "adr" else regions(run)

    crowd = Crowd(make(), 0.9, seed=1)
    crowd.play(300)
    state = crowd.curriculum.state_dict()
    assert sum(len(order["numbers"]) for order in state["order"].values()) > 100, "nothing is waiting"
    resumed = copy.deepcopy(crowd)
    resumed.curriculum = make()
    resumed.curriculum.load_state_dict(load_checkpoint(save_checkpoint(tmp_path, 1, {"it": state}))["it"])
    for each in (crowd, resumed):
        each.play(600)
    np.testing.assert_equal(resumed.curriculum.state_dict(), crowd.curriculum.state_dict())
    np.testing.assert_equal(resumed.draw_id, crowd.draw_id)
