"""``rlcore status``: how far a run is. Nothing in its directory is changed."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from time import sleep
from typing import TYPE_CHECKING, Any

import attrs
import click

from rlcore.cli.options import PluginFlags, debug_option, json_option, plugin_options, run_argument
from rlcore.cli.terminal import echo, echo_columns, show_log

if TYPE_CHECKING:
    from rlcore.run.saved.data import RunData

_MOST_VALUES = 12  # of a plugin's section, to be shown in a line
NOTHING = "-"
WATCH_SECONDS = 3.0


@click.command("status")
@run_argument
@json_option
@click.option("--watch", is_flag=True, help="Show it again every few seconds until the run ends, or Ctrl-C.")
@plugin_options
@debug_option
def status_command(run: Path, as_json: bool, watch: bool, chosen: PluginFlags) -> None:
    """Show how far RUN (a run directory, or the id of a run in results/) is."""
    from rlcore.run.saved.data import find_run, read_saved_configuration, run_data

    show_log()
    directory = find_run(run)
    document = read_saved_configuration(directory)
    plugins = chosen.load(document, lenient=True)
    while True:
        data = run_data(directory, document, plugins)
        report = _report(data)
        if watch:
            click.clear()
        if as_json:
            click.echo(json.dumps(report, indent=4))
        else:
            _print(data, report)
            about = {"directory": directory, "configuration": data.configuration, "status": data.status}
            plugins.notify("rlcore_status_printed", **about)
            _print_sections(data, report["max_steps"])
            _print_late_status(data)
        if not watch or not data.running:
            return
        sleep(WATCH_SECONDS)


def _report(data: RunData) -> dict[str, Any]:
    """The answer of ``--json``."""
    from rlcore.contracts.saved_values import SavedValueError
    from rlcore.storage.checkpoint_state import require_scores
    from rlcore.storage.status import metadata_of

    scores: Any = metadata_of(data.status).get("evaluation")
    try:
        require_scores(scores)
    except SavedValueError:
        scores = None
    steps, max_steps = _progress(data)
    checkpoints = []
    for checkpoint in data.checkpoints:
        checkpoints.append({**attrs.asdict(checkpoint), "path": str(checkpoint.path)})
    return {
        "run": str(data.directory),
        "running": data.running,
        "result": data.result,
        "max_steps": max_steps,
        "steps": steps,
        "evaluation": scores,
        "checkpoints": checkpoints,
        "damaged": data.damaged,
        "status": data.status,
    }


def _progress(data: RunData) -> tuple[dict[str, int], dict[str, int]]:
    """The steps of each behavior, and the steps that its configuration sets, as far as they are known."""
    from rlcore.files.reading import is_whole
    from rlcore.run.saved.data import latest_summaries
    from rlcore.storage.status import listed_checkpoints

    saved: dict[str, int] = {}
    for name, section in data.status.items():
        entries = listed_checkpoints(section)
        if entries:
            saved[name] = entries[-1]["steps"]
    defaults = data.configuration.get("default_settings")
    blocks: dict[str, Any] = dict.fromkeys(saved, defaults)
    blocks |= _mapping(data.configuration.get("behaviors"))
    max_steps = {}
    for name, block in blocks.items():
        target: Any = _mapping(block).get("max_steps")
        if is_whole(target):
            max_steps[name] = target
    steps: dict[str, int] = {}
    if data.running:  # the steps of an ended process after its last checkpoint are lost
        steps = {name: summary.step for name, summary in latest_summaries(data.directory).items()}
    for name, count in saved.items():
        steps[name] = max(count, steps.get(name, 0))
    return steps, max_steps


def _print(data: RunData, report: Mapping[str, Any]) -> None:
    from rlcore.contracts.saved_values import has_form
    from rlcore.run.description import ResumePromise
    from rlcore.storage.checkpoint_state import PROMISE
    from rlcore.storage.status import listed_checkpoints, metadata_of

    result = report["result"]
    max_steps = report["max_steps"]
    scores = report["evaluation"]
    outcome = f"{result['outcome']} after {result['wall_seconds']:.1f} s" if result else "not finished"
    echo(f"{data.directory}: {'running' if data.running else outcome}")
    rows: list[tuple[Any, ...]] = [("behavior", "steps", "of", "mean reward", "checkpoints")]
    for name in dict.fromkeys((*max_steps, *data.status)):
        target = max_steps.get(name)
        entries = listed_checkpoints(data.status.get(name))
        if target is None and not entries:
            continue  # a section of a plugin
        steps = report["steps"].get(name, 0)
        share = f"{target} ({100 * steps // target}%)" if target else NOTHING
        mean = NOTHING
        if entries:
            reward = entries[-1]["reward"]
            mean = "no episode yet" if reward is None else f"{reward:.2f}"
        checkpoints = " ".join(str(entry["steps"]) for entry in entries)
        rows.append((name, steps, share, mean, checkpoints or "none yet"))
    echo_columns(rows)
    if scores:
        best = f"best {scores['best_score']:.2f} at step {scores['best_step']}"
        echo(f"evaluation: score {scores['score']:.2f} at step {scores['step']}, {best}")
    promise: Any = metadata_of(data.status).get("resume")
    if has_form(promise, PROMISE):
        echo(f"resume: {ResumePromise.from_json(promise)}")
    problems = [checkpoint.problem for checkpoint in data.checkpoints if checkpoint.problem]
    for damage in (*data.damaged, *problems):
        echo(f"damaged: {damage}")


def _mapping(value: Any) -> Mapping[str, Any]:
    """A mapping of a file that may be edited or damaged; empty for any other value."""
    return value if isinstance(value, Mapping) else {}


def _print_sections(data: RunData, behaviors: Mapping[str, int]) -> None:
    """A line for each section of a plugin with a few numbers and short texts; ``--json`` has all of every section."""
    parameters = _mapping(data.configuration.get("environment_parameters"))
    known = {"metadata", *behaviors, *parameters}
    for name, section in data.status.items():
        section = _mapping(section)
        if name in known or "checkpoints" in section or "lesson_num" in section:
            continue
        values = [f"{key} {value}" for key, value in _flat(section)]
        if 0 < len(values) <= _MOST_VALUES:
            echo(f"{name}: {', '.join(values)}")


def _flat(section: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, str]]:
    """The numbers and texts in a section and in the mappings in it, each with its path."""
    for key, value in section.items():
        if isinstance(value, Mapping) and not prefix:
            yield from _flat(value, f"{key}.")
        elif isinstance(value, float):
            yield f"{prefix}{key}", f"{value:g}"
        elif isinstance(value, int | str):
            yield f"{prefix}{key}", str(value)


def _print_late_status(data: RunData) -> None:
    """Says so if the status that is stored is not that of the last checkpoint, which is shown."""
    from rlcore.storage.status import metadata_of

    intact = [checkpoint.step for checkpoint in data.checkpoints if not checkpoint.problem]
    step = metadata_of(data.status_written).get("run_steps", "unknown")
    if not data.running and intact and step != intact[-1]:
        state = "is missing" if data.status_written is None else f"is of step {step}"
        echo(f"the training status {state}; shown is that of checkpoint {intact[-1]}")
