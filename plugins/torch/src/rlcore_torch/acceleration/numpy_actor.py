"""Acting in NumPy: :meth:`rlcore_torch.Actor.policy` for a few rows of plain networks.

On eight rows the arithmetic of a small network takes a quarter of the time that PyTorch needs to dispatch it.
``torch_settings.fast_cpu: false`` runs without it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from rlcore_torch.networks.bodies import Body
from rlcore_torch.networks.distributions import ActionDistribution
from rlcore_torch.networks.heads import PolicyHead
from rlcore_torch.networks.inputs import ObservationInputs, to_numpy
from rlcore_torch.networks.layers import is_plain_linear
from rlcore_torch.networks.models import Actor

FloatArray = NDArray[np.float32]
# Vector observations [R, size] to columns of the continuous parts [R, ...] and logits [R, logits].
NumpyActor = Callable[[FloatArray], tuple[FloatArray | None, FloatArray | None]]

MOST_ROWS = 128  # above this PyTorch's products are faster


def numpy_actor(model: Actor) -> NumpyActor | None:
    """:meth:`Actor.policy` in NumPy, normalization included.

    None for images, entities, encoders, goals and memory, for an actor that overrides any part, and for an activation
    that is not in :data:`NUMPY_FUNCTIONS`.

    The returned function reads the model's own weights, so updates in place need no other call. Call it again if the
    normalizer changes, or if parameters move to other memory.
    """
    if not _is_plain(model):
        return None
    arrays = numpy_layers(model)
    activate = NUMPY_FUNCTIONS[model.actor.activation]
    split: Any = model.policy_head.split
    return lambda x: split(numpy_network(x, arrays, activate))


def _is_plain(model: Actor) -> bool:
    return (
        type(model).policy is Actor.policy
        and "policy" not in model.__dict__
        and type(model.inputs) is ObservationInputs
        and type(model.policy_head) is PolicyHead
        and not model.policy_head.reads_features
        and is_plain_body(model.actor, model.policy_head.linear)
    )


def is_plain_body(body: Body, head: nn.Module) -> bool:
    """Whether vector observations pass through linear layers alone in ``body`` and ``head``, and known activations."""
    return (
        type(body) is Body
        and body.plain
        and not body.images
        and body.recurrent is None
        and body.activation in NUMPY_FUNCTIONS
        and all(is_plain_linear(layer) for layer in (*body.layers, head))
    )


def numpy_layers(model: Actor) -> list[FloatArray]:
    """Shift, factor and limit of the normalization, if there is one; weight [in, out] and bias [out] of each layer."""
    arrays = normalization(model.inputs)
    for layer in (*model.actor.layers, model.policy_head.linear):
        arrays += [to_numpy(layer.weight).T, to_numpy(layer.bias)]
    return arrays


def normalization(inputs: ObservationInputs) -> list[FloatArray]:
    """Shift, factor and limit, each [vector_size]; nothing without normalization."""
    if (normalizer := inputs.normalizer) is None:
        return []
    normalized = to_numpy(inputs.normalized_columns)  # the other columns pass unchanged
    values: tuple[Any, ...] = to_numpy(normalizer.shift), to_numpy(normalizer.inverse_std), normalizer.clip
    return [
        np.where(normalized, value, unchanged).astype(np.float32)
        for value, unchanged in zip(values, (0, 1, np.inf), strict=True)
    ]


def numpy_normalized(x: FloatArray, arrays: Sequence[FloatArray]) -> FloatArray:
    """Return x [..., R, size] normalized by ``arrays``, which are those of :func:`normalization`."""
    if not arrays:
        return x
    shift, factor, limit = arrays
    scaled: FloatArray = np.clip((x - shift) * factor, -limit, limit)
    return scaled


def numpy_network(
    x: FloatArray, arrays: Sequence[FloatArray], activate: Callable[[FloatArray], FloatArray]
) -> FloatArray:
    """Return the output [..., R, columns + logits] for x [..., R, size]; ``arrays`` are as :func:`numpy_layers` says.

    Arrays of several networks may be stacked, [..., in, out] and [..., 1, out].
    """
    scaling = len(arrays) % 2 * 3  # arrays of the normalization
    x = numpy_normalized(x, arrays[:scaling])
    layers = arrays[scaling:]
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
    at = torch.from_numpy(columns).to(device)
    drawn = distribution.sample(at, torch.from_numpy(noise).to(device))
    pairs = ((draw(columns, noise), drawn), (draw(columns, None), distribution.deterministic(at)))
    return all(np.allclose(ours, to_numpy(theirs), 1e-3, 1e-3) for ours, theirs in pairs)


NUMPY_FUNCTIONS: dict[str, Callable[[FloatArray], FloatArray]] = {
    "swish": lambda x: x * (0.5 + 0.5 * np.tanh(0.5 * x)),  # by tanh, which cannot overflow
    "tanh": lambda x: np.tanh(x, out=x),
    "relu": lambda x: np.maximum(x, 0.0, out=x),
}
