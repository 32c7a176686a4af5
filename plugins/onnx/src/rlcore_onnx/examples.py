"""Random observations and action masks, to try an exported file with."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import nn

from rlcore import BehaviorSpec, ObservationSpec
from rlcore_torch import ActionLayout, PolicyModule

__all__ = ["example_mask", "example_observations"]


def example_observations(
    behavior: BehaviorSpec, module: nn.Module, rows: int, generator: np.random.Generator
) -> dict[str, NDArray[Any]]:
    """Observations [rows, *shape] by name, in the types of the behavior.

    Numbers are drawn around the running means of a policy that normalizes, as training saw them; others are standard
    normal, or uniform between finite bounds. An observation that fits no policy would test little: everything is
    clipped then.
    """
    means, stds = _statistics(behavior, module)
    return {
        o.name: _observation(o, means.get(o.name), stds.get(o.name), rows, generator) for o in behavior.observations
    }


def _statistics(behavior: BehaviorSpec, module: nn.Module) -> tuple[dict[str, NDArray[Any]], dict[str, NDArray[Any]]]:
    """The running means and standard deviations of normalized observations, by name."""
    means: dict[str, NDArray[Any]] = {}
    stds: dict[str, NDArray[Any]] = {}
    inputs = module.model.inputs if isinstance(module, PolicyModule) else None
    if inputs is not None and inputs.normalizer is not None:
        first = 0
        shift, inverse_std = (each.numpy() for each in inputs.normalizer.scale())
        for o in inputs.vectors:
            columns = slice(first, first + o.size)
            first += o.size
            if o.kind == "vector":
                means[o.name] = shift[columns].reshape(o.shape)
                stds[o.name] = 1.0 / inverse_std[columns].reshape(o.shape)
    return means, stds


def _observation(
    o: ObservationSpec,
    mean: NDArray[Any] | None,
    std: NDArray[Any] | None,
    rows: int,
    generator: np.random.Generator,
) -> NDArray[Any]:
    shape = (rows, *o.shape)
    if o.kind == "one_hot":
        return np.eye(o.size, dtype=o.dtype)[generator.integers(o.size, size=rows)].reshape(shape)
    if o.dtype.kind == "b":
        return generator.random(shape) < 0.5
    if o.dtype.kind in "iu" and o.kind == "image":
        return generator.integers(0, min(np.iinfo(o.dtype).max, 255) + 1, shape).astype(o.dtype)
    low, high = (np.full(o.shape, np.nan if bound is None else bound) for bound in (o.low, o.high))
    values = generator.standard_normal(shape)
    if mean is not None and std is not None:
        values = mean + 2.0 * std * values
    elif np.isfinite(low).all() and np.isfinite(high).all():
        values = generator.uniform(low, high, shape)
    if o.dtype.kind in "iu":
        limits = np.iinfo(o.dtype)
        values = np.clip(np.rint(values), limits.min, limits.max)
    return values.astype(o.dtype)


def example_mask(layout: ActionLayout, rows: int, generator: np.random.Generator) -> NDArray[np.bool_]:
    """A mask [rows, options]: rows with random options, of each branch at least one, and rows with a single one."""
    mask = generator.random((rows, layout.logits)) < generator.choice([0.0, 0.5, 1.0], size=(rows, 1))
    for first, options in zip(layout.offsets, layout.branches, strict=True):
        mask[np.arange(rows), first + generator.integers(options, size=rows)] = True
    return mask
