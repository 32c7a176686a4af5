"""Acting in NumPy: :meth:`rlcore_torch.Actor.policy` for a few rows of linear layers, batch normalization folded.

On eight rows the arithmetic of a small network takes a quarter of the time that PyTorch needs to dispatch it.
``torch_settings.fast_cpu: false`` runs without it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from torch import nn

from rlcore_torch.arrays import FloatArray
from rlcore_torch.networks.batch_norm import BatchNorm
from rlcore_torch.networks.bodies import Body
from rlcore_torch.networks.distributions import ActionDistribution
from rlcore_torch.networks.folding import folded_actor
from rlcore_torch.networks.inputs import ObservationInputs, to_numpy
from rlcore_torch.networks.layers import is_plain_linear
from rlcore_torch.networks.models import Actor

MOST_ROWS = 128  # above this PyTorch's products are faster


class NumpyActor:
    """:meth:`Actor.policy` in NumPy, normalization included; :func:`numpy_actor` makes one.

    It reads the model's own weights, so that updates in place need no other call. Weights with folded batch
    normalization are copies.
    """

    def __init__(self, model: Actor) -> None:
        self._model = model
        self._arrays = numpy_layers(model)
        self._split: Any = model.policy_head.split
        self._activate = NUMPY_FUNCTIONS[model.actor.activation]
        self._has_copies = any(isinstance(layer, BatchNorm) for layer in model.actor.modules())

    def refresh_copies(self) -> None:
        """Call after weights or running statistics changed."""
        if self._has_copies:
            self._arrays = numpy_layers(self._model)

    def __call__(self, x: FloatArray) -> tuple[FloatArray | None, FloatArray | None]:
        """Return columns of the continuous parts [R, ...] and logits [R, logits] of vector observations x [R, size]."""
        columns, logits = self._split(numpy_network(x, self._arrays, self._activate))
        return columns, logits


def numpy_actor(model: Actor) -> NumpyActor | None:
    """Return :meth:`Actor.policy` in NumPy.

    None for images, entities, encoders, goals and memory, for an actor that overrides any part, for other layers than
    those of :func:`rlcore_torch.folded_actor`, and for an activation that is not in :data:`NUMPY_FUNCTIONS`. Call it
    again if the normalizer of observations changes, or if parameters move to other memory.
    """
    if type(model.inputs) is not ObservationInputs or not _reads_vectors(model.actor) or folded_actor(model) is None:
        return None
    return NumpyActor(model)


def _reads_vectors(body: Body) -> bool:
    """Whether vector observations enter the layers as they are, and the activation is known."""
    return (
        type(body) is Body
        and body.plain
        and not body.images
        and body.recurrent is None
        and body.activation in NUMPY_FUNCTIONS
    )


def is_plain_body(body: Body, head: nn.Module) -> bool:
    """Whether vector observations pass through linear layers alone in ``body`` and ``head``, and known activations."""
    return _reads_vectors(body) and all(is_plain_linear(layer) for layer in (*body.layers, head))


def numpy_layers(model: Actor) -> list[FloatArray]:
    """Shift, factor and limit of the normalization, if there is one; weight [in, out] and bias [out] of each layer.

    Batch normalization is folded into the layers. ``model`` must be one that acts in NumPy, see :func:`numpy_actor`.
    """
    folded = folded_actor(model)
    assert folded is not None
    arrays = normalization(model.inputs)
    for weight, bias in folded:
        arrays += [to_numpy(weight).T, to_numpy(bias)]
    return arrays


def normalization(inputs: ObservationInputs) -> list[FloatArray]:
    """Shift, factor and limit, each [vector_size]; nothing without normalization."""
    normalizer = inputs.normalizer
    if normalizer is None:
        return []
    is_normalized = to_numpy(inputs.normalized_columns)
    # Columns that are not normalized pass unchanged: shifted by 0, times 1, without a limit.
    shift = np.where(is_normalized, to_numpy(normalizer.shift), 0)
    factor = np.where(is_normalized, to_numpy(normalizer.inverse_std), 1)
    limit = np.where(is_normalized, normalizer.clip, np.inf)
    return [array.astype(np.float32) for array in (shift, factor, limit)]


def numpy_normalized(x: FloatArray, arrays: Sequence[FloatArray]) -> FloatArray:
    """Return x [..., R, size] normalized by ``arrays``, which are those of :func:`normalization`."""
    if not arrays:
        return x
    shift, factor, limit = arrays
    scaled = (x - shift) * factor
    clipped: FloatArray = np.clip(scaled, -limit, limit)
    return clipped


def numpy_network(
    x: FloatArray, arrays: Sequence[FloatArray], activate: Callable[[FloatArray], FloatArray]
) -> FloatArray:
    """Return the output [..., R, columns + logits] for x [..., R, size]; ``arrays`` are as :func:`numpy_layers` says.

    Arrays of several networks may be stacked, [..., in, out] and [..., 1, out].
    """
    layers = arrays
    if len(arrays) % 2:  # a layer has two arrays, the normalization before them three
        x = numpy_normalized(x, arrays[:3])
        layers = arrays[3:]
    for index in range(0, len(layers), 2):
        if index:
            x = activate(x)
        x = np.matmul(x, layers[index])
        x += layers[index + 1]
    return x


@torch.no_grad()
def draws_agree(distribution: ActionDistribution, device: torch.device) -> bool:
    """Whether ``distribution`` draws in NumPy, and draws there what its module does, on a few rows."""
    draw = distribution.numpy_draw()
    if draw is None:
        return False
    generator = np.random.default_rng(0)
    rows = 4
    columns = generator.standard_normal((rows, distribution.width), np.float32)
    noise = generator.standard_normal((rows, distribution.noise_size), np.float32)
    columns_there = torch.from_numpy(columns).to(device)
    noise_there = torch.from_numpy(noise).to(device)
    sampled = to_numpy(distribution.sample(columns_there, noise_there))
    best = to_numpy(distribution.deterministic(columns_there))
    samples_agree = np.allclose(draw(columns, noise), sampled, 1e-3, 1e-3)
    return samples_agree and np.allclose(draw(columns, None), best, 1e-3, 1e-3)


NUMPY_FUNCTIONS: dict[str, Callable[[FloatArray], FloatArray]] = {
    "swish": lambda x: x * (0.5 + 0.5 * np.tanh(0.5 * x)),  # by tanh, which cannot overflow
    "tanh": lambda x: np.tanh(x, out=x),
    "relu": lambda x: np.maximum(x, 0.0, out=x),
}
