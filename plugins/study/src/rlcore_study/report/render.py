"""The HTML page of a report: one file that requests nothing from outside.

Every text comes from files of others. The template escapes it, the numbers of charts are JSON without ``<``, ``>`` and
``&``, and a content security policy allows only the scripts whose SHA-256 the page names.
"""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Mapping, Sequence
from importlib.metadata import version
from importlib.resources import files
from typing import Any

import attrs
from jinja2 import Environment, StrictUndefined
from markupsafe import Markup

from rlcore import cells
from rlcore_study.groups import Group
from rlcore_study.parts import Part
from rlcore_study.report.charts import SMOOTHINGS, Chart, Section
from rlcore_study.report.episodes import Film
from rlcore_study.runs import OTHER, TIMERS, ReportedTraining
from rlcore_study.scores import Comparison
from rlcore_study.summary import GroupResult, results, times
from rlcore_study.tables import duration, ends, number, whole

GENERATOR = "rlcore report"
LONGEST_VALUE = 300  # letters of a value of the configuration


@attrs.frozen(eq=False)
class Report:
    """The contents of a page.

    Attributes:
        title: The title of the page.
        written: Date and time of the report.
        groups: The groups of runs.
        behaviors: The behaviors that are shown.
        sections: The charts.
        comparison: The scores of the groups; None if each has one run.
        efficiency: The charts of the comparison.
        differences: The keys in which runs differ, with the values of each group; empty for one run.
        chosen: The keys in which a single configuration differs from the defaults, with value and default.
        no_defaults: The reason why ``chosen`` is unknown; empty if it is known.
        films: Films of episodes.
        problems: A line for each run that is left out.
        parts: The parts of other packages.
    """

    title: str
    written: str
    groups: Sequence[Group]
    behaviors: Sequence[str]
    sections: Sequence[Section]
    comparison: Comparison | None = None
    efficiency: Sequence[Chart] = ()
    differences: Mapping[str, tuple[tuple[str, ...], ...]] = {}
    chosen: Mapping[str, tuple[Any, Any]] = {}
    no_defaults: str = ""
    films: Sequence[Film] = ()
    problems: Sequence[str] = ()
    parts: Sequence[Part] = ()

    @property
    def figures(self) -> list[dict[str, Any]]:
        """The figures of the parts, as the page draws them."""
        drawn: list[dict[str, Any]] = []
        for part in self.parts:
            for figure in part.figures:
                element = f"figure-{len(drawn) + 1}"
                drawn.append({"id": element, "traces": figure.traces, "layout": figure.layout})
        return drawn

    @property
    def runs(self) -> list[ReportedTraining]:
        """All runs, group by group."""
        return [run for group in self.groups for run in group.runs]

    @property
    def checkpoints(self) -> int:
        """Number of checkpoints of all runs."""
        return sum(len(run.data.checkpoints) for run in self.runs)

    @property
    def results(self) -> list[GroupResult]:
        """The results of each group and behavior."""
        return results(self.groups, self.behaviors)

    @property
    def times(self) -> dict[str, dict[str, float]]:
        """Seconds of each part of the time, by group."""
        return times(self.groups)

    @property
    def time_parts(self) -> list[str]:
        """The parts of the time split that a group has, in the order of the page."""
        present = {part for seconds in self.times.values() for part in seconds}
        return [part for part in (*TIMERS.values(), OTHER) if part in present]


def page(report: Report) -> str:
    """The page of a report, complete with its scripts and styles."""
    from plotly.offline import get_plotlyjs  # the largest part of the page: 4.8 MB

    sources = files("rlcore_study.report") / "page"
    library = _script(get_plotlyjs())
    script = _script((sources / "report.js").read_text("utf-8"))
    hashes = " ".join(f"'sha256-{_sha256(text)}'" for text in (library, script))
    environment = Environment(
        autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True, finalize=_visible
    )
    environment.filters |= {
        "number": number,
        "whole": whole,
        "ends": ends,
        "duration": duration,
        "value": value_text,
    }
    template = environment.from_string((sources / "report.html.j2").read_text("utf-8"))
    return template.render(
        report=report,
        generator=f"{GENERATOR} {version('rlcore-study')}",
        smoothings=SMOOTHINGS,
        style=Markup((sources / "report.css").read_text("utf-8")),  # nosec B704 # a file of this package
        library=Markup(library),  # nosec B704 # a file of plotly
        script=Markup(script),  # nosec B704 # a file of this package
        hashes=Markup(hashes),  # nosec B704 # base64
        data=Markup(embedded(_data(report))),  # nosec B704 # embedded() escapes
    )


def _visible(value: Any) -> Any:
    """A text without control characters, and without marks that change the direction of text."""
    if isinstance(value, Markup) or not isinstance(value, str):
        return value
    return cells(value)[0]


def _data(report: Report) -> dict[str, Any]:
    charts = list(report.efficiency)
    for section in report.sections:
        charts += section.charts
    return {
        "groups": [_visible(group.name) for group in report.groups],
        "charts": [chart.data for chart in charts],
        "figures": report.figures,
    }


def embedded(data: Any) -> str:
    """JSON that may stand in a script element: no text in it can end the element or start a comment."""
    text = json.dumps(data, separators=(",", ":"), allow_nan=False, ensure_ascii=True)
    for sign in "<>&":
        text = text.replace(sign, f"\\u{ord(sign):04x}")
    return text


def _script(text: str) -> str:
    """A script that does not end its own element."""
    return text.replace("</script", "<\\/script").replace("<!--", "<\\!--")


def _sha256(text: str) -> str:
    digest = hashlib.sha256(text.encode("utf-8")).digest()
    return base64.b64encode(digest).decode("ascii")


def value_text(value: Any) -> str:
    """A value of a configuration as YAML writes it on one line, shortened."""
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)
    if len(text) <= LONGEST_VALUE:
        return text
    return f"{text[: LONGEST_VALUE - 3]}..."
