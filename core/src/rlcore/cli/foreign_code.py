"""The option ``--allow-local``, and the messages about code that was not imported.

A command that only reads does not run code that a file names. ``status``, ``validate``, ``evaluate`` and ``export``
import a local file or module that only a configuration names only with ``--allow-local``; the user chose what ``-p`` or
``RLCORE_PLUGINS`` names. ``rlcore run CONFIG`` imports what CONFIG names, and resuming a run does so if this user wrote
its directory; see :mod:`rlcore.run.provenance`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

import click

from rlcore.cli.terminal import echo

if TYPE_CHECKING:
    from rlcore.config.document import Document
    from rlcore.plugins.call import Plugins

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
    from rlcore.config.load import left_out

    for message in left_out(document, plugins):
        echo(f"warning: {message}", err=True)
