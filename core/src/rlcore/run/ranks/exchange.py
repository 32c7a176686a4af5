"""The exchange of a run's ranks while they step: ended episodes, counts of agent steps, requests to stop.

Statistics need them at boundaries, and get them there. Curricula need them in the step in which they end: with
curricula, all ranks ask in every step whether an episode ended in any of them, and gather it. Each has the same
curricula for all environments of the run. The agent steps of the trainers, which may lag behind, are exact after every
exchange of this module.

Agents and environments are numbered as in a run in one process, and ended episodes are in the order of their step and
of their slot, so that every rank has the numbers of a run in one process.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from time import monotonic
from typing import Any

import attrs
import numpy as np
from numpy.typing import NDArray

from rlcore.contracts.environment import Environment, Parameters
from rlcore.contracts.ranks import Ranks, SlotShare, StepCount, share_slots
from rlcore.contracts.trainer import TrainerWrapper
from rlcore.plugins.context import Stop, StopRequests
from rlcore.run.behaviors.behavior import BehaviorRun, FinishedEpisodes

SECONDS = 0.5  # between two agreements whether to stop, about
MOST_STEPS = 256  # of the environments between two agreements, for those that suddenly become slow

_NONE: NDArray[np.intp] = np.empty(0, np.intp)


class EnvironmentOfRanks:
    """The environments of all ranks, for curricula: N* in the run.

    Attributes:
        num_envs: N*.
        episodes: [N*] the episode that each is in.
    """

    def __init__(self, environment: Environment, first_env: int, num_envs: int) -> None:
        self.num_envs = num_envs
        self.episodes: NDArray[np.int64] = np.zeros(num_envs, np.int64)
        self._environment = environment
        self._own = slice(first_env, first_env + environment.num_envs)

    def set_parameters(self, parameters: Parameters) -> None:
        """Set the columns [N*] of ``parameters`` in the environments of this rank."""
        self._environment.set_parameters({name: column[self._own] for name, column in parameters.items()})


@attrs.define
class SpecOfRanks:
    """The part of a behavior's spec that curricula use: the environment of each of its slots in all ranks."""

    env_index: NDArray[np.int64]


@attrs.define
class BatchOfRanks:
    """The part of a step that curricula use: which slots, of all ranks, ended or lost their episode."""

    ended: NDArray[np.intp] = _NONE
    aborted: NDArray[np.bool_] | None = None


class BehaviorOfRanks:
    """A behavior with the slots of all ranks, for curricula."""

    def __init__(self, behavior: BehaviorRun, share: SlotShare) -> None:
        self.name = behavior.name
        self.spec = SpecOfRanks(share.env_index)
        self.batch = BatchOfRanks()
        self.share = share
        self._behavior = behavior

    @property
    def steps(self) -> int:
        return self._behavior.steps


class RankExchange:
    """Gathers the episodes that ended. All ranks call the same methods at the same steps."""

    def __init__(
        self, ranks: Ranks, environment: Environment, behaviors: Mapping[str, BehaviorRun], first_env: int, total: int
    ) -> None:
        self.report: Callable[[BehaviorOfRanks, FinishedEpisodes], None] | None = None  # to curricula, in every step
        self.environment = EnvironmentOfRanks(environment, first_env, total)
        self.behaviors = {
            name: BehaviorOfRanks(behavior, share_slots(behavior.spec.env_index, first_env, ranks))
            for name, behavior in behaviors.items()
        }
        self._ranks = ranks
        self._own = environment
        self._runs = behaviors
        self._known: bytes = b""  # the episodes of the own environments when they were gathered
        self.steps = 0  # of the environments
        self._ended: dict[str, list[dict[str, Any]]] = {name: [] for name in behaviors}  # not gathered yet

    def begin(self, episodes: NDArray[np.int64]) -> NDArray[np.int64]:
        """Every environment of this rank is about to start, or is in, ``episodes`` [N]. Returns those of all [N*]."""
        joined = np.concatenate(self._ranks.all_gather(np.asarray(episodes, np.int64)))
        self.environment.episodes[:] = joined
        self._known = np.asarray(episodes, np.int64).tobytes()
        return joined

    def add(self, behavior: BehaviorRun, finished: FinishedEpisodes) -> None:
        """Episodes of this rank ended in the step that :meth:`after_step` closes."""
        group = finished.group_returns
        self._ended[behavior.name].append({
            "step": np.full(len(finished.slots), self.steps),
            "slots": self.behaviors[behavior.name].share.numbers[finished.slots],
            "returns": finished.returns,
            "lengths": finished.lengths,
            "group_returns": np.zeros(len(finished.slots)) if group is None else group,
            "shared": group is not None,
        })  # fmt: skip

    def after_step(self, behaviors: Sequence[BehaviorRun]) -> None:
        """Close a step of the environments: with curricula, gather what ended in it in any rank."""
        self.steps += 1
        if self.report is None:
            return
        news = self._own.episodes.tobytes() != self._known or any(
            behavior.batch.ended.size or behavior.batch.aborted is not None for behavior in behaviors
        )
        if not self.agree(int(news))[0]:
            for joined in self.behaviors.values():
                joined.batch = BatchOfRanks()
            return
        gathered = self._ranks.all_gather({
            "episodes": np.asarray(self._own.episodes, np.int64),
            "ended": {each.name: self.behaviors[each.name].share.numbers[each.batch.ended] for each in behaviors},
            "aborted": {each.name: self._aborted(each) for each in behaviors},
            "finished": self._take(),
        })  # fmt: skip
        self.environment.episodes[:] = np.concatenate([each["episodes"] for each in gathered])
        self._known = self._own.episodes.tobytes()
        for name, joined in self.behaviors.items():
            ended = np.sort(np.concatenate([each["ended"][name] for each in gathered])).astype(np.intp)
            lost = [each["aborted"][name] for each in gathered if each["aborted"][name] is not None]
            aborted = None
            if lost:
                aborted = np.zeros(joined.share.total, np.bool_)
                aborted[np.concatenate(lost)] = True
            joined.batch = BatchOfRanks(ended, aborted)
            for finished in self._note(name, [each["finished"][name] for each in gathered]):
                self.report(joined, finished)

    def watch(self) -> None:
        """Let the steps of trainers lag behind until they may reach the next boundary of their behavior.

        Not those of a trainer inside another one, which may look at them in every step.
        """
        for count, behavior in self._counts():
            if not isinstance(behavior.trainer, TrainerWrapper):
                count.exact_from = behavior.next_boundary

    def agree(self, *values: int) -> list[int]:
        """Return the sums of ``values`` over all ranks. The steps of all trainers are exact afterwards."""
        counts = [count for count, _ in self._counts()]
        sums: list[int] = self._ranks.sum(np.array([*values, *(count.uncounted for count in counts)])).tolist()
        for count, total in zip(counts, sums[len(values) :], strict=True):
            count.counted(total)
        return sums[: len(values)]

    def settle(self) -> None:
        """Gather the episodes that ended since this was called last, for statistics. The steps are exact afterwards."""
        counts = [count for count, _ in self._counts()]
        uncounted = [count.uncounted for count in counts]
        gathered = self._ranks.all_gather({"finished": self._take(), "uncounted": uncounted})
        for count, *of_ranks in zip(counts, *(each["uncounted"] for each in gathered), strict=True):
            count.counted(sum(of_ranks))
        for name in self.behaviors:
            self._note(name, [each["finished"][name] for each in gathered])

    def _counts(self) -> Iterator[tuple[StepCount, BehaviorRun]]:
        """The counts of the trainers whose steps may lag behind."""
        for behavior in self._runs.values():
            count = getattr(behavior.trainer, "step_count", None)
            if isinstance(count, StepCount):
                yield count, behavior

    def _aborted(self, behavior: BehaviorRun) -> NDArray[np.int64] | None:
        lost = behavior.batch.aborted
        return None if lost is None else self.behaviors[behavior.name].share.numbers[lost]

    def _take(self) -> dict[str, list[dict[str, Any]]]:
        taken = self._ended
        self._ended = {name: [] for name in taken}
        return taken

    def _note(self, name: str, of_ranks: Sequence[list[dict[str, Any]]]) -> list[FinishedEpisodes]:
        """Note the episodes of all ranks in the statistics. Returns those of each step, in the order of the slots."""
        parts = [part for of_rank in of_ranks for part in of_rank]
        if not parts:
            return []
        own = sum(len(part["slots"]) for part in of_ranks[self._ranks.rank])
        columns = {
            key: np.concatenate([part[key] for part in parts])
            for key in ("step", "slots", "returns", "lengths", "group_returns")
        }
        order = np.lexsort((columns["slots"], columns["step"]))
        columns = {key: column[order] for key, column in columns.items()}
        shared = any(part["shared"] for part in parts)
        edges = np.flatnonzero(np.diff(columns["step"])) + 1
        behavior, steps = self._runs[name], []
        behavior.episodes.finished += len(order) - own
        for rows in np.split(np.arange(len(order)), edges):
            finished = FinishedEpisodes(
                columns["slots"][rows].astype(np.intp),
                columns["returns"][rows],
                columns["lengths"][rows],
                columns["group_returns"][rows] if shared else None,
            )
            behavior.episodes_finished(finished)
            steps.append(finished)
        return steps


class StopAgreement:
    """Asks all ranks whether to stop: in one step of many, because an exchange takes as long as a fast step.

    The number of steps in between follows from the time that steps took, and is equal in all ranks.
    """

    def __init__(self, ranks: Ranks, exchange: RankExchange, stopping: Callable[[], bool], stops: StopRequests) -> None:
        """``stopping`` returns whether this rank wants to stop, and ``stops`` has the requests."""
        self._ranks, self._exchange, self._stopping, self._stops = ranks, exchange, stopping, stops
        self._steps = 0  # since the latest agreement
        self._interval = 1
        self._since = monotonic()

    def after_step(self) -> bool:
        """Whether to stop; asked after every step of the environments."""
        self._steps += 1
        if self._steps < self._interval:
            return False
        microseconds = int((monotonic() - self._since) * 1e6)
        wanted, total = self._exchange.agree(int(self._stopping()), microseconds)
        mean = total / self._ranks.size / self._steps
        self._interval = min(MOST_STEPS, max(1, int(SECONDS * 1e6 / max(mean, 1.0))))
        self._steps, self._since = 0, monotonic()
        return wanted > 0 and self._share_requests()

    def now(self) -> bool:
        """Whether to stop; asked between two epochs."""
        return self._ranks.any(self._stopping()) and self._share_requests()

    def _share_requests(self) -> bool:
        """Note the requests of all ranks in each. Returns True."""
        first = self._stops.first
        for request in self._ranks.all_gather(None if first is None else attrs.asdict(first)):
            if request is not None:
                self._stops.add(Stop(**request))
        return True
