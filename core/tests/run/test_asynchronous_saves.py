"""Checkpoints that are written while the training continues: equal to those that it waits for, and as safe."""

from __future__ import annotations

import errno
import os
import threading
from collections.abc import Sequence
from concurrent.futures import Future
from typing import Any

import numpy as np
import pytest

from rlcore.contracts.ranks import Ranks
from rlcore.contracts.states import SharedPart
from rlcore.errors import RunStateError
from rlcore.run import checkpoints, loop
from rlcore.run.behaviors.behavior import TrainedBehavior
from rlcore.run.state import TrainingState
from rlcore.storage import checkpoints as stored
from rlcore.storage.checkpoint import load_checkpoint, verify_checkpoint
from rlcore.storage.store import PendingSave

ASYNCHRONOUS = {"checkpoint_settings.asynchronous": True}
WAITING = {"checkpoint_settings.run_id": "waiting"}
LONG = 60.0  # seconds that something which happens soon may take on a busy machine


@pytest.fixture
def writes_meanwhile(monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, int]]:
    """Each write waits until the training has gone on; the list gets the steps of the checkpoint and of the run."""
    seen: list[tuple[int, int]] = []
    observed = [0]
    moved = threading.Condition()
    write = PendingSave.write
    observe = loop._observe

    def slow(self: PendingSave) -> None:
        if threading.current_thread() is not threading.main_thread():
            with moved:
                assert moved.wait_for(lambda: observed[-1] > self.step, LONG), "the training waits for the save"
            seen.append((self.step, observed[-1]))
        write(self)

    def observe_and_move(ranks: Ranks, behaviors: Sequence[TrainedBehavior], *rest: Any) -> None:
        with moved:
            observed.append(behaviors[0].steps)
            moved.notify_all()
        observe(ranks, behaviors, *rest)

    monkeypatch.setattr(PendingSave, "write", slow)
    monkeypatch.setattr(loop, "_observe", observe_and_move)
    return seen


def test_the_training_continues_and_saves_what_it_would_save_if_it_waited(
    make_run: Any, files: Any, writes_meanwhile: list[tuple[int, int]]
) -> None:
    make_run({**WAITING}, summary_freq=70, keep_checkpoints=3).train()
    assert writes_meanwhile == []
    make_run(ASYNCHRONOUS, summary_freq=70, keep_checkpoints=3).train()
    assert [step for step, _ in writes_meanwhile] == [40, 80, 120, 160], "the last one has nothing to continue with"
    assert all(now > step for step, now in writes_meanwhile)
    assert files().steps == files("waiting").steps == [120, 160, 200]
    for step in files().steps:
        assert files().checkpoint(step) == files("waiting").checkpoint(step)
    assert [line["step"] for line in files().metrics] == [line["step"] for line in files("waiting").metrics]
    ours, theirs = (files(name).status["Agent"] for name in ("run", "waiting"))
    assert [each["steps"] for each in ours["checkpoints"]] == [each["steps"] for each in theirs["checkpoints"]]
    assert not list(files().path.rglob(".rlcore-tmp*"))


def test_ctrl_c_while_a_save_is_waited_for_leaves_its_status_behind(
    make_run: Any, files: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(self: Future[None], timeout: float | None = None) -> None:
        monkeypatch.undo()
        raise KeyboardInterrupt

    monkeypatch.setattr(Future, "result", interrupted)
    with pytest.raises(KeyboardInterrupt):
        make_run(ASYNCHRONOUS).train()
    assert [each["steps"] for each in files().status["Agent"]["checkpoints"]] == files().steps == [40]


def test_what_the_training_changes_meanwhile_is_copied_first(
    make_run: Any, files: Any, writes_meanwhile: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    live = np.zeros(3)
    expected = {}
    capture = TrainingState.capture
    observe = loop._observe

    def observe_and_change(*arguments: Any) -> None:
        live[:] += 1
        observe(*arguments)

    def capture_all(self: TrainingState, *arguments: Any) -> dict[str, Any]:
        expected[self.steps] = live.tolist()
        state = capture(self, *arguments)
        state["Agent"] |= {"live": live, "rows": SharedPart({"live": live})}
        return state

    monkeypatch.setattr(loop, "_observe", observe_and_change)
    monkeypatch.setattr(TrainingState, "capture", capture_all)
    make_run(ASYNCHRONOUS, keep_checkpoints=0).train()
    saved = {step: load_checkpoint(files().path / "checkpoints" / str(step))["Agent"] for step in files().steps}
    for read in (lambda state: state["live"], lambda state: state["rows"]["live"]):
        assert {step: read(state).tolist() for step, state in saved.items()} == expected


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EIO])
def test_an_error_of_the_writing_thread_ends_the_run_as_one_of_a_save_that_it_waits_for(
    make_run: Any, files: Any, monkeypatch: pytest.MonkeyPatch, code: int
) -> None:
    def fail(*_: Any, **__: Any) -> Any:
        raise OSError(code, os.strerror(code))

    said = []
    for run_id in ("waiting", "run"):
        run = make_run(WAITING if run_id == "waiting" else ASYNCHRONOUS)
        next(run)  # the first checkpoint is whole
        with monkeypatch.context() as patch:
            patch.setattr(stored, "write_checkpoint", fail)
            with pytest.raises(RunStateError) as caught:
                run.train()
        said.append(str(caught.value).replace("/waiting/", "/run/"))
        place = files(run_id)
        assert place.steps == [40] and place.result["outcome"] == "failed" and run.saved_step == 40
        verify_checkpoint(place.path / "checkpoints" / "40")
        assert not list(place.path.rglob(".rlcore-tmp*"))
    assert said[0] == said[1] and os.strerror(code) in said[0] and "checkpoint of step 80" in said[0]
    # And a checkpoint that is too large to copy is waited for.
    monkeypatch.setattr(checkpoints, "MOST_COPIED", 10)
    monkeypatch.setattr(checkpoints, "BackgroundSave", None)
    make_run({**ASYNCHRONOUS, "checkpoint_settings.resume": True}).train()
    assert files().steps[-1] == 200
