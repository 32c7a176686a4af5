"""Several actors of one shape in NumPy: one product of stacked matrices for each layer.

Weights are stored as [places, inputs, outputs]. With few rows for each place, OpenBLAS multiplies matrices in this
layout two to four times as fast as in that of ``nn.Linear``, and as fast as many rows with one matrix.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rlcore_torch.cpu.acting import FUNCTIONS, normalization
from rlcore_torch.networks.networks import Actor, ObservationInputs, to_numpy
from rlcore_torch.policy.row_groups import RowGroups

FloatArray = NDArray[np.float32]


class StackedNumpyActors:
    """Copies of actors for which :func:`rlcore_torch.cpu.acting.numpy_actor` returns a function."""

    def __init__(self, model: Actor) -> None:
        """``model`` is one of the actors. Its weights are not copied."""
        self._inputs: ObservationInputs = model.inputs
        self._activate = FUNCTIONS[model.actor.activation]
        self._continuous, self._logits = model.policy_head.continuous, model.policy_head.logits
        self._arrays = [np.zeros((2, *array.shape), np.float32) for array in _arrays(model)]

    def put(self, place: int, model: Actor) -> None:
        """Copy the weights of ``model`` to ``place``."""
        arrays = _arrays(model)
        places = len(self._arrays[0])
        if place >= places:
            more = max(place + 1, 2 * places) - places
            self._arrays = [np.concatenate([a, np.zeros((more, *a.shape[1:]), np.float32)]) for a in self._arrays]
        for own, array in zip(self._arrays, arrays, strict=True):
            own[place] = array

    def __call__(
        self, observations: Mapping[str, NDArray[Any]], groups: RowGroups, memory: FloatArray | None
    ) -> tuple[FloatArray | None, FloatArray | None]:
        """Columns of the continuous parts [r, columns] and logits [r, logits] of the rows of ``groups``.

        These actors have no ``memory``.
        """
        parts = [observations[o.name].reshape(-1, o.size) for o in self._inputs.vectors]
        x = parts[0] if len(parts) == 1 else np.concatenate(parts, axis=1)
        x = x if x.dtype == np.float32 else x.astype(np.float32)
        output = groups.in_order([self._forward(block.places, x[block.rows]) for block in groups.blocks])
        if not self._logits:
            return output, None
        return (output[:, : self._continuous] if self._continuous else None), output[:, self._continuous :]

    def _forward(self, places: slice, x: FloatArray) -> FloatArray:
        """Outputs [p, L, columns + logits] of the actors at p ``places`` for x [p, L, size], which is overwritten."""
        shift, factor, limit, *layers = (array[places] for array in self._arrays)
        if self._inputs.normalizer is not None:
            x -= shift
            x *= factor
            np.minimum(x, limit, out=x)
            np.maximum(x, -limit, out=x)
        for index in range(0, len(layers), 2):
            if index:
                x = self._activate(x)
            x = np.matmul(x, layers[index])
            x += layers[index + 1]
        return x


def _arrays(model: Actor) -> list[FloatArray]:
    """Shift, factor and limit of the normalization, then weight [in, out] and bias [1, out] of each layer."""
    arrays = [part[None] for part in normalization(model.inputs)]
    for layer in (*model.actor.layers, model.policy_head.linear):
        arrays += [to_numpy(layer.weight).T, to_numpy(layer.bias)[None]]
    return arrays
