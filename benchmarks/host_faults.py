"""Hosts that are cut off, lose their power or are replaced, while they train together: what ends, what continues, when.

The hosts are namespaces of this machine (``tests/support/hosts.py``), which needs Linux and root. In each fault, every
process must end or continue within ``rank_timeout`` and 15 seconds, with a line that names the host, and the last
checkpoint must be intact and not older than its interval. ``python benchmarks/host_faults.py --only cut --repeat 2``
runs one of them; results are added to ``--results``, and the table has all that are there.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import click
import host_cases_of_actors
import host_cases_of_ranks
import host_cases_of_workers
from host_cases import TIMEOUT, Case, Missed, NotTried
from hosts import hosts, problem, switch_problem

CASES: dict[str, Case] = {
    **host_cases_of_ranks.CASES,
    **host_cases_of_workers.CASES,
    **host_cases_of_actors.CASES,
}


@click.command()
@click.option("--only", multiple=True, type=click.Choice([*CASES]), help="Faults to make; all by default.")
@click.option("--repeat", default=1, show_default=True, type=click.IntRange(1), help="How often each is made.")
@click.option("--results", type=click.Path(path_type=Path), help="File to which results are added, as JSON lines.")
@click.option("--show", is_flag=True, help="Print the table of the file and make no fault.")
def main(only: tuple[str, ...], repeat: int, results: Path | None, show: bool) -> None:
    """Make faults of hosts, and print what ended or continued after how many seconds."""
    why = problem()
    if why is not None:
        raise click.ClickException(why)
    rows: list[dict[str, Any]] = []
    if results is not None and results.exists():
        rows = [json.loads(line) for line in results.read_text().splitlines()]
    names = [] if show else [name for _ in range(repeat) for name in only or CASES]
    for name in names:
        row = made_once(name)
        rows.append(row)
        if results is not None:
            with results.open("a") as file:
                file.write(json.dumps(row) + "\n")
        click.echo(described(row))
    click.echo()
    click.echo(table(rows))
    tried = [row for row in rows if "untried" not in row]
    if not all(map(held, tried)):
        sys.exit(1)
    if len(tried) < len(rows):
        sys.exit(2)


def made_once(name: str) -> dict[str, Any]:
    """Make a fault on fresh hosts."""
    case = CASES[name]
    if case.lossy and switch_problem() is not None:
        return {"case": name, "untried": switch_problem()}
    with TemporaryDirectory(prefix="hosts-") as folder, hosts(Path(folder), case.count, case.lossy) as made:
        try:
            seconds, note = case.run(made)
        except NotTried as error:
            return {"case": name, "untried": str(error)[:500]}
        except (Missed, AssertionError) as error:
            return {"case": name, "problem": str(error)[:2000]}
        return {"case": name, "seconds": round(seconds, 1), "note": note}


def held(row: dict[str, Any]) -> bool:
    """Whether all rules held, the limit of the fault among them."""
    limit = CASES[row["case"]].limit
    return "seconds" in row and (limit is None or row["seconds"] <= limit)


def described(row: dict[str, Any]) -> str:
    """A result in one line."""
    if "untried" in row:
        return f"{row['case']}: not tried: {row['untried']}"
    if "problem" in row:
        return f"{row['case']}: MISSED: {row['problem']}"
    return f"{row['case']}: {row['seconds']} s; {row['note']}"


def table(rows: list[dict[str, Any]]) -> str:
    """The results by fault, as a table of Markdown."""
    lines = [
        f"| fault (rank_timeout: {TIMEOUT}) | tries | held | longest | limit | what happened |",
        "|---|---|---|---|---|---|",
    ]
    tried = [row for row in rows if "untried" not in row]
    for name, case in CASES.items():
        tries = [row for row in tried if row["case"] == name]
        if not tries:
            continue
        longest = max((row["seconds"] for row in tries if "seconds" in row), default=0.0)
        notes = "; ".join(dict.fromkeys(row.get("note", row.get("problem", ""))[:60] for row in tries))
        limit = "" if case.limit is None else f"{case.limit:g} s"
        lines.append(f"| {case.name} | {len(tries)} | {sum(map(held, tries))} | {longest:.1f} s | {limit} | {notes} |")
    lines.append(f"| all | {len(tried)} | {sum(map(held, tried))} | | | |")
    return "\n".join(lines)


if __name__ == "__main__":
    main()
