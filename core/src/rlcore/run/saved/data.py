"""Finds a run and reads what it has written, for programs and for commands. Nothing in its directory is changed.

``configuration.yaml`` is sealed with its checksum, and every checkpoint has a verified copy. A file whose checksum does
not match was edited or damaged, which no program can distinguish: then the copy is used.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import attrs

from rlcore.config.document import Document, without_origins
from rlcore.config.dump import content_sha256, is_sealed
from rlcore.config.plugins_block import load_plugins_for
from rlcore.config.reading import MAX_BYTES, in_collection, parse_document, read_document
from rlcore.contracts.saved_values import COUNT, LINE, MAPPING, NUMBER, has_form
from rlcore.errors import ConfigError, RunStateError, did_you_mean
from rlcore.files.lock import is_locked
from rlcore.files.paths import user_path
from rlcore.files.reading import DamagedFile, failing_as, is_number, open_regular, parse_json, read_object, read_regular
from rlcore.plugins.call import Plugins
from rlcore.plugins.core import MAX_METRICS, METRICS_FILE
from rlcore.settings.blocks import NO_PRESET
from rlcore.storage.checkpoint import CONFIGURATION
from rlcore.storage.checkpoint_state import RUN, require_models, require_run
from rlcore.storage.checkpoints import (
    BEST,
    CHECKPOINTS,
    Checkpoint,
    by_score,
    find_checkpoints,
    is_step,
    newest_intact,
)
from rlcore.storage.directory import ResultsDirectory
from rlcore.storage.fingerprint import changes, described
from rlcore.storage.mark import LOGS, RESULT, TIMERS
from rlcore.storage.status import metadata_of, training_status

__all__ = [
    "CheckpointData",
    "FoundCheckpoint",
    "RunData",
    "SavedSummary",
    "find_run",
    "latest_summaries",
    "read_checkpoint",
    "read_run",
]

log = logging.getLogger(__name__)

TAIL = 2**20  # bytes of metrics.jsonl that have the latest summaries


# ---------------------------------------------------------------- finding a run, a checkpoint, the configuration


def find_run(run: Path) -> Path:
    """Return ``run`` itself if it is a run directory, else the run of that id under ``results``.

    A name such as ``zoo:ppo/CartPole-v1`` is the trained agent of a plugin's collection. Raises RunStateError if there
    is nothing of the name.
    """
    results = Path("results")
    for directory in (run, results / run):
        if _is_run(directory):
            return directory
    agent = in_collection(run, "agents")
    if agent is not None:
        return agent
    names = [directory.name for directory in sorted(results.glob("*")) if _is_run(directory)]
    suggestion = did_you_mean(run.name, names)
    raise RunStateError(f"{run}: neither a run directory nor the id of a run in results/{suggestion}")


def require_run_directory(directory: Path) -> None:
    """Raises RunStateError unless ``directory`` is a run directory."""
    if not _is_run(directory):
        raise RunStateError(f"{directory}: there is no run to resume")


def _is_run(directory: Path) -> bool:
    """Whether a run can be read from there: it has a configuration (runs of ML-Agents have one) or a checkpoint."""
    return (directory / CONFIGURATION).is_file() or bool(find_checkpoints(directory / CHECKPOINTS))


def find_state(directory: Path, checkpoint: str) -> tuple[Checkpoint, dict[str, Any]]:
    """The checkpoint ``"last"``, ``"best"`` or of a step of the run in ``directory``, and its state.

    Raises RunStateError if there is no such checkpoint, saying which there are.
    """
    origin = f"{directory}"
    read = partial(newest_intact, origin=origin, check=require_models)
    if is_step(directory):
        return read(directory.parent, step=int(directory.name))
    regular = directory / CHECKPOINTS
    names = [str(found.step) for found in find_checkpoints(regular)]
    if checkpoint == "last":
        return read(regular)
    if checkpoint in names:
        return read(regular, step=int(checkpoint))
    best = find_checkpoints(regular / BEST)
    if checkpoint == "best" and best:
        ranked = by_score(best)  # if none is intact, the error says what is wrong with each
        step = ranked[-1].step if ranked else None
        return read(regular / BEST, step=step)
    advice = "; evaluations during the training keep the best one, unless evaluation.keep_best is off"
    if best:
        names.append("best")
        advice = ""
    known = ", ".join(names) or "none"
    raise RunStateError(f"{directory}: there is no checkpoint {checkpoint!r}; there are {known}{advice}")


def read_saved_configuration(directory: Path, silent: bool = False) -> Document:
    """The configuration of the run in ``directory``. It is complete, so no preset is chosen for it.

    Warns, with the keys that differ, if a checkpoint's copy is used because the file is missing, edited or damaged;
    not if ``silent``.
    Raises ConfigError if there is neither.
    """
    document = _saved_configuration(directory, silent)
    return attrs.evolve(document, data=document.data.with_entry("preset", NO_PRESET, None))


def _saved_configuration(directory: Path, silent: bool) -> Document:
    path = directory / CONFIGURATION
    try:
        text = read_regular(path, MAX_BYTES).decode()
    except (FileNotFoundError, DamagedFile, UnicodeDecodeError):
        text = ""
    if is_sealed(text):
        return parse_document(text, str(path))
    copy = _newest_copy(directory / CHECKPOINTS)
    if copy is None:
        return read_document(path)
    document = read_document(copy)
    problem = "is missing or damaged"
    if text:
        with suppress(ConfigError):
            differences = changes(document.data, parse_document(text, str(path)).data)
            if not differences:
                return document
            problem = f"was edited or is damaged ({described(differences)})"
    level = logging.DEBUG if silent else logging.WARNING
    log.log(
        level,
        "%s: %s; the configuration in checkpoint %s is used (to use another, give a file as CONFIG or keys with --set)",
        path,
        problem,
        copy.parent.name,
    )
    return document


def _newest_copy(checkpoints: Path) -> Path | None:
    """The configuration in the newest intact checkpoint that has one; None if there is none."""
    for checkpoint in reversed(find_checkpoints(checkpoints)):
        copy = checkpoint.path / CONFIGURATION
        if copy.is_file() and not checkpoint.problems():
            return copy
    return None


def configuration_sha256(checkpoint: Path) -> str:
    """The checksum of the configuration that the ``checkpoint``, a directory, was trained with.

    Raises RunStateError if it has none.
    """
    path = checkpoint / CONFIGURATION
    try:
        return content_sha256(read_regular(path, MAX_BYTES).decode())
    except (FileNotFoundError, DamagedFile, UnicodeDecodeError) as error:
        raise RunStateError(f"{path}: is missing or damaged; an exported policy states its checksum") from error


# ---------------------------------------------------------------- what a run wrote


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
class FoundCheckpoint(Checkpoint):
    """A checkpoint that was compared with its checksums.

    Attributes:
        problem: Damage in one line; empty for an intact checkpoint.
    """

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
        lines = []
        for number, line in enumerate(content.split(b"\n"), 1):
            if line.strip():
                lines.append((number, _summary(line)))
        return tuple(lines)


def read_run(run: str | Path, plugins: Plugins | None = None) -> RunData:
    """Read the configuration, status, metrics and result of a run, which may still be training.

    ``run`` is a run directory, or the id of a run in ``results``. Without ``plugins``, the installed plugins that the
    configuration chooses are loaded, because one of them may store the status; local files are not imported. Raises
    RunStateError if there is no run, and ConfigError if its configuration cannot be read.
    """
    directory = find_run(Path(run))
    document = read_saved_configuration(directory)
    if plugins is None:
        plugins = load_plugins_for(document, allow_local=False, lenient=True)
    return run_data(directory, document, plugins)


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
    directory = find_run(Path(run))
    found, state = find_state(directory, checkpoint)
    del state[RUN]
    return CheckpointData(found.step, found.path, state)


def run_data(directory: Path, document: Document, plugins: Plugins) -> RunData:
    """Read the run in ``directory``, whose configuration is ``document``."""
    damaged: list[str] = []

    def read(one: Callable[[], Any]) -> Any:
        """What ``one`` returns; None without the file, or if the file is damaged, which is added to ``damaged``."""
        try:
            return one()
        except FileNotFoundError:
            return None
        except DamagedFile as error:
            damaged.append(str(error))
            return None

    stored = read(lambda: plugins.read_status(directory / LOGS))
    result = read(lambda: read_object(directory / RESULT))
    if result is not None and not has_form(result, {"outcome": LINE, "wall_seconds": NUMBER}):
        damaged.append(f"{directory / RESULT}: has no outcome of one line, or no wall_seconds")
        result = None
    read(lambda: open_regular(directory / METRICS_FILE, MAX_METRICS).close())  # its lines are read on first use
    checkpoints = []
    newest = None
    for checkpoint in find_checkpoints(directory / CHECKPOINTS):
        problem = "; ".join(checkpoint.problems())
        if not checkpoint.path.is_dir():  # the run is training, and has just deleted it
            continue
        checkpoints.append(FoundCheckpoint(checkpoint.step, checkpoint.path, problem))
        if not problem:
            newest = checkpoint
    status = dict(stored or {})
    # A process that was killed may have saved a checkpoint and no status of it: the checkpoint is the truth.
    if newest is not None and metadata_of(stored).get("run_steps") != newest.step:
        with suppress(RunStateError, OSError):  # the run is training, and has just deleted it
            status = training_status(newest)
    return RunData(
        directory=directory,
        configuration=without_origins(document.data),
        status=status,
        result=result,
        checkpoints=tuple(checkpoints),
        running=is_locked(directory),
        damaged=tuple(damaged),
        status_written=stored,
    )


def latest_summaries(directory: Path) -> dict[str, SavedSummary]:
    """The newest summary of each behavior in ``metrics.jsonl`` of the run in ``directory``, the newest one first.

    The last MiB of the file is read, which has hundreds of summaries; a behavior without one in it is left out. Empty
    if the file is missing or cannot be read.
    """
    try:
        path = directory / METRICS_FILE
        with open_regular(path, MAX_METRICS) as stream, failing_as(f"{path}: cannot be read", DamagedFile):
            start = max(0, stream.seek(0, os.SEEK_END) - TAIL)
            stream.seek(start)
            lines = stream.read(TAIL).split(b"\n")
    except (FileNotFoundError, DamagedFile):
        return {}
    whole = lines[1:] if start else lines
    latest: dict[str, SavedSummary] = {}
    for line in reversed(whole):
        summary = _summary(line) if line.strip() else None
        if summary is not None:
            latest.setdefault(summary.behavior, summary)
    return latest


def _summary(line: bytes) -> SavedSummary | None:
    """The summary of one line; None if the line is not one."""
    try:
        summary = parse_json(line)
    except ValueError:
        return None
    if not has_form(summary, {"behavior": LINE, "step": COUNT, "stats": MAPPING, "time?": NUMBER}):
        return None
    means = {}
    for tag, mean in summary["stats"].items():
        if mean is None or is_number(mean):
            means[tag] = mean
    time = float(summary.get("time") or 0.0)
    return SavedSummary(summary["behavior"], summary["step"], time, means)


# ---------------------------------------------------------------- runs that a new run begins with


def status_of_run(directory: ResultsDirectory, plugins: Plugins, run: str, origin: str) -> Mapping[str, Any]:
    """The training status of another run, of rlcore or of ML-Agents.

    ``run`` is an id in the results directory of ``directory``, or a path; ``origin`` is what the user wrote. A status
    that is missing or damaged is made from the run's checkpoints, with a warning. Raises RunStateError if there are
    neither.
    """
    place = directory.path.parent / run
    path = directory.working_directory / user_path(run)
    if path.is_file():
        raise RunStateError(f"{origin}: is a file; name the run's directory, which has {LOGS}")
    if not place.is_dir():
        place = path
    logs = place / LOGS
    try:
        status = plugins.read_status(logs)
        if status is None:
            raise DamagedFile(f"{logs} holds no training status")
    except DamagedFile as error:
        checkpoints = place / CHECKPOINTS
        if not find_checkpoints(checkpoints):
            raise RunStateError(f"{origin}: {error}") from error
        log.warning("%s: %s; the newest checkpoint is read instead", origin, error)
        newest, _ = newest_intact(checkpoints, origin, check=require_run)
        return training_status(newest)
    if "stats_format_version" not in metadata_of(status):
        raise RunStateError(f"{origin}: its training status has no metadata.stats_format_version")
    return status
