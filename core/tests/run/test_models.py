"""Starting from another run's weights, acting without learning, and measuring what was saved."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from rlcore.errors import RunStateError
from rlcore.run.run import Run
from rlcore.storage.checkpoint import load_checkpoint
from rlcore_devkit.fixtures import RunRlcore

PAIR: dict[str, Any] = {"environment.type": "pair"}
BOTH: dict[str, Any] = {"behaviors": ("Left", "Right")}
FROM = {"checkpoint_settings.initialize_from": "run", "checkpoint_settings.run_id": "second"}


def weights(files: Any, step: int, behavior: str = "Agent") -> Any:
    return load_checkpoint(files.path / "checkpoints" / str(step))[behavior]["model"]["weights"]


def started(run: Run) -> Run:
    run.start()
    run.close("interrupted")
    return run


def test_initialize_from_takes_the_weights_of_the_newest_intact_checkpoint_and_nothing_else(
    make_run: Any, files: Any, caplog: pytest.LogCaptureFixture
) -> None:
    make_run().train()
    (files().path / "checkpoints" / "200" / "state.json").unlink()
    run = started(make_run({**FROM, "env_settings.seed": 6}))
    assert np.array_equal(weights(files("second"), 0), weights(files(), 160))
    assert any("200: state.json is missing" in record.getMessage() for record in caplog.records)
    state = load_checkpoint(files("second").path / "checkpoints" / "0")
    assert run.steps == 0 and state["Agent"]["counters"]["steps"] == 0
    assert not state["Agent"]["optimizer"]["momentum"].any()


def test_a_run_that_started_from_another_is_resumed_by_the_file_that_says_so(
    write: Any, files: Any, run_rlcore: RunRlcore
) -> None:
    assert run_rlcore("run", write()).exit_code == 0
    second = write(FROM)
    assert run_rlcore("run", second).exit_code == 0
    assert run_rlcore("run", second, "--resume", "--max-steps", "240").exit_code == 0
    assert files("second").steps[-1] == 240


def test_weights_that_are_not_there_or_do_not_fit_are_refused_whole(make_run: Any, files: Any, tmp_path: Path) -> None:
    with pytest.raises(RunStateError, match=r"checkpoint_settings.initialize_from 'run': is neither a run directory"):
        make_run(FROM).train()
    with pytest.raises(RunStateError, match=r"behaviors.Agent.init_path '.*': is neither a run directory nor one of"):
        make_run({"checkpoint_settings.run_id": "second"}, init_path=str(tmp_path)).train()
    assert not files("second").path.exists(), "the name is still free"
    make_run().train()
    with pytest.raises(RunStateError, match=r"initialize_from 'run': that run has no behavior 'Left'; it has Agent"):
        make_run({**PAIR, **FROM}, **BOTH).train()
    forced = {**PAIR, "behaviors.Right.hyperparameters.width": 4, "checkpoint_settings.force": True}
    make_run(forced, **BOTH).train()
    with pytest.raises(RunStateError, match="behavior 'Right': the saved network does not fit"):
        make_run({**PAIR, **FROM}, **BOTH).train()
    assert not files("second").path.joinpath("checkpoints").exists()


def test_init_path_takes_a_run_or_a_checkpoint_and_wins(make_run: Any, files: Any) -> None:
    make_run().train()
    make_run({"checkpoint_settings.run_id": "third", "env_settings.seed": 9}).train()
    changes = {**FROM, "checkpoint_settings.initialize_from": "third", "checkpoint_settings.force": True}
    for path, step in (("run", 200), ("run/checkpoints/120", 120)):
        started(make_run(changes, init_path=str(files().path.parent / path)))
        assert np.array_equal(weights(files("second"), 0), weights(files(), step))


# ---------------------------------------------------------------- inference


@pytest.mark.parametrize("environment", ["corridor", "identity"])
def test_inference_of_a_finished_run_learns_nothing_changes_no_file_and_goes_on_until_it_is_stopped(
    make_run: Any, files: Any, environment: str
) -> None:
    make_run({"environment.type": environment}).train()
    before = files().everything()
    run = make_run({"environment.type": environment, "checkpoint_settings.inference": True})
    for epoch in run:
        assert epoch.behaviors["Agent"].steps == 200
        assert epoch.behaviors["Agent"].stats["Is Training"].mean == 0.0
        if epoch.epoch == 5:
            assert np.array_equal(run.behaviors["Agent"].trainer.weights, weights(files(), 200))
            run.request_stop()
    assert run.outcome == "interrupted" and run.epoch == 5
    assert files().everything() == before


# ---------------------------------------------------------------- rlcore evaluate, rlcore status


def test_evaluate_prints_exactly_its_shape(run_rlcore: RunRlcore, make_run: Any, files: Any) -> None:
    make_run({"environment.type": "identity"}).train()
    before = files().everything()
    words = ("evaluate", files().path, "--episodes", "6", "--json", "--seed")
    result = run_rlcore(*words, "3")
    assert (result.exit_code, result.stderr) == (0, "")
    answer = json.loads(result.stdout)
    assert list(answer) == ["behaviors"] and list(answer["behaviors"]) == ["Agent"]
    agent = answer["behaviors"]["Agent"]
    assert list(agent) == ["mean_reward", "std_reward", "episodes", "mean_length", "returns", "lengths"]
    assert agent["episodes"] == len(agent["returns"]) == len(agent["lengths"]) == 6
    assert files().everything() == before
    assert run_rlcore(*words, "3").stdout == result.stdout != run_rlcore(*words, "4").stdout
    assert run_rlcore(*words, "3", "--stochastic").stdout != result.stdout


def test_evaluate_names_the_groups_reward_apart(run_rlcore: RunRlcore, configure: Any, files: Any) -> None:
    Run(configure({"environment.options": {"fault": "group reward now and then"}})).train()
    assert (
        " and mean group reward 2.50 over 4 episodes of 20.0 steps"
        in run_rlcore("evaluate", files().path, "--episodes", "4").stdout
    )
