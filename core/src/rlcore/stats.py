"""Statistics between two summaries, and the writers that receive them.

Tags are ML-Agents' own ("Environment/Cumulative Reward", "Losses/Policy Loss"), so existing dashboards keep working.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol, runtime_checkable

import attrs
import numpy as np
from numpy.typing import NDArray

from rlcore.environment import AgentBatch
from rlcore.saved_values import fill, saved_array, saved_bool, saved_count

CUMULATIVE_REWARD = "Environment/Cumulative Reward"
GROUP_REWARD = "Environment/Group Cumulative Reward"
EPISODE_LENGTH = "Environment/Episode Length"
EVALUATION_REWARD = "Evaluation/Cumulative Reward"
EVALUATION_LENGTH = "Evaluation/Episode Length"
STEPS_PER_SECOND = "Performance/Steps Per Second"
IS_TRAINING = "Is Training"
LESSON_NUMBER = "Environment/Lesson Number/"  # and the name of an environment parameter
PARAMETER = "Environment/Parameter/"  # likewise


@attrs.frozen
class StatSummary:
    """All values of one tag since the last summary. ``values`` is kept where a histogram is of use."""

    mean: float
    std: float
    min: float
    max: float
    count: int
    values: tuple[float, ...] = attrs.field(default=(), repr=False)  # hundreds would drown what an epoch prints

    @classmethod
    def of(cls, values: list[float], keep_values: bool = False) -> StatSummary:
        array = np.asarray(values, dtype=np.float64)
        return cls(
            mean=float(array.mean()),
            std=float(array.std()),
            min=float(array.min()),
            max=float(array.max()),
            count=len(values),
            values=tuple(values) if keep_values else (),
        )


def lesson_numbers(stats: Mapping[str, float]) -> dict[str, float]:
    """The lesson of each environment parameter that scalars by tag tell of, by the parameter's name."""
    return {tag.removeprefix(LESSON_NUMBER): value for tag, value in stats.items() if tag.startswith(LESSON_NUMBER)}


@runtime_checkable
class StatsWriter(Protocol):
    """Receives summaries. Every way out of a run closes the writers, and ``close`` flushes.

    After the first error of ``write`` the run goes on without the writer, and says how many summaries it missed.
    """

    def write(self, behavior: str, step: int, stats: Mapping[str, StatSummary]) -> None:
        """One summary of one behavior; ``step`` is its agent step. Must be on disk, or sent, within seconds."""
        ...

    def close(self) -> None: ...


class StatsWindow:
    """Collects scalars by tag until the next summary."""

    def __init__(self) -> None:
        self._values: dict[str, list[float]] = {}

    def add(self, stats: Mapping[str, float | Sequence[float]]) -> None:
        """Takes one value, or several, by tag."""
        for tag, value in stats.items():
            self.extend(tag, list(value) if isinstance(value, Sequence) else [float(value)])

    def extend(self, tag: str, values: list[float]) -> None:
        if values:
            self._values.setdefault(tag, []).extend(values)

    def summaries(self) -> dict[str, StatSummary]:
        """Summaries of everything collected so far."""
        return {
            tag: StatSummary.of(values, keep_values=tag == CUMULATIVE_REWARD) for tag, values in self._values.items()
        }

    def summarise(self) -> dict[str, StatSummary]:
        """The same, and the window starts anew."""
        summaries = self.summaries()
        self._values = {}
        return summaries

    def state_dict(self) -> dict[str, NDArray[np.float64]]:
        return {tag: np.array(values, np.float64) for tag, values in self._values.items()}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        self._values = {tag: saved_array(state, tag, np.float64, (None,)).tolist() for tag in state}


class EpisodeRecorder:
    """Returns and lengths of the episodes of one behavior, slot by slot."""

    def __init__(self, slots: int) -> None:
        self.returns: NDArray[np.float64] = np.zeros(slots)  # [S] of the open episodes
        self.group_returns: NDArray[np.float64] = np.zeros(slots)  # [S]
        self.shared = False  # whether any batch had a group's reward; not every one of such an environment need have
        self.lengths: NDArray[np.int64] = np.zeros(slots, np.int64)  # [S] agent steps
        self._one_each: NDArray[np.int64] = np.ones(slots, np.int64)  # [S] added in half the time of the number 1
        self.finished = 0  # episodes ended since the run began
        self.finished_returns: list[float] = []  # since they were last taken
        self.finished_group_returns: list[float] = []
        self.finished_lengths: list[int] = []
        # [K] of those that ended in the latest batch in which any did.
        self.latest_returns: NDArray[np.float64] = np.empty(0)
        self.latest_group_returns: NDArray[np.float64] = np.empty(0)
        self.latest_lengths: NDArray[np.int64] = np.empty(0, np.int64)

    def begin(self) -> None:
        """All slots start an episode; what was open is forgotten, it did not end."""
        self.returns[:] = 0.0
        self.group_returns[:] = 0.0
        self.lengths[:] = 0

    def record(self, batch: AgentBatch) -> None:
        moved = batch.moved
        if moved is None:
            self.returns += batch.reward
            self.lengths += self._one_each
        else:
            np.add(self.returns, batch.reward, out=self.returns, where=moved)
            self.lengths += moved
        if batch.group_reward is not None:
            self.shared = True
            everywhere = True if moved is None else moved
            np.add(self.group_returns, batch.group_reward, out=self.group_returns, where=everywhere)
        ended = batch.ended
        if ended.size:
            self.finished += len(ended)
            self.latest_returns, self.latest_lengths = self.returns.take(ended), self.lengths.take(ended)
            self.finished_returns.extend(self.latest_returns.tolist())
            self.finished_lengths.extend(self.latest_lengths.tolist())
            self.returns[ended] = 0.0
            self.lengths[ended] = 0
            self.latest_group_returns = self.group_returns.take(ended)
            if self.shared:
                self.finished_group_returns.extend(self.latest_group_returns.tolist())
                self.group_returns[ended] = 0.0
        if batch.aborted is not None:
            self.returns[batch.aborted] = 0.0
            self.group_returns[batch.aborted] = 0.0
            self.lengths[batch.aborted] = 0

    def take_finished(self) -> tuple[list[float], list[float], list[int]]:
        """Returns, group returns (none if nobody shares rewards) and lengths of the episodes that ended since."""
        taken = self.finished_returns, self.finished_group_returns, self.finished_lengths
        self.finished_returns, self.finished_group_returns, self.finished_lengths = [], [], []
        return taken

    def state_dict(self) -> dict[str, Any]:
        """The open episodes and the count of those that ended; what ended since was taken before."""
        return {
            "returns": self.returns.copy(),
            "group_returns": self.group_returns.copy(),
            "shared": self.shared,
            "lengths": self.lengths.copy(),
            "finished": self.finished,
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        fill(self.returns, state, "returns")
        fill(self.group_returns, state, "group_returns")
        self.shared = saved_bool(state, "shared")
        fill(self.lengths, state, "lengths")
        self.finished = saved_count(state, "finished")
