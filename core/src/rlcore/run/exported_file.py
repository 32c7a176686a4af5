"""Writes one exported policy. The exporter writes into an empty directory, and rlcore moves the complete file."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import attrs

from rlcore import __version__
from rlcore.contracts.environment import BehaviorSpec
from rlcore.contracts.exporters import ChecksPolicies, ExportAbout, Exporter
from rlcore.contracts.policy import Policy
from rlcore.errors import ConfigError, PluginError, UnsupportedExport
from rlcore.plugins.failures import blamed, failure
from rlcore.records import ExporterSpec
from rlcore.settings import ExportSettings
from rlcore.storage.files.atomic import fsync_directory, fsync_file, temporary_path


@attrs.frozen(eq=False)
class OpenExporter:
    """An exporter that was created, with its record and its settings."""

    exporter: Exporter
    spec: ExporterSpec
    settings: ExportSettings

    def check(self, policy: Policy, behavior: BehaviorSpec) -> None:
        """Raise ConfigError if the exporter knows that it cannot export ``policy`` for want of a package."""
        if isinstance(self.exporter, ChecksPolicies):
            with blamed(self.spec.described, f"to check behavior {behavior.name!r}"):
                self.exporter.check(policy, behavior)

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
            with _written(path):
                empty.mkdir()
            made = empty / path.name
            try:
                report = self.exporter.export(policy, behavior, made, about)
            except UnsupportedExport as error:
                what = f"{self.spec.described}: behavior {behavior.name!r} cannot be exported"
                raise UnsupportedExport(f"{what}: {error}") from error
            except (Exception, SystemExit) as error:
                raise failure(self.spec.described, f"to export behavior {behavior.name!r}", error) from error
            problem = _problem(empty, made) or _problem_of_report(report)
            if problem:
                raise PluginError(f"{self.spec.described}: export of behavior {behavior.name!r} {problem}")
            with _written(path):
                fsync_file(made)
                made.replace(path)
                fsync_directory(path.parent)
            return report
        finally:
            shutil.rmtree(empty, ignore_errors=True)


def about_export(
    run_id: str, step: int, behavior_steps: int, trainer_type: str, configuration_sha256: str
) -> ExportAbout:
    """The origin of a policy that this version of rlcore exports."""
    return ExportAbout(
        run_id=run_id,
        step=step,
        behavior_steps=behavior_steps,
        trainer_type=trainer_type,
        rlcore_version=__version__,
        configuration_sha256=configuration_sha256,
    )


@contextmanager
def _written(path: Path) -> Iterator[None]:
    """For a block that writes ``path``: raise ConfigError for an error of the operating system."""
    try:
        yield
    except OSError as error:
        raise ConfigError(f"{path}: cannot be written: {error.strerror or error}") from error


def _problem(directory: Path, made: Path) -> str | None:
    """What is wrong with the file ``made`` that an exporter wrote into ``directory``; None if it is as agreed."""
    others = sorted(entry.name for entry in directory.iterdir() if entry != made)
    if others:
        return f"wrote {others[0]!r} beside its file; an export is one file"
    if not os.path.lexists(made):
        return "wrote no file"
    if made.is_symlink() or not made.is_file():
        return "wrote something other than a file"
    return None if made.stat().st_size else "wrote an empty file"


def _problem_of_report(report: object) -> str | None:
    """What is wrong with what an exporter returned; None if it is None or one line of text."""
    if report is None or (isinstance(report, str) and len(report.splitlines()) == 1):
        return None
    what = f"{len(report.splitlines())} lines" if isinstance(report, str) else f"a {type(report).__name__}"
    return f"returned {what}; a report is one line of text, or None"
