"""Code that configurations name: which commands import it, and the messages about code that was not imported.

A command that only reads does not run code that a file names. ``status``, ``validate``, ``evaluate`` and ``export``
import a local file or module that only a configuration names only with ``--allow-local``; the user chose what ``-p`` or
``RLCORE_PLUGINS`` names. ``rlcore run CONFIG`` imports what CONFIG names, and resuming a run does so if this user wrote
its directory. An environment id such as ``module:Name`` makes Gymnasium import the module; in a run directory that
another user wrote, it is refused.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from rlcore.cli.terminal import echo
from rlcore.errors import ConfigError

if TYPE_CHECKING:
    from rlcore.config import Document
    from rlcore.plugins.calls import Plugins

Command = TypeVar("Command", bound=Callable[..., Any])


def allow_local_option(command: Command) -> Command:
    """Adds ``--allow-local`` (``allow_local``)."""
    return click.option(
        "--allow-local",
        is_flag=True,
        envvar="RLCORE_ALLOW_LOCAL",
        help="Import the files and modules that the configuration names (RLCORE_ALLOW_LOCAL=1 does the same).",
    )(command)


def warn_of_left_out(document: Document, plugins: Plugins) -> None:
    """Warns of each file and module that the configuration names and that was not imported."""
    from rlcore.config.plugins_block import directory_of, local_references
    from rlcore.plugins.local_file import anchored
    from rlcore.plugins.plugin import LOCAL_PREFIX

    loaded = {plugin.label for plugin in plugins.found if plugin.on}
    for name in local_references(document):
        if anchored(LOCAL_PREFIX + name, directory_of(document)) not in loaded:  # or -p names it too
            place = document.where(("plugins",))
            what = f"{name} was not imported: looking at a configuration runs no code that it names"
            echo(f"warning: {place}: plugins: {what}; --allow-local imports it", err=True)


def refuse_code_of_others(document: Document, directory: Path, local: bool) -> None:
    """Raises ConfigError if another user wrote the run directory and its configuration names code to import.

    With ``local``, files and modules of plugins count too, not only those of environments.
    """
    if written_by_this_user(directory, Path(document.path or directory)):
        return
    named = [f"environment {each!r}" for each in environment_modules(document)]
    if local:
        from rlcore.config.plugins_block import local_references

        named += [f"plugin {name!r}" for name in local_references(document)]
    if named:
        raise ConfigError(
            f"{directory}: was written by another user, and its configuration has code imported: {', '.join(named)}; "
            "--allow-local allows it"
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


def environment_modules(document: Document) -> list[str]:
    """The environment ids that name a module, as in ``module:Name``, which Gymnasium imports."""
    evaluation = document.data.get("evaluation")
    played = evaluation.get("environment") if isinstance(evaluation, Mapping) else None
    blocks: list[Any] = [document.data.get("environment"), played]
    ids = [block.get("id") for block in blocks if isinstance(block, Mapping)]
    return [each for each in dict.fromkeys(map(str, ids)) if ":" in each]
