"""``rlcore sweep``: trains the trials of a sweep, and continues it after any end."""

from __future__ import annotations

import json
import sys
from contextlib import nullcontext, redirect_stdout
from pathlib import Path
from typing import Any

import click

from rlcore import debug_option, json_option


@click.command("sweep")
@click.argument("config", type=click.Path(path_type=Path))
@click.option("--run-id", help="Name of the sweep; its directory is results/RUN_ID. By default the name of CONFIG.")
@click.option("--results-dir", help="Directory of the directories of sweeps.")
@click.option(
    "--resume", type=click.Choice(["auto"]), help="As without it, but waits for another process of this name."
)
@click.option("--wait-for-lock", type=float, metavar="SECONDS", help="Wait for another process of this name to end.")
@click.option("--trials", type=click.IntRange(1), help="Trials in all; more than before continue a finished sweep.")
@click.option("--jobs", type=click.IntRange(1), help="Trials that train at the same time.")
@click.option("--set", "sets", multiple=True, metavar="A.B=VALUE", help="Set any key of CONFIG.")
@click.option("-p", "dash_p", multiple=True, metavar="NAME", help="Load a plugin, as for rlcore run.")
@json_option
@debug_option
def sweep_command(
    config: Path,
    run_id: str | None,
    results_dir: str | None,
    resume: str | None,
    wait_for_lock: float | None,
    trials: int | None,
    jobs: int | None,
    sets: tuple[str, ...],
    dash_p: tuple[str, ...],
    as_json: bool,
) -> int:
    """Search the hyperparameters that the block sweep of CONFIG names.

    The same command continues a sweep that was stopped or killed, and trains nothing if all trials have ended. Ctrl-C
    saves a checkpoint of each trial. With --json, the progress goes to standard error.
    """
    from rlcore import RunStateError, apply_overrides, echo, load_plugins_for, read_document
    from rlcore_study.sweep.opening import opened
    from rlcore_study.sweep.sweep import Sweep
    from rlcore_study.sweep.trials import ends_of

    options: dict[tuple[str, ...], Any] = {
        ("sweep", "trials"): trials,
        ("sweep", "jobs"): jobs,
        ("checkpoint_settings", "run_id"): run_id,
        ("checkpoint_settings", "results_dir"): results_dir,
        ("checkpoint_settings", "resume"): resume,
        ("checkpoint_settings", "wait_for_lock"): wait_for_lock,
    }
    document = apply_overrides(read_document(config), sets, options)
    plugins = load_plugins_for(document, dash_p=dash_p)
    with opened(document, plugins, config.stem) as saved:
        found, problems = saved.trials()
        for problem in [*problems, *saved.missing(found)]:
            echo(f"warning: {problem}", err=True)
        sweep = Sweep(saved, document, plugins, found)
        with redirect_stdout(sys.stderr) if as_json else nullcontext():
            signal = sweep.train()
        if signal is not None:
            echo("interrupted; the same command continues", err=True)
            return 128 + signal
        best = saved.best(sweep.trials)
        if best is None:
            raise RunStateError(f"{saved.directory}: no trial has a value; {saved.place(0)}: {sweep.trials[0].reason}")
        file = sweep.write_best(best)
        if as_json:
            rows = []
            for trial in sweep.trials.values():
                row = {"name": trial.name, "state": trial.state, "value": trial.value, "reason": trial.reason or None}
                rows.append({**row, "parameters": dict(trial.parameters)})
            answer = {
                "sweep": str(saved.directory),
                "trials": rows,
                "best": {"name": best.name, "value": best.value, "file": str(file)},
            }
            click.echo(json.dumps(answer, indent=4))
            return 0
        ended = f"{len(sweep.trials)} trials, {ends_of(sweep.trials.values())}"
        echo(f"done: {ended}; best {best.value:g} of {best.name}: {file}")
    return 0
