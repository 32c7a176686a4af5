"""``rlcore checkpoints``: lists, verifies and prunes the checkpoints of a run."""

from __future__ import annotations

import json
import re
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from rlcore.cli.commands import LazyCommand, LazyGroup, PluginFlags, debug_option, plugin_options
from rlcore.cli.terminal import UserPath, echo, echo_columns, show_log
from rlcore.errors import EXIT_DONE, EXIT_RUN_STATE

if TYPE_CHECKING:
    from rlcore.storage.pruning import CheckpointDetails

COMMANDS = {
    "list": LazyCommand("rlcore.cli.checkpoints:list_command", "List the checkpoints of a run."),
    "verify": LazyCommand("rlcore.cli.checkpoints:verify_command", "Compare every file with its checksum."),
    "prune": LazyCommand("rlcore.cli.checkpoints:prune_command", "Delete checkpoints that are not needed."),
}

_SECONDS = {"s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0, "w": 604800.0}
_AGE = re.compile(r"(\d{1,9}(?:\.\d{1,6})?)([smhdw])")
_json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON.")


class Age(click.ParamType[float]):
    """A duration such as ``30m``, ``12h``, ``7d`` or ``2w``, in seconds."""

    name = "age"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        found = _AGE.fullmatch(str(value))
        if found is None:
            self.fail(f"{value!r} is not a duration; write a number and s, m, h, d or w, such as 12h or 7d", param, ctx)
        return float(found.group(1)) * _SECONDS[found.group(2)]


@click.group("checkpoints", cls=LazyGroup, lazy=COMMANDS)
def checkpoints_command() -> None:
    """List, verify and prune the checkpoints of a run."""


@click.command("list")
@click.argument("run", type=UserPath())
@_json_option
@debug_option
def list_command(run: Path, as_json: bool) -> None:
    """List the checkpoints of RUN (a run directory, or the id of a run in results/).

    Files are not compared with their checksums; rlcore checkpoints verify does that. SIZE is that of all files, and
    FREES what deleting the checkpoint alone would free, because checkpoints share files that are equal. The last line
    is what all of them take on disk, each shared file once.
    """
    from rlcore.run.saved.data import find_run
    from rlcore.storage.pruning import checkpoint_details, disk_usage

    show_log()
    directory = find_run(run)
    found = checkpoint_details(directory)
    on_disk, _ = disk_usage(found)
    if as_json:
        listed = [each.to_json() for each in found]
        click.echo(json.dumps({"run": str(directory), "on_disk": on_disk, "checkpoints": listed}, indent=4))
    elif found:
        _print_table(found)
        echo(f"on disk: {_bytes(on_disk)}")
    else:
        echo(f"{directory}: no checkpoint")
    for each in () if as_json else found:
        if each.problem:
            echo(f"damaged: {each.problem}")


def _print_table(found: list[CheckpointDetails]) -> None:
    rows = [("STEP", "SIZE", "FREES", "AGE", "MEAN REWARD", "SCORE", "RESUME", "FORMAT", "")]
    now = time.time()
    newest = max((each.step for each in found if not (each.best or each.problem)), default=None)
    best_step = next((each.best_step for each in reversed(found) if each.best_step is not None), None)
    for each in found:
        regular = not each.best
        notes = {
            "best evaluation": each.best,
            "newest": regular and each.step == newest,
            "step of the best evaluation": regular and each.step == best_step,
            "held": each.held,
            "damaged": bool(each.problem),
        }
        rewards = [f"{mean:.2f}" for mean in each.rewards.values() if mean is not None]
        rows.append(
            (
                str(each.step),
                _bytes(each.size),
                _bytes(each.own),
                _age(now - each.created),
                " ".join(rewards) or "-",
                "-" if each.score is None else f"{each.score:.2f}",
                "-" if each.resume is None else str(each.resume["promise"]),
                "-" if each.format_version is None else str(each.format_version),
                ", ".join(note for note, holds in notes.items() if holds),
            )
        )
    echo_columns(rows)


def _bytes(number: int) -> str:
    """``1.4 MB``: decimal units, as in messages about memory."""
    size = float(number)
    for unit in ("B", "kB", "MB", "GB"):
        if size < 1000.0:
            return f"{size:.0f} {unit}" if unit == "B" else f"{size:.1f} {unit}"
        size /= 1000.0
    return f"{size:.1f} TB"


def _age(seconds: float) -> str:
    """``3 h``: in the largest unit of which there are two, else in seconds."""
    seconds = max(seconds, 0.0)
    for unit in ("w", "d", "h", "m"):
        if seconds >= 2 * _SECONDS[unit]:
            return f"{seconds // _SECONDS[unit]:.0f} {'min' if unit == 'm' else unit}"
    return f"{seconds:.0f} s"


@click.command("verify")
@click.argument("run", type=UserPath())
@_json_option
@debug_option
def verify_command(run: Path, as_json: bool) -> int:
    """Compare every file of every checkpoint of RUN with its SHA-256. The exit code is 5 if any is damaged."""
    from rlcore.errors import RunStateError
    from rlcore.run.saved.data import find_run
    from rlcore.storage.checkpoint import damages, load_without_arrays
    from rlcore.storage.checkpoint_state import require_models, require_run
    from rlcore.storage.pruning import checkpoint_details

    show_log()
    directory = find_run(run)
    rows: list[dict[str, Any]] = []
    for each in checkpoint_details(directory):
        problems = damages(each.path)
        if not each.path.is_dir():
            continue  # the run is training, and has just deleted it
        try:
            if not problems:
                (require_models if each.best else require_run)(each.path, load_without_arrays(each.path))
        except RunStateError as error:
            problems = [str(error)]
        rows.append({"step": each.step, "path": str(each.path), "best": each.best, "problems": problems})
        if not as_json:
            echo(f"{'damaged' if problems else 'intact'}: {each.path}")
            for problem in problems:
                echo(f"    {problem}")
    if as_json:
        click.echo(json.dumps({"run": str(directory), "checkpoints": rows}, indent=4))
    elif not rows:
        echo(f"{directory}: no checkpoint")
    return EXIT_RUN_STATE if any(row["problems"] for row in rows) else EXIT_DONE


@click.command("prune")
@click.argument("run", type=UserPath())
@click.option("--keep", type=click.IntRange(min=1), metavar="N", help="Keep the N newest intact checkpoints.")
@click.option(
    "--older-than", type=Age(), metavar="AGE", help="Delete only checkpoints older than AGE: 30m, 12h, 7d, 2w."
)
@click.option("--dry-run", is_flag=True, help="Delete nothing; print what would be deleted.")
@_json_option
@plugin_options
@debug_option
def prune_command(
    run: Path, keep: int | None, older_than: float | None, dry_run: bool, as_json: bool, chosen: PluginFlags
) -> None:
    """Delete checkpoints of RUN that are not needed. With both options, both conditions must hold.

    The newest intact checkpoint, that of the step of the best evaluation, and checkpoints/best always stay. Files that
    rlcore did not write stay where they are. A run that a process trains is refused: keep_checkpoints limits it.
    """
    if keep is None and older_than is None:
        raise click.UsageError("say what to delete: --keep N, --older-than AGE, or both")
    from rlcore.run.saved.data import find_run, read_saved_configuration
    from rlcore.storage.pruning import prune
    from rlcore.storage.run_files import LOGS

    show_log()
    directory = find_run(run)
    plugins = chosen.load(read_saved_configuration(directory), lenient=True)
    plan = prune(directory, keep, older_than, dry_run, lambda status: plugins.write_status(status, directory / LOGS))
    if as_json:
        deleted = [each.to_json() for each in plan.delete]
        stay = [{"step": step, "reason": reason} for step, reason in plan.stay.items()]
        click.echo(
            json.dumps(
                {"run": str(directory), "dry_run": dry_run, "freed": plan.freed, "deleted": deleted, "kept": stay},
                indent=4,
            )
        )
        return
    for each in plan.delete:
        echo(f"{'would delete' if dry_run else 'deleted'}: {each.path} ({_bytes(each.size)})")
    for step, reason in plan.stay.items():
        echo(f"kept: {step}, {reason}")
    if plan.delete:
        echo(f"{'would free' if dry_run else 'freed'}: {_bytes(plan.freed)}")
    else:
        echo("nothing to delete")
