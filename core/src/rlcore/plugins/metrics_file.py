"""The statistics writers of rlcore itself: ``metrics.jsonl``, and lines on the console."""

from __future__ import annotations

import json
import logging
import math
import sys
import time
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

from rlcore.builtin.metrics_file import METRICS_FILE, keep_until
from rlcore.builtin.terminal_text import fitted, printable
from rlcore.contracts.stats import (
    CUMULATIVE_REWARD,
    EVALUATION_REWARD,
    GROUP_REWARD,
    IS_TRAINING,
    REWARD_AGAINST,
    STEPS_PER_SECOND,
    StatSummary,
    lesson_numbers,
)
from rlcore.storage.files.atomic import WatchedDirectory, open_to_append

if TYPE_CHECKING:
    from rlcore.plugins.context import RunContext

log = logging.getLogger(__name__)

ELO = "Self-play/ELO"


class JsonlWriter:
    """Writes one line of JSON per summary: ``{"behavior", "step", "time", "stats": {tag: mean}}``.

    ``time`` is in seconds since 1970. A mean that is not finite is written as null, which every JSON reader accepts.
    """

    def __init__(self, path: Path, resumed_steps: Mapping[str, int] | None = None) -> None:
        """Continue the file at ``path`` without the lines of steps that the resumed run repeats.

        ``resumed_steps`` is the agent step from which each behavior of the run continues; lines of others stay.
        """
        path.parent.mkdir(parents=True, exist_ok=True)
        self._directory = WatchedDirectory(path.parent)
        self._path = path
        self.damaged = keep_until(path, resumed_steps or {}) if path.exists() else None
        self._file = open_to_append(path)

    @classmethod
    def create(cls, settings: Any, run: RunContext) -> JsonlWriter:
        run.own_files(METRICS_FILE)
        steps = dict.fromkeys((*run.behavior_names, *run.behaviors), 0) | run.resumed_steps
        writer = cls(run.directory / METRICS_FILE, steps)
        if writer.damaged is not None:
            run.own_files(writer.damaged.name)
        return writer

    def write(self, behavior: str, step: int, stats: Mapping[str, StatSummary]) -> None:
        means = {tag: summary.mean if math.isfinite(summary.mean) else None for tag, summary in stats.items()}
        line = {"behavior": behavior, "step": step, "time": round(time.time(), 3), "stats": means}
        lost = self._directory.lost(self._path, self._file)
        if lost or self._directory.linked(self._file):
            self._file.close()
            self._file = open_to_append(self._path)
        if lost:
            log.warning(
                "%s: was removed or replaced while the run was writing to it; the file that is there now has the "
                "summaries from step %d of %r on", self._path, step, behavior,
            )  # fmt: skip
        self._file.write(json.dumps(line, ensure_ascii=False, allow_nan=False).encode() + b"\n")
        self._file.flush()

    def close(self) -> None:
        self._file.close()


class ConsoleWriter:
    """Prints one plain line per summary in ML-Agents' words, followed by lessons, evaluation and speed.

    With ``plays=False``, lines do not mention episodes: training on recorded data plays none. Lines never mention the
    lessons of the environment parameters in ``silent``.
    """

    def __init__(self, stream: TextIO | None = None, plays: bool = True, silent: Collection[str] = frozenset()) -> None:
        self._stream = stream
        self._plays = plays
        self._silent = silent
        self._started = time.monotonic()

    @classmethod
    def create(cls, settings: Any, run: RunContext) -> ConsoleWriter:
        return cls(plays=run.inference or not run.offline, silent=run.config.lone_lessons)

    def write(self, behavior: str, step: int, stats: Mapping[str, StatSummary]) -> None:
        line = console_line(behavior, step, time.monotonic() - self._started, stats, self._plays, self._silent)
        # Looked up for each line, because a progress bar may have replaced the stream.
        stream = self._stream or sys.stdout
        print(fitted(line, stream), file=stream, flush=True)

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
    parts = [f"{behavior}. Step: {step}", f"Time Elapsed: {seconds:0.3f} s"]
    reward = stats.get(CUMULATIVE_REWARD)
    if reward is None:
        parts += ["No episode was completed since last summary"] if plays else []
    else:
        parts.append(f"Mean Reward: {reward.mean:0.3f}")
        if GROUP_REWARD in stats:
            parts.append(f"Mean Group Reward: {stats[GROUP_REWARD].mean:0.3f}")
        else:
            parts.append(f"Std of Reward: {reward.std:0.3f}")
    training = IS_TRAINING not in stats or stats[IS_TRAINING].mean > 0.0
    parts.append("Training" if training else "Not Training")
    if ELO in stats:
        parts.append(f"ELO: {stats[ELO].mean:0.3f}")
    means = {tag: summary.mean for tag, summary in stats.items()}
    lessons = [f"{name} {number:g}" for name, number in lesson_numbers(means).items() if name not in silent]
    if lessons:
        parts.append(f"Lesson: {', '.join(lessons)}")
    if EVALUATION_REWARD in stats:
        against = [
            f"{tag.removeprefix(REWARD_AGAINST)} {summary.mean:0.3f}"
            for tag, summary in stats.items()
            if tag.startswith(REWARD_AGAINST)
        ]
        named = f" ({', '.join(against)})" if against else ""
        parts.append(f"Evaluation: {stats[EVALUATION_REWARD].mean:0.3f}{named}")
    if STEPS_PER_SECOND in stats:
        parts.append(f"{stats[STEPS_PER_SECOND].mean:.0f} steps/s")
    return printable(". ".join(parts) + ".")
