"""Answers of a curriculum are checked where they enter; an error names the plugin of the curriculum."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from rlcore.contracts.curriculum import Changes, EpisodeDraw, LessonChange
from rlcore.errors import PluginError, RunStateError
from rlcore.run.boundaries import Notifications
from rlcore.run.curricula.checked import CheckedCurriculum
from rlcore.run.curricula.parameters import ParameterFeed
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
    return run.plugins.curriculum("stages").resolve()


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
DRAWS: dict[str, tuple[Answer, str]] = {
    "one for all": (values(1, 1), rf"returned as values an array of float64 of shape \(1, 1\), {FLOATS}"),
    "flat": (values(2), rf"of shape \(2,\), {FLOATS}"),
    "a column too many": (values(2, 2), FLOATS),
    "a scalar": (lambda env_index, episodes: EpisodeDraw(0.5, np.zeros((2, 1), int)), f"values a float, {FLOATS}"),  # type: ignore[arg-type]
    "complex": (values(2, 1, of=1j), f"an array of complex128 .* {FLOATS}"),
    "texts": (values(2, 1, of="a"), FLOATS),
    "NaN": (
        values(2, 1, of=np.nan),
        r"returned nan for the parameter 'pace' \(environment 0, episode 0\); every value must",
    ),
    "infinity": (values(2, 1, of=-np.inf), "returned -inf for the parameter 'pace'"),
    "no draw_id": (draw_id(lambda count: None), f"returned as draw_id None, {INTEGERS}"),
    "one draw_id for all": (draw_id(lambda count: np.zeros((1, 1), int)), INTEGERS),
    "draw_ids that are no integers": (draw_id(lambda count: np.full((count, 1), 0.7)), INTEGERS),
}


@pytest.mark.parametrize("case", DRAWS)
def test_a_draw_that_is_none_stops_the_run(answering: Callable[..., Run], case: str) -> None:
    answer, message = DRAWS[case]
    with pytest.raises(PluginError, match=f"{WHO}: draw .*{message}"):
        answering("draw", answer).train()


def test_huge_values_are_finite() -> None:
    huge = SimpleNamespace(parameters=("pace",), draw=values(2, 1, of=-1e300))
    curriculum: Any = huge
    drawn = CheckedCurriculum.of(curriculum, "huge").draw(np.arange(2), np.zeros(2, np.int64))
    assert (drawn.values == -1e300).all()


TARGETS: dict[str, tuple[Answer, str]] = {
    "nothing": (lambda env_index, episodes: None, ": draw_target returned as values None, not an array of floats"),
    "flat": (
        lambda env_index, episodes: np.zeros(len(env_index)),
        ": draw_target returned as values an array of float64",
    ),
    "NaN": (
        lambda env_index, episodes: np.full((len(env_index), 1), np.nan),
        ": draw_target returned nan for the parameter",
    ),
    "an error": (lambda env_index, episodes: dict[str, Any]()["boom"], " failed in draw_target: KeyError: 'boom'"),
}


@pytest.mark.parametrize("case", TARGETS)
def test_so_does_one_of_an_evaluation(answering: Callable[..., Run], case: str) -> None:
    answer, message = TARGETS[case]
    evaluation = {"evaluation": {"interval": 30, "episodes": 4}}
    with pytest.raises(PluginError, match=WHO + message):
        answering("draw_target", answer, {**PACED, **evaluation}).train()


# Answers of another type fail where they are read.
TYPES: dict[str, tuple[str, Any, str]] = {
    "no draw": ("draw", None, "AttributeError: 'NoneType' object has no attribute 'values'"),
    "a pair for a draw": ("draw", (1, 2), "AttributeError: 'tuple' object has no attribute 'values'"),
    "a forgotten return": ("advance", None, "AttributeError: 'NoneType' object has no attribute 'lessons'"),
    "no tuple of lessons": ("advance", Changes(CHANGE), "TypeError: 'LessonChange' object is not iterable"),  # type: ignore[arg-type]
    "words for lessons": ("advance", Changes(("one",)), "AttributeError: 'str' object has no attribute 'parameter'"),  # type: ignore[arg-type]
    "no statistics": ("stats", None, "AttributeError: 'NoneType' object has no attribute 'items'"),
    "a word for a statistic": ("stats", {"Acme/x": "high"}, "ValueError: could not convert string to float: 'high'"),
    "no status": ("status", None, "TypeError: 'NoneType' object is not iterable"),
}


@pytest.mark.parametrize("case", TYPES)
def test_an_answer_of_another_type_stops_the_run_with_the_curriculums_name(
    answering: Callable[..., Run], case: str
) -> None:
    method, answer, message = TYPES[case]
    with pytest.raises(PluginError, match=f"{WHO} failed in {method}: {message}"):
        answering(method, lambda *_: answer).train()


def test_a_lesson_of_a_parameter_that_is_not_its_own_stops_the_run_before_it_is_reported(
    answering: Callable[..., Run], monkeypatch: pytest.MonkeyPatch
) -> None:
    reported: list[Any] = []
    monkeypatch.setattr(Notifications, "lesson_changed", lambda *change: reported.append(change))
    run = answering("advance", lambda steps: Changes((CHANGE, LessonChange("speed", 1, "a", 0, "b"))))
    with pytest.raises(PluginError, match=f"{WHO}: advance .*the parameter 'speed', but has pace only"):
        run.train()
    assert reported == []


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


STATS: dict[str, tuple[Any, str]] = {
    "NaN": ({"Acme/x": float("nan")}, "returned nan for the tag 'Acme/x'"),
    "the reward": ({"Environment/Cumulative Reward": 1e6}, "'Environment/Cumulative Reward', which is rlcore's own"),
    "a value": ({"Environment/Parameter/pace": 1.0}, "which is rlcore's own"),
    "another's lesson": ({"Environment/Lesson Number/pay": 1.0}, "but has pace only"),
}


@pytest.mark.parametrize("case", STATS)
def test_statistics_that_are_none_or_somebody_elses_stop_the_run(answering: Callable[..., Run], case: str) -> None:
    answer, message = STATS[case]
    with pytest.raises(PluginError, match=f"{WHO}: stats .*{message}"):
        answering("stats", lambda: answer, BOTH).train()


def test_two_curricula_give_no_statistic_together(answering: Callable[..., Run], monkeypatch: Any) -> None:
    run = answering("stats", lambda: {"Acme/x": np.float32(0.5)}, BOTH)
    monkeypatch.setattr(class_of(run), "stats", lambda self: {"Acme/x": np.float32(0.5)})
    with pytest.raises(PluginError, match=r"'lessons' .*: stats .* 'Acme/x', as curriculum 'stages' of plugin .* does"):
        run.train()


def test_numpys_numbers_are_statistics(answering: Callable[..., Run], files: Any) -> None:
    answering("stats", lambda: {"Acme/x": np.float32(0.5), "Acme/y": np.int64(2)}).train()
    assert files().metrics[-1]["stats"]["Acme/x"] == 0.5 and files().metrics[-1]["stats"]["Acme/y"] == 2.0


STATUS: dict[str, tuple[Any, str]] = {
    "no section": ({}, "returned the sections of nothing, not one"),
    "another's": ({"speed": {"lesson_num": 1}}, "returned the sections 'speed', not one"),
    "rlcore's": ({"pace": {}, "metadata": {}}, "returned the sections 'pace', 'metadata', not one"),
    "an object": ({"pace": {"value": [object()]}}, "'pace' that is not JSON: value: 0: object is not a JSON value"),
    "an array": ({"pace": {"value": np.arange(3)}}, "not JSON: value: ndarray is not a JSON value"),
    "a key": ({"pace": {1: 2}}, "the key 1 is not a text"),
}


@pytest.mark.parametrize("case", STATUS)
def test_a_status_that_is_none_stops_the_run_before_a_checkpoint(
    answering: Callable[..., Run], files: Any, case: str
) -> None:
    answer, message = STATUS[case]
    with pytest.raises(PluginError, match=f"{WHO}: status .*{message}"):
        answering("status", lambda: answer).train()
    assert files().steps == [] and not (files().path / "run_logs" / "training_status.json").exists()


def test_numpys_numbers_are_a_status_and_what_is_not_finite_is_null(answering: Callable[..., Run], files: Any) -> None:
    section = {"lesson_num": np.int64(3), "value": float("nan"), "low": np.float64(2), "more": [np.inf, (1, None)]}
    answering("status", lambda: {"pace": section}).train()
    assert files().status["pace"] == {"lesson_num": 3, "value": None, "low": 2.0, "more": [None, [1, None]]}
    (state,) = (json.loads(path.read_text()) for path in files().path.glob("checkpoints/200/state.json"))
    assert state["run"]["sections"]["pace"] == files().status["pace"]


@pytest.mark.parametrize("state", [None, [1]])
def test_a_state_that_is_no_mapping_is_not_saved(answering: Callable[..., Run], files: Any, state: Any) -> None:
    with pytest.raises(PluginError, match=f"{WHO} failed in state_dict: TypeError"):
        answering("state_dict", lambda: state).train()
    assert files().steps == []


def test_what_leaves_the_process_is_told_whose_it_was(answering: Callable[..., Run]) -> None:
    def leave(steps: Any) -> None:
        raise SystemExit(3)

    with pytest.raises(PluginError, match=f"{WHO} failed in advance: SystemExit: 3"):
        answering("advance", leave).train()


def test_a_curriculum_cannot_change_which_copies_are_asked_for(answering: Callable[..., Run]) -> None:
    def spoil(env_index: Any, episodes: Any) -> Any:
        env_index += 1000

    with pytest.raises(PluginError, match=f"{WHO} failed in draw: ValueError: .*read-only"):
        answering("draw", spoil).train()


@pytest.mark.parametrize("method", ["advance", "summarised"])
def test_nor_what_others_are_told_too(answering: Callable[..., Run], method: str) -> None:
    with pytest.raises(PluginError, match=f"{WHO} failed in {method}: AttributeError: 'mappingproxy' .* 'clear'"):
        answering(method, lambda *told: told[-1].clear()).train()


def test_an_environment_cannot_change_what_it_is_told() -> None:
    told: list[Any] = []
    environment: Any = SimpleNamespace(num_envs=2, set_parameters=told.append)
    feed = ParameterFeed(environment, ["pace"], lambda c, e: EpisodeDraw(np.ones((2, 1)), np.zeros((2, 1), np.int64)))
    feed.before_reset(np.zeros(2, np.int64))
    feed.replay()
    for parameters in told:
        with pytest.raises(ValueError, match="read-only"):
            parameters["pace"][0] = 1.0
    assert len(told) == 2


def test_a_curriculum_is_the_same_with_and_without_its_distribution(make_run: Any) -> None:
    make_run(PACED).train()
    more = {"checkpoint_settings.resume": True, "behaviors.Agent.max_steps": 300}
    longer = {**PACED, **more, "environment_parameters.pace.curriculum.type": "stub_curriculum/stages"}
    run = make_run(longer)
    run.train()
    assert run.steps == 300
    other = {**longer, "environment_parameters.pace.curriculum.type": "stub_curriculum/lessons"}
    with pytest.raises(RunStateError, match="is of the curriculum 'stub_curriculum/stages', this configuration has"):
        make_run(other).train()
