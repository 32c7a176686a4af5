"""Check the batches of an environment before anything learns from them or acts on them.

Every array has its shape and kind of numbers compared, and every value must be finite. Many environments return the
same array objects in every step, with other numbers in them: those need no second comparison of shape and kind. Values
are compared with the bounds of their observation in the first batches only; see :mod:`rlcore.run.behaviors.checks`.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping
from math import hypot
from typing import Any, NoReturn

import attrs
import numpy as np
from numpy.typing import NDArray

from rlcore.contracts.environment import Actions, AgentBatch, BehaviorSpec, ObservationSpec
from rlcore.contracts.saved_values import LARGEST, not_finite_as_float32
from rlcore.errors import EnvironmentFailed, NonFiniteError, PluginError, TrainingDiverged, UnsupportedSpace

log = logging.getLogger(__name__)

# Up to this many numbers, adding them in Python is faster than a call of numpy.
FEW_SLOTS = 16
# How many batches of a behavior, from the first, have their values compared with bounds.
FIRST_BATCHES = 100

_BOOL = np.dtype(np.bool_)
_FIX = "fix the environment, so that it returns what its behavior says"


@attrs.define(eq=False)
class _Observed:
    """One observation, and the array of it in the latest batch."""

    spec: ObservationSpec
    shape: tuple[int, ...]  # [S, *shape]
    dtype: np.dtype[Any]  # an array's own: a dtype may be equal to the expected one and yet another object
    name: str = attrs.field(init=False)
    array: NDArray[Any] | None = None  # of which shape and dtype are known to be right
    values: NDArray[Any] | None = None  # a flat view of `array`; None if it holds no real numbers or is not contiguous
    most: np.floating[Any] | float = LARGEST  # that the sum of the squares of `values` may be

    def __attrs_post_init__(self) -> None:
        self.name = self.spec.name

    @property
    def real(self) -> bool:
        return self.spec.dtype.kind == "f"

    def note(self, array: NDArray[Any]) -> None:
        """``array`` has the right shape and dtype."""
        self.dtype, self.array = array.dtype, array
        self.values = array.reshape(-1) if self.real and array.flags.c_contiguous else None
        self.most = _most_squared(array.dtype)


class BatchCheck:
    """Refuses batches of one behavior that its :class:`~rlcore.BehaviorSpec` does not describe.

    Every batch has its shapes, kinds of numbers and flags checked, and that reward and observations are finite. In the
    first :data:`FIRST_BATCHES` batches a value outside its observation's bounds, or an
    indicator other than 0 and 1, gives a warning, one for each observation.
    """

    def __init__(self, spec: BehaviorSpec, when: Callable[[], str]) -> None:
        """``when`` completes messages: ``"at step 60"``."""
        self._spec = spec
        self._when = when
        slots = spec.slots
        self._flat = (slots,)
        self._mask_shape = (slots, spec.mask_size)
        self._branches = np.cumsum((0, *spec.discrete))[:-1]  # first column of each in a mask
        self._unset = bytes(slots)  # flags none of which is set
        self._few = slots <= FEW_SLOTS
        # Of the latest batch: arrays of which shape and kind are known to be right.
        self._reward: NDArray[Any] | None = None
        self._most: np.floating[Any] | float = LARGEST  # that the sum of the squares of rewards may be
        self._terminated: NDArray[np.bool_] | None = None
        self._truncated: NDArray[np.bool_] | None = None
        self._observed = [_Observed(o, (slots, *o.shape), o.dtype) for o in spec.observations]
        self._first = FIRST_BATCHES  # batches whose values are still to be compared with bounds
        self._warned_of: set[str] = set()  # observations with values outside their bounds
        self._warned_of_lost = False
        self.takes_no_turns: str | None = None  # who learns the behavior and needs all agents to act in every step

    def check(self, batch: AgentBatch) -> None:
        """Raise EnvironmentFailed for a batch that breaks its contract, NonFiniteError for a NaN or an infinity."""
        try:
            reward, terminated, truncated = batch.reward, batch.terminated, batch.truncated
            if reward is not self._reward or terminated is not self._terminated or truncated is not self._truncated:
                self._check_agents(batch)
            # The length of x, or x . x, is small unless x has a NaN or an infinity, or is huge: only then look closer.
            if not (hypot(*reward.tolist()) <= LARGEST if self._few else reward.dot(reward) <= self._most):
                self._refuse_non_finite("reward", reward)
            observations = batch.observations
            for observed in self._observed:
                array = observations[observed.name]
                if array is not observed.array:
                    self._check_observed(batch, observed, array)
                values = observed.values
                if values is not None:
                    if not values.dot(values) <= observed.most:
                        self._refuse_non_finite(f"observation {observed.name!r}", array)
                elif observed.real:
                    self._refuse_non_finite(f"observation {observed.name!r}", array)
            if batch.ended.size:
                self._check_ended(batch)
            # Bytes show whether a flag is set in a tenth of the time of any().
            elif terminated.tobytes() != self._unset or truncated.tobytes() != self._unset:
                self._check_contract(batch)
            if (
                batch.needs_action is not None
                or batch.action_mask is not None
                or batch.group_reward is not None
                or batch.aborted is not None
            ):
                self._check_options(batch)
        except (AttributeError, LookupError, TypeError):
            self._check_contract(batch)
            raise
        if self._first:
            self._check_values(batch)

    # ------------------------------------------------------------ every batch

    def _check_agents(self, batch: AgentBatch) -> None:
        """Shape and kind of rewards and flags."""
        reward, terminated, truncated, known = batch.reward, batch.terminated, batch.truncated, self._reward
        if (
            known is None
            or reward.dtype is not known.dtype
            or reward.shape != self._flat
            or terminated.dtype is not _BOOL
            or terminated.shape != self._flat
            or truncated.dtype is not _BOOL
            or truncated.shape != self._flat
        ):
            self._check_contract(batch)
        self._reward, self._terminated, self._truncated = reward, terminated, truncated
        self._most = _most_squared(reward.dtype)

    def _check_observed(self, batch: AgentBatch, observed: _Observed, array: NDArray[Any]) -> None:
        if array.dtype is not observed.dtype or array.shape != observed.shape:
            self._check_contract(batch)
        observed.note(array)

    def _check_ended(self, batch: AgentBatch) -> None:
        """What only a batch with ends has: their rows, and what was seen last."""
        ended = batch.ended
        flagged = (batch.terminated | batch.truncated).nonzero()[0]
        if flagged.tobytes() != ended.tobytes() and flagged.tolist() != ended.tolist():
            self._refuse("ended", f"is {_some(ended)} where terminated or truncated are set in {_some(flagged)}")
        finals, count = batch.final_observations, len(ended)
        if not isinstance(finals, Mapping):
            self._refuse("final_observations", f"{shown(finals)} although episodes ended in slots {_some(ended)}")
        for spec in self._spec.observations:
            what = f"final observation {spec.name!r}"
            final = self._present(finals, spec.name, what)
            self._check_observation(what, final, spec, count, "episode that ended")
            if spec.dtype.kind == "f":
                values = final.ravel()
                if not values.dot(values) <= _most_squared(values.dtype):
                    self._refuse_non_finite(what, final, ended)
        if batch.final_info is not None:
            self._check_final_info(batch.final_info, count)
        if (mask := batch.final_action_mask) is not None:
            self._check_mask("final_action_mask", mask, (count, self._spec.mask_size))
            barred = np.argwhere(~np.logical_or.reduceat(mask, self._branches, axis=1))
            if len(barred):
                row, branch = barred[0].tolist()
                slot = slot_named(self._spec, int(ended[row]))
                self._refuse("final_action_mask", f"allows no option of branch {branch} in the row of {slot}")

    def _check_final_info(self, infos: Any, count: int) -> None:
        """``infos`` maps names to arrays of real numbers [K]; NaN is allowed."""
        if not isinstance(infos, Mapping):
            self._refuse("final_info", f"{shown(infos)}, not a mapping of arrays by name")
        for name, array in infos.items():
            if not isinstance(array, np.ndarray) or array.shape != (count,) or array.dtype.kind != "f":
                wanted = f"not an array of real numbers of shape [{count}]: one for each episode that ended"
                self._refuse(f"final_info {name!r}", f"{shown(array)}, {wanted}")

    def _check_options(self, batch: AgentBatch) -> None:
        """The arrays that a batch may leave out."""
        for what, kind in (("group_reward", "f"), ("needs_action", "b"), ("aborted", "b")):
            array = getattr(batch, what)
            if array is not None:
                self._check_array(what, array, kind)
        if batch.action_mask is not None:
            self._check_mask("action_mask", batch.action_mask, self._mask_shape)
        if batch.needs_action is not None:
            if self.takes_no_turns is not None and not batch.needs_action.all():
                slot = slot_named(self._spec, int(batch.needs_action.argmin()))
                raise UnsupportedSpace(
                    f"behavior {self._spec.name!r}: {self.takes_no_turns} does not learn where agents act in turns, "
                    f"and {slot} needs no action {self._when()}; choose another trainer_type"
                )
            if not self._warned_of_lost:
                self._warn_of_lost_rewards(batch)
        shared = batch.group_reward
        if shared is not None and not shared.dot(shared) <= _most_squared(shared.dtype):
            self._refuse_non_finite("group reward", shared)

    def _check_mask(self, what: str, mask: Any, shape: tuple[int, int]) -> None:
        if not isinstance(mask, np.ndarray) or mask.shape != shape or mask.dtype != _BOOL:
            self._refuse(what, f"{shown(mask)}, not an array of booleans of shape {list(shape)}")

    def _warn_of_lost_rewards(self, batch: AgentBatch) -> None:
        """Warn once of a reward in a row whose transition stays open; an aborted episode is dropped with its reward."""
        taken = batch.transition_closed
        assert taken is not None
        if batch.aborted is not None:
            taken = taken | batch.aborted
        for what in ("reward", "group_reward"):
            rewards = getattr(batch, what)
            if rewards is None or not (lost := (rewards != 0) & ~taken).any():
                continue
            self._warned_of_lost = True
            slot = int(lost.argmax())
            log.warning(
                "behavior %r: %s of %s is %g %s, although needs_action is False and no episode ended there; it is "
                "ignored: add up what the agent gets until it acts next, and give the sum then (reported once)",
                self._spec.name, what, slot_named(self._spec, slot), rewards[slot], self._when(),
            )  # fmt: skip
            return

    # ------------------------------------------------------------ a batch that looks other than the one before

    def _check_contract(self, batch: Any) -> None:
        """Raise EnvironmentFailed unless shapes and kinds are those of the contract."""
        if not isinstance(batch, AgentBatch):
            self._refuse("its entry in the batches", f"{shown(batch)}, not an AgentBatch")
        self._check_array("reward", batch.reward, "f")
        for what in ("terminated", "truncated"):
            self._check_array(what, getattr(batch, what), "b")
        if not isinstance(batch.observations, Mapping):
            self._refuse("observations", f"{shown(batch.observations)}, not a mapping of arrays by name")
        for spec in self._spec.observations:
            what = f"observation {spec.name!r}"
            array = self._present(batch.observations, spec.name, what)
            self._check_observation(what, array, spec, self._spec.slots, "slot")
        ended = batch.ended
        if not isinstance(ended, np.ndarray) or ended.ndim != 1 or ended.dtype.kind not in "iu":
            self._refuse("ended", f"{shown(ended)}, not an array of row numbers")
        if not ended.size and (batch.terminated.any() or batch.truncated.any()):
            flagged = np.flatnonzero(batch.terminated | batch.truncated)
            self._refuse("ended", f"is empty where terminated or truncated are set in {_some(flagged)}")

    def _present(self, arrays: Mapping[str, Any], name: str, what: str) -> Any:
        if name not in arrays:
            self._refuse(what, f"is missing; there are {', '.join(map(repr, arrays)) or 'none'}")
        return arrays[name]

    def _check_array(self, what: str, array: Any, kind: str) -> None:
        """``array`` [S] of numbers of this ``kind``."""
        if not isinstance(array, np.ndarray) or array.shape != self._flat or array.dtype.kind != kind:
            wanted = "booleans" if kind == "b" else "real numbers"
            self._refuse(what, f"{shown(array)}, not an array of {wanted} of shape {list(self._flat)}, the slots")

    def _check_observation(self, what: str, array: Any, spec: ObservationSpec, rows: int, each: str) -> None:
        shape = (rows, *spec.shape)
        if not isinstance(array, np.ndarray) or array.shape != shape:
            self._refuse(what, f"{shown(array)}, not of shape {list(shape)}: {list(spec.shape)} for each {each}")
        # A float64 becomes a float32 where it is stored, which costs digits; 300 would become 44 in a uint8.
        fits = array.dtype.kind == "f" if spec.dtype.kind == "f" else np.can_cast(array.dtype, spec.dtype, "safe")
        if not fits:
            self._refuse(what, f"is of dtype {array.dtype}, which its behavior declares as {spec.dtype}")

    # ------------------------------------------------------------ the first batches

    def _check_values(self, batch: AgentBatch) -> None:
        """Warn, once for each observation, of values that its spec does not allow."""
        self._first -= 1
        for spec in self._spec.observations:
            what = f"observation {spec.name!r}"
            if spec.name in self._warned_of or (spec.kind != "one_hot" and spec.low is None and spec.high is None):
                continue
            self._warn_of_values(what, batch.observations[spec.name], spec, np.arange(self._spec.slots))
            if batch.ended.size and batch.final_observations is not None and spec.name not in self._warned_of:
                self._warn_of_values(f"final {what}", batch.final_observations[spec.name], spec, batch.ended)

    def _warn_of_values(self, what: str, values: NDArray[Any], spec: ObservationSpec, slots: NDArray[np.intp]) -> None:
        wrong = outside_bounds(spec, values)
        if not wrong.any():
            return
        self._warned_of.add(spec.name)
        allowed = "0 and 1, the only values of an indicator"
        if spec.kind != "one_hot":
            index = tuple(np.argwhere(wrong)[0].tolist())[1:]
            lowest, highest = (float(np.broadcast_to(bound, spec.shape)[index]) for bound in _bounds(spec))
            allowed = f"its bounds {lowest:g} to {highest:g}"
        log.warning(
            "behavior %r: %s of %s %s, outside %s; it is used as it is: correct the environment or what it declares "
            "(reported once)",
            self._spec.name, what, self._place(values, wrong, slots), self._when(), allowed,
        )  # fmt: skip

    def _place(self, values: NDArray[Any], wrong: NDArray[np.bool_], slots: NDArray[np.intp]) -> str:
        """``slot 1 (environment 1) is 1e+06 at [2]`` for the first value that is ``wrong``."""
        row, *index = np.argwhere(wrong)[0].tolist()
        at = f" at {index}" if index else ""
        return f"{slot_named(self._spec, int(slots[row]))} is {float(values[(row, *index)]):g}{at}"

    # ------------------------------------------------------------ what is wrong

    def _refuse(self, what: str, problem: str) -> NoReturn:
        raise EnvironmentFailed(f"behavior {self._spec.name!r}: {what} {problem} ({self._when()}); {_FIX}")

    def _refuse_non_finite(self, what: str, values: NDArray[Any], slots: NDArray[np.intp] | None = None) -> None:
        """Raise NonFiniteError for the first row of ``values`` [K, ...] that is not finite as float32, if any."""
        found = not_finite_as_float32(values)
        if found is None:
            return
        row, text, fix = found
        slot = row if slots is None else int(slots[row])
        raise NonFiniteError(
            f"behavior {self._spec.name!r}: {what} of {slot_named(self._spec, slot)} is {text} {self._when()}; {fix}",
            int(self._spec.env_index[slot]),
            latest=what.startswith("observation"),
        )


def _most_squared(dtype: np.dtype[Any]) -> np.floating[Any] | float:
    """The largest sum of squares whose terms are certainly finite as float32."""
    return LARGEST**2 if dtype.itemsize > 4 else dtype.type(np.finfo(dtype).max) if dtype.kind == "f" else LARGEST


def batch_of(batches: Any, name: str, environment: str, doing: str) -> AgentBatch:
    """The batch of the behavior ``name``. EnvironmentFailed unless ``doing`` of the environment returned one.

    ``environment`` is what messages call it.
    """
    try:
        batch: AgentBatch = batches[name]
    except (LookupError, TypeError):
        raise no_batch(batches, name, environment, doing) from None
    return batch


def no_batch(batches: Any, name: str, environment: str, doing: str) -> EnvironmentFailed:
    """The error if ``doing`` of the environment returned ``batches`` without one of the behavior ``name``."""
    found = f"batches of {_names(batches)}" if isinstance(batches, Mapping) else shown(batches).removeprefix("is ")
    return EnvironmentFailed(
        f"{environment}: {doing} returned {found} and none of behavior {name!r}; "
        "it must return a batch for each of its behaviors"
    )


def outside_bounds(spec: ObservationSpec, values: NDArray[Any]) -> NDArray[np.bool_]:
    """Where ``values`` [K, *shape] lie outside the bounds of their observation, or are not indicators."""
    outside: NDArray[np.bool_]
    if spec.kind == "one_hot":
        outside = (values != 0) & (values != 1)
        return outside
    low, high = _bounds(spec)
    # Bounds are exact numbers and values may be rounded sums: a millionth more is not a mistake.
    below, above = (1e-6 * np.maximum(1.0, np.abs(bound)) for bound in (low, high))
    outside = (values < low - below) | (values > high + above)
    return outside


def _bounds(spec: ObservationSpec) -> tuple[NDArray[Any] | float, NDArray[Any] | float]:
    return (-np.inf if spec.low is None else spec.low), (np.inf if spec.high is None else spec.high)


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

    array: Any
    wrong: NDArray[np.bool_]
    for group, columns, kind in (("continuous", spec.continuous, "f"), ("discrete", len(spec.discrete), "iu")):
        array = getattr(actions, group, None)
        shape = (spec.slots, columns)
        if not columns:
            continue
        real = kind == "f"
        if not isinstance(array, np.ndarray) or array.shape != shape or array.dtype.kind not in kind:
            wanted = f"an array of {'real' if real else 'whole'} numbers of shape {list(shape)}"
            refuse(f"{group} actions: {shown(array)}, not {wanted}")
        wrong = ~np.isfinite(array) if real else (array < 0) | (array >= np.array(spec.discrete))
        if needs_action is not None and needs_action.shape == wrong.shape[:1]:
            wrong &= needs_action[:, None]
        if not wrong.any():
            continue
        slot, column = np.argwhere(wrong)[0].tolist()
        place = f"{slot_named(spec, slot)} is {array[slot, column]:g} at [{column}]"
        if real:
            raise TrainingDiverged(
                f"behavior {spec.name!r}: the action of {place} at step {step}, although observations and rewards are "
                f"finite: its policy has diverged; {TrainingDiverged.ADVICE}"
            )
        refuse(f"the action of {place}, and that branch has {spec.discrete[column]} options")


def slot_named(spec: BehaviorSpec, slot: int) -> str:
    """The name of a slot in messages: ``slot 3 (environment 1)``."""
    return f"slot {slot} (environment {int(spec.env_index[slot])})"


def _names(names: Iterable[str]) -> str:
    return ", ".join(map(repr, names)) or "no behavior"


def _some(rows: NDArray[Any]) -> str:
    shown = rows[:8].tolist()
    return f"{shown}" if len(rows) <= 8 else f"{str(shown)[:-1]}, ...]"


def shown(value: Any) -> str:
    """The kind of a value in messages: ``is an array of float32 of shape [4]``."""
    if isinstance(value, np.ndarray):
        return f"is an array of {value.dtype} of shape {list(value.shape)}"
    return "is None" if value is None else f"is a {type(value).__name__}"
