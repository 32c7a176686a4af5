"""Hindsight experience replay in whole runs: the rules of real environments, and workers."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import goal_worlds
import numpy as np
import pytest

from rlcore import ConfigError, EnvironmentFailed, Run

SMALL = {"batch_size": 32, "buffer_init_steps": 50, "steps_per_update": 4, "save_replay_buffer": True}


def hindsight(
    directory: Path,
    env_id: str = "goal_worlds:BitFlip-v0",
    sampler: Any = {"type": "her"},  # noqa: B006
    steps: int = 160,
    environment: Any = None,
    workers: Any = None,
    num_envs: int = 3,
    **start: Any,
) -> Run:
    """SAC on BitFlip with four bits, or on another environment."""
    block: dict[str, Any] = {"num_envs": num_envs, "workers": workers}
    if environment is None:
        block |= {"type": "gymnasium", "id": env_id, "options": {} if "Reach" in env_id else {"bits": 4}}
    return Run(
        {
            "preset": "none",
            "environment": block,
            "env_settings": {"seed": 5},
            "behaviors": {
                "Agent": {
                    "trainer_type": "sac",
                    "hyperparameters": {**SMALL, "replay_sampler": sampler},
                    "network_settings": {"hidden_units": 16, "num_layers": 1},
                    "max_steps": steps,
                    "checkpoint_interval": 80,
                    "keep_checkpoints": 0,
                }
            },
            "checkpoint_settings": {"run_id": "run", "results_dir": str(directory), **start},
            "stats": {"console": False},
        },
        environment=environment,
    )


def test_rewards_and_ends_of_other_goals_are_those_of_the_environment(tmp_path: Path) -> None:
    """A transition ends its episode exactly where its goal, old or new, is reached; the environment says so too."""
    with hindsight(tmp_path, sampler={"type": "her", "strategy": "episode"}) as run:
        run.train()
        trainer: Any = run.behaviors["Agent"].trainer
        sample = trainer.sampler.sample(trainer.buffer, 3000, np.random.default_rng(1), 0.5)
    steps = sample.steps
    stored = trainer.buffer.transitions(sample.rows)
    goals = steps.observations["desired_goal"]
    there = (steps.next_observations["achieved_goal"] == goals).all(1)
    np.testing.assert_array_equal(steps.reward, there - 1.0)
    np.testing.assert_array_equal(steps.terminated, there)
    changed = (goals != stored.observations["desired_goal"]).any(1)
    assert (changed & there).any() and (changed & stored.terminated & ~there).any()


def test_a_tolerance_stands_for_rules_that_the_environment_does_not_have(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="has no method compute_reward"):
        hindsight(tmp_path, "goal_worlds:Reach-v0").start()
    with hindsight(tmp_path, "goal_worlds:Reach-v0", {"type": "her", "tolerance": 0.1}) as run:
        run.train()
        assert run.behaviors["Agent"].trainer.gradient_steps > 0


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        (lambda self, a, d, info: None, "compute_reward must return a number for a goal, not [None]"),
        (lambda self, a, d, info: 1 / 0, "compute_reward failed: ZeroDivisionError"),
        (lambda self, a, d: 0.0, "compute_reward failed: TypeError"),
    ],
)
def test_a_wrong_method_of_the_environment_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, answer: Callable[..., Any], message: str
) -> None:
    monkeypatch.setattr(goal_worlds.BitFlip, "compute_reward", answer)
    with pytest.raises(EnvironmentFailed) as failed, hindsight(tmp_path) as run:
        run.train()
    assert "goal_worlds:BitFlip-v0" in str(failed.value) and message in str(failed.value)


def test_rules_that_were_sent_to_another_process_make_an_environment_of_their_own(tmp_path: Path) -> None:
    with hindsight(tmp_path) as run:
        run.start()
        rules = run.behaviors["Agent"].trainer.behavior.goal_rules
        assert rules is not None
        bits = np.eye(3, 4, dtype=np.float32)
        rules.reward(bits, bits)  # makes its environment
        sent = pickle.loads(pickle.dumps(rules))
    np.testing.assert_array_equal(sent.reward(bits, bits[[0, 2, 2]]), [0.0, -1.0, 0.0])
    np.testing.assert_array_equal(sent.terminated(bits, bits[[0, 2, 2]]), [True, False, True])
