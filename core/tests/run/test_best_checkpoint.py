"""The best checkpoint of a run's evaluations, and the checkpoint that commands evaluate."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from rlcore.storage.checkpoint import load_checkpoint, read_manifest
from rlcore.storage.checkpoints import find_checkpoints, remove_lower_best, save_best
from rlcore_devkit.fixtures import RunRlcore

IDENTITY = {"environment.type": "identity"}  # cannot save itself: every checkpoint begins new episodes

ALL = [10, 20, 30]
Script = Callable[..., None]


def test_the_best_policies_are_those_that_were_scored(make_run: Any, files: Any, script: Script) -> None:
    script(1, 3, 3, 2)
    run = make_run({"evaluation": {"interval": 50}}, keep_checkpoints=1)
    weights = {}
    for epoch in run:
        weights[run.steps] = run.behaviors["Agent"].trainer.weights
        assert (epoch.best_score, epoch.best_step) == ((1, 50) if run.steps == 50 else (3, 100))
    assert files().best == [100] and files().steps == [200]
    assert [checkpoint.step for checkpoint in find_checkpoints(files().path / "checkpoints")] == [200]
    path = files().path / "checkpoints" / "best" / "100"
    assert set(read_manifest(path)["files"]) == {
        "state.json",
        "Agent.safetensors",
        "run.safetensors",
        "configuration.yaml",
    }
    state = load_checkpoint(path)
    assert np.array_equal(state["Agent"]["model"]["weights"], weights[100])
    assert state["Agent"].keys() == {"model"}
    assert state["run"].pop("specs").keys() == {"Agent"}
    assert state["run"] == {"seed": 5, "steps": {"Agent": 100}, "score": 3.0, "factories": []}
    assert files().result["evaluation"] == {
        "score": 2.0, "step": 200, "best_score": 3.0, "best_step": 100, "stopped": False,
    }  # fmt: skip


def test_the_score_is_the_mean_over_behaviors(make_run: Any) -> None:
    run = make_run({"environment.type": "pair"}, behaviors=("Left", "Right"))
    result = run.evaluate(4)
    left, right = (result.behaviors[name].mean_reward for name in ("Left", "Right"))
    assert result.score == (left + right) / 2 and left != right
    run.close()


def test_saving_the_best_cuts_no_episode_and_may_be_left_out(make_run: Any, files: Any, script: Script) -> None:
    script(*range(100))
    run = make_run({**IDENTITY, "evaluation": {"interval": 2}}, checkpoint_interval=1000, max_steps=96)
    run.train()
    assert run.results()["Agent"].episodes == 96 // 8 and files().best == [96]
    block = {"interval": 50, "keep_best": False}
    make_run({**IDENTITY, "evaluation": block, "checkpoint_settings.run_id": "none"}).train()
    assert not (files("none").path / "checkpoints" / "best").exists()
    assert files("none").result["evaluation"]["best_step"] is not None


def test_the_older_best_stays_until_the_new_one_is_known(
    make_run: Any, files: Any, script: Script, abandon: Any
) -> None:
    """A run killed in between resumes from a checkpoint that references the older one as its best."""
    script(1, 2)
    run = make_run({"evaluation": {"interval": 50}}, checkpoint_interval=80)
    epochs = iter(run)
    next(epochs), next(epochs)
    assert files().steps == [80] and files().best == [50, 100]
    abandon(run)
    script(1.5, 1.2, 1)
    resumed = make_run({"evaluation": {"interval": 50}, "checkpoint_settings.resume": True}, checkpoint_interval=80)
    resumed.start()
    assert files().best == [50, 100], "that of the future that was given up scored more"
    resumed.train()
    assert files().best == [100] and files().result["evaluation"]["best_score"] == 1.5
    assert load_checkpoint(files().path / "checkpoints" / "best" / "100")["run"]["score"] == 2


@pytest.mark.parametrize(("best", "left"), [(30, [20, 30]), (20, [20]), (10, ALL), (40, ALL), (None, ALL)])
def test_policies_that_score_less_than_the_best_of_a_checkpoint_are_deleted(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, best: int | None, left: list[int]
) -> None:
    for step, score in ((10, 1.0), (20, 3.0), (30, 2.0)):
        save_best(tmp_path, step, {"Agent": {}}, {"score": score}, "")
    save_best(tmp_path, 20, {"Agent": {}}, {"score": 2.9}, "")  # does not replace the higher score
    caplog.clear()
    remove_lower_best(tmp_path, best)
    assert caplog.messages == []
    assert [each.step for each in find_checkpoints(tmp_path)] == left
    assert load_checkpoint(tmp_path / "20")["run"]["score"] == 3.0


# ---------------------------------------------------------------- commands


def test_evaluate_takes_the_checkpoint_that_is_named_and_says_which_there_are(
    run_rlcore: RunRlcore, script: Script, make_run: Any, files: Any
) -> None:
    script(1, 3, 2, 2)
    make_run({"evaluation": {"interval": 50, "episodes": 2}}, keep_checkpoints=2).train()
    for name, place in (("best", "best checkpoint 100"), ("last", "checkpoint 200"), ("160", "checkpoint 160")):
        script(7)
        done = run_rlcore("evaluate", files().path, "--checkpoint", name)
        assert done.exit_code == 0
        assert f"mean reward 7.00 +/- 0.00 over 1 episodes of 7.0 steps ({place})" in done.stdout
    missing = run_rlcore("evaluate", files().path, "--checkpoint", "40")
    assert missing.exit_code == 5
    assert missing.stderr.endswith("there is no checkpoint '40'; there are 160, 200, best\n")
