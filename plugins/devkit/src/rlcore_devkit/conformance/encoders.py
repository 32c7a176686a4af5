"""The rules of encoders, see :class:`rlcore_torch.EncoderSpec`, as tests for authors of encoders to inherit.

::

    class TestMyEncoder(EncoderConformance):
        encoder = "acme-cnn/pooled_cnn"
        settings = {"channels": [8, 16]}
"""

from __future__ import annotations

from copy import deepcopy
from typing import Any, ClassVar

import attrs
import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from rlcore import ObservationSpec, UnsupportedSpace
from rlcore_devkit.conformance.rules import RecordRules
from rlcore_devkit.conformance.states import assert_equal, equal
from rlcore_torch import EncoderSpec, NetworkSettings, make_encoder

OBSERVATIONS: tuple[ObservationSpec, ...] = (
    ObservationSpec("camera", (36, 40, 3), np.uint8, "image"),
    ObservationSpec("depth", (64, 36, 1), np.float32, "image"),
    ObservationSpec("state", (7,), np.float32),
    ObservationSpec("grid", (2, 3), np.float64),
)


class EncoderConformance(RecordRules):
    """Tests of encoders of observations: set ``encoder``.

    Attributes:
        encoder: The encoder, NAME or DIST/NAME, as installed.
        settings: The block ``vis_encode_settings`` or ``vector_encode_settings``.
        observations: Observations that the encoder reads; those of a kind that its record does not declare are left
            out.
        features: ``hidden_units``, which the encoder may use as its number of features.
        skip: Names of tests that cannot hold, with the reason.
    """

    record_class = EncoderSpec
    named = "encoder"
    encoder: ClassVar[str] = ""
    observations: ClassVar[tuple[ObservationSpec, ...]] = OBSERVATIONS
    features: ClassVar[int] = 16

    def make(self, observation: ObservationSpec, seed: int = 1) -> nn.Module:
        """Create the encoder for one observation, with weights that depend on ``seed``."""
        block = "vis_encode" if observation.kind == "image" else "vector_encode"
        type_key = f"{block}_type"
        chosen: dict[str, Any] = {
            type_key: self.encoder,
            f"{block}_settings": self.block(),
            "records": {type_key: self.record()},
        }
        network = NetworkSettings(hidden_units=self.features, **chosen)
        with torch.random.fork_rng(devices=()):  # a run's encoders draw from PyTorch's generator, which stays as it is
            torch.manual_seed(seed)
            encoder, _ = make_encoder(network, observation)
        return encoder

    def read(self) -> list[ObservationSpec]:
        """Return the observations of the kinds that the record declares: at least one."""
        kinds = self.record().kinds
        readable = []
        for observation in self.observations:
            kind = "image" if observation.kind == "image" else "vector"
            if kind in kinds:
                readable.append(observation)
        assert readable, f"observations has none of the kinds {sorted(kinds)}"
        return readable

    # ------------------------------------------------------------ rules

    def test_features_have_a_row_for_each_observation(self) -> None:
        for observation in self.read():
            encoder = self.make(observation)
            widths = set()
            for rows in (1, 2, 5):
                observations = batch(observation, rows)
                features = encoder(observations)
                assert features.dtype == torch.float32
                assert features.isfinite().all()
                assert features.ndim == 2
                assert len(features) == rows
                widths.add(features.shape[1])
            assert len(widths) == 1, f"the number of features depends on the rows: {sorted(widths)}"

    def test_equal_seeds_give_equal_weights(self) -> None:
        """Weights come from PyTorch's generator, which a run seeds."""
        for observation in self.read():
            one = _weights(self.make(observation, seed=1))
            same = _weights(self.make(observation, seed=1))
            other = _weights(self.make(observation, seed=2))
            assert_equal(one, same)
            if one:  # an encoder without weights has nothing that a seed could change
                assert not equal(one, other)

    def test_a_row_depends_on_no_other_row_and_on_no_earlier_call(self) -> None:
        """A policy acts for each agent alone. Layers such as batch normalization break it."""
        for observation in self.read():
            encoder = self.make(observation)
            rows = batch(observation, 4)
            together = encoder(rows)
            others = batch(observation, 4, seed=2, scale=3.0)
            for _ in range(3):
                encoder(others)
            alone = torch.cat([encoder(row) for row in rows[:, None]])
            torch.testing.assert_close(alone, together, rtol=1e-4, atol=1e-5)

    def test_reading_changes_neither_the_observation_nor_random_numbers(self) -> None:
        """Dropout and other noise would give a resumed run other actions."""
        for observation in self.read():
            encoder = self.make(observation)
            rows = batch(observation, 3)
            untouched = rows.clone()
            before = torch.random.get_rng_state()
            encoder(rows)
            after = torch.random.get_rng_state()
            assert torch.equal(rows, untouched), "the encoder changed its argument"
            assert torch.equal(after, before), "the encoder drew random numbers"

    def test_different_observations_have_different_features(self) -> None:
        for observation in self.read():
            encoder = self.make(observation)
            first, second = encoder(batch(observation, 2))
            assert not torch.allclose(first, second, atol=1e-7)

    def test_every_parameter_has_a_finite_gradient(self) -> None:
        for observation in self.read():
            encoder = self.make(observation)
            features = encoder(batch(observation, 8))
            features.square().sum().backward()
            for name, parameter in encoder.named_parameters():
                if parameter.requires_grad:
                    assert parameter.grad is not None, f"{name} has no effect on the features"
                    assert parameter.grad.isfinite().all(), f"the gradient of {name} is not finite"

    def test_saved_weights_restore_the_features(self) -> None:
        for observation in self.read():
            one = self.make(observation)
            weights = deepcopy(one.state_dict())
            other = self.make(observation, seed=2)
            other.load_state_dict(weights)
            rows = batch(observation, 3)
            torch.testing.assert_close(other(rows), one(rows), rtol=0.0, atol=0.0)

    def test_an_observation_it_cannot_read_is_refused_and_named(self) -> None:
        """A single pixel, or number: either it is read, or the error is an UnsupportedSpace."""
        for observation in self.read():
            shape: tuple[int, ...] = (1,)
            if observation.kind == "image":
                shape = (1, 1, observation.shape[2])
            smallest = attrs.evolve(observation, shape=shape)
            refusal = observation.name
            try:
                encoder = self.make(smallest)
            except UnsupportedSpace as error:
                refusal = str(error)
            else:
                features = encoder(batch(smallest, 2))
                assert features.isfinite().all()
            assert observation.name in refusal, f"the error does not name the observation {observation.name!r}"


def _weights(encoder: nn.Module) -> dict[str, NDArray[Any]]:
    return {name: weight.numpy() for name, weight in encoder.state_dict().items()}


def batch(observation: ObservationSpec, rows: int, seed: int = 1, scale: float = 1.0) -> Tensor:
    """Return random observations as an encoder gets them, float32: [rows, channels, height, width] or [rows, size]."""
    generator = torch.Generator().manual_seed(seed)
    if observation.kind == "image":
        height, width, channels = observation.shape
        values = torch.rand((rows, channels, height, width), generator=generator)
    else:
        values = torch.randn((rows, observation.size), generator=generator)
    return values * scale
