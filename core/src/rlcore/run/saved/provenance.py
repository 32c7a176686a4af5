"""The needs of a run of another machine or user: plugins that are absent, and code that its configuration names.

An environment id such as ``module:Name``, or a wrapper such as ``module:function``, has the module imported. Whoever
measures, resumes or plays a run of another user must allow this.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, NoReturn

import attrs

from rlcore.config.document import Document
from rlcore.config.foreign import named_by_a_stranger
from rlcore.config.plugins_block import environment_modules, local_references
from rlcore.config.problems import ConfigErrors
from rlcore.config.used_records import with_records_of
from rlcore.contracts.saved_values import EACH, TEXT, has_form
from rlcore.errors import ConfigError, RlcoreError
from rlcore.files.paths import user_path
from rlcore.plugins.call import Plugins
from rlcore.plugins.discover import canonical
from rlcore.run.saved.data import read_saved_configuration
from rlcore.settings import CheckpointSettings, RunConfig
from rlcore.settings.blocks import AUTO
from rlcore.storage.mark import LOGS
from rlcore.storage.status import metadata_of


def refuse_code_of_others(document: Document, directory: Path, local: bool) -> None:
    """Raises ConfigError if another user wrote the run directory and its configuration names code to import.

    With ``local``, files and modules of plugins count too, not only those of environments.
    """
    if written_by_this_user(directory, Path(document.path or directory)):
        return
    named = [f"environment {module!r}" for module in environment_modules(document)]
    if local:
        named += [f"plugin {name!r}" for name in local_references(document)]
    if named:
        raise ConfigError(
            f"{directory}: was written by another user, and its configuration has code imported: {', '.join(named)}; "
            "--allow-local allows it"
        )


def refuse_names_of_others(
    config: RunConfig, plugins: Plugins, directory: Path, document: Document, *, environments: bool = False
) -> None:
    """Raises ConfigError if another user wrote the run directory and its configuration names more than it may.

    That is a program, an address or another thing of this machine: see :mod:`rlcore.config.foreign`. With
    ``environments``, only those of environments count, for a command that uses no other block.
    """
    if written_by_this_user(directory, Path(document.path or directory)):
        return
    named = named_by_a_stranger(config, plugins)
    if environments:
        blocks = ("environment.", "evaluation.environment.")
        named = [line for line in named if line.startswith(blocks)]
    if named:
        raise ConfigError(
            f"{directory}: was written by another user, and its configuration names what may be anything: "
            f"{', '.join(named)}; --allow-local allows it"
        )


def written_by_this_user(*paths: Path) -> bool:
    """Whether a run directory and its configuration belong to this user; true on systems without owners of files."""
    getuid = getattr(os, "getuid", None)
    if getuid is None:
        return True
    try:
        return all(path.stat().st_uid == getuid() for path in paths)
    except OSError:
        return False


def raise_with_absent_plugins(error: ConfigErrors, directory: Path | None, plugins: Plugins) -> NoReturn:
    """Raise an error again; one about an unknown name names the absent plugins with which a run was made.

    ``directory`` is that of the run, whose status lists its plugins; None if there is none yet.
    """
    made_with: Any = {}
    if directory is not None and any(problem.message.startswith("unknown ") for problem in error.problems):
        with suppress(RlcoreError):
            status = plugins.read_status(directory / LOGS)
            made_with = metadata_of(status).get("plugins")
    if not has_form(made_with, {EACH: TEXT}):
        raise error
    installed = {(plugin.name, canonical(plugin.distribution)) for plugin in plugins.found}
    absent = []
    for name, release in made_with.items():
        # DISTRIBUTION VERSION; empty for a local plugin.
        distribution, *_ = release.split() or [""]
        if distribution and (name, canonical(distribution)) not in installed:
            absent.append(f"{name} ({release})")
    if not absent:
        raise error
    note = f"the run was made with plugins that are not installed: {', '.join(absent)}"
    raise ConfigErrors(error.problems, (note,)) from error


def with_records_of_run(document: Document) -> Document:
    """The document with the records that the run which it continues used, if it continues one.

    A name then means the record of the run, and not that of another distribution which was installed since.
    """
    directory = directory_to_continue(document)
    if directory is None:
        return document
    with suppress(RlcoreError):
        return with_records_of(document, read_saved_configuration(directory, silent=True))
    return document  # there is no run, which is reported when the run starts


def directory_to_continue(document: Document) -> Path | None:
    """The directory of the run that a configuration continues, before it is checked; None for a new run."""
    block = document.data.get("checkpoint_settings")
    if not isinstance(block, Mapping):
        return None
    if block.get("resume") not in (True, AUTO) and block.get("inference") is not True:
        return None
    defaults = attrs.fields(CheckpointSettings)
    results_dir = block.get("results_dir", defaults.results_dir.default)
    run_id = block.get("run_id", defaults.run_id.default)
    if isinstance(results_dir, str) and isinstance(run_id, str):
        return user_path(results_dir) / run_id
    return None  # the configuration is not checked yet, and these will be refused
