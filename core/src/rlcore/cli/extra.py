"""Commands that plugins add, looked up only if the command line does not name one of rlcore's own."""

from __future__ import annotations

import os

import click

from rlcore.cli.terminal import echo
from rlcore.errors import PluginError
from rlcore.plugins.calls import Plugins, load_plugins
from rlcore.plugins.selection import ENV_PLUGINS, selection_from


def plugin_command(name: str) -> tuple[click.Command | None, tuple[str, ...], str]:
    """The command called NAME (or DIST/NAME) of an installed plugin, or None, and the names of all of them.

    The last element says which plugins are off, and may have the command; it is empty if none is.
    """
    plugins = load_plugins(selection_from(None, os.environ, (), False))
    for warning in plugins.warnings:
        echo(f"warning: {warning}", err=True)
    records = plugins.records("command")
    names = tuple(dict.fromkeys(record.name for record in records))
    if name not in {*names, *(record.reference for record in records)}:
        return None, names, _off(plugins)
    record = plugins.command(name)
    command = record.resolve()
    if not isinstance(command, click.Command):
        raise PluginError(f"command {name!r}: {record.target} is a {type(command).__name__}, not a click command")
    return command, names, ""


def _off(plugins: Plugins) -> str:
    off = [plugin for plugin in plugins.found if not plugin.on]
    if not off:
        return ""
    advice = f"{off[0].name} turns it on" if len(off) == 1 else "NAME turns one on"
    return f"turned off: {', '.join(plugin.described for plugin in off)}; {ENV_PLUGINS}={advice}"
