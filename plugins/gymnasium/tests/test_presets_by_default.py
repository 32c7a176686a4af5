"""Presets by default for Gymnasium's environments follow their spaces, their marks, and who steps them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import gymnasium
import pytest

from rlcore import Run
from rlcore_devkit.fixtures import RunRlcore


def chosen(trainer: str = "ppo", given: Any = None, **environment: Any) -> tuple[str, Any]:
    """The preset that is chosen, and the number of copies."""
    config = {"environment": environment, "default_settings": {"trainer_type": trainer}}
    run = Run(config, environment=given)
    (used,) = run._prepared.document.presets
    return used.record.name, run.config.num_envs


@pytest.mark.parametrize(
    ("trainer", "env_id", "preset"),
    [
        ("ppo", "CartPole-v1", "ppo-discrete"),
        ("ppo", "Pendulum-v1", "ppo-continuous"),
        ("ppo", "HalfCheetah-v5", "ppo-mujoco"),
        ("ppo", "ALE/Pong-v5", "ppo-atari"),
        ("ppo", "MiniGrid-Empty-5x5-v0", "ppo-discrete"),
        ("ppo", "CarRacing-v3", "ppo-continuous"),
        ("dqn", "CartPole-v1", "dqn"),
        ("dqn", "ALE/Pong-v5", "dqn-atari"),
        ("pqn", "CartPole-v1", "pqn"),
        ("pqn", "ALE/Pong-v5", "pqn-images"),
        ("sac", "HalfCheetah-v5", "sac"),
        ("ddpg", "Pendulum-v1", "ddpg"),
        ("td3", "Pendulum-v1", "td3"),
        ("crossq", "Pendulum-v1", "crossq"),
        ("xqc", "HalfCheetah-v5", "xqc"),
        ("td7", "HalfCheetah-v5", "td7"),
    ],
)
def test_the_preset_for_an_id(trainer: str, env_id: str, preset: str) -> None:
    assert chosen(trainer, id=env_id)[0] == preset


def test_the_copies_of_a_preset_are_for_environments_that_this_process_steps() -> None:
    assert chosen(id="CartPole-v1")[1] == 8
    assert chosen(id="CartPole-v1", workers=1)[1] == 1
    assert chosen(id="CartPole-v1", type="envpool") == ("ppo-discrete", 8)
    assert chosen(given=lambda: gymnasium.make("Pendulum-v1")) == ("ppo-continuous", 1)


def test_the_one_object_of_a_program_is_looked_at_and_stays_open() -> None:
    environment = gymnasium.make("HalfCheetah-v5")
    assert chosen(given=environment) == ("ppo-mujoco", 1)
    environment.reset(seed=1)
    environment.close()


def test_a_file_is_valid_that_is_with_one_of_the_presets_that_may_be_chosen(
    run_rlcore: RunRlcore, tmp_path: Path
) -> None:
    file = tmp_path / "pole.yaml"
    file.write_text(
        "environment: {id: CartPole-v1}\n"
        "default_settings: {trainer_type: ppo, network_settings: {critic: {hidden_units: 32}}}\n"
    )
    done = run_rlcore("validate", str(file))
    assert done.exit_code == 0, done.stdout
    first, other = done.stdout.splitlines()
    assert "valid with presets that may be chosen by default: ppo-continuous, ppo-discrete, ppo-mujoco (" in first
    assert other.startswith("  not valid with preset ppo-atari: ") and "shared_critic" in other
    assert run_rlcore("validate", str(file), "--make").exit_code == 0
