"""``rlcore plugins doctor``: prints what :mod:`rlcore.plugins.diagnosis` finds."""

from __future__ import annotations

import json

import click

from rlcore.cli.main import COMMANDS
from rlcore.cli.options import debug_option
from rlcore.cli.plugin_info import decisions_for
from rlcore.cli.terminal import echo
from rlcore.errors import EXIT_INTERNAL
from rlcore.plugins.diagnosis import Finding, diagnose, diagnose_together


@click.command("doctor")
@click.argument("name", required=False)
@click.option("--import", "import_targets", is_flag=True, help="Import every target too (torch among them).")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@debug_option
@click.pass_context
def doctor_command(context: click.Context, name: str | None, import_targets: bool, as_json: bool) -> None:
    """Check plugins, and say how to fix them. Exits with 1 if there is an error.

    Checks all plugins, or NAME (DIST/NAME, module:acme.hooks): its bounds on rlcore, what importing it costs and
    pulls in, its hooks and records, clashes with others, and entry points that were not reinstalled.
    """
    decisions = decisions_for(name)
    findings = [finding for decision in decisions for finding in diagnose(decision, import_targets, COMMANDS)]
    findings += diagnose_together(decisions_for(None), only={each.candidate.label for each in decisions})
    if as_json:
        click.echo(json.dumps({"findings": [finding._asdict() for finding in findings]}, indent=4))
    else:
        for decision in decisions:
            _print(decision.candidate.label, [each for each in findings if each.plugin == decision.candidate.label])
    if any(finding.level == "error" for finding in findings):
        context.exit(EXIT_INTERNAL)


def _print(label: str, findings: list[Finding]) -> None:
    echo(f"{label}: {'ok' if not findings else ''}".rstrip())
    for finding in findings:
        echo(f"  {finding.level}: {finding.message}")
