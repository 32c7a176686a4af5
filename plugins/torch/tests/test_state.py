"""Saved tensors are restored as they were, and tensors that do not fit are refused."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from torch import nn

from rlcore import RunStateError
from rlcore_torch import load_model_state, model_state
from rlcore_torch.optimization.divergence import largest, remedy


@pytest.mark.parametrize(
    ("other", "said"),
    [
        (nn.Linear(2, 1).double(), r"bias is float64 \(1,\) in the checkpoint and \(1,\) in this run \(and 1 more\)"),
        ({"bias": "0", "weight": np.ones((1, 2), np.float32)}, r"bias is a str in the checkpoint and \(1,\) in"),
        (nn.Linear(3, 1), r"weight is \(1, 3\) in the checkpoint and \(1, 2\) in this run"),
        (nn.Linear(2, 1, bias=False), "missing bias"),
        (nn.Sequential(nn.Linear(2, 1)), r"missing bias \(and 3 more\)"),
    ],
)
def test_weights_that_do_not_fit_are_refused_and_nothing_changes(other: Any, said: str) -> None:
    model = nn.Linear(2, 1)
    before = model_state(model)
    with pytest.raises(RunStateError, match=f"'Walker'.*{said}.*network_settings"):
        load_model_state(model, model_state(other) if isinstance(other, nn.Module) else other, "Walker")
    assert all((before[name] == array).all() for name, array in model_state(model).items())


# ---------------------------------------------------------------- advice to a user whose training diverged


@pytest.mark.parametrize("normalized", [False, True])
def test_the_advice_has_the_largest_numbers(normalized: bool) -> None:
    experience = SimpleNamespace(
        observations={
            "speed": np.array([[0.5, -300.0]], np.float32),
            "picture": np.full((1, 2), 255, np.uint8),
            "flag": np.ones((1, 1), np.bool_),
        },
        reward=np.array([0.5, -4.0], np.float32),
        group_reward=np.array([0.5, -1e8], np.float32),
    )
    advice = remedy(experience, normalized, lower="strength")
    assert advice.startswith(
        "the largest reward is 1e+08, and the largest value of observation 'speed' 300; lower strength, or scale down"
    )
    assert ("set network_settings.normalize: true" in advice) != normalized
    assert largest(None) == largest(np.empty((0, 3), np.float32)) == 0.0
