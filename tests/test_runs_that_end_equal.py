"""Runs that must end equal: resumed ones, and those that differ in what must not matter."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from compared_runs import (
    EQUAL,
    RESUMED,
    assert_ends_equal,
    checkpoints,
    config_of,
    made,
    state_at,
    tags,
    train,
)

from rlcore import Run, load_checkpoint, save_checkpoint
from rlcore_devkit.conformance.states import equal


def interrupt(place: Path, whole: Path, case: Mapping[str, Any], changes: Mapping[str, Any]) -> int:
    """Leave an interrupted run in ``place``, and return the step of the checkpoint from which it is resumed."""
    changes = {**changes, **case.get("interrupted", {})}
    if "stops" in case:
        for number, step in enumerate(case["stops"]):
            stopped = train(place, case, changes, stop=step, resume=number > 0)
            assert stopped.outcome == "interrupted"
        return checkpoints(place)[-1]
    if "interrupted" in case:
        train(place, case, changes)
    else:
        shutil.copytree(whole, place)
    return checkpoints(place)[0]


def cases(table: Mapping[str, Mapping[str, Any]]) -> list[Any]:
    marks = {name: getattr(pytest.mark, case["marks"]) if "marks" in case else () for name, case in table.items()}
    return [pytest.param(case, id=name, marks=marks[name]) for name, case in table.items()]


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)  # MuJoCo writes its log file into the working directory
    return tmp_path


def whole_run(place: Path, case: Mapping[str, Any], changes: Mapping[str, Any]) -> Path:
    """Train the run that others must equal."""
    run = train(place / "whole", case, changes)
    assert str(run.describe().resume).startswith(case.get("promise", "exact"))
    behavior: Any = run.behaviors["Agent"]
    seen = {each.name: list(each.shape) for each in behavior.spec.observations}
    assert case.get("sees", seen) == seen
    assert "buffer" not in case or type(behavior.trainer.buffer).__name__ == case["buffer"]
    return place / "whole"


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("case", cases(RESUMED))
def test_a_resumed_run_equals_the_run_never_stopped(place: Path, case: Mapping[str, Any]) -> None:
    if "needs" in case:
        pytest.importorskip(case["needs"])
    changes = {key: made(what, place) for key, what in case.get("made", {}).items()}
    whole = whole_run(place, case, changes)
    parts = place / "parts"
    first = interrupt(parts, whole, case, changes)
    halfway = state_at(parts, first)["Agent"]["model"]
    train(parts, case, {**changes, **case.get("resumed", {})}, resume=True, checkpoint=str(first))
    last = checkpoints(whole)[-1]
    assert first < last and not equal(halfway, state_at(whole, last)["Agent"]["model"])
    assert_ends_equal(parts, whole, case)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("case", cases(EQUAL))
def test_what_must_not_matter_leaves_a_run_as_it_is(place: Path, case: Mapping[str, Any]) -> None:
    if "needs" in case:
        pytest.importorskip(case["needs"])
    whole = whole_run(place, case, {})
    train(place / "other", case, case["other"])
    assert_ends_equal(place / "other", whole, case)
    assert {*case.get("gains", ())} <= tags(place / "other") - tags(whole)


def test_a_checkpoint_without_the_state_of_the_environment_is_resumed_with_new_episodes(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """As an environment wrote it that could not be saved yet: all episodes began at the checkpoint."""
    case = RESUMED["Pendulum, at any step"]
    train(tmp_path, case, {}, stop=142)
    directory = tmp_path / "run/checkpoints"
    state = load_checkpoint(directory / "142")
    episodes = state["run"]["episodes"].copy()
    state["run"] |= {"environment": None, "episodes": episodes + 1}
    save_checkpoint(directory, 142, state, (directory / "142/configuration.yaml").read_text())
    with Run(config_of(tmp_path, case, {}, resume=True)) as run:
        run.start()
        assert run.environment is not None and run.environment.episodes.tolist() == (episodes + 1).tolist()
        difference = "an environment that saves its state, instead of one that begins new episodes"
        assert str(run.describe().resume) == f"statistical, because this process has {difference}"
        run.train()
        assert run.outcome == "done"
    assert [text for text in caplog.messages if "resumes with" in text] == [
        f"{tmp_path / 'run'}: resumes with {difference}; this resume is statistical instead of exact"
    ]
