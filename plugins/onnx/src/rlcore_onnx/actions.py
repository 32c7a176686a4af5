"""Actions as nodes: masks, draws from the distribution, clipping and stretching to the bounds."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from rlcore_onnx.graph import Graph
from rlcore_onnx.layers import UnknownModule, array, has_no_hooks
from rlcore_torch import (
    LARGEST_LOGIT,
    LEAST_LOGIT,
    ActionDistribution,
    ActionLayout,
    DeterministicTanh,
    Gaussian,
    SquashedGaussian,
    StateDependentGaussian,
)

__all__ = ["ActionTensors", "choices", "clipped", "compressed", "continuous", "finite_logits", "gumbel", "stretched"]

# Uniform numbers are kept this far from 0 and 1, whose logarithms are infinite: the distance of 1 to the next smaller
# float32.
SMALLEST = 2.0**-24


class ActionTensors(NamedTuple):
    """Names of the tensors of actions.

    Attributes:
        raw: [B, continuous] deterministic, within [-1, 1] where the part has bounds; None without continuous parts.
        raw_sampled: [B, continuous], drawn.
        discrete: [B, branches] int64, the most likely allowed options; None without branches.
        discrete_sampled: [B, branches] int64, drawn.
        logits: [B, logits], masked; None without branches, and for a module that does not show them.
        memory: [B, M] after the step; None without memory.
    """

    raw: str | None
    raw_sampled: str | None
    discrete: str | None
    discrete_sampled: str | None
    logits: str | None
    memory: str | None


def continuous(
    graph: Graph, distribution: ActionDistribution, columns: str, noise: str | None
) -> tuple[str, str | None]:
    """Add the raw actions [B, continuous] of one of rlcore's distributions: deterministic ones, and drawn ones.

    ``columns`` is [B, columns] and ``noise`` [B, noise_size]; without noise nothing is drawn. Raises UnknownModule for
    another distribution.
    """
    kind = type(distribution)
    known = (Gaussian, StateDependentGaussian, SquashedGaussian, DeterministicTanh)
    if not has_no_hooks(distribution) or kind not in known:
        raise UnknownModule(f"the distribution {kind.__name__}")
    mean, log_std = columns, None
    if kind in (StateDependentGaussian, SquashedGaussian):
        mean, log_std = graph.split(columns, [distribution.parts] * 2)
    actions = [mean]
    if noise is not None:
        std = _std(graph, distribution, log_std)
        actions.append(graph.node("Add", mean, graph.node("Mul", std, noise)))
    if isinstance(distribution, SquashedGaussian):
        actions = [graph.node("Tanh", each) for each in actions]
    return actions[0], actions[1] if noise is not None else None


def _std(graph: Graph, distribution: ActionDistribution, log_std: str | None) -> str:
    """Standard deviations: [continuous], or [B, continuous] from ``log_std`` [B, continuous]."""
    if isinstance(distribution, DeterministicTanh):
        return graph.constant(np.full(distribution.parts, np.exp(distribution.log_std), np.float32))
    if log_std is None:
        assert isinstance(distribution, Gaussian)
        return graph.constant(np.exp(array(distribution.log_std)))
    assert isinstance(distribution, StateDependentGaussian)
    low, high = distribution.limits
    return graph.node("Exp", graph.node("Clip", log_std, graph.number(low), graph.number(high)))


def clipped(graph: Graph, layout: ActionLayout, raw: str) -> str:
    """Clip raw actions [B, continuous] to [-1, 1] where the part has bounds."""
    return _between(graph, raw, -layout.clip, layout.clip)


def stretched(graph: Graph, layout: ActionLayout, raw: str) -> str:
    """Stretch clipped actions [B, continuous] to the bounds of the environment."""
    if np.any(layout.half_range != 1):
        raw = graph.node("Mul", raw, graph.constant(layout.half_range))
    if np.any(layout.middle != 0):
        raw = graph.node("Add", raw, graph.constant(layout.middle))
    return _between(graph, raw, layout.low, layout.high)


def compressed(graph: Graph, layout: ActionLayout, actions: str) -> str:
    """Turn actions [B, continuous] of the environment into those that :func:`stretched` stretches to them."""
    if np.any(layout.middle != 0):
        actions = graph.node("Sub", actions, graph.constant(layout.middle))
    if np.any(layout.half_range != 1):
        sizes = np.where(layout.half_range > 0, layout.half_range, np.float32(1))
        actions = graph.node("Div", actions, graph.constant(sizes))
    return actions


def _between(graph: Graph, x: str, low: np.ndarray, high: np.ndarray) -> str:
    largest = np.finfo(np.float32).max
    if np.isfinite(high).any():
        x = graph.node("Min", x, graph.constant(np.minimum(high, largest).astype(np.float32)))
    if np.isfinite(low).any():
        x = graph.node("Max", x, graph.constant(np.maximum(low, -largest).astype(np.float32)))
    return x


def gumbel(graph: Graph, normal: str) -> str:
    """Turn standard normal numbers into standard Gumbel numbers: -log(-log(u)) for u = (1 + erf(e / sqrt 2)) / 2."""
    error = graph.node("Erf", graph.node("Mul", normal, graph.number(math.sqrt(0.5))))
    u = graph.node("Mul", graph.node("Add", error, graph.number(1.0)), graph.number(0.5))
    u = graph.node("Clip", u, graph.number(SMALLEST), graph.number(1.0 - SMALLEST))
    return graph.node("Neg", graph.node("Log", graph.node("Neg", graph.node("Log", u))))


def finite_logits(graph: Graph, logits: str) -> str:
    """Make logits [B, logits] finite, and larger than that of a forbidden option.

    Runtimes differ in what they choose beside NaN. So NaN, like infinity, becomes the largest number: a policy, too,
    chooses an option whose logit is NaN before others.
    """
    largest = graph.number(LARGEST_LOGIT)
    # A comparison with NaN is false, and every runtime has it, unlike an operator that looks for NaN.
    logits = graph.node("Where", graph.node("Less", logits, largest), logits, largest)
    return graph.node("Max", logits, graph.number(LEAST_LOGIT))


def choices(graph: Graph, branches: Sequence[int], logits: str) -> str:
    """The index of the largest logit of each branch, [B, branches] int64."""
    parts = graph.split(logits, branches)
    return graph.concatenate([graph.node("ArgMax", part, axis=1, keepdims=1) for part in parts])
