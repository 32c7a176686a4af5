"""Tests of hindsight experience replay with the stock SAC.

They need `rlcore-sac`, `rlcore-gymnasium`, pytest, and this package installed.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest

from rlcore import BehaviorSpec, ConfigError, ObservationSpec, Run
from rlcore_devkit import PluginConformance, ReplaySamplerConformance


class TestPlugin(PluginConformance):
    plugin = "rlcore-her/her"


class TestSampler(ReplaySamplerConformance):
    sampler = "rlcore-her/her"
    settings = {"horizon": 5}
    changed = frozenset({"reward", "observations/desired_goal", "next_observations/desired_goal"})

    def behavior(self, slots: int) -> BehaviorSpec:
        goals = [ObservationSpec(name, (2,), np.float32) for name in ("achieved_goal", "desired_goal")]
        return BehaviorSpec(
            "Agent", (*goals, ObservationSpec("speed", (3,), np.float32)), continuous=1, discrete=(3,),
            env_index=np.arange(slots),
        )  # fmt: skip


class Reach(gymnasium.Env[Any, Any]):
    """Move a hand in a cube of side 2 to a goal. The reward is 0 within 0.1 of the goal, and -1 elsewhere.

    A hand that moves at random is near its goal in one of 2000 steps.
    """

    def __init__(self) -> None:
        box = gymnasium.spaces.Box(-1.0, 1.0, (3,), np.float32)
        self.observation_space = gymnasium.spaces.Dict({"achieved_goal": box, "desired_goal": box})
        self.action_space = gymnasium.spaces.Box(-1.0, 1.0, (3,), np.float32)

    def seen(self) -> dict[str, Any]:
        return {"achieved_goal": self.place.astype(np.float32), "desired_goal": self.goal.astype(np.float32)}

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        self.place, self.goal = self.np_random.uniform(-1.0, 1.0, (2, 3))
        return self.seen(), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        self.place = np.clip(self.place + 0.2 * action, -1.0, 1.0)
        reward = 0.0 if np.linalg.norm(self.place - self.goal) <= 0.1 else -1.0
        return self.seen(), reward, False, False, {}


gymnasium.register("RlcoreHerReach-v0", Reach, max_episode_steps=20)


def run(
    directory: Path, sampler: Any, steps: int = 6000, seed: int = 1, identity: str = "RlcoreHerReach-v0", **more: Any
) -> Run:
    behavior = {
        "trainer_type": "sac",
        "hyperparameters": {
            "batch_size": 128,
            "learning_rate": 2e-3,
            "tau": 0.02,
            "buffer_init_steps": 500,
            "steps_per_update": 4,
            "init_entcoef": 0.1,
            "replay_sampler": sampler,
            **more,
        },
        "network_settings": {"hidden_units": 64, "num_layers": 2, "activation": "relu"},
        "reward_signals": {"extrinsic": {"gamma": 0.95}},
        "max_steps": steps,
        "summary_freq": steps,
    }
    return Run(
        {
            "environment": {"type": "gymnasium", "id": identity, "num_envs": 8},
            "env_settings": {"seed": seed},
            "behaviors": {"Agent": behavior},
            "checkpoint_settings": {"run_id": "run", "results_dir": str(directory)},
            "stats": {"console": False},
        }
    )


def share_of_goals_reached(directory: Path, sampler: Any, seed: int) -> float:
    """Train, and return in which share of 100 episodes the goal is reached."""
    with run(directory, sampler, seed=seed) as training:
        training.train()
        returns = training.evaluate(episodes=100).behaviors["Agent"].returns
    return float(np.mean([each > -20.0 for each in returns]))  # -20: never near the goal


@pytest.mark.parametrize("seed", [11, 12, 13, 14], ids="seed{}".format)
def test_goals_are_reached_with_hindsight_and_not_with_uniform_samples(tmp_path: Path, seed: int) -> None:
    """No setting was chosen on these seeds. About 15 seconds each."""
    hindsight = share_of_goals_reached(tmp_path / "her", {"type": "her", "tolerance": 0.1, "horizon": 20}, seed)
    uniform = share_of_goals_reached(tmp_path / "uniform", None, seed)
    print(f"seed {seed}: {hindsight:.2f} with hindsight, {uniform:.2f} without")
    assert hindsight >= 0.9
    assert uniform <= 0.1


def test_relabeled_transitions_have_a_goal_that_their_episode_reached_later(tmp_path: Path) -> None:
    """The goals of each episode are collected row by row; about ``relabeled`` of the sample have one of them."""
    with run(tmp_path, {"type": "her", "tolerance": 0.1, "horizon": 20}, 500) as training:
        training.train()
        trainer: Any = training.behaviors["Agent"].trainer
    buffer = trainer.buffer
    sample = trainer.sampler.sample(buffer, 2000, np.random.default_rng(1), 0.5)
    stored = buffer.transitions(sample.rows)
    goals, now = sample.steps.observations["desired_goal"], sample.steps.next_observations["achieved_goal"]
    np.testing.assert_array_equal(goals, sample.steps.next_observations["desired_goal"])
    np.testing.assert_array_equal(now, stored.next_observations["achieved_goal"])
    np.testing.assert_array_equal(sample.steps.raw, stored.raw)
    expected = np.where(np.linalg.norm(now - goals, axis=1) <= 0.1, 0.0, -1.0)
    np.testing.assert_array_equal(sample.steps.reward, expected)
    changed = (goals != stored.observations["desired_goal"]).any(1)
    assert changed.mean() == pytest.approx(0.8, abs=0.04)
    for row, goal in zip(sample.rows[changed], goals[changed], strict=True):
        reached = []
        while buffer.flags[row]:
            row = (row + buffer.slots) % buffer.capacity
            reached.append(buffer.observations["achieved_goal"][row])
        assert any((goal == each).all() for each in reached)


def test_equal_seeds_give_equal_runs(tmp_path: Path) -> None:
    sampler = {"type": "her", "tolerance": 0.1}
    results = []
    for part in ("one", "two"):
        with run(tmp_path / part, sampler, 500) as training:
            training.train()
            results.append(training.behaviors["Agent"].trainer.state_dict()["model"])
    assert all((results[0][name] == results[1][name]).all() for name in results[0])


def test_observations_without_goals_and_several_steps_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="needs the observations desired_goal and achieved_goal"):
        run(tmp_path, {"type": "her"}, identity="Pendulum-v1").start()
    with pytest.raises(ConfigError, match="n_steps: must be 1"):
        run(tmp_path, {"type": "her"}, n_steps=3).start()
