"""Statistics between two summaries, and the writers that receive them.

Tags are ML-Agents' own ("Environment/Cumulative Reward", "Losses/Policy Loss"), so existing dashboards keep working.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol, runtime_checkable

import attrs
import numpy as np
from numpy.typing import NDArray

from rlcore.contracts.saved_values import saved_array


class Tag:
    """Tags of the statistics of every run. Those that end with a space or a slash are followed by a name.

    Attributes:
        CUMULATIVE_REWARD: The returns of the agents' own rewards.
        GROUP_REWARD: The returns of rewards that groups share.
        EPISODE_LENGTH: The lengths of episodes, in agent steps.
        EPISODE_INFO: A number that the environment reports of ended episodes, without the name of the number.
        EVALUATION_INFO: The mean of such a number over an evaluation's episodes, without the name of the number.
        EVALUATION_REWARD: The returns of an evaluation's episodes.
        EVALUATION_LENGTH: The lengths of an evaluation's episodes, in environment steps.
        REWARD_AGAINST: The mean reward against an opponent of evaluations, without its name.
        WIN_RATE_AGAINST: The share of games won against an opponent of evaluations, without its name.
        DRAW_RATE_AGAINST: The share of drawn games against an opponent of evaluations, without its name.
        WORKER_RESTARTS: The number of workers that were started again since the process of the run started.
        ABORTED_EPISODES: The number of agents' episodes that were dropped because a worker failed.
        WORKER_WAIT: The seconds that the process of the run has waited for its workers.
        WORKER_STEPS: The seconds that all workers together have spent in steps of their environments.
        STEPS_PER_SECOND: The speed, in agent steps per second.
        IS_TRAINING: 1 in training, and 0 under ``--inference``.
        LESSON_NUMBER: The lesson of an environment parameter, without the name of the parameter.
        PARAMETER: The values of an environment parameter, without the name of the parameter.
    """

    CUMULATIVE_REWARD = "Environment/Cumulative Reward"
    GROUP_REWARD = "Environment/Group Cumulative Reward"
    EPISODE_LENGTH = "Environment/Episode Length"
    EPISODE_INFO = "Episode/"
    EVALUATION_INFO = "Evaluation/Episode/"
    EVALUATION_REWARD = "Evaluation/Cumulative Reward"
    EVALUATION_LENGTH = "Evaluation/Episode Length"
    REWARD_AGAINST = "Evaluation/Reward against "
    WIN_RATE_AGAINST = "Evaluation/Win Rate against "
    DRAW_RATE_AGAINST = "Evaluation/Draw Rate against "
    WORKER_RESTARTS = "Environment/Worker Restarts"
    ABORTED_EPISODES = "Environment/Aborted Episodes"
    WORKER_WAIT = "Performance/Seconds Waiting for Workers"
    WORKER_STEPS = "Performance/Seconds of Steps in Workers"
    STEPS_PER_SECOND = "Performance/Steps Per Second"
    IS_TRAINING = "Is Training"
    LESSON_NUMBER = "Environment/Lesson Number/"
    PARAMETER = "Environment/Parameter/"


@attrs.frozen
class StatSummary:
    """All values of one tag since the last summary. ``values`` is kept where a histogram is of use.

    Attributes:
        mean: Mean of the values.
        std: Population standard deviation of the values.
        min: Smallest value.
        max: Largest value.
        count: Number of values.
        values: The values themselves; empty for most tags.
    """

    mean: float
    std: float
    min: float
    max: float
    count: int
    values: tuple[float, ...] = attrs.field(default=(), repr=False)

    @classmethod
    def of(cls, values: list[float], keep_values: bool = False) -> StatSummary:
        """Summarize ``values``, at least one. ``keep_values`` keeps them, for histograms."""
        array = np.asarray(values, dtype=np.float64)
        return cls(
            mean=float(array.mean()),
            std=float(array.std()),  # of all values, not an estimate from a sample: as ML-Agents
            min=float(array.min()),
            max=float(array.max()),
            count=len(values),
            values=tuple(values) if keep_values else (),
        )


def lesson_numbers(stats: Mapping[str, float]) -> dict[str, float]:
    """Return the lesson number of each environment parameter among scalars by tag, by the parameter's name."""
    numbers = {}
    for tag, value in stats.items():
        if tag.startswith(Tag.LESSON_NUMBER):
            parameter = tag.removeprefix(Tag.LESSON_NUMBER)
            numbers[parameter] = value
    return numbers


@runtime_checkable
class StatsWriter(Protocol):
    """Receives summaries. Every way out of a run closes the writers, and ``close`` flushes.

    After the first error of ``write`` the run continues without the writer, and reports how many summaries it missed.
    """

    def write(self, behavior: str, step: int, stats: Mapping[str, StatSummary]) -> None:
        """Write the summary of one behavior: ``stats`` by tag at ``step``, its agent steps.

        The summary must be on disk, or sent, within seconds. Any exception is reported as an error of the writer.
        """

    def close(self) -> None:
        """Flush, and free what the writer holds."""


@runtime_checkable
class FlushesSummaries(Protocol):
    """Optional for a statistics writer that writes files: what was written is on disk before a checkpoint is.

    A resumed run continues after the newest checkpoint, and writes no summary of an earlier step again. Without
    ``flush``, a power failure could leave a checkpoint beside files that end before it.
    """

    def flush(self) -> None:
        """Have the disk store all summaries so far (``os.fsync``, and :func:`rlcore.fsync_directory` for a new file).

        Called in the thread that trains, before each checkpoint gets its name; no summary is written until it has it.
        Any exception is reported as an error of the writer, as one of ``write``.
        """


@attrs.define(eq=False)
class StatsWindow:
    """Collects scalars by tag until the next summary."""

    _values: dict[str, list[float]] = attrs.field(factory=dict, init=False)

    def add(self, stats: Mapping[str, float | Sequence[float]]) -> None:
        """Add one value, or several, by tag."""
        for tag, value in stats.items():
            values = list(value) if isinstance(value, Sequence) else [float(value)]
            self.extend(tag, values)

    def extend(self, tag: str, values: list[float]) -> None:
        """Add several values of one tag."""
        if values:
            self._values.setdefault(tag, []).extend(values)

    def summaries(self) -> dict[str, StatSummary]:
        """Summaries of everything collected so far."""
        summaries = {}
        for tag, values in self._values.items():
            # As in ML-Agents, returns are the one statistic of every run that has a histogram.
            is_return = tag == Tag.CUMULATIVE_REWARD
            summaries[tag] = StatSummary.of(values, keep_values=is_return)
        return summaries

    def summarize(self) -> dict[str, StatSummary]:
        """Return :meth:`summaries` and start an empty window."""
        summaries = self.summaries()
        self._values = {}
        return summaries

    def state_dict(self) -> dict[str, NDArray[np.float64]]:
        """Return the collected values by tag, each [values]."""
        return {tag: np.array(values, np.float64) for tag, values in self._values.items()}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue from :meth:`state_dict`. Raises SavedValueError if the state does not fit."""
        values = {}
        for tag in state:
            array = saved_array(state, tag, np.float64, (None,))
            values[tag] = array.tolist()
        self._values = values
