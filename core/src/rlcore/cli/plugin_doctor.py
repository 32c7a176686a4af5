"""``rlcore plugins doctor``: prints the findings of :mod:`rlcore.plugins.doctor`."""

from __future__ import annotations

import json

import click

from rlcore.cli import plugins as group
from rlcore.cli.main import COMMANDS
from rlcore.cli.options import debug_option
from rlcore.cli.plugin_info import plugins_called, why_on
from rlcore.cli.terminal import echo
from rlcore.errors import EXIT_INTERNAL
from rlcore.plugins.discover import Plugin
from rlcore.plugins.doctor import Finding, diagnose, diagnose_together


@click.command("doctor")
@click.argument("name", required=False)
@click.option(
    "--import/--no-import",
    "import_targets",
    default=True,
    show_default=True,
    help="Import every target too (torch among them).",
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@debug_option
@click.pass_context
def doctor_command(context: click.Context, name: str | None, import_targets: bool, as_json: bool) -> None:
    """Check plugins, and say how to fix them. Exits with 1 if there is an error.

    Checks all plugins, or NAME (DIST/NAME, module:acme.hooks): its bounds on rlcore and its contract, what importing
    it costs and imports, its hooks and records with all that they name, clashes with others, and entry points that were
    not reinstalled.
    """
    plugins = plugins_called(name)
    own = (*COMMANDS, *(f"plugins {command}" for command in group.COMMANDS))
    findings = [finding for plugin in plugins for finding in diagnose(plugin, import_targets, own)]
    findings += diagnose_together(plugins_called(None), only={plugin.label for plugin in plugins})
    if as_json:
        click.echo(json.dumps({"findings": [finding._asdict() for finding in findings]}, indent=4))
    else:
        for plugin in plugins:
            _print(plugin, [finding for finding in findings if finding.plugin == plugin.label])
    if any(finding.level == "error" for finding in findings):
        context.exit(EXIT_INTERNAL)


def _print(plugin: Plugin, findings: list[Finding]) -> None:
    echo(f"{plugin.label}: {'ok' if not findings else ''}".rstrip())
    if (why := why_on(plugin)) != "autoload":
        echo(f"  {'on' if plugin.on else 'off'}: {why}")
    for finding in findings:
        echo(f"  {finding.level}: {finding.message}")
