"""Pieces of a policy: those of rlcore are written node by node, others are converted by torch.onnx."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from rlcore import ObservationSpec
from rlcore_onnx.actions import ActionTensors, clipped, compressed, continuous
from rlcore_onnx.graph import Graph
from rlcore_onnx.layers import UnknownModule, layer
from rlcore_onnx.network import Parameters
from rlcore_onnx.torch_export import foreign
from rlcore_torch import ActionDistribution, ActionLayout, PolicyModule

__all__ = ["distribution_actions", "encoder", "foreign_network", "foreign_policy"]

Example = NDArray[Any]


def encoder(graph: Graph, module: nn.Module, x: str, observation: ObservationSpec) -> str:
    """Add an encoder: features [B, any number] from ``x`` [B, size], or [B, channels, height, width] of an image."""
    try:
        layer(Graph(graph.opset), module, "x")  # to see whether every layer is known
    except UnknownModule:
        what = f"the encoder {type(module).__name__} of observation {observation.name!r}"
        shape: tuple[int, ...] = (observation.size,)
        if observation.kind == "image":
            height, width, channels = observation.shape
            shape = (channels, height, width)
        return foreign(graph, module, what, {x: np.zeros(shape, np.float32)}, 1)[0]
    return layer(graph, module, x)


class _Draws(nn.Module):
    def __init__(self, distribution: ActionDistribution) -> None:
        super().__init__()
        self.distribution = distribution

    def forward(self, columns: Tensor, noise: Tensor | None = None) -> tuple[Tensor, ...]:
        deterministic = self.distribution.deterministic(columns)
        return (deterministic,) if noise is None else (deterministic, self.distribution.sample(columns, noise))


def distribution_actions(
    graph: Graph, distribution: ActionDistribution, columns: str, noise: str | None
) -> tuple[str, str | None]:
    """Add what :func:`rlcore_onnx.actions.continuous` adds, for any distribution."""
    try:
        return continuous(graph, distribution, columns, noise)
    except UnknownModule:
        what = f"the distribution {type(distribution).__name__}"
    inputs = {columns: np.zeros(distribution.columns * distribution.parts, np.float32)}
    if noise is not None:
        inputs[noise] = np.zeros(distribution.noise_size, np.float32)
    results = foreign(graph, _Draws(distribution), what, inputs, len(inputs))
    return results[0], results[1] if noise is not None else None


class _Network(nn.Module):
    def __init__(self, module: PolicyModule, names: tuple[str, ...]) -> None:
        super().__init__()
        self.module, self.names = module, names

    def forward(self, *tensors: Tensor) -> tuple[Tensor, ...]:
        observations = dict(zip(self.names, tensors, strict=False))
        memory = tensors[len(self.names)] if self.module.memory_size else None
        results = self.module.distribution_parameters(observations, None, memory)
        return tuple(each for each in results if each is not None)


def foreign_network(
    graph: Graph, module: PolicyModule, what: str, observations: Mapping[str, tuple[str, Example]], memory: str | None
) -> Parameters:
    """Add the network of a policy of :mod:`rlcore_torch` whose model is not one of rlcore's.

    ``observations`` are tensors in the layout of the environment, by name, each with one row of an example.
    """
    inputs = dict(observations.values())
    if memory is not None:
        inputs[memory] = np.zeros(module.memory_size, np.float32)
    head = module.model.policy_head
    has = (head.continuous > 0, head.logits > 0, memory is not None)
    results = iter(foreign(graph, _Network(module, tuple(observations)), what, inputs, sum(has)))
    return Parameters(*(next(results) if each else None for each in has))


class _Policy(nn.Module):
    def __init__(self, module: nn.Module, names: tuple[str, ...], given: tuple[str, ...]) -> None:
        super().__init__()
        self.module, self.names, self.given = module, names, given

    def forward(self, *tensors: Tensor) -> tuple[Tensor, ...]:
        observations = dict(zip(self.names, tensors, strict=False))
        rest = dict(zip(self.given, tensors[len(self.names) :], strict=True))
        given = (observations, rest.get("mask"), rest.get("memory"))
        results = list(self.module(*given))
        if {"gaussian", "gumbel"} & rest.keys():
            empty = tensors[0].new_zeros((tensors[0].shape[0], 0), dtype=torch.float32)
            drawn = self.module(*given, (rest.get("gaussian", empty), rest.get("gumbel", empty)))
            results += list(drawn[:2])
        return tuple(each for each in results if each is not None)


def foreign_policy(
    graph: Graph,
    module: nn.Module,
    layout: ActionLayout,
    observations: Mapping[str, tuple[str, Example]],
    given: Mapping[str, tuple[str, Example]],
) -> ActionTensors:
    """Add a policy whose module is not one of rlcore's, but is called like :class:`rlcore_torch.PolicyModule`.

    ``observations`` are tensors in the layout of the environment, by name, and ``given`` the tensors ``mask``,
    ``memory``, ``gaussian`` and ``gumbel`` as far as there are any, in this order; each has one row of an example.
    """
    what = f"the policy's module {type(module).__name__}"
    inputs = dict([*observations.values(), *given.values()])
    drawn = bool({"gaussian", "gumbel"} & given.keys())
    parts = {"continuous": layout.continuous > 0, "discrete": bool(layout.branches), "memory": "memory" in given}
    names = [name for name, there in parts.items() if there]
    names += [f"{name}_sampled" for name in names if drawn and name != "memory"]
    wrapped = _Policy(module, tuple(observations), tuple(given))
    results = dict(zip(names, foreign(graph, wrapped, what, inputs, len(names)), strict=True))
    raw, raw_sampled = (
        None if name not in results else clipped(graph, layout, compressed(graph, layout, results[name]))
        for name in ("continuous", "continuous_sampled")
    )
    return ActionTensors(
        raw, raw_sampled, results.get("discrete"), results.get("discrete_sampled"), None, results.get("memory")
    )
