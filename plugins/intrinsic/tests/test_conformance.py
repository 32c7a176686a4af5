"""The rules of every plugin and of every reward provider, for all three rewards."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np
import pytest

from rlcore import BehaviorSpec, Plugins, RewardProvider, recording_gradients
from rlcore_devkit import PluginConformance, RewardProviderConformance
from rlcore_devkit.environments import ImageIdentity, identity_continuous, identity_multi_branch

pytestmark = pytest.mark.smoke

SMALL = {"network_settings": {"hidden_units": 16, "num_layers": 1}, "batch_size": 4}


class TestPlugin(PluginConformance):
    plugin = "rlcore-intrinsic/intrinsic"


class TestRND(RewardProviderConformance):
    reward = "rlcore-intrinsic/rnd"
    settings: ClassVar[Mapping[str, Any]] = SMALL


class TestCuriosity(RewardProviderConformance):
    reward = "rlcore-intrinsic/curiosity"
    settings: ClassVar[Mapping[str, Any]] = {**SMALL, "num_epoch": 2}


class TestCuriosityOnMLAgentsScale(TestCuriosity):
    settings: ClassVar[Mapping[str, Any]] = {**SMALL, "normalize_rewards": False, "normalize_observations": False}


class TestCuriosityOfBranches(TestCuriosity):
    def behavior(self) -> BehaviorSpec:
        [behavior] = identity_multi_branch(self.slots).behaviors.values()
        return behavior


class TestRNDOfImages(TestRND):
    settings: ClassVar[Mapping[str, Any]] = {**SMALL, "network_settings": {"vis_encode_type": "fully_connected"}}

    def behavior(self) -> BehaviorSpec:
        [behavior] = ImageIdentity(self.slots).behaviors.values()
        return behavior


class TestCuriosityOfImages(TestRNDOfImages):
    reward = "rlcore-intrinsic/curiosity"


class TestGAIL(RewardProviderConformance):
    reward = "rlcore-intrinsic/gail"
    settings: ClassVar[Mapping[str, Any]] = {**SMALL, "demo_path": "expert"}

    @pytest.fixture(autouse=True)
    def _demonstrations(self, keep: Any, plugins: Plugins, recording_of: Any) -> None:
        self.loaded = plugins
        keep("expert", recording_of(self.behavior()))

    def plugins(self) -> Plugins:
        return self.loaded

    def test_needs_no_recording_where_nothing_is_learned(self, make: Any) -> None:
        provider: RewardProvider = make("gail", self.behavior(), purpose="evaluate", demo_path="gone")
        with recording_gradients(False):
            assert np.isfinite(provider.evaluate(self.transitions())).all()


class TestVAILOfActions(TestGAIL):
    settings: ClassVar[Mapping[str, Any]] = {**TestGAIL.settings, "use_vail": True, "use_actions": True}


class TestGAILOfImages(TestVAILOfActions):
    settings: ClassVar[Mapping[str, Any]] = {
        **TestVAILOfActions.settings, "network_settings": {"vis_encode_type": "fully_connected"},
    }  # fmt: skip

    def behavior(self) -> BehaviorSpec:
        [behavior] = ImageIdentity(self.slots).behaviors.values()
        return behavior


class TestGAILOfContinuousActions(TestVAILOfActions):
    def behavior(self) -> BehaviorSpec:
        [behavior] = identity_continuous(self.slots).behaviors.values()
        return behavior
