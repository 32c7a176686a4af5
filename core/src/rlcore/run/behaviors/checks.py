"""Check the batches of an environment before anything learns from them or acts on them.

Every array has its shape and kind of numbers compared, and every value must be finite. Many environments return the
same array objects in every step, with other numbers in them: those need no second comparison of shape and kind. Values
are compared with the bounds of their observation, and with the digits that float32 has, in the first batches only.
"""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable, Mapping
from typing import Any, NoReturn

import attrs
import numpy as np
from numpy.typing import NDArray

from rlcore.contracts.batches import AgentBatch
from rlcore.contracts.behavior_spec import BehaviorSpec, ObservationSpec
from rlcore.contracts.finite import LARGEST, not_finite_as_float32
from rlcore.errors import EnvironmentFailed, NonFiniteError, UnsupportedSpace
from rlcore.run.behaviors.actions import kind_of, slot_named
from rlcore.run.behaviors.precision import DigitCheck

log = logging.getLogger(__name__)

# Up to this many numbers, looking at their bytes takes less time than a product of numpy, from 0.4 to 0.9 of it.
FEW_NUMBERS = 128
# How many batches of a behavior, from the first, have their values compared with bounds.
FIRST_BATCHES = 100

_BOOL = np.dtype(np.bool_)
_REAL = np.dtype(np.float32)
# The bytes of float32 numbers that have the sign and all but one bit of the exponent.
_EXPONENTS = slice(3 if sys.byteorder == "little" else 0, None, 4)
_NOTHING: NDArray[np.float32] = np.empty(0, np.float32)
_UNKNOWN = np.full(1, np.nan)  # in place of numbers that no flat view has, so that they are always looked at


@attrs.define(eq=False)
class _Observed:
    """One observation, or the rewards, and the array of it in the latest batch."""

    spec: ObservationSpec
    shape: tuple[int, ...]  # [S, *shape]
    what: str = attrs.field(init=False)
    array: NDArray[Any] | None = None  # of which shape and dtype are known to be right
    values: NDArray[Any] = _NOTHING  # a view of its real numbers: flat, if they are not few
    few: bool = True  # whether they are float32 and at most FEW_NUMBERS

    def __attrs_post_init__(self) -> None:
        self.what = f"observation {self.spec.name!r}"

    def note(self, array: NDArray[Any]) -> None:
        """``array`` has the right shape and dtype."""
        self.array = array
        if self.spec.dtype.kind != "f":
            return
        self.few = array.dtype == _REAL and array.size <= FEW_NUMBERS
        if self.few:
            self.values = array
        elif array.flags.c_contiguous:
            self.values = array.reshape(-1)
        else:
            self.values = _UNKNOWN


class BatchCheck:
    """Refuses batches of one behavior that its :class:`~rlcore.BehaviorSpec` does not describe.

    Every batch has its shapes, kinds of numbers and flags checked, and that reward and observations are finite. In the
    first :data:`FIRST_BATCHES` batches a value outside its observation's bounds, or an
    indicator other than 0 and 1, gives a warning, one for each observation; and the last of them gives one warning for
    each observation that is large and changes too little for float32.

    Attributes:
        environment: The name of the environment in messages.
        began: Describes what the episode of an environment began with, the latest one or the one before; None where
            environments have no parameters.
        takes_no_turns: Who learns the behavior and needs all agents to act in every step; None if agents may wait.
    """

    def __init__(self, spec: BehaviorSpec, when: Callable[[], str], first: int = FIRST_BATCHES) -> None:
        """``when`` completes messages: ``"at step 60"``. In the ``first`` batches, values are compared with bounds."""
        self.environment = "environment"
        self.began: Callable[[int, bool], str] | None = None
        self.takes_no_turns: str | None = None
        self._spec = spec
        self._name = spec.name
        self._when = when
        self._flat = (spec.slots,)
        self._branches = np.cumsum((0, *spec.discrete))[:-1]  # first column of each in a mask
        self._unset = bytes(spec.slots)  # flags none of which is set
        # Of the latest batch: arrays of which shape and kind are known to be right.
        self._rewards = _Observed(ObservationSpec("reward", (), np.float32), self._flat)
        self._terminated: NDArray[np.bool_] | None = None
        self._truncated: NDArray[np.bool_] | None = None
        self._observed: list[_Observed] = []
        self._digits: list[DigitCheck] = []
        for observation in spec.observations:
            shape = (spec.slots, *observation.shape)
            self._observed.append(_Observed(observation, shape))
            if observation.dtype.kind == "f":
                self._digits.append(DigitCheck(observation))
        self._first = first  # batches whose values are still to be compared with bounds
        self._warned_of: set[str] = set()  # observations with values outside their bounds
        self._warned_of_lost = False

    def batch_in(self, batches: Mapping[str, AgentBatch], doing: str) -> AgentBatch:
        """Return the checked batch of the behavior in what the method ``doing`` of the environment returned.

        Raises EnvironmentFailed for a batch that breaks its contract, NonFiniteError for a NaN or an infinity.
        """
        try:
            batch = batches[self._name]
        except (LookupError, TypeError):
            returned = kind_of(batches).removeprefix("is ")
            if isinstance(batches, Mapping):
                names = ", ".join(map(repr, batches)) or "no behavior"
                returned = f"batches of {names}"
            raise EnvironmentFailed(
                f"{self.environment}: {doing} returned {returned} and none of behavior {self._name!r}; it must return "
                "a batch for each of its behaviors"
            ) from None
        try:
            reward = batch.reward
            terminated = batch.terminated
            truncated = batch.truncated
            rewards = self._rewards
            # Many environments return the same arrays in every step: their shapes were compared before.
            if reward is not rewards.array or terminated is not self._terminated or truncated is not self._truncated:
                self._require("reward", reward, self._flat, _REAL)
                self._require("terminated", terminated, self._flat, _BOOL)
                self._require("truncated", truncated, self._flat, _BOOL)
                rewards.note(reward)
                self._terminated = terminated
                self._truncated = truncated
            # x . x is small, and no exponent in x is 0xfe or 0xff, unless x has a NaN or an infinity, or is huge: only
            # then look closer.
            observations = batch.observations
            few = b""
            sound = True
            if rewards.few:
                few = reward.tobytes()
            else:
                sound = float(reward.dot(reward)) <= LARGEST
            for observed in self._observed:
                array = observations[observed.spec.name]
                if array is not observed.array:
                    self._require(observed.what, array, observed.shape, observed.spec.dtype)
                    observed.note(array)
                values = observed.values
                if observed.few:
                    few += values.tobytes()
                else:
                    sound &= float(values.dot(values)) <= LARGEST
            # IEEE 754: a NaN and an infinity have the exponent 0xff. The byte lacks its last bit, so 0x7f, or 0xff with
            # the sign, may stand for 0xfe too: hence the closer look.
            exponents = few[_EXPONENTS]
            if not sound or 0x7F in exponents or 0xFF in exponents:
                self._look_closer(batch)
            # Bytes show whether a flag is set in a tenth of the time of any().
            unset = self._unset
            if batch.ended.size or terminated.tobytes() != unset or truncated.tobytes() != unset:
                self._check_ended(batch)
            self._check_options(batch)
        except (AttributeError, LookupError, TypeError):  # asked only now, which costs sound batches nothing
            self._explain(batch)
            raise
        if self._first:
            self._first -= 1
            self._check_values(batch)
            self._check_digits(batch)
        return batch

    def check(self, batch: AgentBatch) -> None:
        """Raise what :meth:`batch_in` does for a ``batch`` of the behavior."""
        self.batch_in({self._name: batch}, "check")

    # ------------------------------------------------------------ every batch

    def _look_closer(self, batch: AgentBatch) -> None:
        """Raise NonFiniteError if a reward or an observation is not finite as float32."""
        self._refuse_non_finite("reward", batch.reward)
        for observed in self._observed:
            self._refuse_non_finite(observed.what, batch.observations[observed.spec.name], latest=True)

    def _check_ended(self, batch: AgentBatch) -> None:
        """What only a batch with ends has: their rows, and what was seen last."""
        ended = batch.ended
        (flagged,) = (batch.terminated | batch.truncated).nonzero()
        if flagged.tolist() != ended.tolist():
            self._refuse("ended", f"is {_some(ended)} where terminated or truncated are set in {_some(flagged)}")
        finals = batch.final_observations
        if not isinstance(finals, Mapping):
            self._refuse("final_observations", f"{kind_of(finals)} although episodes ended in slots {_some(ended)}")
        count = len(ended)
        for observed in self._observed:
            what = f"final {observed.what}"
            spec = observed.spec
            final = self._present(finals, spec.name, what)
            self._require(what, final, (count, *spec.shape), spec.dtype)
            if spec.dtype.kind == "f" and not float(np.vdot(final, final)) <= LARGEST:
                self._refuse_non_finite(what, final, ended)
        info = batch.final_info
        if info is not None:
            if not isinstance(info, Mapping):
                self._refuse("final_info", f"{kind_of(info)}, not a mapping of arrays by name")
            for name, array in info.items():  # NaN is allowed
                self._require(f"final_info {name!r}", array, (count,), _REAL)
        mask = batch.final_action_mask
        if mask is not None:
            self._require("final_action_mask", mask, (count, self._spec.mask_size), _BOOL)
            self._refuse_barred("final_action_mask", mask, ended)

    def _check_options(self, batch: AgentBatch) -> None:
        """The arrays that a batch may leave out."""
        group_reward = batch.group_reward
        if group_reward is not None:
            self._require("group_reward", group_reward, self._flat, _REAL)
        acts = batch.needs_action
        if acts is not None:
            self._require("needs_action", acts, self._flat, _BOOL)
        if batch.aborted is not None:
            self._require("aborted", batch.aborted, self._flat, _BOOL)
        if batch.life_lost is not None:
            self._require("life_lost", batch.life_lost, self._flat, _BOOL)
        mask = batch.action_mask
        if mask is not None:
            slots = self._spec.slots
            self._require("action_mask", mask, (slots, self._spec.mask_size), _BOOL)
            acting = np.arange(slots)
            if acts is not None:  # an agent that waits, or whose environment was lost, chooses nothing
                acting = acting[acts]
                mask = mask[acts]
            self._refuse_barred("action_mask", mask, acting)
        if acts is not None:
            if self.takes_no_turns is not None and not acts.all():
                slot = slot_named(self._spec, int(acts.argmin()))
                raise UnsupportedSpace(
                    f"behavior {self._name!r}: {self.takes_no_turns} does not learn where agents act in turns, "
                    f"and {slot} needs no action {self._when()}; choose another trainer_type"
                )
            if not self._warned_of_lost:
                self._warn_of_lost_rewards(batch)
        if group_reward is not None and not float(group_reward.dot(group_reward)) <= LARGEST:
            self._refuse_non_finite("group reward", group_reward)

    def _refuse_barred(self, what: str, mask: NDArray[np.bool_], slots: NDArray[np.integer[Any]]) -> None:
        """Raise EnvironmentFailed for a branch in which ``mask`` [K, mask_size] of ``slots`` [K] allows nothing."""
        if not self._branches.size:
            return
        allowed = np.logical_or.reduceat(mask, self._branches, axis=1)
        if not allowed.all():
            row, branch = np.argwhere(~allowed)[0].tolist()
            slot = slot_named(self._spec, int(slots[row]))
            self._refuse(what, f"allows no option of branch {branch} in the row of {slot}")

    def _warn_of_lost_rewards(self, batch: AgentBatch) -> None:
        """Warn once of a reward in a row whose transition stays open; an aborted episode is dropped with its reward."""
        closed = batch.transition_closed
        assert closed is not None, "some agent may wait"
        still_open = ~closed
        if batch.aborted is not None:
            still_open &= ~batch.aborted
        for what in ("reward", "group_reward"):
            rewards = getattr(batch, what)
            if rewards is None:
                continue
            lost = (rewards != 0) & still_open
            if not lost.any():
                continue
            self._warned_of_lost = True
            slot = int(lost.argmax())
            log.warning(
                "behavior %r: %s of %s is %g %s, although needs_action is False and no episode ended there; it is "
                "ignored: add up what the agent gets until it acts next, and give the sum then (reported once)",
                self._name,
                what,
                slot_named(self._spec, slot),
                rewards[slot],
                self._when(),
            )
            return

    # ------------------------------------------------------------ the first batches

    def _check_values(self, batch: AgentBatch) -> None:
        """Warn, once for each observation, of values that its spec does not allow."""
        finals = batch.final_observations or {}
        all_slots = np.arange(self._spec.slots)
        for observed in self._observed:
            spec = observed.spec
            self._warn_of_values(observed.what, batch.observations[spec.name], spec, all_slots)
            if spec.name in finals:
                self._warn_of_values(f"final {observed.what}", finals[spec.name], spec, batch.ended)

    def _warn_of_values(self, what: str, values: NDArray[Any], spec: ObservationSpec, slots: NDArray[np.intp]) -> None:
        if spec.name in self._warned_of:
            return
        wrong = outside_bounds(spec, values)
        if not wrong.any():
            return
        self._warned_of.add(spec.name)
        row, *index = np.argwhere(wrong)[0].tolist()
        place = tuple(index)
        allowed = "0 and 1, the only values of an indicator"
        if spec.kind != "one_hot":
            low, high = _bounds(spec)
            lowest = float(np.broadcast_to(low, spec.shape)[place])
            highest = float(np.broadcast_to(high, spec.shape)[place])
            allowed = f"its bounds {lowest:g} to {highest:g}"
        log.warning(
            "behavior %r: %s of %s is %g%s %s, outside %s; it is used as it is: correct the environment or what it "
            "declares (reported once)",
            self._name,
            what,
            slot_named(self._spec, int(slots[row])),
            values[(row, *place)],
            f" at {index}" if index else "",
            self._when(),
            allowed,
        )

    def _check_digits(self, batch: AgentBatch) -> None:
        """Warn, after the last of the first batches, of observations of which float32 keeps no digits."""
        for digits in self._digits:
            digits.look(batch)
        if self._first:
            return
        for digits in self._digits:
            lost = digits.lost()
            if lost is None:
                continue
            place = f" at {lost.index}" if lost.index else ""
            log.warning(
                "behavior %r: observation %r of %s is %.10g%s and changed by at most %.3g from step to step, but "
                "float32, in which it is learned from, has no numbers between that and %g more: subtract an offset, "
                "such as the value at the beginning of the episode, in the environment or a wrapper (reported once)",
                self._name,
                digits.spec.name,
                slot_named(self._spec, lost.slot),
                lost.value,
                place,
                lost.change,
                lost.distance,
            )
        self._digits = []  # frees what was kept of the batch before

    # ------------------------------------------------------------ what is wrong

    def _require(self, what: str, array: Any, shape: tuple[int, ...], dtype: np.dtype[Any]) -> None:
        """Raise EnvironmentFailed unless ``array`` has this shape and kind of numbers."""
        real = dtype.kind == "f"
        if isinstance(array, np.ndarray) and array.shape == shape:
            if array.dtype == dtype:
                return
            # A float64 becomes a float32 where it is stored, which costs digits; 300 would become 44 in a uint8.
            fits = array.dtype.kind == "f" if real else np.can_cast(array.dtype, dtype)
            if fits:
                return
        wanted = str(dtype)
        if real:
            wanted = "real numbers"
        elif dtype == _BOOL:
            wanted = "booleans"
        self._refuse(what, f"{kind_of(array)}, not an array of {wanted} of shape {list(shape)}")

    def _present(self, arrays: Mapping[str, Any], name: str, what: str) -> Any:
        if name not in arrays:
            names = ", ".join(map(repr, arrays)) or "none"
            self._refuse(what, f"is missing; there are {names}")
        return arrays[name]

    def _explain(self, batch: Any) -> None:
        """Raise EnvironmentFailed if ``batch`` lacks what every batch has."""
        if not isinstance(batch, AgentBatch):
            self._refuse("its entry in the batches", f"{kind_of(batch)}, not an AgentBatch")
        if not isinstance(batch.observations, Mapping):
            self._refuse("observations", f"{kind_of(batch.observations)}, not a mapping of arrays by name")
        for observed in self._observed:
            self._present(batch.observations, observed.spec.name, observed.what)
        if not isinstance(batch.ended, np.ndarray):
            self._refuse("ended", f"{kind_of(batch.ended)}, not an array of row numbers")

    def _refuse(self, what: str, problem: str) -> NoReturn:
        raise EnvironmentFailed(
            f"behavior {self._name!r}: {what} {problem} ({self._when()}); fix the environment, so that it returns what "
            "its behavior says"
        )

    def _refuse_non_finite(
        self, what: str, values: NDArray[Any], slots: NDArray[np.intp] | None = None, latest: bool = False
    ) -> None:
        """Raise NonFiniteError for the first row of ``values`` [K, ...] that is not finite as float32, if any.

        ``latest``: the value belongs to the episode that its environment is in after the step.
        """
        wrong = not_finite_as_float32(values)
        if wrong is None:
            return
        row, text, fix = wrong
        slot = row if slots is None else int(slots[row])
        began = ""
        if self.began is not None:
            env = int(self._spec.env_index[slot])
            began = f" (its episode began with {self.began(env, latest)})"
        place = slot_named(self._spec, slot)
        raise NonFiniteError(f"behavior {self._name!r}: {what} of {place} is {text} {self._when()}; {fix}{began}")


def outside_bounds(spec: ObservationSpec, values: NDArray[Any]) -> NDArray[np.bool_]:
    """Where ``values`` [K, *shape] lie outside the bounds of their observation, or are not indicators."""
    outside: NDArray[np.bool_]
    if spec.kind == "one_hot":
        outside = (values != 0) & (values != 1)
        return outside
    if spec.low is None and spec.high is None:
        return np.zeros(values.shape, np.bool_)
    low, high = _bounds(spec)
    # Bounds are exact numbers and values may be rounded sums: a millionth more is not a mistake.
    lowest = low - 1e-6 * np.maximum(1.0, np.abs(low))
    highest = high + 1e-6 * np.maximum(1.0, np.abs(high))
    outside = (values < lowest) | (values > highest)
    if spec.kind == "entities":  # one whose numbers are all 0 is absent, and has no bounds
        outside &= values.any(axis=-1, keepdims=True)
    return outside


def _bounds(spec: ObservationSpec) -> tuple[NDArray[Any] | float, NDArray[Any] | float]:
    low = -np.inf if spec.low is None else spec.low
    high = np.inf if spec.high is None else spec.high
    return low, high


def _some(rows: NDArray[Any]) -> str:
    """The first row numbers, for messages."""
    numbers = [str(row) for row in rows[:8].tolist()]
    if len(rows) > len(numbers):
        numbers.append("...")
    return f"[{', '.join(numbers)}]"
