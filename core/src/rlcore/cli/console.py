"""The statistics writer ``console``: a line for each summary on the terminal."""

from __future__ import annotations

import sys
import time
from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING, Any

from rlcore.cli.terminal import fitted, printable

if TYPE_CHECKING:
    from rlcore.contracts.stats import StatSummary
    from rlcore.plugins.context import RunContext

ELO = "Self-play/ELO"


class ConsoleWriter:
    """Prints one plain line per summary in ML-Agents' words, followed by lessons, evaluation and speed.

    With ``plays=False``, lines do not mention episodes: training on recorded data plays none. Lines never mention the
    lessons of the environment parameters in ``silent``.
    """

    def __init__(self, plays: bool = True, silent: Collection[str] = frozenset()) -> None:
        self._plays = plays
        self._silent = silent
        self._started = time.monotonic()

    @classmethod
    def create(cls, settings: Any, run: RunContext) -> ConsoleWriter:
        return cls(plays=run.inference or not run.offline, silent=run.config.lone_lessons)

    def write(self, behavior: str, step: int, stats: Mapping[str, StatSummary]) -> None:
        seconds = time.monotonic() - self._started
        line = console_line(behavior, step, seconds, stats, self._plays, self._silent)
        print(fitted(line, sys.stdout), flush=True)

    def close(self) -> None:
        """Do nothing: no file is open."""


def console_line(
    behavior: str,
    step: int,
    seconds: float,
    stats: Mapping[str, StatSummary],
    plays: bool = True,
    silent: Collection[str] = frozenset(),
) -> str:
    """Return ``Walker. Step: 1000. Time Elapsed: 1.500 s. Mean Reward: ... . Training. 2000 steps/s.``"""
    from rlcore.contracts.stats import Tag, lesson_numbers

    means = {tag: summary.mean for tag, summary in stats.items()}
    parts = [f"{behavior}. Step: {step}", f"Time Elapsed: {seconds:0.3f} s"]
    if Tag.CUMULATIVE_REWARD in means:
        parts.append(f"Mean Reward: {means[Tag.CUMULATIVE_REWARD]:0.3f}")
        if Tag.GROUP_REWARD in means:
            parts.append(f"Mean Group Reward: {means[Tag.GROUP_REWARD]:0.3f}")
        else:
            parts.append(f"Std of Reward: {stats[Tag.CUMULATIVE_REWARD].std:0.3f}")
    elif plays:
        parts.append("No episode was completed since last summary")
    is_training = means.get(Tag.IS_TRAINING, 1.0) > 0.0
    parts.append("Training" if is_training else "Not Training")
    if ELO in means:
        parts.append(f"ELO: {means[ELO]:0.3f}")
    lessons = []
    for name, number in lesson_numbers(means).items():
        if name not in silent:
            lessons.append(f"{name} {number:g}")
    if lessons:
        parts.append(f"Lesson: {', '.join(lessons)}")
    if Tag.EVALUATION_REWARD in means:
        opponents = []
        for tag, mean in means.items():
            if tag.startswith(Tag.REWARD_AGAINST):
                opponents.append(f"{tag.removeprefix(Tag.REWARD_AGAINST)} {mean:0.3f}")
        against = f" ({', '.join(opponents)})" if opponents else ""
        parts.append(f"Evaluation: {means[Tag.EVALUATION_REWARD]:0.3f}{against}")
    if Tag.STEPS_PER_SECOND in means:
        parts.append(f"{means[Tag.STEPS_PER_SECOND]:.0f} steps/s")
    return printable(". ".join(parts) + ".")
