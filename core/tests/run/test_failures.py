"""Failures during a run: the message, and what is left of the run."""

from __future__ import annotations

import logging
import os
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest
import yaml

from rlcore.contracts.ranks import Ranks
from rlcore.errors import EnvironmentFailed, NonFiniteError, RunStateError
from rlcore.storage.checkpoint import load_checkpoint

ENVIRONMENT = "environment 'corridor' of plugin 'stub_plugin' (local)"
FAILING = {"fault": "raise in step", "at": 1, "env": 0}
RESUME = {"checkpoint_settings.resume": True}
REFUSED = yaml.safe_load((Path(__file__).parent / "data/refusals.yaml").read_text(encoding="utf-8"))


def faulty(fault: str, at: int = 31, env: int = 1) -> dict[str, Any]:
    return {"environment.options": {"fault": fault, "at": at, "env": env}, "environment.num_envs": 2}


def check_what_is_left(files: Any, make_run: Any) -> None:
    """Learning before the step is saved, nothing half-written is there, and the run can go on."""
    assert files.steps == [40, 60]
    load_checkpoint(files.path / "checkpoints" / "60")
    assert files.result["outcome"] == "failed"
    assert not [path for path in files.path.rglob("*") if "tmp" in path.name]
    make_run(RESUME).train()
    assert files.result["outcome"] == "done"


@pytest.mark.parametrize(("fault", "what"), REFUSED["not finite"])
def test_a_value_that_is_not_finite_stops_the_run_and_names_where_it_came_from(
    make_run: Any, files: Any, fault: str, what: str
) -> None:
    with pytest.raises(NonFiniteError) as caught:
        make_run(faulty(fault)).train()
    message = str(caught.value)
    assert message.startswith(f"behavior 'Agent': {what}")
    limit = " and below 3.4e+38, the largest float32" if "infinite" in fault else ""
    assert message.endswith(f" at step 60; fix the environment, or wrap it to keep its values finite{limit}")
    assert caught.value.exit_code == 3
    check_what_is_left(files(), make_run)


@pytest.mark.filterwarnings("ignore:overflow")
def test_a_value_that_is_huge_and_finite_is_no_error(make_run: Any) -> None:
    make_run(faulty("huge but finite")).train()


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (faulty("raise in step"), f"{ENVIRONMENT} failed in step: ZeroDivisionError: division by zero"),
        (faulty("raise in reset"), f"{ENVIRONMENT} failed in reset: OSError: the port is in use"),
        (  # training has another environment, or the same one with other options
            {"evaluation": {"interval": 30, "episodes": 2, "environment": {"id": "hard", "options": FAILING}}},
            f"evaluation: {ENVIRONMENT}, id 'hard', failed in step: ZeroDivisionError: division by zero",
        ),
    ],
)
def test_an_environment_that_raises_is_named(make_run: Any, files: Any, changes: Any, message: str) -> None:
    with pytest.raises(EnvironmentFailed) as caught:
        make_run(changes).train()
    assert str(caught.value) == message and caught.value.exit_code == 3
    assert isinstance(caught.value.__cause__, (ZeroDivisionError, OSError))  # --debug shows where
    if changes == faulty("raise in step"):
        check_what_is_left(files(), make_run)


@pytest.mark.parametrize(("changes", "whole"), [(faulty("raise in step"), False), ({}, True)])
def test_other_ranks_are_told_of_an_error_at_once_and_left_only_when_all_is_saved(
    make_run: Any, files: Any, monkeypatch: pytest.MonkeyPatch, changes: Any, whole: bool
) -> None:
    seen: list[tuple[bool, bool]] = []

    def close(self: Ranks, error: BaseException | None = None) -> None:
        seen.append((error is None, (files().path / "result.json").exists()))

    monkeypatch.setattr(Ranks, "close", close)
    with nullcontext() if whole else pytest.raises(EnvironmentFailed):
        make_run(changes).train()
    assert seen[0] == (whole, whole)


def fail_once(monkeypatch: pytest.MonkeyPatch, calls_before: int) -> None:
    original = os.fsync
    calls = 0

    def fsync(descriptor: int) -> None:
        nonlocal calls
        calls += 1
        if calls > calls_before:
            raise OSError(28, os.strerror(28))
        original(descriptor)

    monkeypatch.setattr(os, "fsync", fsync)


@pytest.mark.parametrize("calls_before", range(14, 26))
def test_a_disk_that_is_full_at_any_moment_of_saving_is_one_error_and_costs_nothing_old(
    make_run: Any, files: Any, monkeypatch: pytest.MonkeyPatch, calls_before: int, caplog: pytest.LogCaptureFixture
) -> None:
    fail_once(monkeypatch, calls_before)
    with pytest.raises(RunStateError) as caught:
        make_run().train()
    monkeypatch.undo()
    assert "No space left on device" in str(caught.value)
    warnings = [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING]
    # Summaries are on disk before a checkpoint gets its name. A writer that cannot write is named as at other times.
    assert [each for each in warnings if not each.startswith("writer 'jsonl' of plugin 'core'")] == []
    assert not [path for path in files().path.rglob("*") if "tmp" in path.name]
    for step in files().steps:
        load_checkpoint(files().path / "checkpoints" / str(step))
    make_run(RESUME).train()
    assert files().result["outcome"] == "done"
