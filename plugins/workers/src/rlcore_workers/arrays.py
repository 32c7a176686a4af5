"""One batch for the environments of all workers: each worker writes its rows, the run reads the whole arrays.

All arrays are in one piece of memory, which processes can share: :mod:`rlcore_workers.layout`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rlcore import Actions, AgentBatch, BatchCheck, BehaviorSpec, fill, saved_array, saved_mapping
from rlcore_workers.layout import OPTIONAL, OPTIONAL_DEFAULTS, Layout, Rows

NEEDS_ACTION = OPTIONAL.index("needs_action")
ACTION_MASK = OPTIONAL.index("action_mask")
NOTHING_HAPPENED = ("reward", "terminated", "truncated", "group_reward", "aborted")  # if they are zero


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
        self._behaviors = {name: BehaviorArrays(self.fields, spec) for name, spec in layout.behaviors.items()}

    def fill_defaults(self) -> None:
        """Fill arrays that a batch may leave out with what leaving them out means; the run calls it, once."""
        for arrays in self._behaviors.values():
            for what, default in OPTIONAL_DEFAULTS.items():
                arrays.of[what][...] = default

    def put_actions(self, actions: Mapping[str, Actions], parts: Iterable[int] | None = None) -> None:
        """Store the actions of the slots of these workers, or of all."""
        for name, arrays in self._behaviors.items():
            for rows in [slice(None)] if parts is None else [self.layout.rows[part][name] for part in parts]:
                for what in arrays.acts:
                    arrays.of[what][rows] = getattr(actions[name], what)[rows]

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
            infos = [(self.layout.rows[part][name], info[name]) for part, info in final_info.items() if name in info]
            if infos and batch.ended.size:
                batch.final_info = arrays.final_info(batch.ended, infos)
        return batches

    def copy_part(self, source: RunArrays, part: int) -> None:
        """Copy what a worker wrote from other arrays of the layout."""
        for arrays, rows in self._of_part(part):
            for key in arrays.written:
                self.fields[key][rows] = source.fields[key][rows]
            arrays.present[part] = source.fields[arrays.spec.name, "present"][part]
            arrays.present[part, NEEDS_ACTION] = True  # other workers' agents may wait

    def rest(self, part: int) -> None:
        """Make the agents of a worker wait: no rewards, no ends, and the observations that they had."""
        for arrays, rows in self._of_part(part):
            for what in (*NOTHING_HAPPENED, "needs_action"):
                arrays.of[what][rows] = 0
            arrays.present[part, NEEDS_ACTION] = True

    def silence(self, part: int) -> None:
        """Make the rows of a worker those of agents that do not act: their environments are not there any more."""
        for arrays, rows in self._of_part(part):
            for observed in arrays.observations.values():  # the worker may have failed while it wrote
                observed[rows] = 0
            for what, default in OPTIONAL_DEFAULTS.items():
                arrays.of[what][rows] = default
        self.rest(part)

    def seen(self) -> dict[str, Any]:
        """Return what agents see, and which of them act, for a checkpoint."""
        return {
            name: {
                "needs_action": arrays.of["needs_action"].copy(),
                "action_mask": arrays.of["action_mask"].copy(),
                "masked": arrays.present[:, ACTION_MASK].copy(),
                "observations": {seen: array.copy() for seen, array in arrays.observations.items()},
            }
            for name, arrays in self._behaviors.items()
        }

    def load_seen(self, state: Mapping[str, Any]) -> None:
        """Continue from :meth:`seen`, without rewards and ends. Raises SavedValueError for other shapes."""
        for name, arrays in self._behaviors.items():
            saved = saved_mapping(state, name)
            for what in NOTHING_HAPPENED:
                arrays.of[what][:] = 0
            for what in ("needs_action", "action_mask"):
                fill(arrays.of[what], saved, what)
            arrays.present[:] = False
            arrays.present[:, NEEDS_ACTION] = True
            arrays.present[:, ACTION_MASK] = saved_array(saved, "masked", np.bool_, (len(arrays.present),))
            for seen, array in arrays.observations.items():
                fill(array, saved_mapping(saved, "observations"), seen)

    def _of_part(self, part: int) -> Iterator[tuple[BehaviorArrays, Rows]]:
        for name, arrays in self._behaviors.items():
            yield arrays, self.layout.rows[part][name]


class BehaviorArrays:
    """The arrays of one behavior, for all S slots.

    Attributes:
        spec: The behavior of all environments.
        of: Arrays other than observations, by the name that they have in a batch or in actions.
        observations: Observations by name.
        finals: Final observations by name, in the rows of the slots that ended.
        present: [parts, optional] whether the batch of each worker has each array that it may leave out.
        acts: The kinds of actions.
        written: The keys of what workers write.
    """

    def __init__(self, fields: Mapping[tuple[str, ...], NDArray[Any]], spec: BehaviorSpec) -> None:
        self.spec = spec
        mine = {key[1:]: array for key, array in fields.items() if key[0] == spec.name and len(key) > 1}
        self.of = {key[0]: array for key, array in mine.items() if len(key) == 1}
        self.observations = {o.name: mine["observations", o.name] for o in spec.observations}
        self.finals = {o.name: mine["final_observations", o.name] for o in spec.observations}
        self.present: NDArray[np.bool_] = self.of.pop("present")
        self.acts = [what for what in ("continuous", "discrete") if getattr(spec, what)]
        self.written = [(spec.name, *key) for key in mine if key[0] not in ("present", "continuous", "discrete")]

    def batch(self) -> AgentBatch:
        of = self.of
        ended = (of["terminated"] | of["truncated"]).nonzero()[0]
        finals = {name: array[ended] for name, array in self.finals.items()} if ended.size else None
        batch = AgentBatch(self.observations, of["reward"], of["terminated"], of["truncated"], ended, finals)
        anywhere: list[bool] = np.logical_or.reduce(self.present).tolist() if any(self.present.tobytes()) else []
        for what, there in zip(OPTIONAL, anywhere, strict=False):
            if there and what != "final_action_mask":
                setattr(batch, what, of[what])
            elif there and ended.size:
                batch.final_action_mask = of[what][ended]
        return batch

    def slots(self, rows: Rows) -> NDArray[np.intp]:
        """The numbers of the slots of these rows."""
        return np.arange(self.spec.slots)[rows]

    def final_info(
        self, ended: NDArray[np.intp], infos: Iterable[tuple[Rows, Mapping[str, NDArray[Any]]]]
    ) -> dict[str, NDArray[np.float64]]:
        """``final_info`` [K] of all workers; NaN where a worker did not report a number."""
        found: dict[str, NDArray[np.float64]] = {}
        for rows, info in infos:
            slots = self.slots(rows)
            places = np.searchsorted(ended, slots[np.isin(slots, ended)])
            for name, values in info.items():
                found.setdefault(name, np.full(len(ended), np.nan))[places] = values
        return found

    def put(self, part: int, rows: Rows, batch: AgentBatch) -> None:
        """Store the ``batch`` of a worker that has these ``rows``."""
        of = self.of
        for what in ("reward", "terminated", "truncated"):
            of[what][rows] = getattr(batch, what)
        for name, array in self.observations.items():
            array[rows] = batch.observations[name]
        ended = self.slots(rows)[batch.ended] if batch.ended.size else batch.ended
        before = self.present[part].tolist()
        for column, (what, default) in enumerate(OPTIONAL_DEFAULTS.items()):
            values = getattr(batch, what)
            there = values is not None
            if there or before[column]:
                self.present[part, column] = there
                to = ended if there and what == "final_action_mask" else rows
                of[what][to] = values if there else default
        if batch.final_observations is not None:
            for name, array in self.finals.items():
                array[ended] = batch.final_observations[name]


class PartArrays:
    """The rows of one worker in the arrays of the run."""

    def __init__(self, arrays: RunArrays, number: int) -> None:
        self._number = number
        envs = slice(arrays.layout.bounds[number], arrays.layout.bounds[number + 1])
        self.begin: NDArray[np.int64] = arrays.begin[envs]
        self.parameters: NDArray[np.float64] = arrays.parameters[envs]
        self.busy: NDArray[np.float64] = arrays.busy[number : number + 1]
        self._episodes: NDArray[np.int64] = arrays.episodes[envs]
        self._behaviors = []
        for behavior, rows in arrays._of_part(number):
            spec = behavior.spec.take(behavior.slots(rows))
            self._behaviors.append((behavior, rows, BatchCheck(spec, lambda: "in its worker", 0)))

    def actions(self) -> dict[str, Actions]:
        """The actions of this worker's slots. The arrays may be views of the run's."""
        return {
            behavior.spec.name: Actions(**{what: behavior.of[what][rows] for what in behavior.acts})
            for behavior, rows, _ in self._behaviors
        }

    def put(self, batches: Mapping[str, AgentBatch], episodes: NDArray[np.int64]) -> dict[str, Any] | None:
        """Write the batches of this worker's environments, which are in ``episodes`` [number of them].

        Returns ``final_info`` by behavior, None if there is none.
        Raises EnvironmentFailed for an array that does not fit its behavior, NonFiniteError for a NaN or an infinity.
        """
        infos: dict[str, Any] = {}
        for behavior, rows, check in self._behaviors:
            batch = check.batch_in(batches, "a worker")
            behavior.put(self._number, rows, batch)
            if batch.final_info is not None and batch.ended.size:
                infos[behavior.spec.name] = batch.final_info
        self._episodes[:] = episodes
        return infos or None
