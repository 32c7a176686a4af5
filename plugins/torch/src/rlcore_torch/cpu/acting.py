"""The actor in NumPy, for a few rows of observations.

On eight rows the arithmetic of a small network takes a quarter of the time that PyTorch needs to dispatch it.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch
from numpy.typing import NDArray

from rlcore_torch.networks.distributions import ActionDistribution
from rlcore_torch.networks.networks import Actor, Body, ObservationInputs, PolicyHead, is_plain_linear, to_numpy

FloatArray = NDArray[np.float32]
# Vector observations [R, size] to columns of the continuous parts [R, ...] and logits [R, logits].
NumpyActor = Callable[[FloatArray], tuple[FloatArray | None, FloatArray | None]]

MOST_ROWS = 128  # above this PyTorch is faster


def numpy_actor(model: Actor) -> NumpyActor | None:
    """:meth:`Actor.policy` in NumPy, normalization included.

    None for images and encoders, for an actor that overrides any part, and for an activation that is not in
    :data:`FUNCTIONS`.

    The returned function reads the model's own weights, so updates in place need no other call. Call it again if the
    normalizer changes, or if parameters move to other memory.
    """
    plain = _is_plain(model) and model.actor.activation in FUNCTIONS
    if model.inputs.images or model.memory_size or not plain:
        return None
    activate = FUNCTIONS[model.actor.activation]
    plain_layers = [layer for layer in model.actor.layers if is_plain_linear(layer)]
    hidden = [(to_numpy(layer.weight).T, to_numpy(layer.bias)) for layer in plain_layers]
    head = model.policy_head
    weight, bias = to_numpy(head.linear.weight).T, to_numpy(head.linear.bias)
    continuous = head.continuous
    normalize = _normalizer(model.inputs)

    def forward(x: FloatArray) -> tuple[FloatArray | None, FloatArray | None]:
        if normalize is not None:
            x = normalize(x)
        for hidden_weight, hidden_bias in hidden:
            x = x @ hidden_weight
            x += hidden_bias
            x = activate(x)
        output = x @ weight
        output += bias
        if not head.logits:
            return output, None
        return (output[:, :continuous] if continuous else None), output[:, continuous:]

    return forward


def _is_plain(model: Actor) -> bool:
    return (
        type(model).policy is Actor.policy
        and "policy" not in model.__dict__
        and type(model.inputs) is ObservationInputs
        and type(model.actor) is Body
        and type(model.policy_head) is PolicyHead
        and not model.actor.vector_encoders
        and all(is_plain_linear(layer) for layer in (*model.actor.layers, model.policy_head.linear))
    )


@torch.no_grad()
def agrees(model: Actor, actor: NumpyActor) -> bool:
    """Whether ``actor`` computes what the model does, on a few rows."""
    x = np.random.default_rng(0).standard_normal((4, model.inputs.vector_size), np.float32)
    expected = model.policy(model.inputs((torch.from_numpy(x),)))
    for ours, theirs in zip(actor(x), expected, strict=True):
        if (ours is None) != (theirs is None):
            return False
        if ours is not None and theirs is not None and not np.allclose(ours, to_numpy(theirs), 1e-3, 1e-3):
            return False
    return True


@torch.no_grad()
def draws_agree(distribution: ActionDistribution, device: torch.device) -> bool:
    """Whether ``distribution`` draws in NumPy, and draws there what its module does, on a few rows."""
    draw = distribution.numpy_draw()
    if draw is None:
        return False
    generator, rows = np.random.default_rng(0), 4
    columns = generator.standard_normal((rows, distribution.columns * distribution.parts), np.float32)
    noise = generator.standard_normal((rows, distribution.noise_size), np.float32)
    at = torch.from_numpy(columns).to(device)
    drawn = distribution.sample(at, torch.from_numpy(noise).to(device))
    pairs = ((draw(columns, noise), drawn), (draw(columns, None), distribution.deterministic(at)))
    return all(np.allclose(ours, to_numpy(theirs), 1e-3, 1e-3) for ours, theirs in pairs)


def _normalizer(inputs: ObservationInputs) -> Callable[[FloatArray], FloatArray] | None:
    if inputs.normalizer is None:
        return None
    shift, factor, limit = normalization(inputs)
    return lambda x: np.clip((x - shift) * factor, -limit, limit)


def normalization(inputs: ObservationInputs) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Shift, factor and limit of the normalization of vector observations, each [vector_size].

    A column that is not normalized passes unchanged: 0, 1 and no limit.
    """
    normalizer = inputs.normalizer
    if normalizer is None:
        zeros = np.zeros(inputs.vector_size, np.float32)
        return zeros, zeros + np.float32(1), zeros + np.float32(np.inf)
    normalized = to_numpy(inputs.normalized_columns)
    mean, inverse_std = (to_numpy(part) for part in normalizer.scale())
    limit = np.where(normalized, np.float32(normalizer.clip), np.float32(np.inf))
    shift = np.where(normalized, mean, 0).astype(np.float32)
    factor = np.where(normalized, inverse_std, 1).astype(np.float32)
    return shift, factor, limit


def _tanh(x: FloatArray) -> FloatArray:
    return np.tanh(x, out=x)


def _relu(x: FloatArray) -> FloatArray:
    return np.maximum(x, 0.0, out=x)


def _swish(x: FloatArray) -> FloatArray:
    logistic: FloatArray = 0.5 + 0.5 * np.tanh(0.5 * x)  # by tanh, which cannot overflow
    return x * logistic


FUNCTIONS: dict[str, Callable[[FloatArray], FloatArray]] = {"swish": _swish, "tanh": _tanh, "relu": _relu}
