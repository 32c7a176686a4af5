"""ML-Agents' imitation file Pyramids: the same keys, spaces and demonstrations, without Unity's player.

The demonstrations are written byte by byte, as Unity's recorder of that time wrote them.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from unity_demos import old_brain, step, vector, write

from rlcore import Actions, BehaviorSpec, ObservationSpec
from rlcore_devkit import environments
from rlcore_devkit.environments import SavingEnvironment
from rlcore_devkit.fixtures import RunRlcore, run_rlcore

__all__ = ["run_rlcore"]

PYRAMIDS = (Path(__file__).parent / "data/pyramids.yaml").read_text("utf-8")
OPTIONS = 5
SENSORS = (56, 56, 56, 4)  # what Unity's agents see in this scene


class Corridor(SavingEnvironment):
    """The right option is the one whose number is shown; 20 decisions, a reward for each right one.

    Its sensors have names of their own, which demonstrations of that time do not have.
    """

    state = ("shown",)

    def __init__(self, num_envs: int = 2, name: str = "Pyramids") -> None:
        self.shown = np.zeros(num_envs, np.int64)
        specs = tuple(ObservationSpec(f"sensor {i}", (size,), np.float32) for i, size in enumerate(SENSORS))
        super().__init__(BehaviorSpec(name, specs, discrete=(OPTIONS,), env_index=np.arange(num_envs)), max_steps=20)

    def begin(self, env: int, generator: np.random.Generator) -> None:
        self.shown[env] = generator.integers(OPTIONS)

    def advance(self, actions: Actions) -> tuple[Any, Any]:
        assert actions.discrete is not None
        right = actions.discrete[:, 0] == self.shown
        self.shown = (self.shown * 3 + 1) % OPTIONS
        return right.astype(np.float32), np.zeros(len(right), np.bool_)

    def observe(self) -> dict[str, Any]:
        return {f"sensor {i}": value for i, value in enumerate(seen(self.shown))}


def seen(shown: np.ndarray) -> list[np.ndarray]:
    first = np.eye(SENSORS[0], dtype=np.float32)[shown]
    return [first, *(np.ones((len(shown), size), np.float32) for size in SENSORS[1:])]


def expert(path: Path, episodes: int = 10, length: int = 20) -> None:
    """A demonstration of an agent that always does what is right."""
    steps = []
    for episode in range(episodes):
        shown, before = episode % OPTIONS, 0
        for place in range(length + 1):
            observations = (vector(values[0]) for values in seen(np.array([shown])))
            last = place == length
            steps.append(step(*observations, reward=float(place > 0), done=last, max_step=last, agent=episode + 1,
                              old_actions=[float(before)]))  # fmt: skip
            shown, before = (shown * 3 + 1) % OPTIONS, shown
    write(path, old_brain([OPTIONS], False, "Pyramids?team=0"), steps)


def test_the_file_of_pyramids_trains(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, run_rlcore: RunRlcore) -> None:
    monkeypatch.setitem(environments.FOR_CONFIGURATIONS, "corridor", Corridor)  # type: ignore[arg-type]
    monkeypatch.setenv("RLCORE_ALLOW_LOCAL", "1")
    expert(tmp_path / "working/Project/Assets/ML-Agents/Examples/Pyramids/Demos/ExpertPyramid.demo")
    (tmp_path / "unity.yaml").write_text(
        PYRAMIDS + "environment: {type: testing, id: corridor, num_envs: 8}\n"
        "env_settings: {seed: 4}\n"
        "plugins: {local: [rlcore_devkit.hooks]}\n"
    )
    of = "behaviors.Pyramids"
    options = (f"{of}.max_steps=4096", f"{of}.summary_freq=2048", "checkpoint_settings.run_id=ppo",
               f"{of}.hyperparameters.buffer_size=512", f"{of}.behavioral_cloning.strength=10")  # fmt: skip
    ended = run_rlcore("run", tmp_path / "unity.yaml", *(part for each in options for part in ("--set", each)))
    assert ended.exit_code == 0, ended.stderr
    lines = (tmp_path / "working/results/ppo/metrics.jsonl").read_text().splitlines()
    stats: dict[str, float] = json.loads(lines[-1])["stats"]
    for tag in ("Losses/Pretraining Loss", "Losses/GAIL Loss", "Policy/Gail Reward", "Policy/Curiosity Reward"):
        assert np.isfinite(stats[tag]), sorted(stats)
    # The expert's reward is 20; random agents get 4. Actions that are one step late would be right by chance only.
    assert stats["Environment/Cumulative Reward"] > 10.0
