"""One step of networks with memory in NumPy, for the few rows that act.

It replaces :meth:`rlcore_torch.Body.step` and :meth:`rlcore_torch.Actor.policy_step`.

PyTorch takes most of the time of such a step to dispatch it, and there is one for the policy and one for each critic.
``torch_settings.fast_cpu: false`` runs without it. ``benchmarks/memory_speed.py`` measures what it is worth.

Shapes: R rows, M numbers of memory, F inputs of the recurrent layer, H features.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from rlcore_torch.acceleration.numpy_actor import NUMPY_FUNCTIONS, normalization, numpy_normalized
from rlcore_torch.arrays import FloatArray
from rlcore_torch.networks.bodies import Body
from rlcore_torch.networks.heads import PolicyHead
from rlcore_torch.networks.inputs import ObservationInputs, to_numpy
from rlcore_torch.networks.layers import is_plain_linear
from rlcore_torch.networks.models import Actor
from rlcore_torch.networks.recurrent import Recurrent

__all__ = ["NumpyMemory"]

NumpyStep = Callable[[FloatArray, FloatArray], tuple[FloatArray, FloatArray]]
"""From vector observations [R, size], not normalized, and memory [R, M] to features [R, H] and the next memory."""


class NumpyMemory:
    """The bodies of a model that remember, as far as NumPy can compute their steps.

    It cannot for images, entities, encoders and goals, for observations that critics alone read, for layers of a
    plugin, and for an activation that is not in :data:`rlcore_torch.acceleration.numpy_actor.NUMPY_FUNCTIONS`.

    It reads the model's own weights, so updates in place need no other call. Make it again if the normalizer changes,
    or if parameters move to other memory.

    Attributes:
        steps: The step of each of these bodies.
        acts: Whether it has that of the policy, and the layer after it.
    """

    def __init__(self, model: Actor) -> None:
        self.steps: dict[Body, NumpyStep] = {}
        for body in model.remembering:
            step = _step(body, model.inputs if body is model.actor else model.learner_inputs)
            if step is not None:
                self.steps[body] = step
        self._body = model.actor
        self._head = model.policy_head
        self.acts = (
            model.actor in self.steps
            and type(model).policy_step is Actor.policy_step
            and "policy_step" not in model.__dict__
            and type(self._head) is PolicyHead
            and not self._head.reads_features
            and is_plain_linear(self._head.linear)
        )

    def act(self, x: FloatArray, memory: FloatArray) -> tuple[FloatArray | None, FloatArray | None]:
        """Return the columns of the continuous parts [R, ...] and the logits [R, logits]; ``memory`` is overwritten.

        ``x`` [R, size] are vector observations, not normalized, and ``memory`` [R, M] is the one before the step.
        """
        step = self.steps[self._body]
        features, memory[...] = step(x, memory)
        linear = self._head.linear
        output = np.matmul(features, to_numpy(linear.weight).T) + to_numpy(linear.bias)
        split: Any = self._head.split
        return split(output)  # type: ignore[no-any-return]


def _step(body: Body, inputs: object) -> NumpyStep | None:
    """The step of ``body``, which reads ``inputs``, normalization included; None if NumPy cannot compute it."""
    recurrent = body.recurrent
    if type(inputs) is not ObservationInputs or type(body) is not Body or type(recurrent) is not Recurrent:
        return None
    if not body.plain or inputs.images or body.activation not in NUMPY_FUNCTIONS:
        return None
    if "step" in recurrent.__dict__:
        return None
    layers = []
    for layer in body.layers:
        if not is_plain_linear(layer):
            return None
        layers.append((to_numpy(layer.weight).T, to_numpy(layer.bias)))
    scaling = normalization(inputs)
    activate = NUMPY_FUNCTIONS[body.activation]
    w_x, w_h, b_x, b_h = map(to_numpy, recurrent.weights())
    cell = _lstm if recurrent.has_cell else _gru
    w_x = w_x.T
    w_h = w_h.T
    units = recurrent.features

    def step(x: FloatArray, memory: FloatArray) -> tuple[FloatArray, FloatArray]:
        x = numpy_normalized(x, scaling)
        for weight, bias in layers:
            x = np.matmul(x, weight)
            x += bias
            x = activate(x)
        of_x = np.matmul(x, w_x)
        of_h = np.matmul(memory[:, :units], w_h)
        of_x += b_x
        of_h += b_h
        after = cell(of_x, of_h, memory, units)
        return after[:, :units], after

    return step


def _lstm(of_x: FloatArray, of_h: FloatArray, memory: FloatArray, units: int) -> FloatArray:
    """The memory after a step: hidden state, then cell. Gates are in PyTorch's order: input, forget, cell, output."""
    of_x += of_h
    into, kept, new, out = (of_x[:, k * units : (k + 1) * units] for k in range(4))
    after = np.empty_like(memory)
    h = after[:, :units]
    c = after[:, units:]
    np.multiply(_sigmoid(kept), memory[:, units:], out=c)
    c += _sigmoid(into) * np.tanh(new)
    np.multiply(_sigmoid(out), np.tanh(c), out=h)
    return after


def _gru(of_x: FloatArray, of_h: FloatArray, memory: FloatArray, units: int) -> FloatArray:
    """The memory after a step. Gates are in PyTorch's order: reset, update, new."""
    gates = 2 * units
    opened = _sigmoid(of_x[:, :gates] + of_h[:, :gates])
    reset = opened[:, :units]
    kept = opened[:, units:]
    new = np.tanh(of_x[:, gates:] + reset * of_h[:, gates:])
    after: FloatArray = new + kept * (memory - new)
    return after


def _sigmoid(x: FloatArray) -> FloatArray:
    """By tanh, which cannot overflow."""
    squashed: FloatArray = np.tanh(0.5 * x)
    squashed *= 0.5
    squashed += 0.5
    return squashed
