"""The plugin and each strategy keep the rules of replay samplers."""

from __future__ import annotations

import numpy as np
import pytest

from rlcore import BehaviorSpec, ObservationSpec
from rlcore_devkit import PluginConformance, ReplaySamplerConformance

pytestmark = pytest.mark.smoke


class TestPlugin(PluginConformance):
    plugin = "rlcore-her/her"


class TestFuture(ReplaySamplerConformance):
    sampler = "rlcore-her/her"
    settings = {"tolerance": 0.05, "ends_at_goal": True}
    changed = frozenset({"reward", "terminated", "observations/desired_goal", "next_observations/desired_goal"})

    def behavior(self, slots: int) -> BehaviorSpec:
        goals = [ObservationSpec(name, (2,), np.float32) for name in ("achieved_goal", "desired_goal")]
        return BehaviorSpec(
            "Agent", (*goals, ObservationSpec("speed", (3,), np.float32)), continuous=1, discrete=(3,),
            env_index=np.arange(slots),
        )  # fmt: skip


class TestFinal(TestFuture):
    settings = {"tolerance": 0.05, "strategy": "final"}


class TestEpisode(TestFuture):
    settings = {"tolerance": 0.05, "strategy": "episode"}
