"""The exports of a run: the policies as files at the end of the run and, if wanted, beside its checkpoints.

``BEHAVIOR.SUFFIX`` in the run directory has the policy of the end, and ``BEHAVIOR/BEHAVIOR-STEP.SUFFIX`` that of a
checkpoint, as in ML-Agents. ``STEP`` is the name of the checkpoint. The mark of the run lists these files.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

import attrs

from rlcore.contracts.exporters import ChecksPolicies
from rlcore.contracts.policy import Policy
from rlcore.contracts.results import ExportResult
from rlcore.errors import ConfigError, PluginError, RlcoreError, RunStateError, UnsupportedExport
from rlcore.plugins.calls import Plugins
from rlcore.plugins.failures import blamed, trainer_named
from rlcore.plugins.run_context import RunContext
from rlcore.run.behavior import BehaviorRun
from rlcore.run.exported_file import OpenExporter, about_export
from rlcore.settings import RunConfig
from rlcore.storage.checkpoints import find_checkpoints
from rlcore.storage.directory import RunDirectory
from rlcore.storage.store import RunStore

log = logging.getLogger(__name__)


def make_exporters(
    config: RunConfig, plugins: Plugins, context: RunContext, behaviors: Iterable[BehaviorRun]
) -> list[OpenExporter]:
    """The exporters of the ``export`` block; none if nothing is learned. ConfigError if one lacks a package."""
    if context.inference or context.ranks.rank:
        return []
    made = []
    for reference, settings in config.export.items():
        spec = plugins.exporter(reference)
        opened = OpenExporter(plugins.create_exporter(spec, settings, context), spec, settings)
        made.append(opened)
        for behavior in behaviors if isinstance(opened.exporter, ChecksPolicies) else ():
            try:
                opened.check(_policy_of(behavior), behavior.spec)
            except ConfigError as error:
                raise ConfigError(error.message, key=("export", reference)) from error
    return made


def _policy_of(behavior: BehaviorRun) -> Policy:
    with blamed(trainer_named(behavior), "in snapshot"):
        return behavior.trainer.snapshot()


class RunExports:
    """Exports the policies of a run. A failure is a warning, and is kept in ``results``; the run continues."""

    def __init__(self, plugins: Plugins, context: RunContext, directory: RunDirectory, store: RunStore) -> None:
        self.exporters: list[OpenExporter] = []  # set before the first step
        self.results: list[ExportResult] = []  # those of the end of the run, and the failures before it
        self._strict = plugins.strict
        self._context = context
        self._directory = directory
        self._store = store
        self._refused: dict[tuple[str, str], str] = {}  # by exporter and behavior: trying again would change nothing

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
                reference, name = opened.spec.reference, behavior.name
                file = f"{name}{opened.spec.suffix}" if at_end else f"{name}/{name}-{step}{opened.spec.suffix}"
                problem, report = self._refused.get((reference, name)), None
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
        trainer_type, checksum = behavior.settings.trainer_type, self._store.configuration_sha256
        about = about_export(self._context.run_id, step, behavior.steps, trainer_type, checksum)
        self._directory.declare_export(file, of)
        try:
            path.parent.mkdir(exist_ok=True)
        except OSError as error:
            raise RunStateError(f"{path.parent}: cannot be made: {error.strerror or error}") from error
        report = opened.write(policy, behavior.spec, path, about, self._directory.path)
        if of is None:
            self._directory.declare_export(file, step)
        shown = path if report is None else f"{path}: {report}"
        log.log(logging.INFO if of is None else logging.DEBUG, "behavior %r is exported to %s", behavior.name, shown)
        return report
