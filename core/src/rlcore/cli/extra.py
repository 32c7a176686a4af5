"""Commands that plugins add: looked up if the command line does not name one of rlcore's own, listed for ``--help``."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterator
from importlib.machinery import PathFinder
from pathlib import Path
from typing import TYPE_CHECKING

import click

from rlcore.cli.terminal import echo
from rlcore.errors import PluginError

if TYPE_CHECKING:
    from rlcore.plugins.call import Plugins

_METADATA = (".dist-info", ".egg-info")
_MODULE = re.compile(r"^\s*[\w-]+\s*=\s*([\w.]+)", re.MULTILINE)


def listed_commands() -> list[tuple[str, str]]:
    """The names and summaries of the commands of installed plugins, as far as they are written out in their modules.

    ``rlcore --help`` imports no plugin, and its reading of all metadata would take longer than the rest of it: this
    reads the entry points of the group ``rlcore`` and the text of the modules that they name.
    """
    found: dict[str, str] = {}
    for module in _modules():
        first, *rest = module.split(".")
        spec = PathFinder.find_spec(first)
        if spec is None or spec.origin is None:
            continue  # as rlcore plugins list says
        path = Path(spec.origin)
        path = path.parent.joinpath(*rest).with_suffix(".py") if rest else path
        try:
            text = path.read_text(encoding="utf-8")
        except (OSError, ValueError):
            continue
        for block in text.split("CommandSpec(")[1:]:
            name = re.search(r"""\bname=["']([\w -]+)["']""", block)
            summary = re.search(r"""\bsummary=(?:"([^"]*)"|'([^']*)')""", block)
            if name is not None:
                found.setdefault(name[1], (summary[1] or summary[2]) if summary is not None else "")
    return sorted(found.items())


def _modules() -> Iterator[str]:
    """The modules that entry points of the group name."""
    for folder in dict.fromkeys(sys.path):
        try:
            names = [name for name in os.listdir(folder or ".") if name.endswith(_METADATA)]
        except OSError:
            continue
        for name in sorted(names):
            try:
                text = Path(folder, name, "entry_points.txt").read_text(encoding="utf-8")
            except (OSError, ValueError):
                continue
            _, group, rest = text.partition("[rlcore]\n")
            if group:
                yield from _MODULE.findall(rest.partition("\n[")[0])


def plugin_command(name: str) -> tuple[click.Command | None, tuple[str, ...], str]:
    """The command called NAME, GROUP NAME or DIST/NAME of an installed plugin, or None, and the names of all of them.

    The last element says which plugins are off, and may have the command; it is empty if none is.
    """
    from rlcore.plugins.call import load_plugins
    from rlcore.plugins.select import selection_from

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
    from rlcore.plugins.select import ENV_PLUGINS

    off = [plugin for plugin in plugins.found if not plugin.on]
    if not off:
        return ""
    advice = f"{off[0].name} turns it on" if len(off) == 1 else "NAME turns one on"
    return f"turned off: {', '.join(plugin.described for plugin in off)}; {ENV_PLUGINS}={advice}"
