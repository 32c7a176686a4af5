"""``rlcore checkpoints``: lists, verifies and prunes the checkpoints of a run."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from rlcore import debug_option, json_option

if TYPE_CHECKING:
    from rlcore_study.checkpoints.details import CheckpointDetails

_SECONDS = {"s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0, "w": 604800.0}
_AGE = re.compile(r"(\d{1,9}(?:\.\d{1,6})?)([smhdw])")


class Age(click.ParamType[float]):
    """A duration such as ``30m``, ``12h``, ``7d`` or ``2w``, in seconds."""

    name = "age"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        match = _AGE.fullmatch(str(value))
        if match is None:
            self.fail(f"{value!r} is not a duration; write a number and s, m, h, d or w, such as 12h or 7d", param, ctx)
        return float(match[1]) * _SECONDS[match[2]]


@click.group("checkpoints")
def checkpoints_command() -> None:
    """List, verify and prune the checkpoints of a run."""


def of_a_run(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the argument RUN and the options that all three commands have."""
    argument = click.argument("run", type=click.Path(path_type=Path))
    return argument(json_option(debug_option(command)))


@checkpoints_command.command("list")
@of_a_run
def list_command(run: Path, as_json: bool) -> None:
    """List the checkpoints of RUN (a run directory, or the id of a run in results/).

    Files are not compared with their checksums; rlcore checkpoints verify does that. SIZE is that of all files, and
    FREES what deleting the checkpoint alone would free, because checkpoints share files that are equal. The last line
    is what all of them take on disk, each shared file once.
    """
    from rich.filesize import decimal

    from rlcore import echo, echo_columns, find_run
    from rlcore_study.checkpoints.details import checkpoint_details, disk_usage

    directory = find_run(run)
    checkpoints = checkpoint_details(directory)
    on_disk, _ = disk_usage(checkpoints)
    if as_json:
        rows = [checkpoint.to_json() for checkpoint in checkpoints]
        _print_json(directory, on_disk=on_disk, checkpoints=rows)
        return
    if not checkpoints:
        echo(f"{directory}: no checkpoint")
        return
    echo_columns(table(checkpoints))
    echo(f"on disk: {decimal(on_disk)}")
    for checkpoint in checkpoints:
        if checkpoint.problem:
            echo(f"damaged: {checkpoint.problem}")


def _print_json(directory: Path, **content: Any) -> None:
    click.echo(json.dumps({"run": str(directory), **content}, indent=4))


def table(checkpoints: list[CheckpointDetails]) -> list[tuple[str, ...]]:
    """Return the rows of ``list``."""
    from rich.filesize import decimal

    rows: list[tuple[str, ...]] = [("STEP", "SIZE", "FREES", "AGE", "MEAN REWARD", "SCORE", "RESUME", "FORMAT", "")]
    now = time.time()
    intact = [checkpoint.step for checkpoint in checkpoints if not checkpoint.best and not checkpoint.problem]
    newest = max(intact, default=None)
    best_steps = [checkpoint.best_step for checkpoint in checkpoints if checkpoint.best_step is not None]
    best_step = best_steps[-1] if best_steps else None
    for checkpoint in checkpoints:
        regular = not checkpoint.best
        notes = {
            "best evaluation": checkpoint.best,
            "newest": regular and checkpoint.step == newest,
            "step of the best evaluation": regular and checkpoint.step == best_step,
            "held": checkpoint.held,
            "damaged": bool(checkpoint.problem),
        }
        rewards = [f"{mean:.2f}" for mean in checkpoint.rewards.values() if mean is not None]
        step = str(checkpoint.step)
        size = decimal(checkpoint.size)
        frees = decimal(checkpoint.own)
        age = _age(now - checkpoint.created)
        reward = " ".join(rewards) or "-"
        score = "-" if checkpoint.score is None else f"{checkpoint.score:.2f}"
        resume = "-" if checkpoint.resume is None else str(checkpoint.resume["promise"])
        version = "-" if checkpoint.format_version is None else str(checkpoint.format_version)
        note = ", ".join(text for text, holds in notes.items() if holds)
        rows.append((step, size, frees, age, reward, score, resume, version, note))
    return rows


def _age(seconds: float) -> str:
    """``3 h``: in the largest unit of which there are two, else in seconds."""
    seconds = max(seconds, 0.0)
    for unit, word in (("w", "w"), ("d", "d"), ("h", "h"), ("m", "min")):
        if seconds >= 2 * _SECONDS[unit]:
            count = seconds // _SECONDS[unit]
            return f"{count:.0f} {word}"
    return f"{seconds:.0f} s"


@checkpoints_command.command("verify")
@of_a_run
def verify_command(run: Path, as_json: bool) -> int:
    """Compare every file of every checkpoint of RUN with its SHA-256. The exit code is 5 if any is damaged."""
    from rlcore import ExitCode, echo, find_run
    from rlcore_study.checkpoints.details import all_checkpoints

    directory = find_run(run)
    rows: list[dict[str, Any]] = []
    for checkpoint in all_checkpoints(directory):
        problems = checkpoint.problems()
        path = checkpoint.path
        if not path.is_dir():
            continue  # the run is training, and has just deleted it
        rows.append({"step": checkpoint.step, "path": str(path), "best": checkpoint.best, "problems": problems})
        if not as_json:
            state = "damaged" if problems else "intact"
            echo("\n    ".join([f"{state}: {path}", *problems]))
    if as_json:
        _print_json(directory, checkpoints=rows)
    elif not rows:
        echo(f"{directory}: no checkpoint")
    return ExitCode.RUN_STATE if any(row["problems"] for row in rows) else ExitCode.DONE


@checkpoints_command.command("prune")
@of_a_run
@click.option("--keep", type=click.IntRange(min=1), metavar="N", help="Keep the N newest intact checkpoints.")
@click.option(
    "--older-than", type=Age(), metavar="AGE", help="Delete only checkpoints older than AGE: 30m, 12h, 7d, 2w."
)
@click.option("--dry-run", is_flag=True, help="Delete nothing; print what would be deleted.")
@click.option("--allow-local", is_flag=True, envvar="RLCORE_ALLOW_LOCAL", help="Import files that the run names.")
def prune_command(
    run: Path, as_json: bool, keep: int | None, older_than: float | None, dry_run: bool, allow_local: bool
) -> None:
    """Delete checkpoints of RUN that are not needed. With both options, both conditions must hold.

    The newest intact checkpoint, that of the step of the best evaluation, and checkpoints/best always stay. Files that
    rlcore did not write stay where they are. A run that a process trains is refused: keep_checkpoints limits it.
    """
    if keep is None and older_than is None:
        raise click.UsageError("say what to delete: --keep N, --older-than AGE, or both")
    from rich.filesize import decimal

    from rlcore import echo, find_run
    from rlcore_study.checkpoints.pruning import prune

    directory = find_run(run)
    plan = prune(directory, keep, older_than, dry_run, allow_local)
    if as_json:
        deleted = [checkpoint.to_json() for checkpoint in plan.delete]
        stay = [{"step": step, "reason": reason} for step, reason in plan.stay.items()]
        _print_json(directory, dry_run=dry_run, freed=plan.freed, deleted=deleted, kept=stay)
        return
    deletes, frees = ("would delete", "would free") if dry_run else ("deleted", "freed")
    for checkpoint in plan.delete:
        echo(f"{deletes}: {checkpoint.path} ({decimal(checkpoint.size)})")
    for step, reason in plan.stay.items():
        echo(f"kept: {step}, {reason}")
    echo(f"{frees}: {decimal(plan.freed)}" if plan.delete else "nothing to delete")
