"""The table of environment parameters that ``rlcore status`` prints."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rlcore import echo, echo_columns

HEADINGS = ("parameter", "lesson", "measure", "value", "threshold", "eligible in")
NOTHING = "-"


def print_parameters(configuration: Mapping[str, Any], status: Mapping[str, Any]) -> None:
    """Print the table if the run has environment parameters. ``status`` is empty before the first checkpoint."""
    rows = parameter_rows(configuration, status)
    if not rows:
        if not status and configuration.get("environment_parameters"):
            echo("environment parameters: shown from the first checkpoint on")
        return
    step = _mapping(status.get("metadata")).get("run_steps")
    echo("environment parameters:" if step is None else f"environment parameters at step {step}:")
    echo_columns([HEADINGS, *rows])


def parameter_rows(configuration: Mapping[str, Any], status: Mapping[str, Any]) -> list[tuple[str, ...]]:
    """Return a row below ``HEADINGS`` for each parameter with a section in the status; see ``Curriculum.status``.

    A section of ML-Agents has only ``lesson_num``; a curriculum without lessons gives a range instead.
    """
    blocks = _mapping(configuration.get("environment_parameters"))
    others = [name for name, section in status.items() if "lesson_num" in _mapping(section)]
    rows: list[tuple[str, ...]] = []
    for name in dict.fromkeys((*blocks, *others)):
        section = status.get(name)
        if not isinstance(section, Mapping):
            continue
        lesson = _value_without_lessons(blocks.get(name)) or _lesson(section)
        measure = _text(section.get("measure"))
        value = _text(section.get("value"), ".2f")
        threshold = _text(section.get("threshold"))
        episodes = _episodes(section.get("episodes_left"))
        rows.append((name, lesson, measure, value, threshold, episodes))
    return rows


def _value_without_lessons(block: Any) -> str | None:
    """The number or ``sampler_type`` of a parameter that was given no lessons; None if it was given lessons.

    A configuration has the lessons of a block in ``curriculum.lessons``; ML-Agents has them in ``curriculum``.
    """
    inside = block
    for key in ("curriculum", "lessons"):
        inside = _mapping(inside).get(key, inside)
    if isinstance(inside, list):
        if len(inside) != 1:
            return None
        value = _mapping(inside[0]).get("value")
    elif inside is block:
        value = block
    else:
        return None
    if isinstance(value, Mapping):
        value = value.get("sampler_type")
    return None if value is None else _text(value)


def _lesson(section: Mapping[str, Any]) -> str:
    """The lesson as ``2 (long)``, or as much of that as is known; ``[0.5, 2]`` for a range."""
    number = section.get("lesson_num")
    name = section.get("lesson")
    if name is None and {"low", "high"} <= section.keys():
        name = f"[{_text(section['low'])}, {_text(section['high'])}]"
    if number is None:
        return _text(name)
    return str(number) if name is None else f"{number} ({name})"


def _text(value: Any, shape: str = "g") -> str:
    if value is None:
        return NOTHING
    if isinstance(value, bool) or not isinstance(value, int | float):
        return str(value)
    return format(value, shape)


def _episodes(left: Any) -> str:
    if left is None:
        return NOTHING
    if left == 0:
        return "now"
    return "1 episode" if left == 1 else f"{left} episodes"


def _mapping(value: Any) -> Mapping[str, Any]:
    """A mapping of a file that may be edited or damaged; empty for any other value."""
    return value if isinstance(value, Mapping) else {}
