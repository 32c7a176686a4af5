"""A run whose settings take few gradient steps for what it collects says so once, at its start."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml
from small_runs import small_run

from rlcore import Run, load_checkpoint
from rlcore_devkit import RunRlcore

OF_PPO = (
    "{} gradient steps are taken for every 520 agent steps, one for {}; small environments learn faster with more "
    "gradient steps: lower hyperparameters.buffer_size or batch_size, or raise num_epoch (or choose a preset: "
    "ppo-atari, ppo-continuous, ppo-discrete, ppo-mujoco)"
)
OF_SAC = (
    "one gradient step is taken for every {} agent steps; small environments learn faster with more gradient steps: "
    "lower hyperparameters.steps_per_update (or choose a preset: sac)"
)


def said(run_rlcore: RunRlcore, tmp_path: Path, settings: dict[str, Any], *options: str) -> list[str]:
    """The warnings of a run of 1040 steps, which ends well."""
    changes = {f"behaviors.Agent.{key}": value for key, value in settings.items()}
    config = small_run(tmp_path / "results", {"behaviors.Agent.max_steps": 1040, **changes})
    (tmp_path / "run.yaml").write_text(yaml.safe_dump(config))
    done = run_rlcore("run", tmp_path / "run.yaml", *options)
    assert done.exit_code == 0, done.stderr
    return [line for line in done.stderr.splitlines() if "gradient steps" in line]


def ppo(**hyperparameters: int) -> dict[str, Any]:
    return {"hyperparameters": hyperparameters}


def sac(steps_per_update: float) -> dict[str, Any]:
    return {"trainer_type": "sac", "hyperparameters": {"steps_per_update": steps_per_update, "buffer_init_steps": 130}}


@pytest.mark.parametrize(
    ("settings", "told"),
    [
        (ppo(batch_size=256, buffer_size=520, num_epoch=2), OF_PPO.format(4, 130)),
        (ppo(batch_size=4096, buffer_size=518, num_epoch=2), OF_PPO.format(2, 260)),
        (ppo(batch_size=65, buffer_size=520, num_epoch=1), OF_PPO.format(8, 65)),
        (sac(130), OF_SAC.format(130)),
        (sac(64.5), OF_SAC.format(64.5)),
    ],
)
def test_few_gradient_steps_are_warned_of_with_the_numbers(
    run_rlcore: RunRlcore, tmp_path: Path, settings: dict[str, Any], told: str
) -> None:
    assert said(run_rlcore, tmp_path, settings) == [f"warning: torch: behavior 'Agent': {told}"]
    state = load_checkpoint(tmp_path / "results" / "run" / "checkpoints" / "1040")["Agent"]
    if "gradient_steps" in state:
        assert state["gradient_steps"] == int((1040 - 130) / settings["hyperparameters"]["steps_per_update"])
    else:
        assert state["optimizer"]["step"] == 2 * int(told.split()[0]), "of two rollouts"


@pytest.mark.parametrize("settings", [ppo(batch_size=64, buffer_size=512, num_epoch=1), sac(64)])
def test_one_for_64_agent_steps_is_enough(run_rlcore: RunRlcore, tmp_path: Path, settings: dict[str, Any]) -> None:
    assert said(run_rlcore, tmp_path, settings) == []


def test_a_run_that_learns_nothing_more_is_not_warned(
    run_rlcore: RunRlcore, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    few = ppo(batch_size=512, buffer_size=512, num_epoch=1)
    assert len(said(run_rlcore, tmp_path, few)) == 1
    assert said(run_rlcore, tmp_path, few, "--resume") == []
    longer = {"behaviors.Agent.hyperparameters": few["hyperparameters"], "behaviors.Agent.max_steps": 1100}
    for start, warnings in (({"inference": True}, 0), ({"resume": True}, 1)):
        caplog.clear()
        with Run(small_run(tmp_path / "results", longer, **start)) as run:
            run.start()
        assert sum("gradient steps are taken" in message for message in caplog.messages) == warnings
