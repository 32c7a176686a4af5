"""The shaped reward, compared with sums that are computed here."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np
import pytest

from rlcore import Actions, ConfigError, Transitions
from rlcore_devkit import RewardProviderConformance


class TestCentered(RewardProviderConformance):
    reward = "acme-rl/acme-centered"
    settings: ClassVar[Mapping[str, Any]] = {"gamma": 0.5, "observation": "reals", "weights": [2.0, 0.5]}

    def episode(self, end: str) -> Transitions:
        """One agent, three transitions between the observations (1, 2), (3, -4), (0, 1) and (-2, 2)."""
        seen = np.array([[[1, 2]], [[3, -4]], [[0, 1]], [[-2, 2]]], np.float32)  # [T + 1, S, 2]
        over = np.array([[False], [False], [True]])
        never = np.zeros_like(over)
        return Transitions(
            observations={"reals": seen[:-1]},
            actions=Actions(None, None),
            reward=np.zeros((3, 1), np.float32),
            terminated=over if end == "terminated" else never,
            truncated=over if end == "truncated" else never,
            following=lambda: {"reals": seen[1:]},
        )

    @pytest.mark.parametrize(("end", "last"), [("terminated", 0.0), ("truncated", 5.0), ("open", 5.0)])
    def test_the_reward_is_the_discounted_difference_of_potentials(self, end: str, last: float) -> None:
        # Costs 2 |x| + 0.5 |y| of the observations: 3, 8, 0.5, and 5 of the last one if it counts.
        reward = self.make().evaluate(self.episode(end))
        np.testing.assert_allclose(reward[:, 0], [3 - 0.5 * 8, 8 - 0.5 * 0.5, 0.5 - 0.5 * last])

    def test_an_episode_that_terminates_sums_to_minus_the_potential_of_its_start(self) -> None:
        reward = self.make().evaluate(self.episode("terminated"))[:, 0]
        assert float(reward @ 0.5 ** np.arange(3)) == pytest.approx(3.0)

    @pytest.mark.parametrize(
        ("settings", "message"),
        [
            ({"weights": [1.0]}, r"weights: needs 2 numbers, one for each element of 'reals'"),
            ({"observation": "eyes"}, r"observation: must be one of reals"),
        ],
    )
    def test_settings_that_do_not_fit_the_behavior_are_refused(self, settings: dict[str, Any], message: str) -> None:
        with pytest.raises(ConfigError, match=message):
            self.make(**settings)
