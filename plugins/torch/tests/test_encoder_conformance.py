"""The encoders of the core keep the rules of every one; a broken rule is noticed."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from rlcore import ObservationSpec, UnsupportedSpace
from rlcore_devkit import EncoderConformance


class TestSimple(EncoderConformance):
    encoder = "rlcore-torch/simple"


class TestFullyConnected(EncoderConformance):
    encoder = "fully_connected"


# ---------------------------------------------------------------- broken on purpose

STATE = ObservationSpec("state", (7,), np.float32)


class Dense(nn.Module):
    def __init__(self, observation: ObservationSpec) -> None:
        super().__init__()
        self.dense = nn.Linear(observation.size, 16)
        self.calls, self.outside = 0, torch.randn(16)

    def forward(self, x: Tensor) -> Any:
        self.calls += 1
        return self.broken(x)

    def broken(self, x: Tensor) -> Any:
        return self.dense(x)


class OwnGenerator(Dense):
    def __init__(self, observation: ObservationSpec) -> None:
        super().__init__(observation)
        with torch.no_grad():
            self.dense.weight.copy_(torch.randn(16, observation.size, generator=torch.Generator().manual_seed(7)))
            self.dense.bias.zero_()


class DoesNotNameTheObservation(Dense):
    def __init__(self, observation: ObservationSpec) -> None:
        if observation.size < 2:
            raise UnsupportedSpace("too small")
        super().__init__(observation)


SHAPE = "features_have_a_row_for_each_observation"
ALONE = "a_row_depends_on_no_other_row_and_on_no_earlier_call"
READS = "reading_changes_neither_the_observation_nor_random_numbers"
GRADIENT = "every_parameter_has_a_finite_gradient"


@pytest.mark.parametrize(
    ("broken", "rule"),
    [
        (lambda self, x: self.dense(x)[:, : max(2, len(x))], SHAPE),
        (lambda self, x: self.dense(torch.zeros_like(x)), "different_observations_have_different_features"),
        (OwnGenerator, "equal_seeds_give_equal_weights"),
        (lambda self, x: self.dense(x - x.mean(dim=0)), ALONE),
        (lambda self, x: self.dense(x.mul_(0.5)), READS),
        (lambda self, x: self.dense(x) + (self.dense.weight.sum() * 0).clamp(min=0).sqrt(), GRADIENT),
        (lambda self, x: self.dense(x) + self.outside, "saved_weights_restore_the_features"),
        (DoesNotNameTheObservation, "an_observation_it_cannot_read_is_refused_and_named"),
    ],
)
def test_a_broken_encoder_is_noticed(broken: Any, rule: str) -> None:
    source = broken if isinstance(broken, type) else type("Broken", (Dense,), {"broken": broken})

    class Conformance(EncoderConformance):
        def read(self) -> list[ObservationSpec]:
            return [STATE]

        def make(self, observation: ObservationSpec, seed: int = 1) -> nn.Module:
            torch.manual_seed(seed)
            made: nn.Module = source(observation)
            return made

    with pytest.raises(AssertionError):
        getattr(Conformance(), f"test_{rule}")()
