"""``Run(config, environment=...)`` with objects and functions of Gymnasium and PettingZoo, trained by PPO."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
from compared_runs import PROGRAMS, acrobot
from gymnasium.vector import AutoresetMode, SyncVectorEnv
from small_runs import small_run

from rlcore import ConfigError, EnvironmentFailed, Run, UnsupportedSpace

STEPS = 400
EACH_COPY: dict[str, Any] = {"environment.type": None, "environment.id": None}


def config_of(place: Path, changes: dict[str, Any] | None = None, **start: Any) -> dict[str, Any]:
    small = {"batch_size": 32, "buffer_size": 96}
    block = {"behaviors.Agent.max_steps": STEPS, "behaviors.Agent.hyperparameters": small}
    return small_run(place, {**EACH_COPY, **block, **(changes or {})}, **start)


normalized = PROGRAMS["normalized acrobot"]


def test_wrappers_that_remember_episodes_are_made_again_at_checkpoints_or_limit_the_promise(tmp_path: Path) -> None:
    often = {"behaviors.Agent.checkpoint_interval": 100}
    with Run(config_of(tmp_path / "several", often), environment=normalized) as run:
        assert str(run.describe().resume).startswith("exact; every 100 steps all episodes restart")
    with Run(config_of(tmp_path / "one", {"environment": None}), environment=normalized()) as run:
        assert "wrappers (NormalizeObservation) " in str(run.describe().resume)


def test_a_preset_needs_no_name_of_the_behavior(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    start = {"results_dir": str(tmp_path), "run_id": "run"}
    config = {
        "preset": "ppo-discrete",
        "default_settings": {"max_steps": 64},
        "checkpoint_settings": start,
        "stats": {"console": False},
    }
    with Run(config, environment=acrobot) as run:
        assert run.train()["Acrobot"].steps >= 64
        assert run.config.num_envs == 8
    start["run_id"] = "object"
    with Run(config, environment=acrobot()) as run:
        assert run.train()["Acrobot"].steps == 64
    assert " failed " not in caplog.text


class Counted(gymnasium.Env[Any, Any]):
    """Always the same observation. Reward 1 each step; an episode has five steps. Counts how often it is closed."""

    observation_space = gymnasium.spaces.Box(-1.0, 1.0, (3,), np.float32)
    action_space = gymnasium.spaces.Discrete(2)

    def __init__(self) -> None:
        self.closed = 0

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        self.steps = 0
        return np.zeros(3, np.float32), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        self.steps += 1
        return np.zeros(3, np.float32), 1.0, self.steps == 5, False, {}

    def close(self) -> None:
        self.closed += 1


class Speaking(Counted):
    observation_space = gymnasium.spaces.Text(9)


def test_one_object_trains_is_evaluated_elsewhere_and_stays_open(tmp_path: Path) -> None:
    own = Counted()
    with Run(config_of(tmp_path, {"environment.num_envs": 1}), environment=own) as run:
        results = run.train()
        assert results["Agent"].returns is not None and results["Agent"].returns.mean == 5.0
    assert own.closed == 0
    with pytest.raises(ConfigError, match="Counted is one environment, and 4 are asked for; give a function"):
        Run(config_of(tmp_path / "four"), environment=own).start()


def test_copies_are_made_for_training_and_for_evaluations_and_all_are_closed(tmp_path: Path) -> None:
    made: list[Counted] = []

    def make() -> Counted:
        made.append(Counted())
        return made[-1]

    with Run(config_of(tmp_path, {"behaviors.Agent.summary_freq": 200}), environment=make) as run:
        next(run)
        assert len(made) == 4
        assert run.evaluate(episodes=3).behaviors["Agent"].mean_reward == 5.0
        assert len(made) == 4 + 3
        run.train()
    assert [each.closed for each in made] == [1] * 7


@pytest.mark.parametrize("mode", AutoresetMode)
def test_a_vectorized_object_has_all_copies_whenever_it_resets_itself(tmp_path: Path, mode: AutoresetMode) -> None:
    vector = SyncVectorEnv([Counted] * 3, autoreset_mode=mode)
    with Run(config_of(tmp_path, {"environment": None}), environment=vector) as run:
        result = run.train()["Agent"]
        assert run.config.num_envs == 3 and result.returns is not None
        assert (result.returns.mean, result.lengths.mean if result.lengths else 0) == (5.0, 5.0)
    assert [env.closed for env in vector.envs] == [0, 0, 0]
    with pytest.raises(ConfigError, match=r"has 3 environments, and 4 are asked for; set environment\.num_envs to 3"):
        Run(config_of(tmp_path / "four"), environment=vector).start()
    make_two = {"environment.num_envs": 3, "evaluation": {"interval": 100, "episodes": 2}}
    with pytest.raises(ConfigError, match=r"set evaluation\.environment\.num_envs to 3"):
        Run(config_of(tmp_path / "two", make_two), environment=lambda: SyncVectorEnv([Counted] * 3)).start()


def raising_at(call: int) -> Callable[[], Counted]:
    calls: list[Counted] = []

    def make() -> Counted:
        if len(calls) == call:
            raise OSError(f"port {5000 + call} is in use")
        calls.append(Counted())
        return calls[-1]

    make.made = calls  # type: ignore[attr-defined]
    return make


def test_a_function_that_fails_halfway_has_its_copies_closed(tmp_path: Path) -> None:
    make: Any = raising_at(2)
    with pytest.raises(EnvironmentFailed, match="Counted: the function failed at copy 3: OSError: port 5002 is in use"):
        Run(config_of(tmp_path), environment=make).start()
    assert [each.closed for each in make.made] == [1, 1]


ONE = Counted()


@pytest.mark.parametrize(
    ("given", "changes", "told"),
    [
        (lambda: ONE, {}, r"Counted: the function of Run\(config, environment=\.\.\.\) returned one object twice"),
        (Counted, {"behaviors.Other": {"trainer_type": "ppo"}}, "must be one entry, not Agent, Other"),
        (Counted, {"environment.workers": 2}, "workers cannot make the environment that a program gives"),
        (Counted, {"environment_parameters": {"gravity": 1.0}}, "Counted has no such parameter; it has"),
        (Speaking, {}, "observation 'observation' has the unsupported space Text.*; wrap it in the program"),
        (object, {}, r"of a kind that a plugin knows \(rlcore.Environment, gymnasium, pettingzoo, torch-cartpole\)"),
    ],
)
def test_what_does_not_fit_is_told(tmp_path: Path, given: Any, changes: dict[str, Any], told: str) -> None:
    with pytest.raises((ConfigError, UnsupportedSpace), match=told):
        Run(config_of(tmp_path, changes), environment=given).start()


@pytest.mark.parametrize("name", ["tictactoe", "rps"])
def test_a_game_of_pettingzoo_has_teams_but_no_wrappers_of_a_file(tmp_path: Path, name: str) -> None:
    options = {"behaviors": {"Agent": {"agents": ["player_*"], "team": "each"}}}
    with Run(config_of(tmp_path / "given", {"environment.options": options}), environment=PROGRAMS[name]) as run:
        run.start()
        assert run.behaviors["Agent"].spec.team.tolist() == [0, 1] * 4
    with pytest.raises(ConfigError, match=r"environment\.options\.wrappers: .*: the program makes it"):
        Run(config_of(tmp_path / "no", {"environment.options": {"wrappers": []}}), environment=PROGRAMS[name]).start()
