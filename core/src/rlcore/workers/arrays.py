"""One batch for the environments of all workers: each worker writes its rows, the run reads the whole arrays.

All arrays are in one piece of memory, which processes can share. The environments of a worker are contiguous, and so
are its slots if the slots of a behavior are in the order of their environments.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from math import isfinite
from typing import Any

import attrs
import numpy as np
from numpy.typing import NDArray

from rlcore.environment import Actions, AgentBatch, BehaviorSpec
from rlcore.errors import EnvironmentFailed, NonFiniteError
from rlcore.finite import not_finite_as_float32
from rlcore.saved_values import fill, saved_array, saved_mapping

__all__ = ["Layout", "PartArrays", "RunArrays"]

Rows = slice | NDArray[np.intp]

ALIGNMENT = 64  # bytes: no two workers write to one cache line of small arrays of different kinds
# Arrays that a batch may leave out, and what leaving them out means.
OPTIONAL_DEFAULTS = {"needs_action": True, "action_mask": True, "group_reward": 0.0, "aborted": False}
_OPTIONAL = tuple(OPTIONAL_DEFAULTS)


@attrs.frozen(eq=False)
class Layout:
    """Where the arrays of a run's environments are in one piece of memory. Can be pickled.

    Attributes:
        behaviors: The behaviors of all environments, as one process would have them.
        bounds: [parts + 1] index of the first environment of each worker, and N at the end.
        rows: For each worker, the slots of each behavior that are its own.
        parameters: Number of environment parameters.
        fields: Offset in bytes, shape and dtype of each array, by a tuple of names.
        size: Bytes of the memory.
    """

    behaviors: Mapping[str, BehaviorSpec]
    bounds: tuple[int, ...]
    rows: tuple[Mapping[str, Rows], ...]
    parameters: int
    fields: Mapping[tuple[str, ...], tuple[int, tuple[int, ...], str]]
    size: int

    @classmethod
    def of(cls, parts: Sequence[Mapping[str, BehaviorSpec]], bounds: Sequence[int], parameters: int) -> Layout:
        """Join the behaviors of all workers. Raises EnvironmentFailed if they differ in more than their slots."""
        rows: list[dict[str, Rows]] = [{} for _ in parts]
        behaviors = {}
        for name in parts[0]:
            for number, part in enumerate(parts[1:], 1):
                if part.keys() != parts[0].keys():
                    raise EnvironmentFailed(f"worker {number} has behaviors {list(part)}, worker 0 {list(parts[0])}")
            behaviors[name], of_parts = _joined([part[name] for part in parts], bounds)
            for own, slots in zip(rows, of_parts, strict=True):
                own[name] = slots
        fields: dict[tuple[str, ...], tuple[int, tuple[int, ...], str]] = {}
        size = 0
        for key, shape, dtype in _arrays(behaviors, bounds[-1], len(parts), parameters):
            fields[key] = (size, shape, np.dtype(dtype).str)
            count = int(np.prod(shape, dtype=np.int64)) * np.dtype(dtype).itemsize
            size += -(-count // ALIGNMENT) * ALIGNMENT
        return cls(behaviors, tuple(bounds), tuple(rows), parameters, fields, max(size, ALIGNMENT))


def _arrays(
    behaviors: Mapping[str, BehaviorSpec], num_envs: int, parts: int, parameters: int
) -> Iterator[tuple[tuple[str, ...], tuple[int, ...], Any]]:
    """Key, shape and dtype of every array."""
    yield ("episodes",), (num_envs,), np.int64  # that the environments are in
    yield ("begin",), (num_envs,), np.int64  # that `reset` is to start
    yield ("parameters",), (num_envs, parameters), np.float64  # of the next episodes
    for name, spec in behaviors.items():
        slots = spec.slots
        yield (name, "present"), (parts, len(_OPTIONAL)), np.bool_
        yield (name, "reward"), (slots,), np.float32
        yield (name, "terminated"), (slots,), np.bool_
        yield (name, "truncated"), (slots,), np.bool_
        yield (name, "needs_action"), (slots,), np.bool_
        yield (name, "action_mask"), (slots, spec.mask_size), np.bool_
        yield (name, "group_reward"), (slots,), np.float32
        yield (name, "aborted"), (slots,), np.bool_
        yield (name, "continuous"), (slots, spec.continuous), np.float32
        yield (name, "discrete"), (slots, len(spec.discrete)), np.int64
        for observation in spec.observations:
            for which in ("observations", "final_observations"):
                yield (name, which, observation.name), (slots, *observation.shape), observation.dtype


def _joined(specs: Sequence[BehaviorSpec], bounds: Sequence[int]) -> tuple[BehaviorSpec, list[Rows]]:
    """The behavior of all environments, and the slots of each worker in it."""
    first = specs[0]
    for number, spec in enumerate(specs[1:], 1):
        same = (
            spec.observations == first.observations
            and (spec.continuous, spec.discrete) == (first.continuous, first.discrete)
            and np.array_equal(spec.low, first.low)
            and np.array_equal(spec.high, first.high)
            and (spec.team is None, spec.group is None) == (first.team is None, first.group is None)
        )
        if not same:
            raise EnvironmentFailed(
                f"behavior {first.name!r} of worker {number} sees or does something else than that of worker 0"
            )
    env_index = [spec.env_index + start for spec, start in zip(specs, bounds, strict=False)]
    ends = np.cumsum([0, *(spec.slots for spec in specs)]).tolist()
    rows: list[Rows] = [slice(start, end) for start, end in pairwise(ends)]
    joined_index = np.concatenate(env_index)
    order: NDArray[np.intp] | None = None
    if any((np.diff(spec.env_index) < 0).any() for spec in specs):
        # Slot by slot of every environment in turn, as [0, 1, 2, 0, 1, 2]: the first slots of all environments first.
        occurrence = np.concatenate([_occurrence(spec.env_index) for spec in specs])
        order = np.lexsort((joined_index, occurrence))
        place = np.empty(len(order), np.intp)
        place[order] = np.arange(len(order))
        rows = [place[start:end] for start, end in pairwise(ends)]
    team = None if first.team is None else np.concatenate([spec.team for spec in specs if spec.team is not None])
    group = None if first.group is None else _groups([spec.group for spec in specs if spec.group is not None])
    joined = attrs.evolve(first, env_index=joined_index, team=team, group=group)
    return (joined if order is None else joined.take(order)), rows


def _occurrence(env_index: NDArray[np.int64]) -> NDArray[np.int64]:
    """For each slot, how many earlier slots are of the same environment."""
    counted: NDArray[np.int64] = np.empty(len(env_index), np.int64)
    for env in np.unique(env_index):
        mine = env_index == env
        counted[mine] = np.arange(mine.sum())
    return counted


def _groups(parts: Sequence[NDArray[np.int64]]) -> NDArray[np.int64]:
    """Numbers of groups that are different in different workers, because no group has agents of two environments."""
    shifted, start = [], 0
    for group in parts:
        shifted.append(group + start)
        start += int(group.max(initial=-1)) + 1
    return np.concatenate(shifted)


class RunArrays:
    """The arrays of a :class:`Layout` in ``memory``, at least ``layout.size`` bytes.

    Attributes:
        layout: Where the arrays are.
        fields: All arrays, by the keys of ``layout.fields``.
        episodes: [N] number of the episode that each environment is in.
        begin: [N] number of the episode that ``reset`` starts in each environment.
        parameters: [N, P] values of the environment parameters in the next episode of each environment.
    """

    def __init__(self, layout: Layout, memory: Any) -> None:
        self.layout = layout
        self.fields = {
            key: np.ndarray(shape, dtype, memory, offset) for key, (offset, shape, dtype) in layout.fields.items()
        }
        self.episodes: NDArray[np.int64] = self.fields["episodes",]
        self.begin: NDArray[np.int64] = self.fields["begin",]
        self.parameters: NDArray[np.float64] = self.fields["parameters",]
        self._behaviors = {name: _BehaviorArrays(self.fields, spec) for name, spec in layout.behaviors.items()}

    def fill_defaults(self) -> None:
        """Fill arrays that a batch may leave out with what leaving them out means; the run calls it, once."""
        for arrays in self._behaviors.values():
            arrays.fill_defaults()

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
            arrays.rest(self.layout.rows[part][name], part)

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
            arrays.silence(self.layout.rows[part][name], part)


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
        self.optional = {what: fields[name, what] for what in _OPTIONAL}
        self.present: NDArray[np.bool_] = fields[name, "present"]  # [parts, optional]
        self.continuous = fields[name, "continuous"] if spec.continuous else None
        self.discrete = fields[name, "discrete"] if spec.discrete else None
        self._none_present = bytes(self.present.size)
        self._unset = bytes(spec.slots)
        self._none: NDArray[np.intp] = np.empty(0, np.intp)

    def fill_defaults(self) -> None:
        for what, array in self.optional.items():
            array[...] = OPTIONAL_DEFAULTS[what]

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
            for what, there in zip(_OPTIONAL, np.atleast_1d(self.present.any(axis=0)), strict=True):
                if there:
                    setattr(batch, what, self.optional[what])
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
        for column, what in enumerate(_OPTIONAL):
            if there[column] or self.present[part, column]:
                self.optional[what][rows] = source.optional[what][rows]
            self.present[part, column] = there[column] or what == "needs_action"
        over = self.terminated[rows] | self.truncated[rows]
        if over.any():
            ended = np.arange(self.spec.slots)[rows][over]
            for name, mine in self.finals.items():
                mine[ended] = source.finals[name][ended]

    def rest(self, rows: Rows, part: int) -> None:
        self.reward[rows] = 0.0
        self.terminated[rows] = self.truncated[rows] = False
        self.optional["needs_action"][rows] = self.optional["aborted"][rows] = False
        self.optional["group_reward"][rows] = 0.0
        self.present[part, _OPTIONAL.index("needs_action")] = True

    def seen(self) -> dict[str, Any]:
        return {
            "needs_action": self.optional["needs_action"].copy(),
            "action_mask": self.optional["action_mask"].copy(),
            "masked": self.present[:, _OPTIONAL.index("action_mask")].copy(),
            "observations": {name: array.copy() for name, array in self.observations.items()},
        }

    def load_seen(self, state: Mapping[str, Any]) -> None:
        fill(self.optional["needs_action"], state, "needs_action")
        fill(self.optional["action_mask"], state, "action_mask")
        self.present[:] = False
        self.present[:, _OPTIONAL.index("needs_action")] = True
        self.present[:, _OPTIONAL.index("action_mask")] = saved_array(state, "masked", np.bool_, (len(self.present),))
        for name, array in self.observations.items():
            fill(array, saved_mapping(state, "observations"), name)
        self.reward[:] = 0.0
        self.terminated[:] = self.truncated[:] = self.optional["aborted"][:] = False
        self.optional["group_reward"][:] = 0.0

    def silence(self, rows: Rows, part: int) -> None:
        for array in (self.reward, *self.observations.values()):  # the worker may have failed while it wrote
            array[rows] = 0
        self.terminated[rows] = self.truncated[rows] = False
        for what, value in {**OPTIONAL_DEFAULTS, "needs_action": False}.items():
            self.optional[what][rows] = value
        self.present[part] = False
        self.present[part, _OPTIONAL.index("needs_action")] = True


class PartArrays:
    """The rows of one worker in the arrays of the run."""

    def __init__(self, arrays: RunArrays, number: int) -> None:
        layout = arrays.layout
        envs = slice(layout.bounds[number], layout.bounds[number + 1])
        self.begin: NDArray[np.int64] = arrays.begin[envs]
        self.parameters: NDArray[np.float64] = arrays.parameters[envs]
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
        for column, what in enumerate(_OPTIONAL):
            array = getattr(batch, what)
            there = array is not None
            if there:
                whole = self._all.optional[what]
                self._check(what, whole, array, len(self._slots))
                whole[self._rows] = array
                if whole.dtype.kind == "f":
                    self._require_finite("group reward", whole[self._rows], array)
            elif self._had.get(what, True):
                self._all.optional[what][self._rows] = OPTIONAL_DEFAULTS[what]
            if there != self._had.get(what):
                self._present[column] = self._had[what] = there
        ended = batch.ended
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
            raise NonFiniteError(
                f"behavior {self._name!r}: {what} of slot {slot} (environment {env}) is {text}; {fix}",
                env,
                latest=what.startswith("observation"),
            )

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
