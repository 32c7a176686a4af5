"""Commands that plugins add, looked up only if the command line does not name one of rlcore's own."""

from __future__ import annotations

import os

import click

from rlcore.cli.terminal import echo
from rlcore.errors import PluginError
from rlcore.plugins.calls import load_plugins
from rlcore.plugins.selection import selection_from


def plugin_command(name: str) -> tuple[click.Command | None, tuple[str, ...]]:
    """The command called NAME (or DIST/NAME) of an installed plugin, or None, and the names of all of them."""
    plugins = load_plugins(selection_from(None, os.environ, (), False))
    for warning in plugins.warnings:
        echo(f"warning: {warning}", err=True)
    records = plugins.records("command")
    names = tuple(dict.fromkeys(record.name for record in records))
    if name not in {*names, *(record.reference for record in records)}:
        return None, names
    record = plugins.command(name)
    command = record.resolve()
    if not isinstance(command, click.Command):
        raise PluginError(f"command {name!r}: {record.target} is a {type(command).__name__}, not a click command")
    return command, names
