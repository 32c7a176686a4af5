"""``rlcore plugins``: lists, inspects and checks plugins. ``rlcore plugins new`` is a command of rlcore-devkit."""

from __future__ import annotations

import json
import os
from typing import Any

import click

from rlcore.cli.lazy import LazyCommand, LazyGroup
from rlcore.cli.options import debug_option, selection_options
from rlcore.cli.terminal import echo
from rlcore.plugins.discover import Plugin, installed
from rlcore.plugins.select import decide, obstacles, selection_from, unmatched

COMMANDS = {
    "list": LazyCommand("rlcore.cli.plugins:list_command", "List the installed plugins."),
    "info": LazyCommand("rlcore.cli.plugin_info:info_command", "Show all about one plugin."),
    "hooks": LazyCommand("rlcore.cli.plugin_hooks:hooks_command", "Show what each hook is for."),
    "doctor": LazyCommand("rlcore.cli.plugin_doctor:doctor_command", "Check plugins, and say how to fix them."),
}


@click.group(
    "plugins",
    cls=LazyGroup,
    lazy=COMMANDS,
    fallback="rlcore.cli.extra:plugin_command",
    others="rlcore.cli.extra:listed_commands",
    within="plugins",
)
def plugins_command() -> None:
    """List, inspect, check and create plugins."""


@click.command("list")
@selection_options
@click.option("--provides", is_flag=True, help="Also list what each provides; this imports the plugins.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@debug_option
def list_command(dash_p: tuple[str, ...], no_plugins: bool, provides: bool, as_json: bool) -> None:
    """List the installed plugins.

    STATE is on, off or refused (written for another rlcore, or its module is missing); WHY says what decided it.
    Without --provides nothing of a plugin is imported; with it, a plugin that cannot be loaded is refused too.
    """
    selection = selection_from(None, os.environ, dash_p, no_plugins)
    found = decide(installed(), selection)
    rows = [_row(plugin) for plugin in found]
    notes = [*(obstacle.message for obstacle in obstacles(found, selection)), *unmatched(found, selection)]
    notes += [f"{plugin.described}: {plugin.refused}" for plugin in found if plugin.state == "refused"]
    notes += [plugin.warning for plugin in found if plugin.state == "on" and plugin.warning and not provides]
    if provides:
        notes += _add_provided(rows, found)
    if as_json:
        click.echo(json.dumps({"plugins": rows, "problems": notes}, indent=4))
        return
    _print_table(rows, provides)
    for note in notes:
        echo(f"warning: {note}", err=True)


def _row(plugin: Plugin) -> dict[str, Any]:
    return {
        "name": plugin.name,
        "distribution": plugin.distribution,
        "version": plugin.version,
        "state": plugin.state,
        "why": plugin.because,
        "editable": plugin.editable,
        "module": plugin.module,
    }


def _add_provided(rows: list[dict[str, Any]], found: tuple[Plugin, ...]) -> list[str]:
    """Adds the records of each plugin to its row; returns the warnings about plugins that cannot be loaded."""
    from rlcore.plugins.call import Plugins

    plugins = Plugins(found=tuple(plugin for plugin in found if plugin.state == "on"), tolerant=True)
    plugins.load()
    for row, plugin in zip(rows, found, strict=True):
        if plugin.label in plugins.broken:
            row["state"] = "refused"
        row["provides"] = [f"{record.kind}:{record.name}" for record in plugins.records_of(plugin.label)]
    return list(plugins.warnings)


def _print_table(rows: list[dict[str, Any]], provides: bool) -> None:
    lines = [("NAME", "DIST VERSION", "STATE", "WHY", "PROVIDES" if provides else "")]
    for row in rows:
        source = f"{row['distribution']} {row['version']}" if row["distribution"] else row["module"]
        if row["editable"]:
            source += " (editable)"
        lines.append((row["name"], source, row["state"], row["why"], " ".join(row.get("provides", ()))))
    widths = [max(len(line[column]) for line in lines) for column in range(4)]
    for line in lines:
        cells = [cell.ljust(width) for cell, width in zip(line, widths, strict=False)]
        echo("  ".join([*cells, line[4]]).rstrip())
