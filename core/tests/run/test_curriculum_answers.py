"""Answers of a curriculum are checked where they enter; an error names the plugin of the curriculum."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml

from rlcore import CurriculumSpec
from rlcore.contracts.curriculum import Changes, EpisodeDraw, LessonChange
from rlcore.errors import PluginError
from rlcore.run.run import Run

STUBS = [str(Path(__file__).parent / name) for name in ("stub_plugin.py", "stub_curriculum.py")]
PACED: dict[str, Any] = {
    "plugins.local": STUBS,
    "environment.type": "paced",
    "environment_parameters.pace": {"curriculum": {"type": "stages", "every": 5}},
}
BOTH: dict[str, Any] = {**PACED, "environment_parameters.pay": {"curriculum": {"type": "lessons", "every": 3}}}
CHANGE = LessonChange("pace", 1, "one", 0, "none")
WHO = r"^curriculum 'stages' of plugin '\S*stub_curriculum' \(local\)"
Answer = Callable[..., Any]


def class_of(run: Run) -> Any:
    """The stub's, as its plugin was imported for this run."""
    return run.plugins.record(CurriculumSpec, "stages").resolve()


@pytest.fixture
def answering(make_run: Any, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Run]:
    """``answering("draw", lambda copies, episodes: None)``: a run whose curriculum answers so from its start on."""

    def make(method: str, answer: Answer, changes: dict[str, Any] = PACED) -> Run:
        run: Run = make_run(changes)
        stages = class_of(run)
        original = getattr(stages, method)

        def answered(self: Any, *arguments: Any) -> Any:
            return answer(*arguments) if self.parameters == ("pace",) else original(self, *arguments)

        monkeypatch.setattr(stages, method, answered)
        return run

    return make


def values(*shape: int, of: Any = 0.5) -> Answer:
    return lambda env_index, episodes: EpisodeDraw(np.full(shape, of), np.zeros((len(env_index), 1), np.int64))


def draw_id(made: Callable[[int], Any]) -> Answer:
    return lambda env_index, episodes: EpisodeDraw(np.zeros((len(env_index), 1)), made(len(env_index)))


FLOATS = r"not an array of floats of shape \(2, 1\)"
INTEGERS = r"not an array of integers of shape \(2, 1\)"
NO_NUMBER = r"returned nan for the parameter 'pace' \(environment 0, episode 0\); every value must"
NO_LESSONS: Any = Changes(CHANGE)  # type: ignore[arg-type]
NOT_ITS_OWN = Changes((CHANGE, LessonChange("speed", 1, "a", 0, "b")))


def always(answer: Any) -> Answer:
    return lambda *given: answer


def target(made: Callable[[int], Any]) -> Answer:
    return lambda env_index, episodes: made(len(env_index))


PLAIN = yaml.safe_load((Path(__file__).parent / "data/refusals.yaml").read_text(encoding="utf-8"))["curriculum answers"]
# What a method answers, and what is said of it.
ANSWERS: list[tuple[str, Answer, str]] = [
    ("draw", values(1, 1), rf"returned as values an array of float64 of shape \(1, 1\), {FLOATS}"),
    ("draw", values(2, 1, of=1j), f"an array of complex128 .* {FLOATS}"),
    ("draw", values(2, 1, of=np.nan), NO_NUMBER),
    ("draw", draw_id(lambda count: None), f"returned as draw_id None, {INTEGERS}"),
    ("draw", draw_id(lambda count: np.full((count, 1), 0.7)), INTEGERS),
    ("draw_target", target(lambda count: np.full((count, 1), np.nan)), "returned nan for the parameter"),
    # Answers of another type fail where they are read.
    ("draw", always((1, 2)), "failed: AttributeError: 'tuple' object has no attribute 'values'"),
    ("advance", always(NO_LESSONS), "failed: TypeError: 'LessonChange' object is not iterable"),
    ("advance", always(NOT_ITS_OWN), "the parameter 'speed', but has pace only"),
    ("advance", lambda steps: sys.exit(3), "failed: SystemExit: 3"),
    ("advance", lambda steps: steps.clear(), "failed: AttributeError: 'mappingproxy' .* 'clear'"),
    ("summarised", lambda behavior, stats: stats.clear(), "failed: AttributeError: 'mappingproxy' .* 'clear'"),
    ("draw", lambda env_index, episodes: env_index.fill(1000), "failed: ValueError: .*read-only"),
    ("status", always({"pace": {"value": [object()]}}), "that is not JSON: value: 0: object is not a JSON value"),
    *[(method, always(answer), message) for method, answer, message in PLAIN],
]


@pytest.mark.parametrize(("method", "answer", "message"), ANSWERS)
def test_a_wrong_answer_stops_the_run_before_a_checkpoint_and_names_the_curriculum(
    answering: Callable[..., Run], files: Any, method: str, answer: Answer, message: str
) -> None:
    changes = {**PACED, "evaluation": {"interval": 30, "episodes": 4}} if method == "draw_target" else BOTH
    said = f" failed in {method}:{message[7:]}" if message.startswith("failed:") else f": {method} .*{message}"
    with pytest.raises(PluginError, match=WHO + said):
        answering(method, answer, changes).train()
    assert method == "summarised" or files().steps == []
    assert method == "summarised" or not (files().path / "run_logs" / "training_status.json").exists()


@pytest.mark.parametrize("given", [(), ("other",), ("pace", "x"), "pace", None])
def test_the_parameters_of_a_curriculum_are_its_blocks_names(
    make_run: Any, given: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = make_run(PACED)
    original = class_of(run).__init__

    def begin(self: Any, settings: Any, run: Any) -> None:
        original(self, settings, run)
        self.parameters = given

    monkeypatch.setattr(class_of(run), "__init__", begin)
    with pytest.raises(PluginError, match=rf"{WHO}: parameters is .*, not \('pace',\), the names of its blocks"):
        run.start()


def test_numpys_numbers_are_a_status_and_what_is_not_finite_is_null(answering: Callable[..., Run], files: Any) -> None:
    section = {"lesson_num": np.int64(3), "value": float("nan"), "low": np.float64(2), "more": [np.inf, (1, None)]}
    answering("status", lambda: {"pace": section}).train()
    assert files().status["pace"] == {"lesson_num": 3, "value": None, "low": 2.0, "more": [None, [1, None]]}
    (state,) = (json.loads(path.read_text()) for path in files().path.glob("checkpoints/200/state.json"))
    assert state["run"]["sections"]["pace"] == files().status["pace"]
