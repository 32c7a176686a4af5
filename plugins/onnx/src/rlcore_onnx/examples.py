"""Random observations and action masks, to try an exported file with."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import nn

from rlcore import BehaviorSpec, ObservationSpec
from rlcore_torch import ActionLayout, PolicyModule

Array = NDArray[Any]
Generator = np.random.Generator


def example_observations(
    behavior: BehaviorSpec, module: nn.Module, rows: int, generator: Generator
) -> dict[str, Array]:
    """Observations [rows, *shape] by name, in the types of the behavior.

    Numbers are drawn around the running means of a policy that normalizes, as training saw them: of other observations
    everything may be clipped, which would test little. Those of a policy that does not normalize are standard normal.
    """
    statistics = _running_statistics(module)
    usual = (np.array(0.0), np.array(0.5))
    observations = {}
    for o in behavior.observations:
        mean, std = statistics.get(o.name, usual)
        observations[o.name] = _observation(o, mean, std, rows, generator)
    return observations


def _running_statistics(module: nn.Module) -> dict[str, tuple[Array, Array]]:
    """Mean and standard deviation of each vector observation that a policy normalizes."""
    if not isinstance(module, PolicyModule):
        return {}
    inputs = module.model.inputs
    if inputs.normalizer is None:
        return {}
    # The normalizer has the vectors side by side.
    mean = inputs.normalizer.shift.numpy()
    std = 1.0 / inputs.normalizer.inverse_std.numpy()
    statistics = {}
    first = 0
    for o in inputs.vectors:
        columns = slice(first, first + o.size)
        statistics[o.name] = (mean[columns], std[columns])
        first += o.size
    return statistics


def _observation(o: ObservationSpec, mean: Array, std: Array, rows: int, generator: Generator) -> Array:
    shape = (rows, o.size)
    if o.kind == "one_hot":
        options = generator.integers(o.size, size=rows)
        indicators = np.eye(o.size)
        values: Array = indicators[options]
    elif o.kind == "image" and o.dtype.kind == "u":
        highest = int(o.full_scale.max())
        values = generator.integers(0, highest + 1, shape)
    elif o.kind == "image" and o.dtype.kind == "i":
        highest = min(np.iinfo(o.dtype).max, 255)
        values = generator.integers(0, highest + 1, shape)
    else:
        values = mean + 2.0 * std * generator.standard_normal(shape)
    if o.dtype.kind == "b":
        values = values > 0
    elif o.dtype.kind in "iu":
        limits = np.iinfo(o.dtype)
        values = np.clip(np.rint(values), limits.min, limits.max)
    values = values.reshape(rows, *o.shape)
    if o.kind == "entities":  # of which some are absent
        draws = generator.random((rows, o.shape[0], 1))
        share = generator.choice([0.0, 0.5, 1.0], (rows, 1, 1))
        present = draws < share
        values = values * present
    return values.astype(o.dtype)


def example_mask(layout: ActionLayout, rows: int, generator: Generator) -> NDArray[np.bool_]:
    """A mask [rows, options]: rows with random options, of each branch at least one, and rows with a single one."""
    draws = generator.random((rows, layout.logits))
    share = generator.choice([0.0, 0.5, 1.0], size=(rows, 1))
    mask = draws < share
    every_row = np.arange(rows)
    for first, options in zip(layout.offsets, layout.branches, strict=True):
        allowed = first + generator.integers(options, size=rows)
        mask[every_row, allowed] = True
    return mask
