"""AdamW and the schedule of the package by their names: checked, learned with, killed and resumed."""

from __future__ import annotations

import copy
import signal
import subprocess
import sys
from math import cos, pi
from pathlib import Path
from typing import Any

import pytest
import torch
import yaml

from rlcore import Run
from rlcore_adamw.schedule import warm_up_cosine
from rlcore_devkit import (
    OptimizerConformance,
    PluginConformance,
    RunRlcore,
    ScheduleConformance,
    SmallTrainings,
    TinyCorridor,
    assert_equal,
    learn,
)

CHOICE = {"optimizer": {"type": "rlcore-adamw/adamw", "weight_decay": 0.1}, "learning_rate_schedule": "warm-up-cosine"}
CONFIG: dict[str, Any] = yaml.safe_load((Path(__file__).parent.parent / "cartpole.yaml").read_text())

# Kills its process when the first checkpoint is saved.
KILL = """
import os, signal
from rlcore import hookimpl

@hookimpl
def rlcore_checkpoint_saved(step):
    os.kill(os.getpid(), signal.SIGKILL)
"""
COMMAND = "import sys; from rlcore.cli.main import main; sys.exit(main(sys.argv[1:]))"


class TestPlugin(PluginConformance):
    plugin = "rlcore-adamw/adamw"


class TestOptimizer(OptimizerConformance):
    optimizer = "rlcore-adamw/adamw"
    settings = {"weight_decay": 0.1}


class TestSchedule(ScheduleConformance):
    schedule = "rlcore-adamw/warm-up-cosine"


def changed(run_id: str, **block: Any) -> dict[str, Any]:
    config = copy.deepcopy(CONFIG)
    config["behaviors"]["CartPole"] |= block
    more = {"env_settings": {"seed": 1}, "stats": {"console": False}, "checkpoint_settings": {"run_id": run_id}}
    return config | more


def test_gradient_steps_are_those_of_adamw_driven_by_hand(tmp_path: Path) -> None:
    hyperparameters = {**CHOICE, "buffer_size": 64, "batch_size": 32, "learning_rate": 0.01}
    trainer: Any = SmallTrainings("ppo", tmp_path, hyperparameters).trainer(TinyCorridor(2))
    copies = [p.detach().clone().requires_grad_() for p in trainer.model.parameters()]
    groups = [
        {"params": [p for p in copies if p.ndim > 1], "weight_decay": 0.1},
        {"params": [p for p in copies if p.ndim < 2], "weight_decay": 0.0},
    ]
    by_hand = torch.optim.AdamW(groups, eps=1e-5, fused=True)
    step = trainer.optimizer.step
    rates = set()

    def both() -> None:
        progress = (trainer.steps - 64) / trainer.settings.max_steps  # where the rollout began
        down = 0.5 * (1.0 + cos(pi * (progress - 0.05) / 0.95))
        rate = 0.01 * (progress / 0.05 if progress < 0.05 else down)
        assert trainer.optimizer.learning_rate == pytest.approx(rate, abs=2e-10)
        rates.add(trainer.optimizer.learning_rate)
        for group in by_hand.param_groups:
            group["lr"] = trainer.optimizer.learning_rate
        for own, p in zip(copies, trainer.model.parameters(), strict=True):
            # The fused kernel reads gradients in the order of memory, and those of input layers may be transposed.
            own.grad = None if p.grad is None else p.grad.contiguous().clone()
        by_hand.step()
        step()

    trainer.optimizer.step = both
    learn(trainer, TinyCorridor(2), 150)
    assert len(rates) > 3
    for own, p in zip(copies, trainer.model.parameters(), strict=True):
        assert own.equal(p)


def test_the_schedule_warms_up_and_falls() -> None:
    assert [warm_up_cosine(progress) for progress in (0.0, 0.05, 1.0)] == [1.0, 0.0, 1.0]
    assert warm_up_cosine(0.025) == pytest.approx(0.5) == warm_up_cosine(0.525)


SHORT: dict[str, dict[str, Any]] = {
    "ppo": {"max_steps": 8192, "checkpoint_interval": 3000},
    "sac": {
        "trainer_type": "sac",
        "hyperparameters": {**CHOICE, "batch_size": 32, "buffer_init_steps": 100, "save_replay_buffer": True},
        "max_steps": 400,
        "checkpoint_interval": 200,
    },
}


@pytest.mark.parametrize("trainer", SHORT)
def test_a_run_that_is_killed_and_resumed_ends_as_one_that_never_stopped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, trainer: str
) -> None:
    monkeypatch.chdir(tmp_path)
    with Run(changed("whole", **SHORT[trainer])) as run:
        run.train()
        whole = run.behaviors["CartPole"].trainer.state_dict()
    config = changed("killed", **SHORT[trainer])
    (tmp_path / "kill.py").write_text(KILL)
    (tmp_path / "config.yaml").write_text(yaml.safe_dump(config | {"plugins": {"local": ["kill.py"]}}))
    killed = subprocess.run([sys.executable, "-c", COMMAND, "run", "config.yaml"], check=False)
    assert killed.returncode == -signal.SIGKILL
    config["checkpoint_settings"]["resume"] = True
    with Run(config) as run:
        run.train()
        assert run.resumed_from is not None and 0 < int(run.resumed_from.name) < SHORT[trainer]["max_steps"]
        assert_equal(run.behaviors["CartPole"].trainer.state_dict(), whole)
    optimizers = [whole["optimizer"]] if trainer == "ppo" else [*whole["optimizers"].values()]
    assert [each["type"] for each in optimizers] == ["adamw"] * (1 if trainer == "ppo" else 4)


def test_cartpole_is_learned(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with Run(changed("learned")) as run:
        run.train()
        assert run.evaluate(episodes=40).behaviors["CartPole"].mean_reward >= 475.0


@pytest.mark.parametrize(
    ("hyperparameters", "message"),
    [
        (
            {"optimizer": {"type": "adanw"}},
            "unknown optimizer 'adanw'; allowed: adam, adamw, radam; did you mean 'adamw'?",
        ),
        (
            {"optimizer": {"type": "rlcore-adamw/adamw", "weight_decay": -1}},
            "optimizer.weight_decay: must be at least 0, not -1",
        ),
        ({"optimizer": {"type": "rlcore-adamw/adamw", "decay": 1}}, "optimizer.decay: unknown key"),
        ({"beta_schedule": "warm-up"}, "beta_schedule: unknown schedule 'warm-up'; allowed: constant, cosine, linear"),
    ],
)
def test_validate_finds_mistakes(
    tmp_path: Path, run_rlcore: RunRlcore, hyperparameters: dict[str, Any], message: str
) -> None:
    config = tmp_path / "config.yaml"
    config.write_text(yaml.safe_dump(changed("run", hyperparameters=hyperparameters)))
    refused = run_rlcore("validate", config)
    assert refused.exit_code == 2 and message in refused.stdout + refused.stderr


def test_info_shows_the_settings(run_rlcore: RunRlcore) -> None:
    shown = run_rlcore("plugins", "info", "rlcore-adamw/adamw").stdout
    assert "weight_decay = 0.01" in shown and "schedule warm-up-cosine" in shown
