"""One batch for the environments of all workers: each worker writes its rows, the run reads the whole arrays.

All arrays are in one piece of memory, which processes can share: :mod:`rlcore_workers.layout`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from math import isfinite
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rlcore import (
    Actions,
    AgentBatch,
    BehaviorSpec,
    EnvironmentFailed,
    NonFiniteError,
    fill,
    not_finite_as_float32,
    saved_array,
    saved_mapping,
)
from rlcore_workers.layout import OPTIONAL, OPTIONAL_DEFAULTS, Layout, Rows

__all__ = ["PartArrays", "RunArrays"]

NEEDS_ACTION = OPTIONAL.index("needs_action")


class RunArrays:
    """The arrays of a :class:`Layout` in ``memory``, at least ``layout.size`` bytes.

    Attributes:
        layout: Where the arrays are.
        fields: All arrays, by the keys of ``layout.fields``.
        episodes: [N] number of the episode that each environment is in.
        begin: [N] number of the episode that ``reset`` starts in each environment.
        parameters: [N, P] values of the environment parameters in the next episode of each environment.
        busy: [parts] seconds that each worker has spent in steps of its environments; 0 where it shares no memory.
    """

    def __init__(self, layout: Layout, memory: Any) -> None:
        self.layout = layout
        self.fields = {
            key: np.ndarray(shape, dtype, memory, offset) for key, (offset, shape, dtype) in layout.fields.items()
        }
        self.episodes: NDArray[np.int64] = self.fields["episodes",]
        self.begin: NDArray[np.int64] = self.fields["begin",]
        self.parameters: NDArray[np.float64] = self.fields["parameters",]
        self.busy: NDArray[np.float64] = self.fields["busy",]
        self._behaviors = {name: _BehaviorArrays(self.fields, spec) for name, spec in layout.behaviors.items()}

    def fill_defaults(self) -> None:
        """Fill arrays that a batch may leave out with what leaving them out means; the run calls it, once."""
        for arrays in self._behaviors.values():
            for what, array in arrays.optional.items():
                array[...] = OPTIONAL_DEFAULTS[what]

    def put_actions(self, actions: Mapping[str, Actions], parts: Iterable[int] | None = None) -> None:
        """Store the actions of the slots of these workers, or of all."""
        for name, arrays in self._behaviors.items():
            if parts is None:
                arrays.put_actions(actions[name], slice(None))
            else:
                for part in parts:
                    arrays.put_actions(actions[name], self.layout.rows[part][name])

    def part(self, number: int) -> PartArrays:
        """The rows of one worker."""
        return PartArrays(self, number)

    def batches(
        self, final_info: Mapping[int, Mapping[str, Mapping[str, NDArray[Any]]]], lost: Collection[int] = ()
    ) -> dict[str, AgentBatch]:
        """The batch of each behavior, of all workers. The arrays, [S, ...], are valid until workers write again.

        ``final_info``, [K] by name, is that of each worker that reported some, by behavior. ``lost`` are workers whose
        episodes were aborted: their rows hold the first observations of other episodes.
        """
        batches = {}
        for name, arrays in self._behaviors.items():
            batch = batches[name] = arrays.batch()
            if lost:
                aborted = np.zeros(arrays.spec.slots, np.bool_) if batch.aborted is None else batch.aborted.copy()
                for part in lost:
                    aborted[self.layout.rows[part][name]] = True
                batch.aborted = aborted
            if final_info and batch.ended.size:
                rows = {part: self.layout.rows[part][name] for part, own in final_info.items() if name in own}
                if rows:
                    infos = [(rows[part], final_info[part][name]) for part in rows]
                    batch.final_info = arrays.joined_info(batch.ended, infos)
        return batches

    def copy_part(self, source: RunArrays, part: int) -> None:
        """Copy what a worker wrote from other arrays of the layout. Agents act if nothing says that they wait."""
        for name, arrays in self._behaviors.items():
            arrays.copy_rows(source._behaviors[name], self.layout.rows[part][name], part)

    def rest(self, part: int) -> None:
        """Make the agents of a worker wait: no rewards, no ends, and the observations that they had."""
        for name, arrays in self._behaviors.items():
            rows = self.layout.rows[part][name]
            for array in (arrays.reward, arrays.optional["group_reward"]):
                array[rows] = 0.0
            for array in (
                arrays.terminated,
                arrays.truncated,
                arrays.optional["needs_action"],
                arrays.optional["aborted"],
            ):
                array[rows] = False
            arrays.present[part, NEEDS_ACTION] = True

    def seen(self) -> dict[str, Any]:
        """Return what agents see, and which of them act, for a checkpoint."""
        return {name: arrays.seen() for name, arrays in self._behaviors.items()}

    def load_seen(self, state: Mapping[str, Any]) -> None:
        """Continue from :meth:`seen`, without rewards and ends. Raises SavedValueError for other shapes."""
        for name, arrays in self._behaviors.items():
            arrays.load_seen(saved_mapping(state, name))

    def silence(self, part: int) -> None:
        """Make the rows of a worker those of agents that do not act: their environments are not there any more."""
        for name, arrays in self._behaviors.items():
            rows = self.layout.rows[part][name]
            for array in (arrays.reward, *arrays.observations.values()):  # the worker may have failed while it wrote
                array[rows] = 0
            arrays.terminated[rows] = arrays.truncated[rows] = False
            for what, value in {**OPTIONAL_DEFAULTS, "needs_action": False}.items():
                arrays.optional[what][rows] = value
            arrays.present[part] = False
            arrays.present[part, NEEDS_ACTION] = True


class _BehaviorArrays:
    """The arrays of one behavior, for all S slots."""

    def __init__(self, fields: Mapping[tuple[str, ...], NDArray[Any]], spec: BehaviorSpec) -> None:
        name = spec.name
        self.spec = spec
        self.observations = {o.name: fields[name, "observations", o.name] for o in spec.observations}
        self.finals = {o.name: fields[name, "final_observations", o.name] for o in spec.observations}
        self.reward, self.terminated, self.truncated = (
            fields[name, what] for what in ("reward", "terminated", "truncated")
        )
        self.optional = {what: fields[name, what] for what in OPTIONAL}
        self.present: NDArray[np.bool_] = fields[name, "present"]  # [parts, optional]
        self.continuous = fields[name, "continuous"] if spec.continuous else None
        self.discrete = fields[name, "discrete"] if spec.discrete else None
        self._none_present = bytes(self.present.size)
        self._unset = bytes(spec.slots)
        self._none: NDArray[np.intp] = np.empty(0, np.intp)

    def put_actions(self, actions: Actions, rows: Rows) -> None:
        for mine, given in ((self.continuous, actions.continuous), (self.discrete, actions.discrete)):
            if mine is not None:
                assert given is not None
                mine[rows] = given[rows]

    def batch(self) -> AgentBatch:
        ended = self._none
        finals: dict[str, NDArray[Any]] | None = None
        if self.terminated.tobytes() != self._unset or self.truncated.tobytes() != self._unset:
            ended = np.flatnonzero(self.terminated | self.truncated)
            finals = {name: array[ended] for name, array in self.finals.items()}
        batch = AgentBatch(self.observations, self.reward, self.terminated, self.truncated, ended, finals)
        if self.present.tobytes() != self._none_present:
            for what, there in zip(OPTIONAL, np.atleast_1d(self.present.any(axis=0)), strict=True):
                if there and what != "final_action_mask":
                    setattr(batch, what, self.optional[what])
                elif there and ended.size:
                    batch.final_action_mask = self.optional[what][ended]
        return batch

    def joined_info(
        self, ended: NDArray[np.intp], infos: Sequence[tuple[Rows, Mapping[str, NDArray[Any]]]]
    ) -> dict[str, NDArray[np.float64]]:
        """``final_info`` [K] of all workers; NaN where a worker did not report a number."""
        every = np.arange(self.spec.slots)
        over = self.terminated | self.truncated
        joined: dict[str, NDArray[np.float64]] = {}
        for rows, info in infos:
            mine = every[rows]
            places = np.searchsorted(ended, mine[over[mine]])
            for name, values in info.items():
                column = joined.setdefault(name, np.full(len(ended), np.nan))
                column[places] = values
        return joined

    def copy_rows(self, source: _BehaviorArrays, rows: Rows, part: int) -> None:
        self.reward[rows] = source.reward[rows]
        self.terminated[rows] = source.terminated[rows]
        self.truncated[rows] = source.truncated[rows]
        for name, mine in self.observations.items():
            mine[rows] = source.observations[name][rows]
        there = source.present[part].tolist()
        for column, what in enumerate(OPTIONAL):
            if there[column] or self.present[part, column]:
                self.optional[what][rows] = source.optional[what][rows]
            self.present[part, column] = there[column] or what == "needs_action"
        over = self.terminated[rows] | self.truncated[rows]
        if over.any():
            ended = np.arange(self.spec.slots)[rows][over]
            for name, mine in self.finals.items():
                mine[ended] = source.finals[name][ended]

    def seen(self) -> dict[str, Any]:
        return {
            "needs_action": self.optional["needs_action"].copy(),
            "action_mask": self.optional["action_mask"].copy(),
            "masked": self.present[:, OPTIONAL.index("action_mask")].copy(),
            "observations": {name: array.copy() for name, array in self.observations.items()},
        }

    def load_seen(self, state: Mapping[str, Any]) -> None:
        fill(self.optional["needs_action"], state, "needs_action")
        fill(self.optional["action_mask"], state, "action_mask")
        self.present[:] = False
        self.present[:, NEEDS_ACTION] = True
        self.present[:, OPTIONAL.index("action_mask")] = saved_array(state, "masked", np.bool_, (len(self.present),))
        for name, array in self.observations.items():
            fill(array, saved_mapping(state, "observations"), name)
        self.reward[:] = 0.0
        self.terminated[:] = self.truncated[:] = self.optional["aborted"][:] = False
        self.optional["group_reward"][:] = 0.0


class PartArrays:
    """The rows of one worker in the arrays of the run."""

    def __init__(self, arrays: RunArrays, number: int) -> None:
        layout = arrays.layout
        envs = slice(layout.bounds[number], layout.bounds[number + 1])
        self.begin: NDArray[np.int64] = arrays.begin[envs]
        self.parameters: NDArray[np.float64] = arrays.parameters[envs]
        self.busy: NDArray[np.float64] = arrays.busy[number : number + 1]
        self._episodes: NDArray[np.int64] = arrays.episodes[envs]
        self._behaviors = {
            name: _PartOfBehavior(arrays._behaviors[name], layout.rows[number][name], number)
            for name in layout.behaviors
        }

    def actions(self) -> dict[str, Actions]:
        """The actions of this worker's slots. The arrays may be views of the run's."""
        return {name: mine.actions() for name, mine in self._behaviors.items()}

    def put(self, batches: Mapping[str, AgentBatch], episodes: NDArray[np.int64]) -> dict[str, Any] | None:
        """Write the batches of this worker's environments, which are in ``episodes`` [number of them].

        Returns ``final_info`` by behavior, None if there is none.
        Raises EnvironmentFailed for an array that does not fit its behavior, NonFiniteError for a NaN or an infinity.
        """
        infos: dict[str, Any] | None = None
        for name, mine in self._behaviors.items():
            info = mine.put(batches[name])
            if info is not None:
                infos = {**(infos or {}), name: info}
        self._episodes[:] = episodes
        return infos


class _PartOfBehavior:
    """The rows of one worker in the arrays of one behavior."""

    def __init__(self, arrays: _BehaviorArrays, rows: Rows, number: int) -> None:
        self._name = arrays.spec.name
        self._env_index = arrays.spec.env_index
        self._rows = rows
        self._sliced = isinstance(rows, slice)
        self._all = arrays
        self._slots = np.arange(arrays.spec.slots)[rows]
        self._present = arrays.present[number]
        # Views of these rows if they are contiguous, so that one copy without an index writes each array.
        self._reward = arrays.reward[rows]
        self._terminated = arrays.terminated[rows]
        self._truncated = arrays.truncated[rows]
        self._observations = {name: array[rows] for name, array in arrays.observations.items()}
        self._had: dict[str, bool] = {}

    def actions(self) -> Actions:
        whole = self._all
        return Actions(
            None if whole.continuous is None else whole.continuous[self._rows],
            None if whole.discrete is None else whole.discrete[self._rows],
        )

    def put(self, batch: AgentBatch) -> Mapping[str, Any] | None:
        self._write("reward", self._all.reward, self._reward, batch.reward)
        self._write("terminated", self._all.terminated, self._terminated, batch.terminated)
        self._write("truncated", self._all.truncated, self._truncated, batch.truncated)
        for name, mine in self._observations.items():
            whole = self._all.observations[name]
            self._write(f"observation {name!r}", whole, mine, _entry(batch.observations, name, self._name))
        ended = batch.ended
        for column, what in enumerate(OPTIONAL):
            array = getattr(batch, what)
            there = array is not None
            if there:
                whole = self._all.optional[what]
                final = what == "final_action_mask"
                self._check(what, whole, array, len(ended if final else self._slots))
                whole[self._slots[ended] if final else self._rows] = array
                if whole.dtype.kind == "f":
                    self._require_finite("group reward", whole[self._rows], array)
            elif self._had.get(what, True):
                self._all.optional[what][self._rows] = OPTIONAL_DEFAULTS[what]
            if there != self._had.get(what):
                self._present[column] = self._had[what] = there
        if not len(ended):
            return None
        finals = batch.final_observations
        for name, whole in self._all.finals.items():
            final = _entry(finals, name, self._name)
            self._check(f"final observation {name!r}", whole, final, len(ended))
            whole[self._slots[ended]] = final
            if whole.dtype.kind == "f":
                self._require_finite(f"final observation {name!r}", whole[self._slots[ended]], final, ended)
        return batch.final_info

    def _write(self, what: str, whole: NDArray[Any], mine: NDArray[Any], given: Any) -> None:
        self._check(what, whole, given, len(self._slots))
        if self._sliced:
            mine[...] = given
        else:
            whole[self._rows] = given
        if whole.dtype.kind == "f":
            self._require_finite(what, mine if self._sliced else whole[self._rows], given)

    def _require_finite(
        self, what: str, stored: NDArray[Any], given: NDArray[Any], rows: NDArray[np.intp] | None = None
    ) -> None:
        """Refuse ``given`` [K, ...] if what is ``stored`` of it is not finite; ``rows`` [K] are its slots."""
        flat = stored.reshape(-1)
        if isfinite(flat.dot(flat)):  # the sum of squares of finite numbers is finite, unless they are huge
            return
        found = not_finite_as_float32(given)
        if found is not None:
            row, text, fix = found
            slot = int(self._slots[row if rows is None else int(rows[row])])
            env = int(self._env_index[slot])
            raise NonFiniteError(f"behavior {self._name!r}: {what} of slot {slot} (environment {env}) is {text}; {fix}")

    def _check(self, what: str, whole: NDArray[Any], given: Any, rows: int) -> None:
        """Refuse an array of another shape or kind, which a copy would broadcast or round."""
        shape = (rows, *whole.shape[1:])
        if not isinstance(given, np.ndarray) or given.shape != shape:
            shown = f"an array of shape {list(given.shape)}" if isinstance(given, np.ndarray) else type(given).__name__
            raise EnvironmentFailed(f"behavior {self._name!r}: {what} is {shown}, not of shape {list(shape)}")
        if given.dtype is not whole.dtype and not _fits(given.dtype, whole.dtype):
            raise EnvironmentFailed(
                f"behavior {self._name!r}: {what} is of dtype {given.dtype}, which its behavior declares as "
                f"{whole.dtype}"
            )


def _fits(given: np.dtype[Any], declared: np.dtype[Any]) -> bool:
    """Real numbers may have another precision; whole numbers must not lose anything."""
    return given.kind == "f" if declared.kind == "f" else bool(np.can_cast(given, declared, "safe"))


def _entry(arrays: Any, name: str, behavior: str) -> Any:
    if not isinstance(arrays, Mapping) or name not in arrays:
        raise EnvironmentFailed(f"behavior {behavior!r}: observation {name!r} is missing in a batch")
    return arrays[name]
