"""The plugin keeps the rules of all plugins."""

from __future__ import annotations

import sys

import pytest
import torch

from rlcore import recording_gradients
from rlcore_devkit import PluginConformance

pytestmark = pytest.mark.smoke


class TestPlugin(PluginConformance):
    plugin = "rlcore-torch/torch"


def test_without_torch_no_recording_of_gradients_is_set(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "torch")
    with recording_gradients(False):
        assert torch.is_grad_enabled()
