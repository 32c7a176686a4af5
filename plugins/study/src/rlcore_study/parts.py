"""Parts that packages add to the page of ``rlcore report``.

A package that trains runs for a purpose, such as a search of hyperparameters, registers a :class:`ReportPartSpec` with
the hook ``rlcore_report_parts`` of the plugin ``report``. This module imports nothing heavy, because plugins import it
at every start of rlcore.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import attrs

from rlcore import Record, check_target


@attrs.frozen(eq=False)
class Figure:
    """A figure that Plotly draws.

    A text of ``traces`` or ``layout`` that begins with ``--`` is a color of the page: ``--g0`` to ``--g7`` for groups,
    ``--text``, ``--quiet`` and ``--line``. Every other text is shown as it is, never as markup. The content security
    policy of the page allows SVG traces only, such as ``scatter`` and ``bar``.

    Attributes:
        title: The title.
        traces: Plotly's traces, for JSON.
        layout: What differs from the layout of the page, such as titles of axes.
        caption: A sentence about the figure; may be empty.
    """

    title: str
    traces: Sequence[Mapping[str, Any]]
    layout: Mapping[str, Any] = {}
    caption: str = ""


@attrs.frozen(eq=False)
class Part:
    """A part of the page.

    Attributes:
        title: The title.
        text: A sentence below the title; may be empty.
        figures: The figures.
        headings: The headings of a table; none if there is no table.
        rows: The rows of the table, each with a text for each heading.
    """

    title: str
    text: str = ""
    figures: Sequence[Figure] = ()
    headings: Sequence[str] = ()
    rows: Sequence[Sequence[str]] = ()


@attrs.frozen(kw_only=True)
class ReportPartSpec(Record):
    """A part of the page of ``rlcore report``.

    ``target(runs: Sequence[Path])``, called by keyword with the directories of the runs of the page, returns a sequence
    of :class:`Part`, which may be empty.

    Attributes:
        expand: ``function(path: Path)``, as ``"package.module:name"``. It returns the run directories that a path, such
            as that of a search, stands for, and None for a path that is nothing of this plugin's.
    """

    kind: ClassVar[str] = "report part"
    key: ClassVar[str] = "rlcore report"

    expand: str | None = attrs.field(default=None, validator=check_target)
