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
FinalInfo = Mapping[str, NDArray[Any]]  # numbers of K ended episodes by name, each [K]


class BatchArrays:
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
                arrays.by_name[what][...] = default

    def put_actions(self, actions: Mapping[str, Actions], parts: Iterable[int] | None = None) -> None:
        """Store the actions of the slots of these workers, or of all."""
        for name, arrays in self._behaviors.items():
            blocks: list[Rows] = [slice(None)]
            if parts is not None:  # the others step: they may read their actions at this moment
                blocks = [self.layout.rows[part][name] for part in parts]
            for kind in arrays.acts:
                chosen = getattr(actions[name], kind)
                stored = arrays.by_name[kind]
                for rows in blocks:
                    stored[rows] = chosen[rows]

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
            batch = arrays.batch()
            if lost:
                # A copy: the array itself says which agents the environments of other workers have lost.
                aborted = arrays.by_name["aborted"].copy()
                for part in lost:
                    aborted[self.layout.rows[part][name]] = True
                batch.aborted = aborted
            if batch.ended.size:
                batch.final_info = arrays.final_info(batch.ended, self._infos(name, final_info))
            batches[name] = batch
        return batches

    def _infos(self, name: str, final_info: Mapping[int, Mapping[str, FinalInfo]]) -> list[tuple[Rows, FinalInfo]]:
        """What workers reported of one behavior, each with its rows."""
        return [(self.layout.rows[part][name], info[name]) for part, info in final_info.items() if name in info]

    def copy_part(self, source: BatchArrays, part: int) -> None:
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
                arrays.by_name[what][rows] = 0
            arrays.present[part, NEEDS_ACTION] = True

    def silence(self, part: int) -> None:
        """Make the rows of a worker those of agents that do not act: their environments are not there any more."""
        for arrays, rows in self._of_part(part):
            for observed in arrays.observations.values():  # the worker may have failed while it wrote them
                observed[rows] = 0
            for what, default in OPTIONAL_DEFAULTS.items():
                arrays.by_name[what][rows] = default
        self.rest(part)

    def seen(self) -> dict[str, Any]:
        """Return what agents see, and which of them act, for a checkpoint."""
        state = {}
        for name, arrays in self._behaviors.items():
            state[name] = {
                "needs_action": arrays.by_name["needs_action"].copy(),
                "action_mask": arrays.by_name["action_mask"].copy(),
                "masked": arrays.present[:, ACTION_MASK].copy(),
                "observations": {key: array.copy() for key, array in arrays.observations.items()},
            }
        return state

    def load_seen(self, state: Mapping[str, Any]) -> None:
        """Continue from :meth:`seen`, without rewards and ends. Raises SavedValueError for other shapes."""
        for name, arrays in self._behaviors.items():
            saved = saved_mapping(state, name)
            for what in NOTHING_HAPPENED:
                arrays.by_name[what][:] = 0
            for what in ("needs_action", "action_mask"):
                fill(arrays.by_name[what], saved, what)
            arrays.present[:] = False
            arrays.present[:, NEEDS_ACTION] = True
            parts = len(arrays.present)
            arrays.present[:, ACTION_MASK] = saved_array(saved, "masked", np.bool_, (parts,))
            observations = saved_mapping(saved, "observations")
            for key, array in arrays.observations.items():
                fill(array, observations, key)

    def _of_part(self, part: int) -> Iterator[tuple[BehaviorArrays, Rows]]:
        for name, arrays in self._behaviors.items():
            yield arrays, self.layout.rows[part][name]


class BehaviorArrays:
    """The arrays of one behavior, for all S slots.

    Attributes:
        spec: The behavior of all environments.
        by_name: Arrays other than observations, by the name that they have in a batch or in actions.
        observations: Observations by name.
        finals: Final observations by name, in the rows of the slots that ended.
        present: [parts, optional] whether the batch of each worker has each array that it may leave out.
        acts: The kinds of actions.
        written: The keys of what workers write.
    """

    def __init__(self, fields: Mapping[tuple[str, ...], NDArray[Any]], spec: BehaviorSpec) -> None:
        self.spec = spec
        self.by_name: dict[str, NDArray[Any]] = {}
        self.observations: dict[str, NDArray[Any]] = {}
        self.finals: dict[str, NDArray[Any]] = {}
        self.written: list[tuple[str, ...]] = []
        for key, array in fields.items():
            if key[0] != spec.name or len(key) == 1:  # of another behavior, or of the run
                continue
            kind = key[1]
            if kind == "observations":
                self.observations[key[2]] = array
            elif kind == "final_observations":
                self.finals[key[2]] = array
            else:
                self.by_name[kind] = array
            if kind not in ("present", "continuous", "discrete"):
                self.written.append(key)
        self.present: NDArray[np.bool_] = self.by_name.pop("present")
        self.acts = [kind for kind in ("continuous", "discrete") if getattr(spec, kind)]

    def batch(self) -> AgentBatch:
        terminated = self.by_name["terminated"]
        truncated = self.by_name["truncated"]
        ended = (terminated | truncated).nonzero()[0]
        batch = AgentBatch(self.observations, self.by_name["reward"], terminated, truncated, ended)
        if ended.size:
            batch.final_observations = {name: array[ended] for name, array in self.finals.items()}
        if not any(self.present.tobytes()):  # most environments leave all of them out
            return batch
        present_anywhere = np.logical_or.reduce(self.present).tolist()
        for name, is_present in zip(OPTIONAL, present_anywhere, strict=True):
            if not is_present:
                continue
            if name != "final_action_mask":
                setattr(batch, name, self.by_name[name])
            elif ended.size:
                batch.final_action_mask = self.by_name[name][ended]
        return batch

    def slots(self, rows: Rows) -> NDArray[np.intp]:
        """The numbers of the slots of these rows."""
        return np.arange(self.spec.slots)[rows]

    def final_info(
        self, ended: NDArray[np.intp], infos: Iterable[tuple[Rows, FinalInfo]]
    ) -> dict[str, NDArray[np.float64]] | None:
        """``final_info`` [K] of all workers; NaN where a worker did not report a number; None without any."""
        columns: dict[str, NDArray[np.float64]] = {}
        for rows, info in infos:
            slots = self.slots(rows)
            ended_here = slots[np.isin(slots, ended)]
            places = np.searchsorted(ended, ended_here)
            for name, values in info.items():
                column = columns.setdefault(name, np.full(len(ended), np.nan))
                column[places] = values
        return columns or None

    def put(self, part: int, rows: Rows, batch: AgentBatch) -> None:
        """Store the ``batch`` of a worker that has these ``rows``."""
        self.by_name["reward"][rows] = batch.reward
        self.by_name["terminated"][rows] = batch.terminated
        self.by_name["truncated"][rows] = batch.truncated
        for name, array in self.observations.items():
            array[rows] = batch.observations[name]
        ended = self.slots(rows)[batch.ended] if batch.ended.size else batch.ended
        was_present = self.present[part].tolist()
        for column, (name, default) in enumerate(OPTIONAL_DEFAULTS.items()):
            values = getattr(batch, name)
            if values is not None:
                self.present[part, column] = True
                # A final mask has a row for each episode that ended, as final observations have.
                targets = ended if name == "final_action_mask" else rows
                self.by_name[name][targets] = values
            elif was_present[column]:  # else the default is there already
                self.present[part, column] = False
                self.by_name[name][rows] = default
        if batch.final_observations is not None:
            for name, array in self.finals.items():
                array[ended] = batch.final_observations[name]


class PartArrays:
    """The rows of one worker in the arrays of the run."""

    def __init__(self, arrays: BatchArrays, number: int) -> None:
        self._number = number
        first, end = arrays.layout.bounds[number : number + 2]
        envs = slice(first, end)
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
        actions = {}
        for behavior, rows, _ in self._behaviors:
            parts = {kind: behavior.by_name[kind][rows] for kind in behavior.acts}
            actions[behavior.spec.name] = Actions(**parts)
        return actions

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
