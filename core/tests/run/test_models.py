"""Starting from another run's weights, acting without learning, and measuring what was saved."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml

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


def test_initialize_from_takes_the_weights_and_nothing_else(make_run: Any, files: Any) -> None:
    make_run().train()
    run = started(make_run({**FROM, "env_settings.seed": 6}))
    assert np.array_equal(weights(files("second"), 0), weights(files(), 200))
    state = load_checkpoint(files("second").path / "checkpoints" / "0")
    assert run.steps == 0 and state["Agent"]["counters"]["steps"] == 0
    assert not state["Agent"]["optimizer"]["momentum"].any()


def test_initialize_from_an_unknown_run_is_refused(make_run: Any, files: Any) -> None:
    with pytest.raises(
        RunStateError, match=r"checkpoint_settings.initialize_from 'run': there is no usable checkpoint"
    ):
        make_run(FROM).train()
    make_run({"checkpoint_settings.run_id": "second"}).train()  # the name is still free


def test_a_network_that_does_not_fit_is_refused_whole(make_run: Any, files: Any) -> None:
    make_run({**PAIR, "behaviors.Right.hyperparameters.width": 4}, **BOTH).train()
    run = make_run({**PAIR, **FROM}, **BOTH)
    with pytest.raises(RunStateError, match="behavior 'Right': the saved network does not fit"):
        run.train()
    assert not files("second").path.joinpath("checkpoints").exists()


def test_a_behavior_that_the_other_run_lacks_is_named(make_run: Any) -> None:
    make_run().train()
    with pytest.raises(RunStateError, match=r"initialize_from 'run': that run has no behavior 'Left'; it has Agent"):
        make_run({**PAIR, **FROM}, **BOTH).train()


@pytest.mark.parametrize(("path", "step"), [("run", 200), ("run/checkpoints/120", 120)])
def test_init_path_takes_a_run_or_a_checkpoint_and_wins(make_run: Any, files: Any, path: str, step: int) -> None:
    make_run().train()
    make_run({"checkpoint_settings.run_id": "third", "env_settings.seed": 9}).train()
    init_path = str(files().path.parent / path)
    started(make_run({**FROM, "checkpoint_settings.initialize_from": "third"}, init_path=init_path))
    assert np.array_equal(weights(files("second"), 0), weights(files(), step))


def test_an_init_path_that_is_neither_is_refused(make_run: Any, tmp_path: Path) -> None:
    with pytest.raises(RunStateError, match=r"behaviors.Agent.init_path '.*': is neither a run directory nor one of"):
        make_run(init_path=str(tmp_path)).train()


def test_initial_weights_come_from_the_newest_intact_checkpoint(
    make_run: Any, files: Any, caplog: pytest.LogCaptureFixture
) -> None:
    make_run().train()
    (files().path / "checkpoints" / "200" / "state.json").unlink()
    started(make_run(FROM))
    assert np.array_equal(weights(files("second"), 0), weights(files(), 160))
    assert any("200: state.json is missing" in record.getMessage() for record in caplog.records)


# ---------------------------------------------------------------- inference


@pytest.mark.parametrize("environment", ["corridor", "identity"])
def test_inference_learns_nothing_and_changes_no_file(make_run: Any, files: Any, environment: str) -> None:
    make_run({"environment.type": environment}).train()
    before = files().everything()
    run = make_run({"environment.type": environment, "checkpoint_settings.inference": True})
    for epoch in run:
        assert epoch.behaviors["Agent"].steps == 200
        assert epoch.behaviors["Agent"].stats["Is Training"].mean == 0.0
        if epoch.epoch == 3:
            break
    assert np.array_equal(run.behaviors["Agent"].trainer.weights, weights(files(), 200))
    run.close("interrupted")
    assert files().everything() == before


def test_inference_of_a_finished_run_goes_on_until_it_is_stopped(make_run: Any) -> None:
    make_run().train()
    run = make_run({"checkpoint_settings.inference": True})
    for epoch in run:
        if epoch.epoch == 5:
            run.request_stop()
    assert run.outcome == "interrupted" and run.epoch == 5


# ---------------------------------------------------------------- rlcore evaluate, rlcore status


@pytest.fixture
def config_file(configure: Any, tmp_path: Path) -> Path:
    path = tmp_path / "config.yaml"
    path.write_text(yaml.safe_dump(configure({"environment.type": "identity"})))
    return path


def test_evaluate_prints_exactly_its_shape(run_rlcore: RunRlcore, config_file: Path, files: Any) -> None:
    assert run_rlcore("run", config_file).exit_code == 0
    before = files().everything()
    result = run_rlcore("evaluate", files().path, "--episodes", "6", "--seed", "3", "--json")
    assert (result.exit_code, result.stderr) == (0, "")
    answer = json.loads(result.stdout)
    assert list(answer) == ["behaviors"] and list(answer["behaviors"]) == ["Agent"]
    agent = answer["behaviors"]["Agent"]
    assert list(agent) == ["mean_reward", "std_reward", "episodes", "mean_length", "returns", "lengths"]
    assert agent["episodes"] == len(agent["returns"]) == len(agent["lengths"]) == 6
    assert files().everything() == before
    same = run_rlcore("evaluate", files().path, "--episodes", "6", "--seed", "3", "--json")
    other = run_rlcore("evaluate", files().path, "--episodes", "6", "--seed", "4", "--json")
    sampled = run_rlcore("evaluate", files().path, "--episodes", "6", "--seed", "3", "--json", "--stochastic")
    assert same.stdout == result.stdout != other.stdout
    assert sampled.stdout != result.stdout


def test_evaluate_names_the_groups_reward_apart(run_rlcore: RunRlcore, configure: Any, files: Any) -> None:
    Run(configure({"environment.options": {"fault": "group reward now and then"}})).train()
    assert (
        " and mean group reward 2.50 over 4 episodes of 20.0 steps"
        in run_rlcore("evaluate", files().path, "--episodes", "4").stdout
    )


def test_evaluate_falls_back_to_an_older_checkpoint_with_a_line(
    run_rlcore: RunRlcore, config_file: Path, files: Any
) -> None:
    run_rlcore("run", config_file)
    (files().path / "checkpoints" / "200" / "Agent.safetensors").unlink()
    result = run_rlcore("evaluate", files().path, "--episodes", "2")
    assert result.exit_code == 0 and "(checkpoint 160)" in result.stdout
    assert "200: Agent.safetensors is missing; an older checkpoint is used" in result.stderr
    for step in files().steps:
        (files().path / "checkpoints" / str(step) / "manifest.json").unlink(missing_ok=True)
    result = run_rlcore("evaluate", files().path)
    assert result.exit_code == 5 and "there is no usable checkpoint in" in result.stderr.splitlines()[-1]


def test_status_tells_how_much_of_the_target_is_done_and_whether_the_run_is_running(
    make_run: Any, run_rlcore: RunRlcore, files: Any
) -> None:
    run = make_run()
    next(run)
    lines = run_rlcore("status", files().path).stdout
    assert "running" in lines and "not finished" not in lines
    answer = json.loads(run_rlcore("status", files().path, "--json").stdout)
    assert answer["running"] is True and answer["max_steps"] == {"Agent": 200}
    assert "200 (25%)" in lines
    run.train()
    answer = json.loads(run_rlcore("status", files().path, "--json").stdout)
    assert answer["running"] is False
    assert "200 (100%)" in run_rlcore("status", files().path).stdout
