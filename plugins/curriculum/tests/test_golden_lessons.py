"""The cases of golden_lessons.txt: each is played as written, and again with a resume after every event."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import attrs
import pytest

MEAN2 = "min_lesson_length: 2, signal_smoothing: false"


@attrs.frozen
class Case:
    rule: str
    legacy: bool
    parameters: tuple[str, ...]  # the lessons of each parameter
    history: tuple[tuple[str, tuple[int, ...]], ...]  # events, and the current lessons after each event

    def __str__(self) -> str:
        return f"legacy: {self.rule}" if self.legacy else self.rule


def cases() -> Iterator[Case]:
    text = Path(__file__).with_name("golden_lessons.txt").read_text(encoding="utf-8")
    for block in text.split("\n\n")[1:]:
        rule, *lines = [line.strip() for line in block.splitlines() if not line.strip().startswith("#")]
        parameters = tuple(line.removeprefix("lessons").strip() for line in lines if line.startswith("lessons "))
        (history,) = (line for line in lines if not line.startswith("lessons "))
        events = (part.split(" -> ") for part in history.split(" | "))
        played = tuple((event, tuple(int(number) for number in on.split())) for event, on in events)
        yield Case(rule.removeprefix("legacy: "), rule.startswith("legacy: "), parameters, played)


CASES = list(cases())


def yaml_of(case: Case) -> str:
    """Return the configuration for the short form ``lessons``."""
    lines = ["environment_parameters:"]
    for number, lessons in enumerate(case.parameters):
        smoothing = "legacy" if case.legacy else "episodes"
        lines += [f"  p{number}:", "    curriculum:", f"      smoothing: {smoothing}", "      lessons:"]
        texts = lessons.replace("MEAN2", MEAN2).split(" ; ")
        for index, text in enumerate(texts if texts[-1].startswith("/") else [*texts, ""]):
            completion, _, demotion = text.partition("/")
            lines += [f"        - name: L{index}", f"          value: {index}"]
            if completion:
                joined = [_criterion(each) for each in completion.split(" & ")]
                written = joined[0] if len(joined) == 1 else f"[{', '.join(joined)}]"
                lines.append(f"          completion_criteria: {written}")
            if demotion:
                lines.append(f"          demotion: {{{demotion}}}")
    return "\n".join(lines) + "\n"


def _criterion(text: str) -> str:
    return f"{{{text}}}" if "behavior:" in text else f"{{behavior: B, {text}}}"


@pytest.mark.parametrize("resumes", [False, True])
@pytest.mark.parametrize("case", CASES, ids=str)
def test_golden(case: Case, script: Any, resumes: bool) -> None:
    running = script(yaml_of(case))
    for event, on in case.history:
        if resumes:
            running.play("resume")
        assert running.play(event) == on, event
