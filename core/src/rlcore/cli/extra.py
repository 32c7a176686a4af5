"""Commands that plugins add, looked up only if the command line does not name one of rlcore's own."""

from __future__ import annotations

import os

import click

from rlcore.cli.terminal import echo
from rlcore.errors import PluginError
from rlcore.plugins.calls import load_plugins
from rlcore.plugins.selection import selection_from


def plugin_command(name: str) -> click.Command | None:
    """The command called NAME (or DIST/NAME) of an installed plugin; None if there is none."""
    plugins = load_plugins(selection_from(None, os.environ, (), False))
    for warning in plugins.warnings:
        echo(f"warning: {warning}", err=True)
    names = {word for record in plugins.records("command") for word in (record.name, record.reference)}
    if name not in names:
        return None
    record = plugins.command(name)
    command = record.resolve()
    if not isinstance(command, click.Command):
        raise PluginError(f"command {name!r}: {record.target} is a {type(command).__name__}, not a click command")
    return command
