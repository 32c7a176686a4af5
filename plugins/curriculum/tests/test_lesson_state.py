"""The status and the saved state of lessons: contents, loading, and refusals."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml

from rlcore import NO_CHANGES, Changes, ConfigError, LessonChange, RunStateError

DATA = yaml.safe_load((Path(__file__).parent / "data/lesson_states.yaml").read_text(encoding="utf-8"))
CRITERION = "{behavior: B, threshold: 1, min_lesson_length: 2, signal_smoothing: false}"
TEXT = f"""
environment_parameters:
  length:
    curriculum:
      - {{name: Short, value: 1, completion_criteria: {CRITERION}}}
      - {{name: Mid, value: 2, completion_criteria: {CRITERION}, demotion: {{threshold: -1, min_lesson_length: 1}}}}
      - {{name: Long, value: 3}}
  gravity: 9.8
"""


def changed(text: str, old: str, new: str) -> str:
    assert text.count(old) == 1
    return text.replace(old, new)


# ---------------------------------------------------------------- changes


def test_a_change_names_both_lessons_and_redraws_episodes(script: Any) -> None:
    running = script(TEXT)
    for event in ("1", "2", "2 2", "-9@2"):
        running.play(event)
    assert running.changes == [
        NO_CHANGES,
        Changes((LessonChange("length", 1, "Mid", 0, "Short"),), redraw=True),
        Changes((LessonChange("length", 2, "Long", 1, "Mid"),), redraw=True),
        NO_CHANGES,
    ]


@pytest.mark.parametrize(("forward", "back"), [("true", "false"), ("false", "true")])
def test_a_change_resets_if_its_own_criterion_asks_for_it(script: Any, forward: str, back: str) -> None:
    asking = f"{{behavior: B, threshold: 1, min_lesson_length: 2, require_reset: {forward}}}"
    text = TEXT.replace(CRITERION, f"[{CRITERION}, {asking}]", 1)  # one of several suffices, also of parameters
    other = f"[{{name: a, value: 1, completion_criteria: {CRITERION}}}, {{name: b, value: 2}}]"
    text = changed(text, "gravity: 9.8", f"gravity: {{curriculum: {other}}}")
    running = script(changed(text, "threshold: -1, ", f"threshold: -1, require_reset: {back}, "))
    for event in ("2 2", "-9"):
        running.play(event)
    assert [change.reset for change in running.changes] == [forward == "true", back == "true"]


# ---------------------------------------------------------------- statistics and status


def test_the_status_says_what_a_lesson_is_waiting_for(script: Any) -> None:
    running = script(TEXT)
    waiting = {"behavior": "B", "measure": "reward", "threshold": 1.0}
    short = {"lesson_num": 0, "lesson": "Short", **waiting}
    assert running.lessons.status()["length"] == {**short, "value": None, "episodes_left": 2}
    running.play("0.5")
    assert running.lessons.status()["length"] == {**short, "value": None, "episodes_left": 1}
    running.play("1")
    assert running.lessons.status()["length"] == {**short, "value": 0.75, "episodes_left": 0}
    running.play("3")
    assert running.lessons.status() == {
        "length": {"lesson_num": 1, "lesson": "Mid", **waiting, "value": None, "episodes_left": 2},
        "gravity": {"lesson_num": 0, "lesson": "gravity"},
    }
    running.play("2 2")
    assert running.lessons.stats() == {
        "Environment/Lesson Number/length": 2.0, "Environment/Lesson Number/gravity": 0.0,
    }  # fmt: skip
    assert running.lessons.status()["length"] == {"lesson_num": 2, "lesson": "Long"}
    assert json.loads(json.dumps(running.lessons.status())) == running.lessons.status()


# ---------------------------------------------------------------- the status of another run

# As written by ML-Agents 1.1.0.
MLAGENTS = {
    "length": {"lesson_num": 2},
    "gravity": {"lesson_num": 0},
    "B": {"checkpoints": [{"steps": 11880, "file_path": "results/demo/B-11880.onnx", "reward": None}]},
    "metadata": {"stats_format_version": "0.3.0", "mlagents_version": "1.1.0", "torch_version": "2.1.1"},
}


def test_a_status_of_ml_agents_begins_with_its_lessons(make: Any) -> None:
    lessons = make(TEXT)
    lessons.load_status(MLAGENTS)
    assert [section["lesson_num"] for section in lessons.status().values()] == [2, 0]
    draw = lessons.draw(np.array([0]), np.array([0]))
    assert (draw.values.tolist(), draw.draw_id.tolist()) == ([[3.0, 9.8]], [[1, 1]])


@pytest.mark.parametrize("case", DATA["statuses"], ids=lambda case: case["message"])
def test_a_status_that_does_not_fit_is_refused_and_changes_nothing(make: Any, case: dict[str, Any]) -> None:
    lessons = make(TEXT)
    with pytest.raises(RunStateError) as caught:
        lessons.load_status(case["sections"])
    assert str(caught.value) == f"status of parameter {case['message']}"
    assert [section["lesson_num"] for section in lessons.status().values()] == [0, 0]


# ---------------------------------------------------------------- the state of another configuration


@pytest.fixture
def in_the_second(script: Any) -> dict[str, Any]:
    """Return the state of a run in lesson Mid, after one of its episodes."""
    running = script(TEXT)
    for event in ("2 2", "0.5"):
        running.play(event)
    state: dict[str, Any] = running.lessons.state_dict()
    return state


LONG = "\n      - {name: Long, value: 3}"
LONGER = f"{LONG[:-1]}, completion_criteria: {CRITERION}}}\n      - {{name: Longer, value: 4}}"
LEGACY = changed(
    changed(TEXT, "    curriculum:\n", "    curriculum:\n     smoothing: legacy\n     lessons:\n"),
    ", demotion: {threshold: -1, min_lesson_length: 1}", "",
)  # fmt: skip


@pytest.mark.parametrize("case", DATA["configurations"], ids=lambda case: case["name"])
def test_the_state_of_other_lessons_is_refused_and_changes_nothing(
    make: Any, in_the_second: dict[str, Any], case: dict[str, Any]
) -> None:
    text = LEGACY if case.get("legacy") else TEXT
    for old, new in case.get("replace", {}).items():
        assert old in text
        text = text.replace(old, new)
    lessons = make(text)
    with pytest.raises(RunStateError) as caught:
        lessons.load_state_dict(in_the_second)
    answer = f"environment_parameters.length: {case['message']}; resume with the lessons of the run"
    assert str(caught.value) == answer
    assert [section["lesson_num"] for section in lessons.status().values()] == [0, 0]


def test_a_threshold_may_change_and_lessons_may_follow(make: Any, in_the_second: dict[str, Any]) -> None:
    for text in (TEXT.replace("threshold: 1,", "threshold: 7,"), changed(TEXT, LONG, LONGER)):
        lessons = make(text)
        lessons.load_state_dict(in_the_second)
        assert lessons.status()["length"]["lesson_num"] == 1
        assert lessons.status()["length"]["episodes_left"] == 1


def test_a_threshold_that_was_lowered_is_compared_at_once(script: Any, make: Any) -> None:
    running = script(TEXT)
    for event in ("2 2", "0.5 0.5"):
        running.play(event)
    lessons = make(TEXT.replace("threshold: 1,", "threshold: 0,"))
    lessons.load_state_dict(running.lessons.state_dict())
    assert lessons.advance({"B": 0, "C": 0}).lessons == (LessonChange("length", 2, "Long", 1, "Mid"),)


def test_a_lesson_that_was_the_last_begins_to_be_measured_when_another_follows(
    script: Any, make: Any, told: Any
) -> None:
    running = script(TEXT)
    for event in ("2 2", "2 2", "2 2"):
        running.play(event)
    lessons = make(changed(TEXT, LONG, LONGER))
    lessons.load_state_dict(running.lessons.state_dict())
    lessons.episodes_ended(told("2 2", (2, 0)))
    assert lessons.advance({"B": 0, "C": 0}).lessons == (LessonChange("length", 3, "Longer", 2, "Long"),)


# ---------------------------------------------------------------- behaviors


def test_behaviors_that_only_the_environment_knows_are_checked_in_the_first_step(make: Any, told: Any) -> None:
    behaviors = "\nbehaviors: {}\ndefault_settings: {trainer_type: still}\n"
    lessons = make(TEXT + behaviors)
    lessons.episodes_ended(told("2 2", (0, 0)))
    with pytest.raises(ConfigError) as caught:
        lessons.advance({"BB": 4, "Other": 4})
    assert str(caught.value) == (
        "environment_parameters.length.curriculum.lessons[0].completion_criteria.behavior: unknown behavior 'B'; did "
        "you mean 'BB'? (known: BB, Other)"
    )
