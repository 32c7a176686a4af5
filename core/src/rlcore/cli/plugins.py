"""``rlcore plugins``: lists, inspects, checks and creates plugins."""

from __future__ import annotations

import json
import os
from typing import Any

import click

from rlcore.cli.lazy import LazyCommand, LazyGroup
from rlcore.cli.options import debug_option, selection_options
from rlcore.cli.terminal import echo
from rlcore.plugins.candidates import installed
from rlcore.plugins.discover import Decision, decide, obstacles, selection_from

COMMANDS = {
    "list": LazyCommand("rlcore.cli.plugins:list_command", "List the installed plugins."),
    "info": LazyCommand("rlcore.cli.plugin_info:info_command", "Show all about one plugin."),
    "doctor": LazyCommand("rlcore.cli.plugin_doctor:doctor_command", "Check plugins, and say how to fix them."),
    "new": LazyCommand("rlcore.cli.plugin_new:new_command", "Write a new plugin package, tests included."),
}


@click.group("plugins", cls=LazyGroup, lazy=COMMANDS)
def plugins_command() -> None:
    """List, inspect, check and create plugins."""


@click.command("list")
@selection_options
@click.option("--provides", is_flag=True, help="Also list what each provides; this imports the plugins.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@debug_option
def list_command(dash_p: tuple[str, ...], no_plugins: bool, provides: bool, as_json: bool) -> None:
    """List the installed plugins.

    STATE is on, off or refused (built for another rlcore); WHY says who decided. Without --provides nothing of a
    plugin is imported.
    """
    selection = selection_from(None, os.environ, dash_p, no_plugins)
    decisions = decide(installed(), selection)
    rows = [_row(decision) for decision in decisions]
    notes = list(obstacles(decisions, selection))
    notes += [f"{each.candidate.described}: {each.refused}" for each in decisions if each.state == "refused"]
    if provides:
        notes += _add_provided(rows, decisions)
    if as_json:
        click.echo(json.dumps({"plugins": rows, "problems": notes}, indent=4))
        return
    _print_table(rows, provides)
    for note in notes:
        echo(f"warning: {note}", err=True)


def _row(decision: Decision) -> dict[str, Any]:
    candidate = decision.candidate
    return {
        "name": candidate.name,
        "distribution": candidate.distribution,
        "version": candidate.version,
        "state": decision.state,
        "why": decision.why,
        "editable": candidate.editable,
        "module": candidate.module,
    }


def _add_provided(rows: list[dict[str, Any]], decisions: tuple[Decision, ...]) -> list[str]:
    from rlcore.plugins.calls import Plugins

    admitted = tuple(decision for decision in decisions if decision.state == "on")
    plugins = Plugins(decisions=admitted, tolerant=True)
    plugins.load()
    provided: dict[tuple[str, str], list[str]] = {}
    for kind in plugins.kinds:
        for owned in plugins.records(kind):
            provided.setdefault((owned.plugin, owned.distribution), []).append(f"{kind}:{owned.record.name}")
    for row in rows:
        row["provides"] = provided.get((row["name"], row["distribution"]), [])
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
