"""The plugin inside rlcore, which uses the same hooks as every other one: the extrinsic reward, and two writers.

Core's own answers to the hooks that write and read the training status are here too.

The writer ``jsonl`` is here, with the file ``metrics.jsonl`` that it continues when a run is resumed; ``console`` is in
:mod:`rlcore.cli.console`.
"""

from __future__ import annotations

import json
import logging
import math
import os
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rlcore.files.reading import failing_as, parse_json, read_object, read_regular
from rlcore.files.writing import WatchedDirectory, free_name, fsync_directory, open_to_append, write_atomically
from rlcore.hookspecs import hookimpl
from rlcore.plugins.known import PROGRAM
from rlcore.records import EnvironmentSpec, RewardProviderSpec, StatsWriterSpec

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from rlcore.contracts.rewards import Transitions
    from rlcore.contracts.stats import StatSummary
    from rlcore.plugins.context import RunContext

log = logging.getLogger(__name__)

STATUS_FILE = "training_status.json"
METRICS_FILE = "metrics.jsonl"
DAMAGED = ".damaged"  # added to the name of the file with unreadable lines
MAX_METRICS = 1_000_000_000  # bytes; a million summaries
SHOWN_LINES = 5  # number of line numbers in a message


@hookimpl
def rlcore_reward_providers() -> list[RewardProviderSpec]:
    return [
        RewardProviderSpec(
            name="extrinsic",
            target="rlcore.plugins.core:ExtrinsicReward.create",
            settings="rlcore.settings:ExtrinsicSettings",
            summary="the environment's own reward, the group's included",
            ranks=True,
        )
    ]


@hookimpl
def rlcore_stats_writers() -> list[StatsWriterSpec]:
    return [
        StatsWriterSpec(
            name="jsonl",
            target="rlcore.plugins.core:JsonlWriter.create",
            summary="metrics.jsonl in the run directory, one summary a line",
            default_on=True,
            foreign=True,
        ),
        StatsWriterSpec(
            name="console",
            target="rlcore.cli.console:ConsoleWriter.create",
            summary="a line for each summary on the terminal",
            default_on=True,
            foreign=True,
            inference=True,
        ),
    ]


@hookimpl
def rlcore_environments() -> list[EnvironmentSpec]:
    about = "an environment that a Python program gives: Run(config, environment=...)"
    return [EnvironmentSpec(name=PROGRAM, target="rlcore.run.environments:make_given", summary=about, presets=True)]


class ExtrinsicReward:
    """The environment's reward, plus the reward of the agent's group (ML-Agents' ``extrinsic`` signal).

    Attributes:
        name: ``"extrinsic"``.
        gamma: Discount factor of the reward.
        strength: Factor on the reward.
        ignore_done: False: the value ends with the episode.
    """

    name = "extrinsic"
    ignore_done = False

    def __init__(self, gamma: float = 0.99, strength: float = 1.0) -> None:
        self.gamma = gamma
        self.strength = strength

    @classmethod
    def create(cls, settings: Any, behavior: Any, run: Any) -> ExtrinsicReward:
        """Create the provider from its block in ``reward_signals``: the target of its record."""
        return cls(gamma=settings.gamma, strength=settings.strength)

    def evaluate(self, transitions: Transitions) -> NDArray[np.float32]:
        """Return the reward of each transition plus that of its group, [*L]."""
        if transitions.group_reward is None:
            return transitions.reward
        return transitions.reward + transitions.group_reward

    def update(self, transitions: Transitions) -> Mapping[str, float]:
        """Return no statistics: there is nothing to learn."""
        return {}

    def state_dict(self) -> dict[str, Any]:
        """Return an empty mapping."""
        return {}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Do nothing: there is no state."""


class JsonlWriter:
    """Writes one line of JSON per summary: ``{"behavior", "step", "time", "stats": {tag: mean}}``.

    ``time`` is in seconds since 1970. A mean that is not finite is written as null, which every JSON reader accepts.
    """

    def __init__(
        self,
        path: Path,
        resumed_steps: Mapping[str, int] | None = None,
        own_files: Callable[[str], None] = lambda pattern: None,
    ) -> None:
        """Continue the file at ``path`` without the lines of steps that the resumed run repeats.

        ``resumed_steps`` is the agent step from which each behavior of the run continues; lines of others stay.
        ``own_files`` gets the name of a file with unreadable lines before it is made.
        """

        path.parent.mkdir(parents=True, exist_ok=True)
        self._directory = WatchedDirectory(path.parent)
        self._path = path
        if path.exists():
            keep_until(path, resumed_steps or {}, own_files)
        self._file = open_to_append(path)
        self._new_name = True  # which is not on disk yet

    @classmethod
    def create(cls, settings: Any, run: RunContext) -> JsonlWriter:
        run.own_files(METRICS_FILE)
        steps = dict.fromkeys((*run.behavior_names, *run.behaviors), 0) | run.resumed_steps
        return cls(run.directory / METRICS_FILE, steps, run.own_files)

    def write(self, behavior: str, step: int, stats: Mapping[str, StatSummary]) -> None:
        lost = self._directory.lost(self._path, self._file)
        if lost or self._directory.linked(self._file):
            self._file.close()
            self._file = open_to_append(self._path)
            self._new_name = True
        if lost:
            log.warning(
                "%s: was removed or replaced while the run was writing to it; the file that is there now has the "
                "summaries from step %d of %r on",
                self._path,
                step,
                behavior,
            )
        means = {}
        for tag, summary in stats.items():
            means[tag] = summary.mean if math.isfinite(summary.mean) else None  # JSON has no NaN
        line = {"behavior": behavior, "step": step, "time": round(time.time(), 3), "stats": means}
        text = json.dumps(line, ensure_ascii=False, allow_nan=False)
        self._file.write(text.encode() + b"\n")
        self._file.flush()

    def flush(self) -> None:
        """Have the disk store all lines, and the name of a new file."""

        os.fsync(self._file.fileno())
        if self._new_name:
            fsync_directory(self._path.parent)
            self._new_name = False

    def close(self) -> None:
        self._file.close()


def keep_until(path: Path, steps: Mapping[str, int], own_files: Callable[[str], None]) -> None:
    """Remove the lines after each behavior's step; lines of behaviors without a step stay. Never leaves half a file.

    A last line without a line end was cut short by a crash: it is kept if only the line end is missing. Other
    unreadable lines move to a new file, ``metrics.jsonl.damaged`` if the name is free, with a warning.
    """
    content = read_regular(path, MAX_METRICS)
    kept: list[bytes] = []
    damaged: dict[int, bytes] = {}  # by line number
    lines = content.split(b"\n")
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            behavior, step = _behavior_and_step(line)
            if behavior not in steps or step <= steps[behavior]:
                kept.append(line + b"\n")
        except (ValueError, LookupError, TypeError):
            damaged[number] = line + b"\n"
    damaged.pop(len(lines), None)  # the last line, if it has no line end: a crash cut it short
    if damaged:
        damaged_file = free_name(path, DAMAGED)
        own_files(damaged_file.name)
        write_atomically(damaged_file, b"".join(damaged.values()))
        log.warning("%s: %s; moved to %s", path, _unreadable(list(damaged)), damaged_file.name)
    if b"".join(kept) != content:
        write_atomically(path, b"".join(kept))


def _behavior_and_step(line: bytes) -> tuple[str, int]:
    """Return the behavior and the step of a summary."""
    summary = parse_json(line)
    behavior = summary["behavior"]
    step = summary["step"]
    if not isinstance(behavior, str) or not isinstance(step, int):
        raise TypeError("not a summary")
    return behavior, step


def _unreadable(numbers: Sequence[int]) -> str:
    if len(numbers) == 1:
        return f"line {numbers[0]} cannot be read"
    first = ", ".join(map(str, numbers[:SHOWN_LINES]))
    more = ", ..." if len(numbers) > SHOWN_LINES else ""
    return f"{len(numbers)} lines cannot be read ({first}{more})"


def write_status_file(status: Mapping[str, Any], directory: Path) -> bool:
    """Core's own ``rlcore_write_status``. Raises RunStateError."""
    from rlcore.contracts.states import json_values

    text = json.dumps(json_values(status), indent=4, allow_nan=False) + "\n"
    path = directory / STATUS_FILE
    with failing_as(f"{path}"):
        write_atomically(path, text.encode())
    return True


def read_status_file(directory: Path) -> Mapping[str, Any] | None:
    """Core's own ``rlcore_read_status``: None if there is no file. Raises DamagedFile: checkpoints have the status."""
    try:
        return read_object(directory / STATUS_FILE)
    except FileNotFoundError:
        return None
