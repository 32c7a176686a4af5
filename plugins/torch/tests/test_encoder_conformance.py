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

    def forward(self, x: Tensor) -> Any:
        return self.dense(x)


class Doubles(Dense):
    def forward(self, x: Tensor) -> Any:
        return self.dense(x).double()


class AsWideAsTheBatch(Dense):
    def forward(self, x: Tensor) -> Any:
        return self.dense(x)[:, : max(2, len(x))]


class Constant(Dense):
    def forward(self, x: Tensor) -> Any:
        return self.dense(torch.zeros_like(x))


class OwnGenerator(Dense):
    def __init__(self, observation: ObservationSpec) -> None:
        super().__init__(observation)
        with torch.no_grad():
            self.dense.weight.copy_(torch.randn(16, observation.size, generator=torch.Generator().manual_seed(7)))
            self.dense.bias.zero_()


class NormalizesBatches(Dense):
    def forward(self, x: Tensor) -> Any:
        return self.dense(x - x.mean(dim=0))


class Counts(Dense):
    calls = 0

    def forward(self, x: Tensor) -> Any:
        self.calls += 1
        return self.dense(x) * self.calls


class Scales(Dense):
    def forward(self, x: Tensor) -> Any:
        return self.dense(x.mul_(0.5))


class Noisy(Dense):
    def forward(self, x: Tensor) -> Any:
        return self.dense(x) + 1e-9 * torch.randn(len(x), 16)


class UnusedLayer(Dense):
    def __init__(self, observation: ObservationSpec) -> None:
        super().__init__(observation)
        self.unused = nn.Linear(2, 2)


class InfiniteGradient(Dense):
    def forward(self, x: Tensor) -> Any:
        return self.dense(x) + (self.dense.weight.sum() * 0).clamp(min=0).sqrt()


class KeepsWeightsOutside(Dense):
    def __init__(self, observation: ObservationSpec) -> None:
        super().__init__(observation)
        self.offset = torch.randn(16)

    def forward(self, x: Tensor) -> Any:
        return self.dense(x) + self.offset


class DoesNotNameTheObservation(Dense):
    def __init__(self, observation: ObservationSpec) -> None:
        if observation.size < 2:
            raise UnsupportedSpace("too small")
        super().__init__(observation)


@pytest.mark.parametrize(
    ("broken", "rule"),
    [
        (Doubles, "test_features_have_a_row_for_each_observation"),
        (AsWideAsTheBatch, "test_features_have_a_row_for_each_observation"),
        (Constant, "test_different_observations_have_different_features"),
        (OwnGenerator, "test_equal_seeds_give_equal_weights"),
        (NormalizesBatches, "test_a_row_depends_on_no_other_row_and_on_no_earlier_call"),
        (Counts, "test_a_row_depends_on_no_other_row_and_on_no_earlier_call"),
        (Scales, "test_reading_changes_neither_the_observation_nor_random_numbers"),
        (Noisy, "test_reading_changes_neither_the_observation_nor_random_numbers"),
        (UnusedLayer, "test_every_parameter_has_a_finite_gradient"),
        (InfiniteGradient, "test_every_parameter_has_a_finite_gradient"),
        (KeepsWeightsOutside, "test_saved_weights_restore_the_features"),
        (DoesNotNameTheObservation, "test_an_observation_it_cannot_read_is_refused_and_named"),
    ],
)
def test_a_broken_encoder_is_noticed(broken: type[Dense], rule: str) -> None:
    class Conformance(EncoderConformance):
        def read(self) -> list[ObservationSpec]:
            return [STATE]

        def make(self, observation: ObservationSpec, seed: int = 1) -> nn.Module:
            torch.manual_seed(seed)
            return broken(observation)

    conformance: Any = Conformance()
    with pytest.raises(AssertionError):
        getattr(conformance, rule)()


def test_an_encoder_without_a_fitting_observation_is_told() -> None:
    class Conformance(EncoderConformance):
        encoder = "simple"
        observations = (STATE,)

    with pytest.raises(AssertionError, match=r"none of the kinds \['image'\]"):
        Conformance().read()
