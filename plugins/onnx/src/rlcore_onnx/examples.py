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
    known = _statistics(module)
    return {o.name: _observation(o, known.get(o.name), rows, generator) for o in behavior.observations}


def _statistics(module: nn.Module) -> dict[str, tuple[NDArray[Any], NDArray[Any]]]:
    """The running means and standard deviations of normalized observations, by name."""
    inputs = module.model.inputs if isinstance(module, PolicyModule) else None
    if inputs is None or inputs.normalizer is None:
        return {}
    cuts = np.cumsum([o.size for o in inputs.vectors])[:-1]
    shifts, scales = (np.split(each.numpy(), cuts) for each in inputs.normalizer.scale())
    return {
        o.name: (shift.reshape(o.shape), 1.0 / scale.reshape(o.shape))
        for o, shift, scale in zip(inputs.vectors, shifts, scales, strict=True)
        if o.kind == "vector"
    }


def _observation(
    o: ObservationSpec, known: tuple[NDArray[Any], NDArray[Any]] | None, rows: int, generator: np.random.Generator
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
    if known is not None:
        mean, std = known
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
