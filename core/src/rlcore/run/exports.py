"""The exports of a run: the policies as files at the end of the run and, if wanted, beside its checkpoints.

``BEHAVIOR.SUFFIX`` in the run directory has the policy of the end, and ``BEHAVIOR/BEHAVIOR-STEP.SUFFIX`` that of a
checkpoint, as in ML-Agents. ``STEP`` is the name of the checkpoint. The mark of the run lists these files. An exporter
writes into an empty directory, and rlcore moves the complete file.
"""

from __future__ import annotations

import logging
import shutil
from collections import Counter
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import attrs

from rlcore import __version__
from rlcore.contracts.behavior_spec import BehaviorSpec
from rlcore.contracts.parts import BoundaryPart
from rlcore.contracts.policy import ExportAbout, Exporter, Policy, read_by
from rlcore.contracts.results import ExportResult
from rlcore.errors import ConfigError, PluginError, RlcoreError, RunStateError, UnsupportedExport
from rlcore.files.reading import failing_as
from rlcore.files.writing import fsync_directory, fsync_file, temporary_path
from rlcore.plugins.call import Plugins
from rlcore.plugins.context import RunContext
from rlcore.plugins.failures import blamed, failure
from rlcore.records import ExporterSpec
from rlcore.run.behaviors.behavior import TrainedBehavior, trainer_named
from rlcore.run.session import Session
from rlcore.settings import ExportSettings, RunConfig
from rlcore.storage.checkpoints import find_checkpoints

log = logging.getLogger(__name__)

about_export = partial(ExportAbout, rlcore_version=__version__)  # the origin of a policy that this version exports


@attrs.frozen(eq=False)
class OpenExporter:
    """An exporter that was created, with its record and its settings."""

    exporter: Exporter
    spec: ExporterSpec
    settings: ExportSettings

    def write(
        self, policy: Policy, behavior: BehaviorSpec, path: Path, about: ExportAbout, workplace: Path
    ) -> str | None:
        """Export ``policy`` to ``path``, whose directory exists, and return the exporter's report in one line, or None.

        A file at ``path`` is replaced in one step. ``workplace`` is a directory on the same disk for what is not
        complete; nothing is left in it. Raises UnsupportedExport if the exporter refuses the policy, PluginError if it
        fails or writes something other than one file, and ConfigError if the file cannot be written.
        """
        exporter = self.spec.described
        cannot_write = f"{path}: cannot be written"
        empty = temporary_path(workplace, "export-")
        made = empty / path.name
        try:
            with failing_as(cannot_write, ConfigError):
                empty.mkdir()
            try:
                report = self.exporter.export(policy, read_by(policy, behavior), made, about)
            except UnsupportedExport as error:
                raise UnsupportedExport(
                    f"{exporter}: behavior {behavior.name!r} cannot be exported: {error}"
                ) from error
            except (Exception, SystemExit) as error:
                raise failure(exporter, f"to export behavior {behavior.name!r}", error) from error
            problem = _problem(empty, made, report)
            if problem:
                raise PluginError(f"{exporter}: export of behavior {behavior.name!r} {problem}")
            with failing_as(cannot_write, ConfigError):
                fsync_file(made)  # before the rename: a power failure must not leave the name of an empty file
                made.replace(path)
                fsync_directory(path.parent)
            return report
        finally:
            shutil.rmtree(empty, ignore_errors=True)


def _problem(directory: Path, made: Path, report: object) -> str | None:
    """What is wrong with the file ``made`` that an exporter wrote into ``directory``, and with what it returned."""
    others = sorted(entry.name for entry in directory.iterdir() if entry != made)
    if others:
        return f"wrote {others[0]!r} beside its file; an export is one file"
    if made.is_symlink() or not made.is_file() or not made.stat().st_size:
        return "wrote no file, or something other than a file with content"
    if report is None:
        return None
    if isinstance(report, str) and len(report.splitlines()) == 1:
        return None
    return f"returned {report!r:.80}; a report is one line of text, or None"


def make_exporters(config: RunConfig, plugins: Plugins, context: RunContext) -> list[OpenExporter]:
    """The exporters of the ``export`` block; none if nothing is learned."""
    if context.inference or context.ranks.rank:
        return []
    made = []
    for reference, settings in config.export.items():
        spec = plugins.record(ExporterSpec, reference)
        exporter = plugins.create(spec, settings=settings, run=context)
        made.append(OpenExporter(exporter, spec, settings))
    return made


class Exports(BoundaryPart):
    """Exports the policies of a run. A failure is a warning, and is kept in ``results``; the run continues.

    Attributes:
        exporters: The exporters of the ``export`` block, which are created before the first step.
        results: The exports at the end, and those that failed before it.
    """

    name = "export"

    def __init__(self, session: Session) -> None:
        self.exporters: list[OpenExporter] = []
        self.results: list[ExportResult] = []
        self._session = session
        self._refused: dict[tuple[str, str], str] = {}  # by exporter and behavior: trying again would change nothing

    def open(self) -> None:
        """Create the exporters."""
        context = self._session.context
        self.exporters = make_exporters(context.config, self._session.prepared.plugins, context)
        self.follows_checkpoints = any(opened.settings.checkpoints for opened in self.exporters)

    def checkpoint_saved(self, step: int) -> None:
        """Delete the exports of checkpoints that were deleted, and export beside the checkpoint of ``step``."""
        self._remove_old(step)
        if not self.follows_checkpoints:
            return
        exporters = [opened for opened in self.exporters if opened.settings.checkpoints]
        try:
            self._export_all(exporters, step, at_end=False)
        finally:
            self._session.prepared.store.write_status_of_exports()

    def finish(self, step: int) -> None:
        """Export to the run directory."""
        self._export_all(self.exporters, step, at_end=True)

    @property
    def failures(self) -> list[str]:
        """One line for each different failure, for the closing summary."""
        problems = Counter(result.problem for result in self.results if result.problem is not None)
        lines = []
        for problem, count in problems.items():
            lines.append(problem if count == 1 else f"{problem} ({count} times)")
        return lines

    def to_json(self) -> list[dict[str, Any]]:
        """For ``result.json``."""
        return [attrs.asdict(result) for result in self.results]

    def _remove_old(self, step: int) -> None:
        """Delete the exports of checkpoints that are gone, and of an earlier checkpoint of the same ``step``."""
        directory = self._session.prepared.directory
        if not directory.exports:
            return
        kept = {checkpoint.step for checkpoint in find_checkpoints(directory.checkpoints)}
        kept.discard(step)
        try:
            directory.remove_exports(kept)
        except RunStateError as error:
            log.warning("%s", error)

    def _export_all(self, exporters: Sequence[OpenExporter], step: int, at_end: bool) -> None:
        """Export every behavior with each exporter. With ``--strict-plugins``, the first failure is to end the run."""
        if not exporters:
            return
        session = self._session
        timer = session.prepared.timers.root
        if not at_end:
            timer = timer.child("RLTrainer._checkpoint")
        first_failure = None
        with timer.child("Exporter.export").measure(), session.notifications.failing_later():
            for behavior in session.state.behaviors.values():
                for opened in exporters:
                    failure = self._export(opened, behavior, step, at_end)
                    first_failure = first_failure or failure
            if first_failure is not None and session.prepared.plugins.strict:
                raise first_failure

    def _export(self, opened: OpenExporter, behavior: TrainedBehavior, step: int, at_end: bool) -> PluginError | None:
        """Export one policy, and note the result. Returns the error of an exporter that failed."""
        reference = opened.spec.reference
        name = behavior.name
        suffix = opened.spec.suffix
        file = f"{name}{suffix}" if at_end else f"{name}/{name}-{step}{suffix}"
        problem = self._refused.get((reference, name))
        report = None
        failure = None
        try:
            if problem is None:
                report = self._write(opened, behavior, step, file, at_end)
        except RlcoreError as error:
            problem = str(error)
            if isinstance(error, UnsupportedExport):
                self._refused[reference, name] = problem
            elif isinstance(error, PluginError):
                failure = error
            known = any(result.problem == problem for result in self.results)
            level = logging.DEBUG if known else logging.WARNING
            log.log(level, "%s", problem)
            log.debug("the traceback of it:", exc_info=error)
        if problem:
            self.results.append(ExportResult(reference, name, step, None, problem, report))
        elif at_end:
            self.results.append(ExportResult(reference, name, step, file, None, report))
        return failure

    def _write(self, opened: OpenExporter, behavior: TrainedBehavior, step: int, file: str, at_end: bool) -> str | None:
        """Export one policy as ``file`` of the run directory, and return the exporter's report."""
        prepared = self._session.prepared
        directory = prepared.directory
        path = directory.path / file
        with blamed(trainer_named(behavior), "in snapshot"):
            policy = behavior.trainer.snapshot()
        about = about_export(
            run_id=self._session.context.run_id,
            step=step,
            behavior_steps=behavior.steps,
            trainer_type=behavior.settings.trainer_type,
            configuration_sha256=prepared.store.configuration_sha256,
        )
        # Declared before it is written, so that a process that is killed leaves no file that counts as a user's.
        directory.declare_export(file, None if at_end else step)
        with failing_as(f"{path.parent}: cannot be made"):
            path.parent.mkdir(exist_ok=True)
        report = opened.write(policy, behavior.spec, path, about, directory.path)
        if at_end:
            directory.declare_export(file, step)
        result = path if report is None else f"{path}: {report}"
        level = logging.INFO if at_end else logging.DEBUG
        log.log(level, "behavior %r is exported to %s", behavior.name, result)
        return report
