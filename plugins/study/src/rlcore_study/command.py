"""``rlcore compare``: how good configurations are over their seeds, and how sure that is."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from rlcore import debug_option, json_option

if TYPE_CHECKING:
    from rlcore_study.scores import Comparison


@click.command("compare")
@click.argument("runs", nargs=-1, required=True, type=click.Path(path_type=Path), metavar="RUN...")
@click.option(
    "--group",
    "named",
    multiple=True,
    metavar="NAME=PATTERN",
    help="Compare the runs with matching names, such as wide-*, as one configuration. May be repeated.",
)
@json_option
@debug_option
def compare_command(runs: tuple[Path, ...], named: tuple[str, ...], as_json: bool) -> None:
    """Compare the scores of configurations over their seeds.

    RUN is the name of a study of rlcore run --seeds, a run directory, or the id of a run in results/. Runs whose
    configurations differ in nothing but the seed are one configuration.
    """
    from rlcore_study.groups import grouped, named_group
    from rlcore_study.runs import runs_to
    from rlcore_study.scores import compared
    from rlcore_study.tables import to_json

    readable, _ = runs_to("compare", runs)
    groups = grouped(readable, [named_group(text) for text in named])
    comparison = compared(groups)
    if as_json:
        click.echo(json.dumps(to_json(comparison), indent=4))
    else:
        print_comparison(comparison)


def print_study(directories: Sequence[Path]) -> None:
    """Print the table of the runs of one study that can be read; nothing if there are none."""
    from rlcore_study.groups import grouped
    from rlcore_study.runs import read_runs
    from rlcore_study.scores import compared

    begun = [directory for directory in directories if (directory / "configuration.yaml").is_file()]
    runs, _ = read_runs(begun)
    if runs:
        print_comparison(compared(grouped(runs)))


def print_comparison(comparison: Comparison) -> None:
    """Print the runs of a single configuration, or else the configurations and how probably one is better."""
    from rlcore import echo, echo_columns
    from rlcore_study.tables import rows_of_groups, rows_of_pairs, rows_of_runs

    if len(comparison.groups) == 1:
        tables = [rows_of_runs(comparison, comparison.groups[0])]
    else:
        tables = [rows_of_groups(comparison), rows_of_pairs(comparison)]
    for table in tables:
        if table:
            echo_columns(table)
            echo()
    echo(f"score: {comparison.measure}")
    echo("IQM: mean of the scores without the lowest and the highest quarter; intervals: 95%, bootstrap")
    for warning in comparison.warnings:
        echo(f"warning: {warning}", err=True)
