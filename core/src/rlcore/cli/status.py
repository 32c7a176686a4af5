"""``rlcore status``: how far a run is, without touching it."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from rlcore.cli.log import show_log
from rlcore.cli.options import debug_option, plugin_options, plugins_for
from rlcore.cli.parameter_table import print_parameters
from rlcore.cli.shown_paths import UserPath

if TYPE_CHECKING:
    from rlcore.checkpoint import Checkpoint


@click.command("status")
@click.argument("run", type=UserPath())
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@plugin_options
@debug_option
def status_command(run: Path, as_json: bool, dash_p: tuple[str, ...], no_plugins: bool, strict_plugins: bool) -> None:
    """Show how far RUN (a run directory, or the id of a run in results/) is."""
    from rlcore.checkpoint import find_checkpoints, verify_checkpoint
    from rlcore.errors import RunStateError
    from rlcore.run_lock import is_locked
    from rlcore.saved_configuration import read_saved_configuration
    from rlcore.saved_run import find_run
    from rlcore.status import about

    show_log()
    directory = find_run(run)
    document = read_saved_configuration(directory)
    plugins = plugins_for(document, dash_p=dash_p, no_plugins=no_plugins, strict_plugins=strict_plugins)
    stored = plugins.read_status(directory / "run_logs")
    checkpoints: list[dict[str, Any]] = []
    newest: Checkpoint | None = None  # that is whole
    found = find_checkpoints(directory / "checkpoints")
    for checkpoint in found:
        try:
            verify_checkpoint(checkpoint.path)
            problem, newest = "", checkpoint
        except RunStateError as error:
            if not checkpoint.path.is_dir():
                continue  # the run is training, and has just deleted it
            problem = str(error)
        checkpoints.append({"step": checkpoint.step, "path": str(checkpoint.path), "problem": problem})
    status = _brought_to(newest, stored, found)
    targets = _targets(document.data, status)
    evaluation = _evaluation(status)
    running = is_locked(directory)
    result_path = directory / "result.json"
    result = json.loads(result_path.read_text(encoding="utf-8")) if result_path.is_file() else None
    # What a process that ended has behind its last checkpoint is lost; while one runs, it counts.
    seen = _steps(status, _summarised(directory) if running else {})
    if as_json:
        report = {
            "run": str(directory),
            "running": running,
            "result": result,
            "max_steps": targets,
            "steps": seen,
            "evaluation": evaluation,
            "checkpoints": checkpoints,
            "status": status,
        }
        click.echo(json.dumps(report, indent=4))
        return
    outcome = f"{result['outcome']} after {result['wall_seconds']:.1f} s" if result else "not finished"
    _print(directory, "running" if running else outcome, targets, seen, checkpoints, status)
    print_parameters(document, status, none_yet=newest is None)
    if not running and newest is not None and about(stored).get("run_steps") != newest.step:
        click.echo(f"the training status {_step_of(stored)}; shown is what checkpoint {newest.step} holds of it")


def _brought_to(
    newest: Checkpoint | None, status: Mapping[str, Any] | None, found: Sequence[Checkpoint]
) -> dict[str, Any]:
    """What a resumed run would go on with: the status, if it is of the newest checkpoint that is whole."""
    from rlcore.checkpoint import load_without_arrays
    from rlcore.errors import RunStateError
    from rlcore.status import SavedStatus, about

    if newest is not None and about(status).get("run_steps") != newest.step:
        try:
            return SavedStatus.of(newest, load_without_arrays(newest.path)).applied(status, found)
        except (RunStateError, OSError):  # deleted just now, in the same way
            pass
    return dict(status or {})


def _step_of(status: Mapping[str, Any] | None) -> str:
    from rlcore.status import about

    return "is missing" if status is None else f"is of step {about(status).get('run_steps', 'unknown')}"


def _targets(configured: Mapping[str, Any], status: Mapping[str, Any]) -> dict[str, int]:
    """``max_steps`` of every behavior, listed or not, in what the run wrote down."""
    listed = configured.get("behaviors")
    blocks: dict[str, Any] = {
        name: configured.get("default_settings")
        for name, section in status.items()
        if isinstance(section, Mapping) and "checkpoints" in section
    }
    blocks |= listed if isinstance(listed, Mapping) else {}
    return {
        name: block["max_steps"]
        for name, block in blocks.items()
        if isinstance(block, Mapping) and isinstance(block.get("max_steps"), int)
    }


def _evaluation(status: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """Last and best score as of the last checkpoint; None before the first evaluation."""
    from rlcore.status import about

    return about(status).get("evaluation")


def _summarised(directory: Path) -> dict[str, int]:
    """The step of each behavior's last summary, where the run writes ``metrics.jsonl``."""
    from rlcore.builtin.metrics_file import METRICS_FILE

    seen: dict[str, int] = {}
    try:
        for line in (directory / METRICS_FILE).read_text(encoding="utf-8").splitlines():
            summary = json.loads(line)
            seen[summary["behavior"]] = int(summary["step"])
    except (OSError, ValueError, LookupError, TypeError):  # none, or its last line is being written
        pass
    return seen


def _steps(status: Mapping[str, Any], summarised: Mapping[str, int]) -> dict[str, int]:
    """Agent steps by behavior: those of the last checkpoint, or of the last summary."""
    steps = dict(summarised)
    for name, section in status.items():
        entries = section.get("checkpoints") if isinstance(section, Mapping) else None
        if entries:
            steps[name] = max(int(entries[-1]["steps"]), steps.get(name, 0))
    return steps


def _print(
    directory: Path,
    outcome: str,
    targets: Mapping[str, int],
    seen: Mapping[str, int],
    checkpoints: list[dict[str, Any]],
    status: dict[str, Any],
) -> None:
    from rich.console import Console
    from rich.table import Table

    console = Console()
    console.print(f"{directory}: {outcome}", highlight=False)
    table = Table("behavior", "steps", "of", "mean reward", "checkpoints")
    for name in dict.fromkeys((*targets, *status)):
        section, target = status.get(name), targets.get(name)
        entries = section.get("checkpoints", []) if isinstance(section, dict) else []
        if target is None and not entries:
            continue  # a section of a plugin
        reward = entries[-1]["reward"] if entries else None
        steps = seen.get(name, 0)
        table.add_row(
            name,
            str(steps),
            f"{target} ({100 * steps // target}%)" if target else "-",
            "-" if reward is None else f"{reward:.2f}",
            " ".join(str(entry["steps"]) for entry in entries) or "none yet",
        )
    console.print(table)
    scored = _evaluation(status)
    if scored:
        console.print(
            f"evaluation: score {scored['score']:.2f} at step {scored['step']}, best {scored['best_score']:.2f} "
            f"at step {scored['best_step']}",
            highlight=False,
        )
    for checkpoint in checkpoints:
        if checkpoint["problem"]:
            console.print(f"[red]damaged:[/red] {checkpoint['problem']}", highlight=False)
