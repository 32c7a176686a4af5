"""The examples of the page about networks do what the text beside them says."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from pages import names_of

from rlcore import BehaviorSpec, ObservationSpec, SettingError
from rlcore_torch import NetworkSettings

pytestmark = pytest.mark.documentation


def test_the_example_of_batch_normalization_moves_statistics_once_and_acts_with_them() -> None:
    names = names_of("docs/how-to/network-layers.md", "import BatchNorm")
    values, joint, acted = names["values"], names["joint"], names["acted"]
    assert names["here"].shape == names["following"].shape == (32, 1)
    hidden = values.hidden(joint).relu()
    torch.testing.assert_close(values.norm.running_mean, 0.01 * hidden.mean(0))
    torch.testing.assert_close(acted, values(joint)[:1])
    torch.testing.assert_close(names["folded"], acted, rtol=1e-5, atol=1e-6)
    assert (acted - names["here"][:1]).abs() > 1e-3


def test_the_example_of_a_model_normalizes_both_halves_together_and_its_frozen_critic_stays() -> None:
    make: Any = names_of("docs/how-to/network-layers.md", "class NormalizedModel")["NormalizedModel"]
    one = np.ones(1, np.float32)
    behavior = BehaviorSpec("Agent", (ObservationSpec("state", (3,), np.float32),), 1, (), -one, one)
    model = make(behavior, NetworkSettings(hidden_units=8, batch_norm="post"))
    seen, following = torch.randn(2, 16, 3)
    action = torch.zeros(16, 1, requires_grad=True)
    values = model.joint_values((seen,), action, (following,), action)
    assert [each.shape for each in values] == [(16, 1), (16, 1)]
    statistics = model.critic.body.layers[0].running_mean.clone()
    torch.testing.assert_close(statistics[:3], 0.01 * torch.cat([seen, following]).mean(0))
    model.value_of((seen,), action).sum().backward()
    assert action.grad is not None and model.critic.head.weight.grad is None
    torch.testing.assert_close(model.critic.body.layers[0].running_mean, statistics, rtol=0, atol=0)


def test_the_example_of_network_settings_normalizes_by_default_and_has_the_choices_that_it_declares() -> None:
    settings: Any = names_of("docs/how-to/network-layers.md", "class NormalizedSettings")["NormalizedSettings"]
    assert (settings().batch_norm, settings().batch_renorm_after) == ("post", 100_000)
    with pytest.raises(SettingError, match="batch_norm"):
        settings(batch_norm="posr")


def test_the_example_of_weights_that_are_changed_keeps_the_norms_of_units() -> None:
    unit_critics: Any = names_of("docs/how-to/network-layers.md", "class UnitCritics")["UnitCritics"]
    critics: Any = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.Linear(4, 2))
    trainer = SimpleNamespace(model=SimpleNamespace(critics=critics))
    with torch.no_grad():
        unit_critics.after_step(trainer, "policy")
        assert (critics[1].weight.norm(dim=1) - 1.0).abs().min() > 1e-3
        unit_critics.after_step(trainer, "critics")
    for layer in critics:
        torch.testing.assert_close(layer.weight.norm(dim=1), torch.ones(len(layer.weight)))
