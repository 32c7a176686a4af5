"""Check the actions of trainers, and name slots and values in messages."""

from __future__ import annotations

from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from rlcore.contracts.batches import Actions
from rlcore.contracts.behavior_spec import BehaviorSpec
from rlcore.errors import PluginError, TrainingDiverged


def check_actions(
    spec: BehaviorSpec, actions: Actions, needs_action: NDArray[np.bool_] | None, trainer: str, step: int
) -> None:
    """Check what ``trainer``, its name in messages, returned at ``step``. Rows that need no action are ignored.

    Raises TrainingDiverged for a NaN or an infinity, PluginError for actions of another shape or kind, and for options
    that a branch does not have.
    """

    def refuse(problem: str) -> NoReturn:
        raise PluginError(
            f"{trainer} returned {problem} (at step {step}); fix the trainer, so that it acts as its behavior says"
        )

    def checked(group: str, columns: int, kinds: str, numbers: str) -> NDArray[Any]:
        array = getattr(actions, group, None)
        shape = (spec.slots, columns)
        if not isinstance(array, np.ndarray) or array.shape != shape or array.dtype.kind not in kinds:
            refuse(f"{group} actions: {kind_of(array)}, not an array of {numbers} numbers of shape {list(shape)}")
        return array

    def first(wrong: NDArray[np.bool_], array: NDArray[Any]) -> tuple[str, int] | None:
        """The first wrong number in words, and its column; None if all that are wrong are ignored."""
        if needs_action is not None and needs_action.shape == wrong.shape[:1]:
            wrong &= needs_action[:, None]
        if not wrong.any():
            return None
        slot, column = np.argwhere(wrong)[0].tolist()
        return f"{slot_named(spec, slot)} is {array[slot, column]:g} at [{column}]", column

    if spec.continuous:
        array = checked("continuous", spec.continuous, "f", "real")
        wrong_number = first(~np.isfinite(array), array)
        if wrong_number is not None:
            place, _ = wrong_number
            raise TrainingDiverged(
                f"behavior {spec.name!r}: the action of {place} at step {step}, although observations and rewards are "
                f"finite: its policy has diverged; {TrainingDiverged.ADVICE}"
            )
    if spec.discrete:
        array = checked("discrete", len(spec.discrete), "iu", "whole")
        wrong: NDArray[np.bool_] = (array < 0) | (array >= np.array(spec.discrete))
        wrong_number = first(wrong, array)
        if wrong_number is not None:
            place, branch = wrong_number
            refuse(f"the action of {place}, and that branch has {spec.discrete[branch]} options")


def slot_named(spec: BehaviorSpec, slot: int) -> str:
    """The name of a slot in messages: ``slot 3 (environment 1)``."""
    return f"slot {slot} (environment {int(spec.env_index[slot])})"


def kind_of(value: Any) -> str:
    """The kind of a value in messages: ``is an array of float32 of shape [4]``."""
    if value is None:
        return "is None"
    if isinstance(value, np.ndarray):
        return f"is an array of {value.dtype} of shape {list(value.shape)}"
    return f"is a {type(value).__name__}"
