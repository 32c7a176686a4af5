"""The reward in torch that tests of trainers use, and when PyTorch records gradients for rewards."""

from __future__ import annotations

import sys

import pytest
import torch

from rlcore import Plugins, load_plugins, recording_gradients
from rlcore_devkit import RewardProviderConformance
from rlcore_devkit.conformance.learning_rewards import TORCH_REWARD, TORCH_TAG, LearningRewards


class TestPredictionReward(RewardProviderConformance):
    reward = TORCH_REWARD

    def plugins(self) -> Plugins:
        plugins = load_plugins()
        plugins.register(LearningRewards(), "learning-rewards")
        return plugins

    def test_its_error_falls_while_it_learns(self) -> None:
        provider, given = self.make(), self.transitions()
        with recording_gradients(True):
            losses = [provider.update(given)[TORCH_TAG] for _ in range(200)]
        assert losses[-1] < losses[0] / 10


def test_without_torch_nothing_is_set(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "torch")
    with recording_gradients(False):
        assert torch.is_grad_enabled()
