"""Exchanges of the ranks of a run while they step: ended episodes, counts of agent steps, requests to stop.

Statistics need them at boundaries, and get them there. Curricula need them in the step in which they end: with
curricula, all ranks ask in every step whether an episode ended in any of them, and gather it. Each has the same
curricula for all environments of the run. The agent steps of the trainers, which may lag behind, are exact after every
exchange of this module.

Agents and environments are numbered as in a run in one process, and ended episodes are in the order of their step and
of their slot, so that every rank has the numbers of a run in one process.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from time import monotonic
from typing import Any

import attrs
import numpy as np

from rlcore import (
    ConfigError,
    Environment,
    EvaluationResult,
    FinishedEpisodes,
    Parameters,
    Ranks,
    SlotShare,
    Stop,
    StopRequests,
    TrainerWrapper,
)
from rlcore_torch.arrays import Array, BoolArray, Indices, IntArray
from rlcore_torch.ranks.evaluation import lead_evaluation
from rlcore_torch.ranks.lost import LostEnvironments
from rlcore_torch.ranks.slots import numbered_slots
from rlcore_torch.ranks.step_count import StepCount

SECONDS = 0.5  # between two agreements whether to stop, about
MOST_STEPS = 256  # of the environments between two agreements, for those that suddenly become slow

_NONE: Indices = np.empty(0, np.intp)


class EnvironmentOfRanks:
    """The environments of all ranks, for curricula: N* in the run.

    Attributes:
        num_envs: N*.
        episodes: [N*] the episode that each is in.
        of_rank: The environments of this rank.
    """

    def __init__(self, environment: Environment, first_env: int, num_envs: int) -> None:
        self.num_envs = num_envs
        self.episodes: IntArray = np.zeros(num_envs, np.int64)
        self.of_rank = environment
        self._rows_of_rank = slice(first_env, first_env + environment.num_envs)

    def set_parameters(self, parameters: Parameters) -> None:
        """Set the columns [N*] of ``parameters`` in the environments of this rank."""
        columns = {name: column[self._rows_of_rank] for name, column in parameters.items()}
        self.of_rank.set_parameters(columns)


@attrs.define
class BatchOfRanks:
    """The part of a step that curricula use: which slots, of all ranks, ended or lost their episode."""

    ended: Indices = _NONE
    aborted: BoolArray | None = None

    @classmethod
    def of(cls, parts: Sequence[Mapping[str, Any]], slots: int) -> BatchOfRanks:
        """Return the batch of ``parts``, of each rank the numbers of its slots, for the ``slots`` of all ranks."""
        ended = np.concatenate([part["ended"] for part in parts])
        batch = cls(np.sort(ended).astype(np.intp))
        lost = [part["aborted"] for part in parts if part["aborted"] is not None]
        if lost:
            batch.aborted = np.zeros(slots, np.bool_)
            batch.aborted[np.concatenate(lost)] = True
        return batch


class BehaviorOfRanks:
    """A behavior with the slots of all ranks, for curricula. ``spec`` has what they use of it: ``env_index``."""

    def __init__(self, behavior: Any, share: SlotShare) -> None:
        self.name = behavior.name
        self.spec = share
        self.batch = BatchOfRanks()
        self._behavior = behavior

    @property
    def steps(self) -> int:
        return int(self._behavior.steps)


class EpisodeRanks(Ranks):
    """The ranks of a run, on top of the exchange of values that a subclass has."""

    def __init__(self, rank: int, size: int, stops: StopRequests) -> None:
        """``stops`` has the requests to stop of this rank."""
        self.rank = rank
        self.size = size
        self._stops = stops
        self._environment: Any = None
        self._everywhere: EnvironmentOfRanks
        self._behaviors: Mapping[str, Any] = {}
        self._of_ranks: dict[str, BehaviorOfRanks] = {}
        self._gathered: bytes = b""  # the episodes of this rank's environments when they were gathered last
        self._steps = 0  # of the environments
        self._ended: dict[str, list[dict[str, Any]]] = {}  # not gathered yet
        self._agreed_at = 0  # steps
        self._interval = 1  # steps until the next agreement whether to stop
        self._since = monotonic()

    def gather(self, value: Any) -> list[Any] | None:
        """Return the values of all ranks in rank 0, and None in the others."""
        raise NotImplementedError

    def scatter(self, values: Sequence[Any] | None) -> Any:
        """Return ``values[rank]`` of rank 0, which alone gives values."""
        raise NotImplementedError

    # ------------------------------------------------------------ the part of a rank

    def share_slots(self, env_index: IntArray, first_env: int) -> SlotShare:
        """Return the share of this rank, as :meth:`rlcore.Ranks.share_slots` says.

        Raises EnvironmentFailed for slots in another order.
        """
        gathered = self.all_gather(env_index + first_env)
        parts = [np.asarray(part, np.int64) for part in gathered]
        return numbered_slots(parts, self.rank)

    def lead(
        self, play: Callable[[Callable[[], bool]], EvaluationResult | None], stop_requested: Callable[[], bool]
    ) -> EvaluationResult | None:
        """Return what ``play`` returns in rank 0, which gives signs of life meanwhile: it may take long."""
        return lead_evaluation(self, play, stop_requested)

    # ------------------------------------------------------------ the steps of a run

    def join(
        self, environment: Environment, behaviors: Mapping[str, Any], num_envs: int, first_env: int
    ) -> tuple[Any, Mapping[str, Any]]:
        """Begin a run. Raises ConfigError for a trainer around another one that does not declare ranks."""
        for name, behavior in behaviors.items():
            refuse_wrappers(behavior.trainer, name)
        self._environment = environment
        self._behaviors = behaviors
        self._everywhere = EnvironmentOfRanks(environment, first_env, num_envs)
        self._of_ranks = {}
        for name, behavior in behaviors.items():
            share = self.share_slots(behavior.spec.env_index, first_env)
            self._of_ranks[name] = BehaviorOfRanks(behavior, share)
        self._take_ended()
        return self._everywhere, self._of_ranks

    def stand_in(self, environment: Environment) -> LostEnvironments:
        """Return environments in which nothing happens, in place of those of this rank."""
        lost = LostEnvironments(environment)
        self._environment = lost
        self._everywhere.of_rank = lost
        return lost

    def episodes_of_all(self, episodes: IntArray) -> IntArray:
        """Return the episodes [N*] of all ranks, and note them."""
        of_rank = np.asarray(episodes, np.int64)
        gathered = self.all_gather(of_rank)
        self._note_episodes(of_rank, gathered)
        return self._everywhere.episodes.copy()

    def episodes_finished(self, behavior: Any, finished: FinishedEpisodes) -> None:
        """Keep the episodes until they are gathered."""
        numbers = self._of_ranks[behavior.name].spec.numbers
        count = len(finished.slots)
        group = finished.group_returns
        self._ended[behavior.name].append(
            {
                "step": np.full(count, self._steps),
                "slots": numbers[finished.slots],
                "returns": finished.returns,
                "lengths": finished.lengths,
                "group_returns": np.zeros(count) if group is None else group,
                "shared": group is not None,
                "info": dict(finished.info),
            }
        )

    def after_step(self, behaviors: Sequence[Any]) -> None:
        """Close a step of the environments: with curricula, gather what ended in it in any rank."""
        self._steps += 1
        if self.report is None:
            return
        # In most steps nothing ends, and ranks exchange one number; what ended is gathered only where it is not 0.
        (ranks_with_news,) = self._counted(int(self._has_news(behaviors)))
        if not ranks_with_news:
            for of_ranks in self._of_ranks.values():
                of_ranks.batch = BatchOfRanks()
            return
        of_rank = np.asarray(self._environment.episodes, np.int64)
        finished = self._take_ended()
        of_behaviors = {}
        for behavior in behaviors:
            numbers = self._of_ranks[behavior.name].spec.numbers
            lost = behavior.batch.aborted
            of_behaviors[behavior.name] = {
                "ended": numbers[behavior.batch.ended],
                "aborted": None if lost is None else numbers[lost],
                "finished": finished[behavior.name],
            }
        gathered = self.all_gather({"episodes": of_rank, "behaviors": of_behaviors})
        self._note_episodes(of_rank, [part["episodes"] for part in gathered])
        for name, of_ranks in self._of_ranks.items():
            parts = [part["behaviors"][name] for part in gathered]
            of_ranks.batch = BatchOfRanks.of(parts, of_ranks.spec.total)
            finished_of_ranks = [part["finished"] for part in parts]
            for episodes in self._note_finished(name, finished_of_ranks):
                self.report(of_ranks, episodes)

    def _has_news(self, behaviors: Sequence[Any]) -> bool:
        """Whether an episode of this rank began, ended or was lost that the others do not know of."""
        if self._environment.episodes.tobytes() != self._gathered:
            return True
        batches = [behavior.batch for behavior in behaviors]
        return any(batch.ended.size or batch.aborted is not None for batch in batches)

    def watch(self) -> None:
        """Let the steps of trainers lag behind until they may reach the next boundary of their behavior.

        Not those of a trainer inside another one, which may look at them in every step.
        """
        for count, behavior in self._counts():
            if not isinstance(behavior.trainer, TrainerWrapper):
                count.exact_from = behavior.next_boundary

    def settle(self) -> None:
        """Gather the episodes that ended since this was called last, for statistics. The steps are exact afterwards."""
        counts = [count for count, _ in self._counts()]
        uncounted = [count.uncounted for count in counts]
        gathered = self.all_gather({"finished": self._take_ended(), "uncounted": uncounted})
        for k, count in enumerate(counts):
            total = sum(part["uncounted"][k] for part in gathered)
            count.counted(total)
        for name in self._of_ranks:
            finished = [part["finished"][name] for part in gathered]
            self._note_finished(name, finished)

    def agree_to_stop(self, stopping: Callable[[], bool], now: bool = False) -> bool:
        """Whether to stop; the ranks agree in one step of many, because an exchange takes as long as a fast step.

        The number of steps in between follows from the time that steps took, and is equal in all ranks.
        """
        steps = self._steps - self._agreed_at
        if now:
            wanted = self.total(stopping())
        elif steps < self._interval:
            return False
        else:
            # In whole numbers, which are summed without rounding: the interval must be equal in all ranks.
            microseconds = int((monotonic() - self._since) * 1e6)
            wanted, total = self._counted(int(stopping()), microseconds)
            of_step = max(total / self.size / steps, 1.0)
            interval = int(SECONDS * 1e6 / of_step)
            self._interval = min(MOST_STEPS, max(1, interval))
            self._agreed_at = self._steps
            self._since = monotonic()
        if not wanted:
            return False
        # The first reason of each rank, so that all report the same ones.
        first = self._stops.first
        requests = self.all_gather(None if first is None else attrs.asdict(first))
        for request in requests:
            if request is not None:
                self._stops.add(Stop(**request))
        return True

    def agreement(self, stopping: Callable[[], bool]) -> Callable[[], bool]:
        """:meth:`agree_to_stop` with ``stopping``."""
        return partial(self.agree_to_stop, stopping)

    # ------------------------------------------------------------ inside

    def _counts(self) -> Iterator[tuple[StepCount, Any]]:
        """The counts of the trainers whose steps may lag behind, and their behaviors."""
        for behavior in self._behaviors.values():
            count = getattr(behavior.trainer, "step_count", None)
            if isinstance(count, StepCount):
                yield count, behavior

    def _counted(self, *values: int) -> list[int]:
        """Return the sums of ``values`` over all ranks. The steps of all trainers are exact afterwards."""
        counts = [count for count, _ in self._counts()]
        uncounted = [count.uncounted for count in counts]
        numbers = np.array([*values, *uncounted])
        sums: list[int] = self.sum(numbers).tolist()
        totals = sums[len(values) :]
        for count, total in zip(counts, totals, strict=True):
            count.counted(total)
        return sums[: len(values)]

    def _take_ended(self) -> dict[str, list[dict[str, Any]]]:
        """Return the ended episodes that were not gathered yet, by behavior, and begin to keep new ones."""
        ended = self._ended
        self._ended = {name: [] for name in self._of_ranks}
        return ended

    def _note_episodes(self, of_rank: IntArray, gathered: Sequence[IntArray]) -> None:
        """Note the episodes that all environments are in; ``of_rank`` are those of this rank among them."""
        self._everywhere.episodes[:] = np.concatenate(gathered)
        self._gathered = of_rank.tobytes()

    def _note_finished(self, name: str, of_ranks: Sequence[list[dict[str, Any]]]) -> list[FinishedEpisodes]:
        """Note the episodes of all ranks in the statistics. Returns those of each step, in the order of the slots."""
        parts = [part for of_rank in of_ranks for part in of_rank]
        if not parts:
            return []
        columns, info = _in_order(parts)
        has_groups = any(part["shared"] for part in parts)
        behavior = self._behaviors[name]
        # The behavior has counted this rank's episodes in their step.
        counted = sum(len(part["slots"]) for part in of_ranks[self.rank])
        total = len(columns["slots"])
        behavior.episodes.finished += total - counted
        edges = np.flatnonzero(np.diff(columns["step"])) + 1
        steps = []
        for rows in np.split(np.arange(total), edges):
            numbers = {key: column[rows] for key, column in info.items()}
            finished = FinishedEpisodes(
                columns["slots"][rows].astype(np.intp),
                columns["returns"][rows],
                columns["lengths"][rows],
                columns["group_returns"][rows] if has_groups else None,
                {key: column for key, column in numbers.items() if np.isfinite(column).any()},
            )
            behavior.episodes_finished(finished)
            steps.append(finished)
        return steps


def _in_order(parts: Sequence[Mapping[str, Any]]) -> tuple[dict[str, Array], dict[str, Array]]:
    """Return the columns of ``parts`` and their ``info``, in the order of the steps and in each step of the slots.

    Episodes that do not report a number have NaN there.
    """
    columns = {}
    for key in ("step", "slots", "returns", "lengths", "group_returns"):
        columns[key] = np.concatenate([part[key] for part in parts])
    info = {}
    for key in dict.fromkeys(key for part in parts for key in part["info"]):
        numbers = []
        for part in parts:
            absent = np.full(len(part["slots"]), np.nan)
            numbers.append(part["info"].get(key, absent))
        info[key] = np.concatenate(numbers)
    order = np.lexsort((columns["slots"], columns["step"]))
    columns = {key: column[order] for key, column in columns.items()}
    info = {key: column[order] for key, column in info.items()}
    return columns, info


def refuse_wrappers(trainer: Any, behavior: str) -> None:
    """Raise ConfigError for a trainer around ``trainer`` that does not declare that it learns in several ranks."""
    while isinstance(trainer, TrainerWrapper):
        if not trainer.learns_in_ranks:
            raise ConfigError(
                f"a plugin put a {type(trainer).__name__} around the trainer, which does not declare that it learns in "
                "several ranks (`learns_in_ranks`); run it in one process, without torchrun, or turn the plugin off",
                key=("behaviors", behavior),
            )
        trainer = trainer.trainer
