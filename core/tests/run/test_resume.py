"""A resumed run equals the run that was never stopped."""

from __future__ import annotations

import logging
import re
import shutil
from pathlib import Path
from typing import Any

import pytest
import yaml

from rlcore.config.reading import read_document
from rlcore.errors import ConfigError, RunStateError
from rlcore.run.session import Session
from rlcore.storage.checkpoint import load_checkpoint

RESUME = {"checkpoint_settings.resume": True}
WHOLE = {"checkpoint_settings.run_id": "whole"}
CASES = yaml.safe_load((Path(__file__).parent / "data/resume.yaml").read_text(encoding="utf-8"))
KINDS = CASES["kinds"]


def untimed(metrics: list[Any]) -> list[Any]:
    for line in metrics:
        del line["time"], line["stats"]["Performance/Steps Per Second"]
    return metrics


@pytest.mark.parametrize(("kind", "at"), [(name, at) for name, kind in KINDS.items() for at in kind["killed_at"]])
def test_a_killed_run_resumed_equals_the_run_that_was_never_stopped(
    make_run: Any, files: Any, kind: str, at: int, kill_after: Any
) -> None:
    changes = KINDS[kind]["changes"]
    keywords = KINDS[kind]["behavior"]
    with make_run({**changes, **WHOLE}, **keywords) as whole:
        whole.train()
    # A seed drawn at random is written down, and is what the other run takes.
    changes = {**changes, "env_settings.seed": whole.config.env_settings.seed}
    kill_after(make_run(changes, **keywords), at)
    before = files().steps[-1]
    with make_run({**changes, **RESUME}, **keywords) as resumed:
        resumed.train()
    assert files().steps == files("whole").steps
    assert files().checkpoints(after=before) == files("whole").checkpoints(after=before) != {}
    assert untimed(files().metrics) == untimed(files("whole").metrics)


def test_no_episode_is_played_twice(make_run: Any, files: Any, kill_after: Any) -> None:
    """An environment that cannot save itself begins its next episode at a checkpoint, not the same one again."""
    changes = {"environment.type": "identity"}
    kill_after(make_run(changes, keep_checkpoints=0), 100)
    make_run({**changes, **RESUME}, keep_checkpoints=0).train()
    episodes = [load_checkpoint(files().path / "checkpoints" / str(step))["run"]["episodes"] for step in files().steps]
    # Twenty steps between two checkpoints: two whole episodes of eight, and one that the checkpoint ended.
    assert [numbers.tolist() for numbers in episodes] == [[3 * k, 3 * k] for k in range(1, 6)]


def test_wall_time_counts_all_processes_of_a_run(make_run: Any, files: Any, kill_after: Any) -> None:
    kill_after(make_run({"environment.options": {"seconds": 0.002}}), 100)
    spent = load_checkpoint(files().path / "checkpoints" / "80")["run"]["wall_seconds"]
    assert spent > 0.08
    make_run(RESUME).train()
    assert files().result["wall_seconds"] > spent


# ---------------------------------------------------------------- damaged checkpoints


def test_a_damaged_checkpoint_falls_back_to_the_older_one_and_is_named(
    make_run: Any, files: Any, caplog: pytest.LogCaptureFixture, kill_after: Any
) -> None:
    make_run(WHOLE).train()
    kill_after(make_run(), 150)
    assert files().steps == [40, 80, 120]
    damaged = files().path / "checkpoints" / "120" / "Agent.safetensors"
    damaged.write_bytes(damaged.read_bytes()[:-1])
    make_run(RESUME).train()
    (warning,) = [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING]
    assert warning.startswith(f"checkpoint {damaged.parent}: Agent.safetensors has ")
    assert warning.endswith("; an older checkpoint is used")
    assert files().checkpoints() == files("whole").checkpoints()
    assert [entry["steps"] for entry in files().status["Agent"]["checkpoints"]] == files().steps


def test_without_a_usable_checkpoint_nothing_is_started_or_changed(make_run: Any, files: Any, kill_after: Any) -> None:
    kill_after(make_run(), 150)
    for step in files().steps:
        (files().path / "checkpoints" / str(step) / "state.json").unlink()
    before = files().everything()
    with pytest.raises(
        RunStateError, match=r"there is no usable checkpoint in .* \(.*state.json is missing\); restore"
    ):
        make_run(RESUME).train()
    with pytest.raises(RunStateError, match="this run exists"):
        make_run().train()
    assert files().everything() == before


def test_a_run_killed_before_its_first_checkpoint_is_started_again_not_resumed(
    make_run: Any, files: Any, abandon: Any
) -> None:
    run = make_run()
    run.start()
    abandon(run)
    with pytest.raises(
        RunStateError, match=r"run: this run has no checkpoint; start it again without --resume, and with a lower "
    ):
        make_run(RESUME).train()
    with pytest.raises(RunStateError, match=r"run: this run has no checkpoint; train it first$"):
        make_run({"checkpoint_settings.inference": True}).train()
    make_run().train()
    assert files().result["outcome"] == "done"


def test_leftovers_of_a_killed_save_are_swept(make_run: Any, files: Any, kill_after: Any) -> None:
    kill_after(make_run(), 100)
    leftover = files().path / "checkpoints" / ".rlcore-tmp-120-0123456789abcdef"
    shutil.copytree(files().path / "checkpoints" / "80", leftover)
    status = files().path / "run_logs" / ".rlcore-tmp-0123456789abcdef"
    status.write_text("{")
    mine = [files().path / f".rlcore-tmp-{name}" for name in ("notes", "99999", "0123456789abcdef-notes")]
    for path in mine:
        path.write_text("mine")
    make_run(RESUME).train()
    assert not leftover.exists() and not status.exists() and all(path.read_text() == "mine" for path in mine)


# ---------------------------------------------------------------- what does not fit


@pytest.mark.parametrize("case", CASES["refused"], ids=lambda case: case["message"])
def test_a_resume_refuses_another_run_and_leaves_it_as_it_was(
    make_run: Any, files: Any, kill_after: Any, case: Any
) -> None:
    kill_after(make_run(), 50)
    before = files().everything()
    with pytest.raises((ConfigError, RunStateError), match=re.escape(case["message"])):
        make_run({**RESUME, **case["changes"]}, **case["behavior"]).train()
    assert files().everything() == before


# ---------------------------------------------------------------- the default interval of checkpoints that cut episodes


@pytest.mark.parametrize("case", CASES["default_interval"], ids=str)
def test_checkpoints_that_restart_all_episodes_are_ten_minutes_apart_unless_a_number_is_given(
    make_run: Any, files: Any, monkeypatch: Any, case: Any
) -> None:
    warmup = case["first_steps_per_second"]
    speed = case["steps_per_second"]

    def seconds(session: Session) -> float:
        return min(session.state.steps, 200) / warmup + max(session.state.steps - 200, 0) / speed

    monkeypatch.setattr(Session, "wall_seconds", seconds)
    settings = {"max_steps": 2000, "keep_checkpoints": 0, "checkpoint_interval": case["given"]}
    make_run({"environment.type": case["environment"]}, **settings).train()
    assert files().steps == case["saved"]


def test_a_resumed_run_keeps_the_interval_that_was_chosen(
    make_run: Any, files: Any, monkeypatch: Any, kill_after: Any
) -> None:
    changes = {"environment.type": "identity"}
    settings = {"max_steps": 2000, "keep_checkpoints": 0, "checkpoint_interval": None}
    monkeypatch.setattr(Session, "wall_seconds", lambda session: session.state.steps / 1.0)
    make_run(changes | WHOLE, **settings).train()
    kill_after(make_run(changes, **settings), 1100)
    monkeypatch.setattr(Session, "wall_seconds", lambda session: session.state.steps / 1000.0)
    make_run(changes | RESUME, **settings).train()
    assert files().steps == files("whole").steps == [500, 1000, 1500, 2000]
    assert files().checkpoints(after=1000) == files("whole").checkpoints(after=1000)
    assert files().result["resume"] == CASES["promise_of_the_chosen_interval"]
    (agent,) = read_document(files().path / "configuration.yaml").data["behaviors"].values()
    assert agent["checkpoint_interval"] == 500
