"""Check the actions of a trainer: with its first ones, after each update, and when an environment fails.

A step costs nothing: a policy that an update spoiled shows in the first actions after the update.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rlcore.contracts.environment import Actions
from rlcore.errors import PluginError, TrainingDiverged
from rlcore.plugins.failures import trainer_named
from rlcore.run.batch_check import shown
from rlcore.run.behavior import BehaviorRun
from rlcore.run.bounds_check import slot_named


def check_all_actions(behaviors: Sequence[BehaviorRun], actions: Mapping[str, Actions]) -> None:
    """Check the actions of each behavior in ``behaviors`` on the batch that the behavior holds.

    Raises TrainingDiverged for a NaN or an infinity, PluginError for actions of another shape or kind, and for options
    that a branch does not have.
    """
    for behavior in behaviors:
        check_actions(behavior, actions[behavior.name])


def check_actions(behavior: BehaviorRun, actions: Actions) -> None:
    """Check the actions of one behavior; see :func:`check_all_actions`. Rows that need no action are ignored."""
    spec = behavior.spec
    array: Any
    for part, columns, kind in (("continuous", spec.continuous, "f"), ("discrete", len(spec.discrete), "iu")):
        array = getattr(actions, part, None)
        shape = (spec.slots, columns)
        if not columns:
            continue
        if not isinstance(array, np.ndarray) or array.shape != shape or array.dtype.kind not in kind:
            wanted = f"an array of {'real' if kind == 'f' else 'whole'} numbers of shape {list(shape)}"
            _refuse(behavior, f"{part} actions: {shown(array)}, not {wanted}")
        _check_values(behavior, part, array)


def _check_values(behavior: BehaviorRun, part: str, array: NDArray[Any]) -> None:
    real, options = part == "continuous", behavior.spec.discrete
    wrong = ~np.isfinite(array) if real else (array < 0) | (array >= np.array(options))
    acts = behavior.batch.needs_action
    if acts is not None and acts.shape == wrong.shape[:1]:
        wrong &= acts[:, None]
    if not wrong.any():
        return
    slot, column = (int(index) for index in np.argwhere(wrong)[0])
    place = f"{slot_named(behavior.spec, slot)} is {array[slot, column]:g} at [{column}]"
    if real:
        raise TrainingDiverged(
            f"behavior {behavior.name!r}: the action of {place} at step {behavior.steps}, although observations and "
            f"rewards are finite: its policy has diverged; {TrainingDiverged.ADVICE}"
        )
    _refuse(behavior, f"the action of {place}, and that branch has {options[column]} options")


def _refuse(behavior: BehaviorRun, problem: str) -> None:
    raise PluginError(
        f"{trainer_named(behavior)} returned {problem} (at step {behavior.steps}); fix the trainer, so that "
        "it acts as its behavior says"
    )
