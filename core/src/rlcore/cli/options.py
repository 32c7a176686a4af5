"""Options that several commands share."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

if TYPE_CHECKING:
    from rlcore.config import PluginSettings
    from rlcore.plugins.calls import Plugins

Command = TypeVar("Command", bound=Callable[..., Any])


def plugin_options(command: Command) -> Command:
    """Adds ``-p``, ``--no-plugins`` and ``--strict-plugins`` (``dash_p``, ``no_plugins``, ``strict_plugins``)."""
    strict = click.option("--strict-plugins", is_flag=True, help="Let any failure of a plugin stop the command.")
    return selection_options(strict(command))


def selection_options(command: Command) -> Command:
    """Adds ``-p`` and ``--no-plugins`` alone."""
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
    """Adds ``--debug``, which :func:`rlcore.cli.main.main` sees by itself."""
    return click.option("--debug", is_flag=True, expose_value=False, help="Show tracebacks.")(command)


def plugins_for(
    config: PluginSettings | None,
    *,
    dash_p: Sequence[str],
    no_plugins: bool,
    strict_plugins: bool = False,
    config_dir: Path | None = None,
    used: Iterable[str] = (),
) -> Plugins:
    """Loads the plugins of a command and prints a warning for each installed one that was left out."""
    from rlcore.plugins.calls import load_plugins
    from rlcore.plugins.discover import selection_from

    selection = selection_from(config, os.environ, dash_p, no_plugins, used=used)
    plugins = load_plugins(selection, strict=strict_plugins, config_dir=config_dir)
    for warning in plugins.warnings:
        click.echo(f"warning: {warning}", err=True)
    return plugins
