"""``rlcore report``: writes one HTML page about one or several runs."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import datetime
from math import inf
from pathlib import Path
from typing import TYPE_CHECKING

import attrs
import click

from rlcore import debug_option, json_option

if TYPE_CHECKING:
    from rlcore_study.groups import Group
    from rlcore_study.report.charts import Chart
    from rlcore_study.report.render import Report
    from rlcore_study.runs import ReportedTraining

MARK = '<meta name="generator" content="rlcore report'  # near the start of every page that this command wrote
MAX_BEHAVIORS = 200  # on one page, the first by name
_HEAD = 4096  # bytes of a file in which the mark is looked for


@click.command("report")
@click.argument("runs", nargs=-1, required=True, type=click.Path(path_type=Path), metavar="RUN...")
@click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path),
    default="report.html",
    show_default=True,
    help="The page. An existing file is replaced only if it is a report.",
)
@click.option("--title", help="Title of the page; by default, the names of the groups.")
@click.option(
    "--group",
    "named",
    multiple=True,
    metavar="NAME=PATTERN",
    help="Show the runs with matching names, such as wide-*, as one group. May be repeated.",
)
@click.option("--separate", is_flag=True, help="Show each run alone, also if runs differ in nothing but the seed.")
@click.option("--episode", is_flag=True, help="Play and film an episode of the best run of each group.")
@click.option("--force", is_flag=True, help="Replace an output file that is not a report.")
@click.option(
    "--allow-local", is_flag=True, envvar="RLCORE_ALLOW_LOCAL", help="Import files that a run names; for --episode."
)
@json_option
@debug_option
def report_command(
    runs: tuple[Path, ...],
    output: Path,
    title: str | None,
    named: tuple[str, ...],
    separate: bool,
    episode: bool,
    force: bool,
    allow_local: bool,
    as_json: bool,
) -> None:
    """Write one HTML page about each RUN (a run directory, or the id of a run in results/).

    Runs whose configurations differ in nothing but the seed are one curve, the mean, with a band. The page needs no
    network and no other file. Runs that are unfinished or damaged are shown as far as they can be read, with a note.
    """
    from rlcore import echo, require_output, write_atomically
    from rlcore_study.groups import grouped, named_group
    from rlcore_study.report.parts import Parts
    from rlcore_study.report.render import page
    from rlcore_study.runs import runs_to

    existing = "exists and is not a report of rlcore"
    require_output(output, force or is_report(output), f"-o {output}", existing)
    parts = Parts()
    readable, problems = runs_to("report", parts.runs(runs))
    groups = grouped(readable, [named_group(text) for text in named], separate)
    report = assembled(groups, title, problems, episode, allow_local)
    report_parts = parts.of([run.data.directory for run in readable])
    if not title and report_parts:
        # A page about a sweep is called after the sweep, not after its many runs.
        title = " and ".join(part.title for part in report_parts)
    report = attrs.evolve(report, parts=report_parts, title=title or report.title)
    for problem in report.problems[len(problems) :]:
        echo(f"warning: {problem}", err=True)
    for run in readable:
        for note in run.notes:
            echo(f"warning: {run.name}: {note}", err=True)
    for film in report.films:
        if film.problem:
            echo(f"warning: {film.run}: no episode: {film.problem}", err=True)
    content = page(report).encode("utf-8")
    write_atomically(output, content)
    if as_json:
        in_groups = {group.name: [run.name for run in group.runs] for group in groups}
        answer = {"file": str(output), "bytes": len(content), "groups": in_groups, "problems": report.problems}
        click.echo(json.dumps(answer, indent=4))
        return
    subject = "1 run"
    if len(readable) > 1:
        plural = "s" if len(groups) > 1 else ""
        subject = f"{len(readable)} runs in {len(groups)} group{plural}"
    echo(f"report of {subject}: {output} ({len(content) / 1e6:.1f} MB)")


def assembled(groups: list[Group], title: str | None, problems: list[str], episode: bool, allow_local: bool) -> Report:
    """Everything that the page shows."""
    from rlcore import RlcoreError
    from rlcore_study.groups import differences
    from rlcore_study.report.charts import efficiency_charts, sections
    from rlcore_study.report.defaults import chosen_values
    from rlcore_study.report.episodes import film
    from rlcore_study.report.render import Report, value_text
    from rlcore_study.scores import compared

    chosen = {}
    no_defaults = ""
    if len(groups) == 1:
        try:
            chosen = chosen_values(groups[0].runs[0].data)
        except RlcoreError as error:
            no_defaults = " ".join(str(error).split())
    all_behaviors = sorted({name for group in groups for run in group.runs for name in run.behaviors})
    behaviors = all_behaviors[:MAX_BEHAVIORS]
    more_behaviors = len(all_behaviors) - len(behaviors)
    charts, more_charts = sections(groups, behaviors)
    if more_behaviors:
        problems = [*problems, f"{more_behaviors:,} more behaviors are left out of the page"]
    if more_charts:
        problems = [*problems, f"{more_charts} more statistics are left out of the page"]
    comparison = None
    efficiency: list[Chart] = []
    if any(len(group.runs) > 1 for group in groups):
        comparison = compared(groups)
        efficiency = efficiency_charts(groups, behaviors, comparison.evaluated)
    films = []
    if episode:
        films = [film(best_run(group), allow_local) for group in groups]
    return Report(
        title=title or _title(groups),
        written=datetime.now().astimezone().strftime("%Y-%m-%d %H:%M %Z"),
        groups=groups,
        behaviors=behaviors,
        sections=charts,
        comparison=comparison,
        efficiency=efficiency,
        differences=differences(groups, value_text),
        chosen=chosen,
        no_defaults=no_defaults,
        films=films,
        problems=problems,
    )


def _title(groups: Sequence[Group]) -> str:
    """``base and wide``, or ``a, b, c and 7 more`` for more than four groups."""
    names = [group.name for group in groups]
    if len(names) > 4:
        names[3:] = [f"{len(names) - 3} more"]
    *first, last = names
    return f"{', '.join(first)} and {last}" if first else last


def best_run(group: Group) -> ReportedTraining:
    """The run with the best evaluation, or else the largest final return, or else the first one."""

    def rank(run: ReportedTraining) -> tuple[float, float]:
        score = -inf if run.best_score is None else run.best_score
        returns = [run.final_return(name) for name in run.behaviors]
        known = [value for value in returns if value is not None]
        return score, sum(known) if known else -inf

    return max(group.runs, key=rank)


def is_report(path: Path) -> bool:
    """Whether ``path`` is a page that this command wrote."""
    if not path.is_file():
        return False
    with path.open("rb") as file:
        return MARK.encode() in file.read(_HEAD)
