"""The table of environment parameters and their lessons in ``rlcore status``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from rlcore.builtin.terminal_text import printable
from rlcore.cli.terminal import cells, plain_console

if TYPE_CHECKING:
    from rlcore.config.document import Document

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
    late = (section.get("not_waited_for") for section in status.values() if isinstance(section, Mapping))
    for behavior, envs in next((each for each in late if isinstance(each, Mapping)), {}).items():
        console.print(printable(f"not waited for: too long episodes of {behavior} in the environments {envs}"))


def parameter_rows(configuration: Document, status: Mapping[str, Any]) -> list[tuple[str, ...]]:
    """A row below ``HEADINGS`` for each parameter with a section in the status; see ``Curriculum.status``.

    A section of ML-Agents has only ``lesson_num``; a curriculum without lessons gives a range instead.
    """
    from rlcore.config.document import with_parameter_blocks

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
