"""``rlcore status``: how far a run is. Nothing in its directory is changed."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from math import isfinite
from pathlib import Path
from typing import TYPE_CHECKING, Any

import attrs
import click

from rlcore.cli.commands import PluginFlags, debug_option, plugin_options
from rlcore.cli.terminal import UserPath, cells, echo, plain_console, printable, show_log

if TYPE_CHECKING:
    from rlcore.config.document import Document

_MOST_VALUES = 12  # of a plugin's section, to be shown in a line
_LAST_SUMMARIES = 8_000_000  # bytes at the end of metrics.jsonl, in which every behavior has a summary


@click.command("status")
@click.argument("run", type=UserPath())
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@plugin_options
@debug_option
def status_command(run: Path, as_json: bool, chosen: PluginFlags) -> None:
    """Show how far RUN (a run directory, or the id of a run in results/) is."""
    from rlcore.run.saved.data import find_run, read_saved_configuration, run_data
    from rlcore.storage.status import metadata_of

    show_log()
    directory = find_run(run)
    document = read_saved_configuration(directory)
    plugins = chosen.load(document, lenient=True)
    data = run_data(directory, document, plugins)
    result, status, running = data.result, data.status, data.running
    targets = _targets(document.data, status)
    evaluation = _evaluation(status)
    # The steps after the last checkpoint of a process that ended are lost; those of a running one count.
    latest = _latest_summaries(directory)
    seen = _steps(status, {name: summary["step"] for name, summary in latest.items()} if running else {})
    workers = _workers(latest)
    if as_json:
        report = {
            "run": str(directory),
            "running": running,
            "result": result,
            "max_steps": targets,
            "steps": seen,
            "evaluation": evaluation,
            "workers": workers,
            "checkpoints": [{**attrs.asdict(each), "path": str(each.path)} for each in data.checkpoints],
            "damaged": data.damaged,
            "status": status,
        }
        click.echo(json.dumps(report, indent=4))
        return
    outcome = f"{result['outcome']} after {result['wall_seconds']:.1f} s" if result else "not finished"
    intact = [each.step for each in data.checkpoints if not each.problem]
    damages = [*data.damaged, *(each.problem for each in data.checkpoints if each.problem)]
    _print(directory, "running" if running else outcome, targets, seen, damages, status)
    if workers:
        restarts, aborted = workers["restarts"], workers["aborted_episodes"]
        echo(f"workers: {restarts} started again, {aborted} aborted episodes, since the run was last started")
    print_parameters(document, status, none_yet=not intact)
    _print_sections(document, status, targets)
    if not running and intact and metadata_of(data.status_written).get("run_steps") != intact[-1]:
        echo(f"the training status {_step_of(data.status_written)}; shown is that of checkpoint {intact[-1]}")


def _step_of(status: Mapping[str, Any] | None) -> str:
    from rlcore.storage.status import metadata_of

    return "is missing" if status is None else f"is of step {metadata_of(status).get('run_steps', 'unknown')}"


def _targets(configured: Mapping[str, Any], status: Mapping[str, Any]) -> dict[str, int]:
    """``max_steps`` of every behavior that the configuration or the status names."""
    from rlcore.storage.files.access import is_whole
    from rlcore.storage.status import listed_checkpoints

    listed = configured.get("behaviors")
    blocks: dict[str, Any] = {
        name: configured.get("default_settings") for name, section in status.items() if listed_checkpoints(section)
    }
    blocks |= listed if isinstance(listed, Mapping) else {}
    return {
        name: block["max_steps"]
        for name, block in blocks.items()
        if isinstance(block, Mapping) and is_whole(block.get("max_steps"))
    }


def _evaluation(status: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """The last and the best score at the last checkpoint; None before the first evaluation."""
    from rlcore.contracts.saved_values import SavedValueError
    from rlcore.storage.checkpoint_state import require_scores
    from rlcore.storage.status import metadata_of

    scores = metadata_of(status).get("evaluation")
    if not isinstance(scores, Mapping) or scores.get("score") is None:
        return None
    try:
        require_scores(scores)
    except SavedValueError:
        return None
    return scores


def _promise(status: Mapping[str, Any]) -> str:
    """The promise of a resume from the last checkpoint, in words; empty before there is one."""
    from rlcore.contracts.saved_values import has_form
    from rlcore.run.description import ResumePromise
    from rlcore.storage.checkpoint_state import PROMISE
    from rlcore.storage.status import metadata_of

    found = metadata_of(status).get("resume")
    return str(ResumePromise.from_json(found)) if found is not None and has_form(found, PROMISE) else ""


def _latest_summaries(directory: Path) -> dict[str, dict[str, Any]]:
    """Each behavior's last summary in ``metrics.jsonl``; empty if there is no such file."""
    from rlcore.plugins.core import METRICS_FILE
    from rlcore.storage.files.access import DamagedFile, is_whole, parse_json, read_tail

    latest: dict[str, dict[str, Any]] = {}
    try:
        lines = read_tail(directory / METRICS_FILE, _LAST_SUMMARIES).splitlines()
    except (OSError, DamagedFile):
        return latest
    for line in lines:
        try:
            summary = parse_json(line)
        except ValueError:  # the first is cut off here, the last is being written
            continue
        if isinstance(summary, dict) and isinstance(summary.get("behavior"), str) and is_whole(summary.get("step")):
            latest.pop(summary["behavior"], None)
            latest[summary["behavior"]] = summary
    return latest


def _workers(latest: Mapping[str, Mapping[str, Any]]) -> dict[str, int] | None:
    """Restarts and aborted episodes in the very last summary; None if the environments were not in workers."""
    from rlcore.contracts.stats import ABORTED_EPISODES, WORKER_RESTARTS
    from rlcore.storage.files.access import is_number

    stats = list(latest.values())[-1].get("stats") if latest else None
    if not isinstance(stats, Mapping):
        return None
    restarts: Any = stats.get(WORKER_RESTARTS)
    aborted: Any = stats.get(ABORTED_EPISODES)
    if not is_number(restarts) or not is_number(aborted) or not isfinite(restarts) or not isfinite(aborted):
        return None
    return {"restarts": int(restarts), "aborted_episodes": int(aborted)}


def _steps(status: Mapping[str, Any], summarized: Mapping[str, int]) -> dict[str, int]:
    """Agent steps by behavior, at the last checkpoint or at the last summary, whichever is later."""
    from rlcore.storage.status import listed_checkpoints

    steps = dict(summarized)
    for name, section in status.items():
        entries = listed_checkpoints(section)
        if entries:
            steps[name] = max(entries[-1]["steps"], steps.get(name, 0))
    return steps


def _print_sections(document: Document, status: Mapping[str, Any], behaviors: Mapping[str, int]) -> None:
    """A line for each section of a plugin with a few numbers and short texts; ``--json`` has all of every section."""
    parameters = document.data.get("environment_parameters")
    known = {"metadata", *behaviors, *(parameters if isinstance(parameters, Mapping) else ())}
    for name, section in status.items():
        if name in known or not isinstance(section, Mapping) or "checkpoints" in section or "lesson_num" in section:
            continue
        values = list(_flat(section))
        if 0 < len(values) <= _MOST_VALUES:
            echo(f"{name}: {', '.join(f'{key} {value}' for key, value in values)}")


def _flat(section: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, str]]:
    """The numbers and texts in a section and in the mappings in it, each with its path."""
    for key, value in section.items():
        if isinstance(value, Mapping) and not prefix:
            yield from _flat(value, f"{key}.")
        elif isinstance(value, int | float | str):
            yield f"{prefix}{key}", f"{value:g}" if isinstance(value, float) else str(value)


def _print(
    directory: Path,
    outcome: str,
    targets: Mapping[str, int],
    seen: Mapping[str, int],
    damages: Sequence[str],
    status: Mapping[str, Any],
) -> None:
    from rich.table import Table

    from rlcore.storage.status import listed_checkpoints

    console = plain_console()
    console.print(printable(f"{directory}: {outcome}"))
    table = Table("behavior", "steps", "of", "mean reward", "checkpoints")
    for name in dict.fromkeys((*targets, *status)):
        target, entries = targets.get(name), listed_checkpoints(status.get(name))
        if target is None and not entries:
            continue  # a section of a plugin
        reward = entries[-1]["reward"] if entries else None
        steps = seen.get(name, 0)
        row = cells(
            name,
            steps,
            f"{target} ({100 * steps // target}%)" if target else "-",
            ("no episode yet" if entries else "-") if reward is None else f"{reward:.2f}",
            " ".join(str(entry["steps"]) for entry in entries) or "none yet",
        )
        table.add_row(*row)
    console.print(table)
    scored = _evaluation(status)
    if scored:
        console.print(
            f"evaluation: score {scored['score']:.2f} at step {scored['step']}, best {scored['best_score']:.2f} "
            f"at step {scored['best_step']}",
        )
    promise = _promise(status)
    if promise:
        console.print(printable(f"resume: {promise}"))
    for damage in damages:
        console.print("damaged:", style="red", end=" ")
        console.print(printable(damage))


HEADINGS = ("parameter", "lesson", "measure", "value", "threshold", "eligible in")
NOTHING = "-"


def print_parameters(configuration: Document, status: Mapping[str, Any], none_yet: bool = False) -> None:
    """Prints the table if the run has environment parameters. ``none_yet``: the run has no checkpoint yet."""
    rows = parameter_rows(configuration, status)
    if not rows:
        if none_yet and configuration.data.get("environment_parameters"):
            print("environment parameters: shown from the first checkpoint on")
        return
    from rich.table import Column, Table

    from rlcore.storage.status import metadata_of

    console = plain_console()
    step = metadata_of(status).get("run_steps")
    console.print(printable("environment parameters:" if step is None else f"environment parameters at step {step}:"))
    table = Table(*(Column(heading, overflow="fold") for heading in HEADINGS))
    for row in rows:
        table.add_row(*cells(*row))
    console.print(table)


def parameter_rows(configuration: Document, status: Mapping[str, Any]) -> list[tuple[str, ...]]:
    """A row below ``HEADINGS`` for each parameter with a section in the status; see ``Curriculum.status``.

    A section of ML-Agents has only ``lesson_num``; a curriculum without lessons gives a range instead.
    """
    from rlcore.config.rewriting import with_parameter_blocks

    blocks = with_parameter_blocks(configuration).data.get("environment_parameters")
    blocks = blocks if isinstance(blocks, Mapping) else {}
    others = (name for name, section in status.items() if isinstance(section, Mapping) and "lesson_num" in section)
    names = dict.fromkeys((*blocks, *others))
    sections = {name: status[name] for name in names if isinstance(status.get(name), Mapping)}
    return [
        (
            str(name),
            _given(blocks.get(name)) or _lesson(section),
            str(section.get("measure") or NOTHING),
            _number(section.get("value"), ".2f"),
            _number(section.get("threshold"), "g"),
            _episodes(section.get("episodes_left")),
        )
        for name, section in sections.items()
    ]


def _given(block: Any) -> str | None:
    """The number or ``sampler_type`` of a parameter that was given no lessons; None if it was given lessons."""
    curriculum = block.get("curriculum") if isinstance(block, Mapping) else None
    lessons = curriculum.get("lessons") if isinstance(curriculum, Mapping) else None
    if not isinstance(lessons, list) or len(lessons) != 1:
        return None
    value = lessons[0].get("value") if isinstance(lessons[0], Mapping) else None
    return str(value.get("sampler_type", NOTHING)) if isinstance(value, Mapping) else _number(value, "g")


def _lesson(section: Mapping[str, Any]) -> str:
    """The lesson as ``2 (long)``, or as much of that as is known; ``[0.5, 2]`` for a range."""
    number, name = section.get("lesson_num"), section.get("lesson")
    if name is None and {"low", "high"} <= section.keys():
        name = f"[{_number(section['low'], 'g')}, {_number(section['high'], 'g')}]"
    if number is None:
        return str(name or NOTHING)
    return str(number) if name is None else f"{number} ({name})"


def _number(value: Any, shape: str) -> str:
    if value is None:
        return NOTHING
    return format(value, shape) if isinstance(value, int | float) and not isinstance(value, bool) else str(value)


def _episodes(left: Any) -> str:
    if left is None:
        return NOTHING
    return "now" if left == 0 else "1 episode" if left == 1 else f"{left} episodes"
