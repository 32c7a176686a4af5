"""Several actors of one shape as one call: ``torch.func`` or NumPy with stacked weights."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.func import functional_call

from rlcore_torch.cpu import NUMPY_FUNCTIONS, normalization
from rlcore_torch.networks.distributions import ActionDistribution, Gaussian
from rlcore_torch.networks.networks import Actor, Body, ObservationInputs, dense, to_numpy
from rlcore_torch.networks.recurrent import Recurrent
from rlcore_torch.policy.row_groups import Block, RowGroups

FloatArray = NDArray[np.float32]


class StackedTensors:
    """The parameters and buffers of modules of one shape, stacked.

    Attributes:
        weights: [places, ...] of each name; a place that was never filled has zeros.
    """

    def __init__(self, module: nn.Module, device: torch.device) -> None:
        """``module`` has the names, shapes and types. ``device`` is the device of the stacked tensors."""
        self._device = device
        self.weights = {name: self._zeros(2, tensor) for name, tensor in _tensors(module).items()}

    def put(self, place: int, module: nn.Module) -> None:
        """Copy the tensors of ``module`` to ``place``; there are more places if necessary."""
        for name, tensor in _tensors(module).items():
            stacked = self.weights[name]
            if place >= len(stacked):
                more = max(place + 1, 2 * len(stacked)) - len(stacked)
                stacked = self.weights[name] = torch.cat([stacked, self._zeros(more, tensor)])
            stacked[place].copy_(tensor)

    def _zeros(self, places: int, tensor: Tensor) -> Tensor:
        return torch.zeros(places, *tensor.shape, dtype=tensor.dtype, device=self._device)


def _tensors(module: nn.Module) -> dict[str, Tensor]:
    """Parameters and buffers, those that are not saved included."""
    return {name: tensor.detach() for name, tensor in (*module.named_parameters(), *module.named_buffers())}


class StackedActors:
    """Copies of actors of any kind that ``torch.func.vmap`` can transform, on any device."""

    def __init__(self, model: Actor, device: torch.device) -> None:
        """``model`` is one of the actors. ``device`` is the device that computes."""
        self._device = device
        # The structure of the network: each call gives it all tensors. Those of its own are left on no device.
        self._module = _Acting(copy.deepcopy(model).to("meta"))
        for module in self._module.modules():  # plain PyTorch, which vmap knows
            if isinstance(module, Body):
                module.dense = dense
            elif isinstance(module, Recurrent):
                module.use_plain_operations()
        self._tensors = StackedTensors(_Acting(model), device)

    def put(self, place: int, model: Actor) -> None:
        """Copy the weights of ``model`` to ``place``."""
        self._tensors.put(place, _Acting(model))

    @torch.no_grad()
    def __call__(
        self, observations: Mapping[str, NDArray[Any]], groups: RowGroups, memory: FloatArray | None
    ) -> tuple[FloatArray | None, FloatArray | None]:
        """Columns of the continuous parts [r, columns] and logits [r, logits] of the rows of ``groups``.

        ``memory`` [R, M] of all rows is read, and overwritten in the rows of ``groups``; None without memory.
        """
        outputs = [self._forward(observations, block, memory) for block in groups.blocks]
        parts = [groups.in_order([to_numpy(part) for part in each]) for each in zip(*outputs, strict=True)]
        if memory is not None:
            memory[groups.rows] = parts.pop()
        head = self._module.model.policy_head
        return parts[0] if head.continuous else None, parts[-1] if head.logits else None

    def _forward(
        self, observations: Mapping[str, NDArray[Any]], block: Block, memory: FloatArray | None
    ) -> tuple[Tensor, ...]:
        """Outputs of :class:`_Acting` for the rows of ``block``, each part [p, L, size]."""
        rows = block.rows.ravel()
        given = self._module.model.inputs.raw({name: array[rows] for name, array in observations.items()})
        if memory is not None:
            given = (*given, torch.from_numpy(memory[rows]))
        given = tuple(x.to(self._device) for x in given)
        if len(block.rows) == 1:  # without the cost of vmap
            weights = {name: tensor[block.places.start] for name, tensor in self._tensors.weights.items()}
            return tuple(part[None] for part in self._call(weights, given))
        given = tuple(x.view(*block.rows.shape, *x.shape[1:]) for x in given)
        weights = {name: tensor[block.places] for name, tensor in self._tensors.weights.items()}
        return torch.vmap(self._call)(weights, given)

    def _call(self, weights: dict[str, Tensor], given: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
        return functional_call(self._module, weights, (given,))  # type: ignore[no-any-return]


class _Acting(nn.Module):
    """An actor as one function: inputs, then memory if it has any, to columns, logits and memory, if it has them."""

    def __init__(self, model: Actor) -> None:
        super().__init__()
        self.model = model

    def forward(self, given: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
        outputs: tuple[Tensor | None, ...]
        if self.model.memory_size:
            outputs = self.model.policy_step(self.model.inputs(given[:-1]), given[-1])
        else:
            outputs = self.model.policy(self.model.inputs(given))
        return tuple(output for output in outputs if output is not None)


class StackedNumpyActors:
    """Copies of actors for which :func:`rlcore_torch.cpu.numpy_actor` returns a function, in NumPy.

    Weights are stored as [places, inputs, outputs]. With few rows for each place, OpenBLAS multiplies matrices in this
    layout two to four times as fast as in that of ``nn.Linear``, and as fast as many rows with one matrix.
    """

    def __init__(self, model: Actor) -> None:
        """``model`` is one of the actors. Its weights are not copied."""
        self._inputs: ObservationInputs = model.inputs
        self._activate = NUMPY_FUNCTIONS[model.actor.activation]
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


class StackedDistributions:
    """Copies of distributions of continuous parts of actions, in NumPy where they can draw there."""

    def __init__(self, distribution: ActionDistribution, device: torch.device, numpy_draws: bool) -> None:
        """``numpy_draws`` says whether ``distribution``, one of them, draws in NumPy. ``device`` computes otherwise."""
        self._device = device
        self._module = _Drawing(copy.deepcopy(distribution).to(device))
        self._tensors = StackedTensors(_Drawing(distribution), device)
        self._gaussian = numpy_draws and type(distribution) is Gaussian
        # Without anything that is saved, all of them draw alike.
        alike = numpy_draws and not distribution.state_dict()
        self._numpy_draw = distribution.numpy_draw() if alike else None

    def put(self, place: int, distribution: ActionDistribution) -> None:
        """Copy the parameters of ``distribution`` to ``place``."""
        self._tensors.put(place, _Drawing(distribution))

    def __call__(self, columns: FloatArray, noise: FloatArray | None, places: NDArray[np.intp]) -> FloatArray:
        """Raw actions [r, C] for ``columns`` [r, columns * C] by the distributions at ``places`` [r].

        Draws with ``noise`` [r, noise_size]; without, acts deterministically.
        """
        if self._numpy_draw is not None:
            return self._numpy_draw(columns, noise)
        if self._gaussian:
            if noise is None:
                return columns
            log_std = to_numpy(self._tensors.weights["distribution.log_std"])
            raw: FloatArray = columns + np.exp(log_std)[places] * noise
            return raw
        return self._torch_draw(columns, noise, places)

    @torch.no_grad()
    def _torch_draw(self, columns: FloatArray, noise: FloatArray | None, places: NDArray[np.intp]) -> FloatArray:
        rows = torch.from_numpy(places).to(self._device)
        weights = {name: tensor[rows] for name, tensor in self._tensors.weights.items()}
        given = tuple(torch.from_numpy(x[:, None]).to(self._device) for x in (columns, noise) if x is not None)
        drawn: Tensor = torch.vmap(self._call)(weights, given)
        return to_numpy(drawn[:, 0])

    def _call(self, weights: dict[str, Tensor], given: tuple[Tensor, ...]) -> Tensor:
        return functional_call(self._module, weights, given)  # type: ignore[no-any-return]


class _Drawing(nn.Module):
    """A distribution as one function of columns and, if it draws, noise."""

    def __init__(self, distribution: ActionDistribution) -> None:
        super().__init__()
        self.distribution = distribution

    def forward(self, columns: Tensor, noise: Tensor | None = None) -> Tensor:
        return self.distribution.deterministic(columns) if noise is None else self.distribution.sample(columns, noise)
