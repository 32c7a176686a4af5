"""The plugins that a run was made with and that are not installed, for errors of its configuration."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import attrs

from rlcore.config.document import Document
from rlcore.config.problems import ConfigErrors
from rlcore.errors import RlcoreError
from rlcore.plugins.call import Plugins
from rlcore.plugins.discover import canonical
from rlcore.settings import CheckpointSettings
from rlcore.storage.files.paths import user_path
from rlcore.storage.run_files import LOGS
from rlcore.storage.status import metadata_of


@contextmanager
def naming_absent_plugins(directory: Path | None, plugins: Plugins) -> Iterator[None]:
    """Add to an error about an unknown name the plugins that are not installed and with which a run was made.

    ``directory`` is that of the run; None if there is none yet.
    """
    try:
        yield
    except ConfigErrors as error:
        unknown = any(problem.message.startswith("unknown ") for problem in error.problems)
        note = absent_plugins(directory, plugins) if unknown and directory is not None else ""
        if not note:
            raise
        raise ConfigErrors(error.problems, (note,)) from error


def absent_plugins(directory: Path, plugins: Plugins) -> str:
    """``the run was made with plugin acme (acme-rl 1.0), which is not installed``; empty if none is missing.

    The status of the run in ``directory`` lists its plugins. Empty too if it cannot be read.
    """
    try:
        made_with = metadata_of(plugins.read_status(directory / LOGS)).get("plugins")
    except RlcoreError:
        return ""
    installed = {(plugin.name, canonical(plugin.distribution)) for plugin in plugins.found}
    absent = [
        f"{name} ({release})"
        for name, release in (made_with.items() if isinstance(made_with, Mapping) else ())
        if isinstance(release, str) and release and (name, canonical(release.split()[0])) not in installed
    ]
    if not absent:
        return ""
    many = len(absent) > 1
    return (
        f"the run was made with {'plugins' if many else 'plugin'} {', '.join(absent)}, which "
        f"{'are' if many else 'is'} not installed"
    )


def directory_to_continue(document: Document) -> Path | None:
    """The directory of the run that a configuration continues, before it is checked; None for a new run."""
    block = document.data.get("checkpoint_settings")
    given = block if isinstance(block, Mapping) else {}
    if True not in (given.get("resume"), given.get("inference")):
        return None
    defaults = attrs.fields(CheckpointSettings)
    results_dir = given.get("results_dir", defaults.results_dir.default)
    run_id = given.get("run_id", defaults.run_id.default)
    return user_path(results_dir) / run_id if isinstance(results_dir, str) and isinstance(run_id, str) else None
