"""The examples of the page about networks do what the text beside them says."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
import torch
from pages import names_of

pytestmark = pytest.mark.documentation


def test_the_example_of_batch_normalization_moves_statistics_once_and_acts_with_them() -> None:
    names = names_of("docs/how-to/networks.md", "import BatchNorm")
    values, joint, acted = names["values"], names["joint"], names["acted"]
    assert names["here"].shape == names["following"].shape == (32, 1)
    hidden = values.hidden(joint).relu()
    torch.testing.assert_close(values.norm.running_mean, 0.01 * hidden.mean(0))
    torch.testing.assert_close(acted, values(joint)[:1])
    assert (acted - names["here"][:1]).abs() > 1e-3


def test_the_example_of_weights_that_are_changed_keeps_the_norms_of_units() -> None:
    unit_critics: Any = names_of("docs/how-to/networks.md", "class UnitCritics")["UnitCritics"]
    critics: Any = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.Linear(4, 2))
    trainer = SimpleNamespace(model=SimpleNamespace(critics=critics))
    with torch.no_grad():
        unit_critics.after_step(trainer, "policy")
        assert (critics[1].weight.norm(dim=1) - 1.0).abs().min() > 1e-3
        unit_critics.after_step(trainer, "critics")
    for layer in critics:
        torch.testing.assert_close(layer.weight.norm(dim=1), torch.ones(len(layer.weight)))
