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
from numpy.typing import NDArray

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
from rlcore_torch.ranks.evaluation import lead_evaluation
from rlcore_torch.ranks.lost import LostEnvironments
from rlcore_torch.ranks.slots import numbered_slots
from rlcore_torch.ranks.step_count import StepCount

SECONDS = 0.5  # between two agreements whether to stop, about
MOST_STEPS = 256  # of the environments between two agreements, for those that suddenly become slow

_NONE: NDArray[np.intp] = np.empty(0, np.intp)


class EnvironmentOfRanks:
    """The environments of all ranks, for curricula: N* in the run.

    Attributes:
        num_envs: N*.
        episodes: [N*] the episode that each is in.
        own: The environments of this rank.
    """

    def __init__(self, environment: Environment, first_env: int, num_envs: int) -> None:
        self.num_envs = num_envs
        self.episodes: NDArray[np.int64] = np.zeros(num_envs, np.int64)
        self.own = environment
        self._own_rows = slice(first_env, first_env + environment.num_envs)

    def set_parameters(self, parameters: Parameters) -> None:
        """Set the columns [N*] of ``parameters`` in the environments of this rank."""
        self.own.set_parameters({name: column[self._own_rows] for name, column in parameters.items()})


@attrs.define
class BatchOfRanks:
    """The part of a step that curricula use: which slots, of all ranks, ended or lost their episode."""

    ended: NDArray[np.intp] = _NONE
    aborted: NDArray[np.bool_] | None = None


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


class RunRanks(Ranks):
    """The ranks of a run, on top of the exchange of values that a subclass has."""

    def __init__(self, rank: int, size: int, stops: StopRequests) -> None:
        """``stops`` has the requests to stop of this rank."""
        self.rank = rank
        self.size = size
        self._stops = stops
        self._environment: Any = None
        self._everywhere: EnvironmentOfRanks
        self._behaviors: Mapping[str, Any] = {}
        self._joined: dict[str, BehaviorOfRanks] = {}
        self._known: bytes = b""  # the episodes of the own environments when they were gathered
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

    def share_slots(self, env_index: NDArray[np.int64], first_env: int) -> SlotShare:
        """Return the share of this rank, as :meth:`rlcore.Ranks.share_slots` says.

        Raises EnvironmentFailed for slots in another order.
        """
        parts = [np.asarray(part, np.int64) for part in self.all_gather(env_index + first_env)]
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
        self._joined = {
            name: BehaviorOfRanks(behavior, self.share_slots(behavior.spec.env_index, first_env))
            for name, behavior in behaviors.items()
        }
        self._take()
        return self._everywhere, self._joined

    def stand_in(self, environment: Environment) -> LostEnvironments:
        """Return environments in which nothing happens, in place of those of this rank."""
        lost = LostEnvironments(environment)
        self._environment = lost
        self._everywhere.own = lost
        return lost

    def episodes_of_all(self, episodes: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the episodes [N*] of all ranks, and note them."""
        own = np.asarray(episodes, np.int64)
        self._everywhere.episodes[:] = np.concatenate(self.all_gather(own))
        self._known = own.tobytes()
        return self._everywhere.episodes.copy()

    def episodes_finished(self, behavior: Any, finished: FinishedEpisodes) -> None:
        """Keep the episodes until they are gathered."""
        group = finished.group_returns
        self._ended[behavior.name].append(
            {
                "step": np.full(len(finished.slots), self._steps),
                "slots": self._joined[behavior.name].spec.numbers[finished.slots],
                "returns": finished.returns,
                "lengths": finished.lengths,
                "group_returns": np.zeros(len(finished.slots)) if group is None else group,
                "shared": group is not None,
                "info": dict(finished.info),
            }
        )

    def after_step(self, behaviors: Sequence[Any]) -> None:
        """Close a step of the environments: with curricula, gather what ended in it in any rank."""
        self._steps += 1
        if self.report is None:
            return
        news = self._environment.episodes.tobytes() != self._known or any(
            behavior.batch.ended.size or behavior.batch.aborted is not None for behavior in behaviors
        )
        if not self._counted(int(news))[0]:
            for joined in self._joined.values():
                joined.batch = BatchOfRanks()
            return
        own = np.asarray(self._environment.episodes, np.int64)
        gathered = self.all_gather(
            {
                "episodes": own,
                "ended": {each.name: self._joined[each.name].spec.numbers[each.batch.ended] for each in behaviors},
                "aborted": {each.name: self._aborted(each) for each in behaviors},
                "finished": self._take(),
            }
        )
        self._everywhere.episodes[:] = np.concatenate([each["episodes"] for each in gathered])
        self._known = own.tobytes()
        for name, joined in self._joined.items():
            ended = np.sort(np.concatenate([each["ended"][name] for each in gathered])).astype(np.intp)
            lost = [each["aborted"][name] for each in gathered if each["aborted"][name] is not None]
            aborted = None
            if lost:
                aborted = np.zeros(joined.spec.total, np.bool_)
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

    def settle(self) -> None:
        """Gather the episodes that ended since this was called last, for statistics. The steps are exact afterwards."""
        counts = [count for count, _ in self._counts()]
        uncounted = [count.uncounted for count in counts]
        gathered = self.all_gather({"finished": self._take(), "uncounted": uncounted})
        for count, *of_ranks in zip(counts, *(each["uncounted"] for each in gathered), strict=True):
            count.counted(sum(of_ranks))
        for name in self._joined:
            self._note(name, [each["finished"][name] for each in gathered])

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
            microseconds = int((monotonic() - self._since) * 1e6)
            wanted, total = self._counted(int(stopping()), microseconds)
            mean = total / self.size / steps
            self._interval = min(MOST_STEPS, max(1, int(SECONDS * 1e6 / max(mean, 1.0))))
            self._agreed_at = self._steps
            self._since = monotonic()
        if not wanted:
            return False
        first = self._stops.first
        for request in self.all_gather(None if first is None else attrs.asdict(first)):
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
        sums: list[int] = self.sum(np.array([*values, *(count.uncounted for count in counts)])).tolist()
        for count, total in zip(counts, sums[len(values) :], strict=True):
            count.counted(total)
        return sums[: len(values)]

    def _aborted(self, behavior: Any) -> NDArray[np.int64] | None:
        lost = behavior.batch.aborted
        if lost is None:
            return None
        numbers: NDArray[np.int64] = self._joined[behavior.name].spec.numbers[lost]
        return numbers

    def _take(self) -> dict[str, list[dict[str, Any]]]:
        taken = self._ended
        self._ended = {name: [] for name in self._joined}
        return taken

    def _note(self, name: str, of_ranks: Sequence[list[dict[str, Any]]]) -> list[FinishedEpisodes]:
        """Note the episodes of all ranks in the statistics. Returns those of each step, in the order of the slots."""
        parts = [part for of_rank in of_ranks for part in of_rank]
        if not parts:
            return []
        own = sum(len(part["slots"]) for part in of_ranks[self.rank])
        columns = {
            key: np.concatenate([part[key] for part in parts])
            for key in ("step", "slots", "returns", "lengths", "group_returns")
        }
        names = dict.fromkeys(name for part in parts for name in part["info"])
        info = {
            name: np.concatenate([part["info"].get(name, np.full(len(part["slots"]), np.nan)) for part in parts])
            for name in names
        }
        order = np.lexsort((columns["slots"], columns["step"]))
        info = {name: column[order] for name, column in info.items()}
        columns = {key: column[order] for key, column in columns.items()}
        shared = any(part["shared"] for part in parts)
        edges = np.flatnonzero(np.diff(columns["step"])) + 1
        behavior = self._behaviors[name]
        steps = []
        behavior.episodes.finished += len(order) - own
        for rows in np.split(np.arange(len(order)), edges):
            finished = FinishedEpisodes(
                columns["slots"][rows].astype(np.intp),
                columns["returns"][rows],
                columns["lengths"][rows],
                columns["group_returns"][rows] if shared else None,
                {name: column[rows] for name, column in info.items() if np.isfinite(column[rows]).any()},
            )
            behavior.episodes_finished(finished)
            steps.append(finished)
        return steps


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
