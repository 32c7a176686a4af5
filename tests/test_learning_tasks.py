"""``benchmarks/learning.py --kind million`` compares the values of a preset: all of them, those of schedules too."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path

import attrs
import pytest
from workspace import ROOT

from rlcore import Run


def test_robots_of_a_million_steps_have_the_values_of_the_preset(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("mujoco", reason="Hopper-v5 needs mujoco")
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    case = import_module("learning_tasks").MILLION["million-hopper"]
    training = import_module("ppo_trainings").rlcore_training(case, 1)
    training.run.close()
    preset = Run(
        {
            "preset": "ppo-mujoco",
            "environment": {"id": "Hopper-v5"},
            "behaviors": {"Hopper-v5": {}},
            "checkpoint_settings": {"results_dir": str(tmp_path)},
        }
    )
    (compared,) = training.run.config.behaviors.values()
    (wanted,) = preset.config.behaviors.values()
    # How often a run reports and saves does not change what it learns.
    freed = {"summary_freq": wanted.summary_freq, "checkpoint_interval": wanted.checkpoint_interval}
    assert attrs.evolve(compared, **freed) == wanted
    assert training.run.config.environment.num_envs == preset.config.environment.num_envs
