"""Options that several commands share."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

import click

from rlcore.cli.foreign_code import warn_of_left_out
from rlcore.cli.terminal import echo

if TYPE_CHECKING:
    from rlcore.config.document import Document
    from rlcore.plugins.call import Plugins

Command = TypeVar("Command", bound=Callable[..., Any])


def plugin_options(command: Command) -> Command:
    """Adds ``-p``, ``--no-plugins`` and ``--strict-plugins`` (``dash_p``, ``no_plugins``, ``strict_plugins``)."""
    strict = click.option("--strict-plugins", is_flag=True, help="Stop the command at any failure of a plugin.")
    return selection_options(strict(command))


def selection_options(command: Command) -> Command:
    """Adds only ``-p`` and ``--no-plugins``."""
    command = click.option("--no-plugins", is_flag=True, help="Load rlcore's own plugins and those named by -p.")(
        command
    )
    return click.option(
        "-p",
        "dash_p",
        multiple=True,
        metavar="NAME",
        help="Load a plugin: NAME, DIST/NAME or module:acme.hooks; no:NAME leaves one out. May be repeated.",
    )(command)


def debug_option(command: Command) -> Command:
    """Adds ``--debug``, which :func:`rlcore.cli.main.main` reads from the arguments."""
    return click.option("--debug", is_flag=True, expose_value=False, help="Show tracebacks.")(command)


def plugins_for(
    document: Document,
    *,
    dash_p: Sequence[str],
    no_plugins: bool,
    strict_plugins: bool,
    tolerate_errors: bool = False,
    allow_local: bool = True,
    lenient: bool = False,
) -> Plugins:
    """Loads the plugins of a command and prints their warnings, such as one for each plugin that was left out.

    Without ``allow_local``, local files and modules that only the document names are left out; see
    :mod:`rlcore.cli.foreign_code`. ``lenient``: plugins that only the document asks for may be missing or broken.
    """
    from rlcore.config.load import load_plugins_for

    plugins = load_plugins_for(
        document,
        dash_p=dash_p,
        no_plugins=no_plugins,
        strict=strict_plugins,
        tolerate_errors=tolerate_errors,
        allow_local=allow_local,
        lenient=lenient,
    )
    if not allow_local:
        warn_of_left_out(document, plugins)
    for warning in plugins.warnings:
        echo(f"warning: {warning}", err=True)
    return plugins
