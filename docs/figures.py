"""Draws the page of figures from ``docs/figures.yaml``, and makes entries of that file.

``python docs/figures.py FILE.json...`` prints entries for what benchmarks wrote with ``--json FILE.json``, to be added
to ``docs/figures.yaml``. Raw measurements stay outside the repository; the file has the numbers that the site cites,
each with its command, machine, versions and date.
"""

from __future__ import annotations

import json
import math
import platform
import re
import sys
from collections.abc import Mapping, Sequence
from html import escape
from pathlib import Path
from typing import Any

import attrs
import yaml
from drawings import Interval, intervals

DOCS = Path(__file__).resolve().parent
FILE = DOCS / "figures.yaml"
IDLE = 0.5  # other processes that wanted to run; more is said on the page
RETURNS_TARGET = 0.95


@attrs.frozen
class Cited:
    """One figure with the circumstances of its measurement.

    Attributes:
        group: The heading under which it is shown.
        what: What was measured.
        value: The number.
        command: The command that prints it.
        machine: Processor, cores and system.
        date: Day of the measurement.
        load: ``idle``, the number of other processes that wanted to run, or ``any`` where it cannot matter.
        versions: The versions that matter.
        unit: Unit of the number.
        against: What a ratio compares with.
        target: The number to reach; None without one.
        smaller: Whether smaller numbers are better.
        detail: Other numbers that the command prints.
        front: The words of the first page; empty for figures that are not shown there.
    """

    group: str
    what: str
    value: float
    command: str
    machine: str
    date: str
    load: str
    versions: str
    unit: str = ""
    against: str = ""
    target: float | None = None
    smaller: bool = False
    detail: str = ""
    front: str = ""

    @property
    def met(self) -> bool:
        """Whether the target is reached; true without one."""
        if self.target is None:
            return True
        return self.value <= self.target if self.smaller else self.value >= self.target

    @property
    def shown(self) -> str:
        """The number with its unit: ``1.31x``, ``873 us``."""
        return with_unit(self.value, self.unit)


def with_unit(value: float, unit: str) -> str:
    """Return a number as a page shows it; a ratio has two decimals, as benchmarks print it."""
    if unit == "x":
        return f"{value:.2f}x" if value < 10 else f"{value:.1f}x"
    return f"{value:,g} {unit}".rstrip()


def cited(path: Path = FILE) -> list[Cited]:
    """Read all figures, in the order of the file."""
    sessions = yaml.safe_load(path.read_text("utf-8"))
    return [
        Cited(**each, **{key: str(session[key]) for key in ("machine", "date", "load", "versions")})
        for session in sessions
        for each in session["figures"]
    ]


# ---------------------------------------------------------------- entries


def entry(report: Mapping[str, Any]) -> dict[str, Any]:
    """Return the entry of ``docs/figures.yaml`` for a report of a benchmark; values are rounded for the worse."""
    versions = {"Python": report["python"], **report["versions"]}
    load = report.get("load")
    figures = []
    for found in report["figures"]:
        rounded = (math.ceil if found["smaller"] else math.floor)(found["value"] * 100) / 100
        kept = {key: value for key, value in found.items() if value not in ("", None, False)}
        figures.append({"group": "?", **kept, "value": rounded, "command": report["command"]})
    return {
        "machine": f"{report['processor']}, {report['cpus']} cores, {report['machine']}",
        "date": report["date"][:10],
        "load": "unknown" if load is None else "idle" if load <= IDLE else load,
        "versions": ", ".join(f"{name} {version}" for name, version in versions.items()),
        "figures": figures,
    }


# ---------------------------------------------------------------- pages


def page(found: Sequence[Cited]) -> str:
    """Return all figures by group, with the returns beside Stable-Baselines3."""
    parts = []
    for group in dict.fromkeys(each.group for each in found):
        members = [each for each in found if each.group == group]
        missed = sum(not each.met for each in members)
        targets = sum(each.target is not None for each in members)
        said = f"Targets met: {targets - missed} of {targets}.\n\n" if targets else ""
        parts.append(f"## {group}\n\n{said}" + '<div class="figures">' + "".join(map(row, members)) + "</div>")
    return "\n\n".join(parts)


def row(each: Cited) -> str:
    """Return one figure as HTML: words, a bar beside its target, the command and where it was measured."""
    verdict = ""
    if each.target is not None:
        counted = each.unit.startswith("of ")
        goal = f"target {each.target:g}{'' if counted else 'x' if each.unit == 'x' else f' {each.unit}'}"
        verdict = f'<span class="{"met" if each.met else "missed"}">{"met" if each.met else "missed"}: {goal}</span>'
    against = f", against {escape(each.against)}" if each.against else ""
    detail = f"<br>{escape(each.detail)}" if each.detail else ""
    return (
        f'<div class="figure"><p><strong class="number">{each.shown}</strong> {escape(each.what)}{against} {verdict}'
        f'{detail}</p>{bar(each)}<p class="source"><code>{escape(each.command)}</code><br>'
        f"{escape(source(each))}</p></div>"
    )


def bar(each: Cited) -> str:
    """Return a bar of the value with marks at 1 (for ratios) and at the target; nothing for counts."""
    if each.unit.startswith("of "):
        return ""
    most = max(each.value, each.target or 0.0, 1.0 if each.unit == "x" else 0.0) * 1.08 or 1.0

    def mark(kind: str, value: float) -> str:
        return f'<i class="{kind}" style="left:{100 * value / most:.1f}%"></i>'

    one = mark("one", 1.0) if each.unit == "x" else ""
    target = mark("target", each.target) if each.target else ""
    kind = "fill" if each.met else "fill below"
    return (
        f'<div class="bar"><span class="{kind}" style="width:{100 * each.value / most:.1f}%"></span>{one}{target}</div>'
    )


def processor() -> str:
    """Return the name of this machine's processor."""
    cpus = Path("/proc/cpuinfo")
    lines = cpus.read_text("utf-8").splitlines() if cpus.is_file() else ()
    return next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), platform.machine())


def source(each: Cited) -> str:
    """Return when and where a figure was measured."""
    load = {"idle": ", idle", "any": ""}.get(each.load, f", shared with other work (load {each.load})")
    return f"{each.date}, {each.machine}{load}; {each.versions}"


def front(found: Sequence[Cited]) -> str:
    """Return the figures of the first page as HTML."""
    cards = [
        f'<div class="card"><a href="figures/"><strong>{each.shown}</strong></a><p>{escape(each.front)}</p>'
        f'<p class="source"><code>{escape(each.command)}</code><br>{escape(source(each).partition(";")[0])}</p></div>'
        for each in found
        if each.front
    ]
    return f'<div class="cards">{"".join(cards)}</div>'


def returns(markdown: str) -> str:
    """Return a drawing of the table of returns of ``docs/benchmarks.md``, whose rows ``learning.py`` wrote."""
    task = r"((?:ppo|sac|td3|dqn|qrdqn|million|preset)-[\w-]+)(, best of \d)?"
    number = r"([\d.]+)"
    pattern = rf"^\| {task} \|.*\| {number} \| {number} to {number} \|$"
    rows = [
        Interval(name + best.replace(", best of ", ", best "), *map(float, numbers))
        for name, best, *numbers in re.findall(pattern, markdown, re.MULTILINE)
    ]
    return f'<div class="returns">{intervals(rows, "Ratios of returns", RETURNS_TARGET)}</div>'


def main(paths: Sequence[str]) -> None:
    """Print entries for these files, or the page without one."""
    if not paths:
        print(page(cited()))
    for path in paths:
        print(yaml.safe_dump([entry(json.loads(Path(path).read_text("utf-8")))], sort_keys=False, width=120), end="")


if __name__ == "__main__":
    main(sys.argv[1:])
