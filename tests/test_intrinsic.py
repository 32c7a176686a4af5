"""Rewards of rlcore-intrinsic in whole runs of PPO and SAC: every kind of action, images, memory, masks."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
from recorded import recorded
from small_runs import small_run

from rlcore import Environment, Run, load_checkpoint
from rlcore_devkit.conformance.states import assert_equal
from rlcore_devkit.environments import ImageIdentity, TinyCorridor, identity_continuous, identity_hybrid

NAME = "Agent"
SMALL = {"network_settings": {"hidden_units": 8, "num_layers": 1}, "batch_size": 64}
HYPERPARAMETERS: Mapping[str, Mapping[str, Any]] = {
    "ppo": {"buffer_size": 128, "batch_size": 64, "learning_rate_schedule": "constant"},
    "sac": {"batch_size": 16, "buffer_size": 512, "steps_per_update": 32.0, "save_replay_buffer": True, "n_steps": 2},
}
ENVIRONMENTS: Mapping[str, tuple[str, Mapping[str, Any], Callable[[], Environment]]] = {
    "masked": ("corridor", {"masked": True}, lambda: TinyCorridor(4, NAME, masked=True)),
    "continuous": ("identity_continuous", {}, lambda: identity_continuous(4, NAME)),
    "hybrid": ("identity_hybrid", {}, lambda: identity_hybrid(4, NAME)),
    "image": ("image_identity", {}, lambda: ImageIdentity(4, NAME)),
}
MakeRun = Callable[..., Run]


@pytest.fixture
def make_run(tmp_path: Path) -> MakeRun:
    """``make_run("ppo", "hybrid", run_id="a")``: a run with the environment's reward and all rewards of the plugin."""

    def make(trainer: str, kind: str, run_id: str = "run", resume: bool = False, **block: Any) -> Run:
        environment, options, create = ENVIRONMENTS[kind]
        path = recorded(tmp_path / kind / NAME, create(), 40)
        settings = {
            "trainer_type": trainer,
            "hyperparameters": {"learning_rate": 3e-3, **HYPERPARAMETERS[trainer]},
            "network_settings": {"hidden_units": 8, "num_layers": 1},
            "reward_signals": {
                "extrinsic": {},
                "curiosity": SMALL,
                "gail": {**SMALL, "demo_path": path, "use_actions": True, "use_vail": True},
                "rnd": SMALL,
            },
            "max_steps": 512,
            "summary_freq": 256,
            "checkpoint_interval": 128,
            **block,
        }
        played = {"type": "testing", "id": environment, "num_envs": 4, "options": dict(options)}
        changes: dict[str, Any] = {
            "plugins": {"local": ["rlcore_devkit.hooks"]},
            "environment": played,
            "env_settings.seed": 1,
        }
        changes |= {"behaviors": {NAME: settings}}
        return Run(small_run(tmp_path / "results", changes, run_id=run_id, resume=resume))

    return make


@pytest.mark.parametrize(
    ("trainer", "kind"), [("ppo", "masked"), ("sac", "continuous"), ("ppo", "hybrid"), ("sac", "image")]
)
def test_all_rewards_learn_and_a_resumed_run_equals_one_that_was_never_stopped(
    make_run: MakeRun, tmp_path: Path, trainer: str, kind: str
) -> None:
    make_run(trainer, kind, "whole").train()
    make_run(trainer, kind, "parts", max_steps=256).train()
    make_run(trainer, kind, "parts", resume=True).train()
    whole, parts = (load_checkpoint(tmp_path / "results" / each / "checkpoints/512") for each in ("whole", "parts"))
    for each in (whole, parts):
        del each["run"]["wall_seconds"]
    assert_equal(whole, parts)
    lines = [json.loads(line) for line in (tmp_path / "results/whole/metrics.jsonl").read_text().splitlines()]
    told = {tag for line in lines for tag in line["stats"]}
    assert {"Losses/Curiosity Forward Loss", "Losses/GAIL Loss", "Losses/RND Loss"} <= told
