"""Reads what a run has written, for programs and for ``rlcore status``. Nothing in its directory is changed."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from pathlib import Path
from typing import Any

import attrs

from rlcore.builtin.metrics_file import MAX_METRICS, METRICS_FILE
from rlcore.config import Document, load_plugins_for
from rlcore.config.document import without_origins
from rlcore.errors import RunStateError
from rlcore.plugins.calls import Plugins
from rlcore.plugins.status_file import DamagedStatusFile
from rlcore.run.saved_run import find_run, find_state
from rlcore.storage.checkpoint import load_without_arrays, verify_checkpoint
from rlcore.storage.checkpoint_directory import Checkpoint, find_checkpoints
from rlcore.storage.configuration import read_saved_configuration
from rlcore.storage.files.json_files import (
    DamagedFile,
    is_number,
    is_whole,
    open_regular,
    parse_json,
    read_object,
    read_regular,
)
from rlcore.storage.lock import is_locked
from rlcore.storage.run_files import CHECKPOINTS, LOGS, RESULT, TIMERS
from rlcore.storage.saved_state import RUN, require_run
from rlcore.storage.status import metadata_of, status_in_checkpoints

__all__ = ["CheckpointData", "FoundCheckpoint", "RunData", "SavedSummary", "read_checkpoint", "read_run"]


@attrs.frozen
class SavedSummary:
    """One line of ``metrics.jsonl``: the means of one summary of one behavior by tag.

    Attributes:
        behavior: The name of the behavior.
        step: Agent steps of the behavior.
        time: Seconds since 1970.
        stats: Mean of each tag; None where the mean was not finite.
    """

    behavior: str
    step: int
    time: float
    stats: Mapping[str, float | None]


@attrs.frozen
class FoundCheckpoint:
    """A checkpoint in the directory of a run.

    Attributes:
        step: Agent steps of all behaviors.
        path: The directory of the checkpoint.
        problem: Damage in one line; empty for an intact checkpoint.
    """

    step: int
    path: Path
    problem: str


@attrs.frozen(slots=False)
class RunData:
    """The files of a run, as :func:`read_run` found them.

    Attributes:
        directory: The run directory.
        configuration: The complete configuration as plain data, without secrets.
        status: The training status of the newest intact checkpoint; empty before the first one.
        result: The content of ``result.json``; None while the run is not over.
        checkpoints: The checkpoints in ascending order.
        running: Whether a process writes to the directory.
        damaged: A line for each file that cannot be read.
        status_written: The training status as stored, perhaps of another step than the newest checkpoint; None if none
            is stored.
    """

    directory: Path
    configuration: Mapping[str, Any]
    status: Mapping[str, Any]
    result: Mapping[str, Any] | None
    checkpoints: tuple[FoundCheckpoint, ...]
    running: bool
    damaged: tuple[str, ...]
    status_written: Mapping[str, Any] | None = attrs.field(repr=False)

    @cached_property
    def metrics(self) -> tuple[SavedSummary, ...]:
        """The summaries in ``metrics.jsonl``, in its order, read on first use.

        Empty if the file is missing, or cannot be read, as ``damaged`` says.

        Lines that are not summaries are skipped, such as one that is being written; ``unreadable_metrics`` has them.
        """
        return tuple(summary for _, summary in self._lines if summary is not None)

    @cached_property
    def unreadable_metrics(self) -> tuple[int, ...]:
        """The numbers of the lines in ``metrics.jsonl`` that are not summaries, counted from 1."""
        return tuple(number for number, summary in self._lines if summary is None)

    @cached_property
    def timers(self) -> Mapping[str, Any] | None:
        """The content of ``run_logs/timers.json``, read on first use; None if it is missing or cannot be read."""
        try:
            return read_object(self.directory / LOGS / TIMERS)
        except (FileNotFoundError, DamagedFile):
            return None

    @cached_property
    def _lines(self) -> tuple[tuple[int, SavedSummary | None], ...]:
        """The lines of ``metrics.jsonl`` that are not empty, each with its number."""
        try:
            content = read_regular(self.directory / METRICS_FILE, MAX_METRICS)
        except (FileNotFoundError, DamagedFile):
            return ()
        return tuple((number, _summary(line)) for number, line in enumerate(content.split(b"\n"), 1) if line.strip())


def read_run(run: str | Path, plugins: Plugins | None = None) -> RunData:
    """Read the configuration, status, metrics and result of a run, which may still be training.

    ``run`` is a run directory, or the id of a run in ``results``. Without ``plugins``, the installed plugins that the
    configuration chooses are loaded, because one of them may store the status; local files are not imported. Raises
    RunStateError if there is no run, and ConfigError if its configuration cannot be read.
    """
    directory = find_run(Path(run))
    document = read_saved_configuration(directory)
    return run_data(directory, document, plugins or load_plugins_for(document, allow_local=False, lenient=True))


@attrs.frozen
class CheckpointData:
    """The state in a checkpoint, as :func:`read_checkpoint` read it.

    Attributes:
        step: Agent steps of all behaviors.
        path: The directory of the checkpoint.
        trainers: By behavior, what :meth:`rlcore.Trainer.state_dict` returned, with the entries of trainers
            that wrap others. The best checkpoint has only the entry ``"model"`` of each.
    """

    step: int
    path: Path
    trainers: Mapping[str, Mapping[str, Any]] = attrs.field(repr=False)


def read_checkpoint(run: str | Path, checkpoint: str = "last") -> CheckpointData:
    """Read the state in a checkpoint of a run, which may still be training. No plugin and no environment is needed.

    ``run`` is a run directory, or the id of a run in ``results``. ``checkpoint`` is ``"last"`` (the newest intact one),
    ``"best"`` or a step. Raises RunStateError if there is no such run or checkpoint.
    """
    found, state = find_state(find_run(Path(run)), checkpoint)
    return CheckpointData(found.step, found.path, {name: entry for name, entry in state.items() if name != RUN})


def run_data(directory: Path, document: Document, plugins: Plugins) -> RunData:
    """Read the run in ``directory``, whose configuration is ``document``."""
    damaged: list[str] = []
    stored = _stored(plugins, directory / LOGS, damaged)
    result = _result(directory / RESULT, damaged)
    try:
        open_regular(directory / METRICS_FILE, MAX_METRICS).close()  # its lines are read on first use
    except FileNotFoundError:
        pass
    except DamagedFile as error:
        damaged.append(str(error))
    found, newest = _checkpoints(directory / CHECKPOINTS)
    return RunData(
        directory,
        without_origins(document.data),
        _status_at(newest, stored),
        result,
        found,
        is_locked(directory),
        tuple(damaged),
        stored,
    )


def _stored(plugins: Plugins, logs: Path, damaged: list[str]) -> Mapping[str, Any] | None:
    """The status that the run wrote; None if it is missing, or damaged, which is added to ``damaged``."""
    try:
        return plugins.read_status(logs)
    except DamagedStatusFile as error:
        damaged.append(str(error))
        return None


def _checkpoints(directory: Path) -> tuple[tuple[FoundCheckpoint, ...], Checkpoint | None]:
    """All checkpoints in ``directory``, and the newest one that is intact."""
    listed: list[FoundCheckpoint] = []
    newest: Checkpoint | None = None
    for checkpoint in find_checkpoints(directory):
        try:
            verify_checkpoint(checkpoint.path)
            require_run(checkpoint.path, load_without_arrays(checkpoint.path))
            problem, newest = "", checkpoint
        except RunStateError as error:
            if not checkpoint.path.is_dir():
                continue  # the run is training, and has just deleted it
            problem = str(error)
        listed.append(FoundCheckpoint(checkpoint.step, checkpoint.path, problem))
    return tuple(listed), newest


def _status_at(checkpoint: Checkpoint | None, stored: Mapping[str, Any] | None) -> dict[str, Any]:
    """The status of the newest ``checkpoint``: ``stored``, unless that is missing or of another step."""
    if checkpoint is None or metadata_of(stored).get("run_steps") == checkpoint.step:
        return dict(stored or {})
    try:
        return status_in_checkpoints(checkpoint, load_without_arrays(checkpoint.path))
    except (RunStateError, OSError):  # the run is training, and has just deleted it
        return dict(stored or {})


def _result(path: Path, damaged: list[str]) -> dict[str, Any] | None:
    """How the run ended; None if it did not, or if the file is damaged, which is added to ``damaged``."""
    try:
        result = read_object(path)
    except FileNotFoundError:
        return None
    except DamagedFile as error:
        damaged.append(str(error))
        return None
    if not isinstance(result.get("outcome"), str) or not is_number(result.get("wall_seconds")):
        damaged.append(f"{path}: has no outcome, or no wall_seconds")
        return None
    return result


def _summary(line: bytes) -> SavedSummary | None:
    """The summary of one line; None if the line is not one."""
    try:
        found = parse_json(line)
    except ValueError:
        return None
    if not isinstance(found, dict) or not isinstance(found.get("behavior"), str) or not is_whole(found.get("step")):
        return None
    stats, time = found.get("stats"), found.get("time", 0.0)
    if not isinstance(stats, dict) or not is_number(time):
        return None
    numbers = {tag: value for tag, value in stats.items() if value is None or is_number(value)}
    return SavedSummary(found["behavior"], found["step"], float(time), numbers)
