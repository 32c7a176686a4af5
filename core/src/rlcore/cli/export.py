"""``rlcore export``: writes the policies of a run for other programs and runtimes."""

from __future__ import annotations

import json
from pathlib import Path

import attrs
import click

from rlcore.cli.options import (
    PluginFlags,
    UserPath,
    complete_runs,
    debug_option,
    json_option,
    plugin_options,
    policies_option,
    set_option,
)
from rlcore.cli.run import limit_threads
from rlcore.cli.terminal import echo, show_log


@click.command("export")
@click.argument("run", metavar="RUN_OR_CHECKPOINT", type=UserPath(), shell_complete=complete_runs)
@click.option("--format", "exporter", metavar="NAME", help="The exporter; may be left out if there is only one.")
@click.option("--profile", metavar="NAME", help="The profile of the exporter, such as unity: its setting `profile`.")
@click.option("--behavior", metavar="NAME", help="Export one behavior instead of all.")
@policies_option("export")
@click.option(
    "-o",
    "--output",
    metavar="PATH",
    help="A directory for BEHAVIOR.SUFFIX, made if it is new, or a file, such as agent.onnx; by default, this one.",
)
@click.option("--force", is_flag=True, help="Replace files that exist.")
@set_option
@json_option
@plugin_options
@debug_option
def export_command(
    run: Path,
    exporter: str | None,
    profile: str | None,
    behavior: str | None,
    checkpoint: str,
    output: str | None,
    force: bool,
    sets: tuple[str, ...],
    as_json: bool,
    chosen: PluginFlags,
) -> None:
    """Export the policies of a run (its directory, or its id in results/), or of the directory of one checkpoint.

    No environment is created, and nothing in the directory of the run is changed. Settings of the exporter are those
    of the run's export block, which --set and --profile change.
    """
    limit_threads()
    from rlcore.config.overrides import apply_overrides
    from rlcore.run.saved.exporting import Export, chosen_exporter, with_profile
    from rlcore.run.saved.saved_run import PolicySource

    show_log()
    source = PolicySource.find(run)
    source = attrs.evolve(source, document=apply_overrides(source.document, sets))
    plugins = chosen.load(source.document, lenient=True)
    spec = chosen_exporter(source.document, plugins, exporter)
    if profile is not None:
        source = attrs.evolve(source, document=with_profile(source.document, spec, profile))
    export = Export.of(source, plugins, spec, checkpoint, behavior)
    exported = export.write(output, force)
    step = export.saved.step
    if as_json:
        files = {name: str(policy.path) for name, policy in exported.items()}
        reports = {name: policy.report for name, policy in exported.items()}
        answer = {"exporter": spec.reference, "step": step, "files": files, "reports": reports}
        click.echo(json.dumps(answer, indent=4))
        return
    for name, policy in exported.items():
        report = "" if policy.report is None else f": {policy.report}"
        echo(f"{name}: exported to {policy.path} (checkpoint {step}){report}")
