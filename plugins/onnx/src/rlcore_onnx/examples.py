"""Random observations and action masks, to try an exported file with."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import nn

from rlcore import BehaviorSpec, ObservationSpec
from rlcore_torch import ActionLayout, PolicyModule


def example_observations(
    behavior: BehaviorSpec, module: nn.Module, rows: int, generator: np.random.Generator
) -> dict[str, NDArray[Any]]:
    """Observations [rows, *shape] by name, in the types of the behavior.

    Numbers are drawn around the running means of a policy that normalizes, as training saw them: of other observations
    everything may be clipped, which would test little. Those of a policy that does not normalize are standard normal.
    """
    inputs = module.model.inputs if isinstance(module, PolicyModule) else None
    known: dict[str, tuple[NDArray[Any], NDArray[Any]]] = {}
    if inputs is not None and inputs.normalizer is not None:
        cuts = np.cumsum([o.size for o in inputs.vectors])[:-1]
        means, inverse_stds = (
            np.split(each.numpy(), cuts) for each in (inputs.normalizer.shift, inputs.normalizer.inverse_std)
        )
        known = {o.name: (means[k], 1.0 / inverse_stds[k]) for k, o in enumerate(inputs.vectors)}
    made = {}
    for o in behavior.observations:
        mean, std = known.get(o.name, (np.array(0.0), np.array(0.5)))
        made[o.name] = _observation(o, mean, std, rows, generator)
    return made


def _observation(
    o: ObservationSpec, mean: NDArray[Any], std: NDArray[Any], rows: int, generator: np.random.Generator
) -> NDArray[Any]:
    if o.kind == "one_hot":
        values: NDArray[Any] = np.eye(o.size)[generator.integers(o.size, size=rows)]
    elif o.kind == "image" and o.dtype.kind in "iu":
        highest = int(o.full_scale.max()) if o.dtype.kind == "u" else min(np.iinfo(o.dtype).max, 255)
        values = generator.integers(0, highest + 1, (rows, o.size))
    else:
        values = mean + 2.0 * std * generator.standard_normal((rows, o.size))
    if o.dtype.kind == "b":
        values = values > 0
    elif o.dtype.kind in "iu":
        values = np.clip(np.rint(values), np.iinfo(o.dtype).min, np.iinfo(o.dtype).max)
    values = values.reshape(rows, *o.shape)
    if o.kind == "entities":  # of which some are absent
        values = values * (generator.random((rows, o.shape[0], 1)) < generator.choice([0.0, 0.5, 1.0], (rows, 1, 1)))
    return values.astype(o.dtype)


def example_mask(layout: ActionLayout, rows: int, generator: np.random.Generator) -> NDArray[np.bool_]:
    """A mask [rows, options]: rows with random options, of each branch at least one, and rows with a single one."""
    mask = generator.random((rows, layout.logits)) < generator.choice([0.0, 0.5, 1.0], size=(rows, 1))
    for first, options in zip(layout.offsets, layout.branches, strict=True):
        mask[np.arange(rows), first + generator.integers(options, size=rows)] = True
    return mask
