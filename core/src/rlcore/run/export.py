"""The exports of a run: the policies as files at the end of the run and, if wanted, beside its checkpoints.

``BEHAVIOR.SUFFIX`` in the run directory has the policy of the end, and ``BEHAVIOR/BEHAVIOR-STEP.SUFFIX`` that of a
checkpoint, as in ML-Agents. ``STEP`` is the name of the checkpoint. The mark of the run lists these files. An exporter
writes into an empty directory, and rlcore moves the complete file.
"""

from __future__ import annotations

import logging
import shutil
from collections import Counter
from collections.abc import Iterable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import attrs

from rlcore import __version__
from rlcore.contracts.environment import BehaviorSpec
from rlcore.contracts.policy import ExportAbout, Exporter, Policy, read_by
from rlcore.contracts.results import ExportResult
from rlcore.errors import ConfigError, PluginError, RlcoreError, RunStateError, UnsupportedExport
from rlcore.files.reading import failing_as
from rlcore.files.writing import fsync_directory, fsync_file, temporary_path
from rlcore.plugins.call import Plugins
from rlcore.plugins.context import RunContext
from rlcore.plugins.failures import blamed, failure
from rlcore.records import ExporterSpec
from rlcore.run.behaviors.behavior import BehaviorRun, trainer_named
from rlcore.settings import ExportSettings, RunConfig
from rlcore.storage.checkpoints import find_checkpoints
from rlcore.storage.directory import RunDirectory
from rlcore.storage.store import RunStore

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
        empty = temporary_path(workplace, "export-")
        try:
            with failing_as(f"{path}: cannot be written", ConfigError):
                empty.mkdir()
            made = empty / path.name
            try:
                report = self.exporter.export(policy, read_by(policy, behavior), made, about)
            except UnsupportedExport as error:
                what = f"{self.spec.described}: behavior {behavior.name!r} cannot be exported"
                raise UnsupportedExport(f"{what}: {error}") from error
            except (Exception, SystemExit) as error:
                raise failure(self.spec.described, f"to export behavior {behavior.name!r}", error) from error
            problem = _problem(empty, made, report)
            if problem:
                raise PluginError(f"{self.spec.described}: export of behavior {behavior.name!r} {problem}")
            with failing_as(f"{path}: cannot be written", ConfigError):
                fsync_file(made)
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
    if report is not None and not (isinstance(report, str) and len(report.splitlines()) == 1):
        return f"returned {report!r:.80}; a report is one line of text, or None"
    return None


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


def _policy_of(behavior: BehaviorRun) -> Policy:
    with blamed(trainer_named(behavior), "in snapshot"):
        return behavior.trainer.snapshot()


@attrs.define(eq=False)
class RunExports:
    """Exports the policies of a run. A failure is a warning, and is kept in ``results``; the run continues."""

    _strict: bool
    _context: RunContext
    _directory: RunDirectory
    _store: RunStore
    exporters: list[OpenExporter] = attrs.field(init=False, factory=list)  # set before the first step
    # By exporter and behavior: trying again would change nothing.
    _refused: dict[tuple[str, str], str] = attrs.field(init=False, factory=dict)
    results: list[ExportResult] = attrs.field(init=False, factory=list)  # of the end, and the failures before it

    @property
    def at_checkpoints(self) -> bool:
        """Whether policies are exported beside checkpoints."""
        return any(each.settings.checkpoints for each in self.exporters)

    def at_checkpoint(self, step: int, behaviors: Iterable[BehaviorRun]) -> None:
        """Delete the exports of checkpoints that were deleted, and export beside the checkpoint of ``step``.

        With ``--strict-plugins``, the first PluginError is raised after all exports.
        """
        self._remove_old(step)
        wanted = [each for each in self.exporters if each.settings.checkpoints]
        if wanted:
            try:
                self._export_all(wanted, step, behaviors, at_end=False)
            finally:
                self._store.write_status_of_exports()

    def at_end(self, step: int, behaviors: Iterable[BehaviorRun]) -> None:
        """Export to the run directory. Raises as :meth:`at_checkpoint` does."""
        self._export_all(self.exporters, step, behaviors, at_end=True)

    @property
    def failures(self) -> list[str]:
        """One line for each different failure, for the closing summary."""
        counted = Counter(each.problem for each in self.results if each.problem is not None)
        return [text if count == 1 else f"{text} ({count} times)" for text, count in counted.items()]

    def to_json(self) -> list[dict[str, Any]]:
        """For ``result.json``."""
        return [attrs.asdict(each) for each in self.results]

    def _remove_old(self, step: int) -> None:
        """Delete the exports of checkpoints that are gone, and of an earlier checkpoint of the same ``step``."""
        if not self._directory.exports:
            return
        kept = {each.step for each in find_checkpoints(self._directory.checkpoints)} - {step}
        try:
            self._directory.remove_exports(kept)
        except RunStateError as error:
            log.warning("%s", error)

    def _export_all(
        self, exporters: Sequence[OpenExporter], step: int, behaviors: Iterable[BehaviorRun], at_end: bool
    ) -> None:
        failure: PluginError | None = None
        for behavior in behaviors if exporters else ():
            for opened in exporters:
                reference = opened.spec.reference
                name = behavior.name
                file = f"{name}{opened.spec.suffix}" if at_end else f"{name}/{name}-{step}{opened.spec.suffix}"
                problem = self._refused.get((reference, name))
                report = None
                try:
                    if problem is None:
                        report = self._export(opened, behavior, step, file, None if at_end else step)
                except RlcoreError as error:
                    problem = str(error)
                    if isinstance(error, UnsupportedExport):
                        self._refused[reference, name] = problem
                    elif isinstance(error, PluginError):
                        failure = failure or error
                    known = any(each.problem == problem for each in self.results)
                    log.log(logging.DEBUG if known else logging.WARNING, "%s", problem)
                    log.debug("the traceback of it:", exc_info=error)
                result = ExportResult(reference, name, step, None if problem else file, problem, report)
                if at_end or problem:
                    self.results.append(result)
        if failure is not None and self._strict:
            raise failure

    def _export(self, opened: OpenExporter, behavior: BehaviorRun, step: int, file: str, of: int | None) -> str | None:
        """Export one policy as ``file`` of the run directory, and return the exporter's report.

        ``of`` is the step of the policy's checkpoint; None for an export at the end of the run.
        """
        path = self._directory.path / file
        policy = _policy_of(behavior)
        about = about_export(
            run_id=self._context.run_id,
            step=step,
            behavior_steps=behavior.steps,
            trainer_type=behavior.settings.trainer_type,
            configuration_sha256=self._store.configuration_sha256,
        )
        self._directory.declare_export(file, of)
        with failing_as(f"{path.parent}: cannot be made"):
            path.parent.mkdir(exist_ok=True)
        report = opened.write(policy, behavior.spec, path, about, self._directory.path)
        if of is None:
            self._directory.declare_export(file, step)
        shown = path if report is None else f"{path}: {report}"
        log.log(logging.INFO if of is None else logging.DEBUG, "behavior %r is exported to %s", behavior.name, shown)
        return report
