"""ML-Agents' imitation files Pyramids and Hallway: the same keys, spaces and demonstrations, without Unity's player.

The demonstrations are written byte by byte, as Unity's recorder of that time wrote them.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
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

PYRAMIDS, PYRAMIDS_RND, HALLWAY = (
    (Path(__file__).parent / f"data/{name}.yaml").read_text("utf-8") for name in ("pyramids", "pyramids_rnd", "hallway")
)
OPTIONS = 5
SENSORS = {"Pyramids": (56, 56, 56, 4), "Hallway": (105, 3)}  # what Unity's agents see in these scenes


class Corridor(SavingEnvironment):
    """The right option is the one whose number is shown; 20 decisions, a reward for each right one.

    Its sensors have names of their own, which demonstrations of that time do not have.
    """

    state = ("shown",)

    def __init__(self, num_envs: int = 2, name: str = "Pyramids") -> None:
        self.shown = np.zeros(num_envs, np.int64)
        self.sizes = SENSORS[name]
        specs = tuple(ObservationSpec(f"sensor {i}", (size,), np.float32) for i, size in enumerate(self.sizes))
        super().__init__(BehaviorSpec(name, specs, discrete=(OPTIONS,), env_index=np.arange(num_envs)), max_steps=20)

    def begin(self, env: int, generator: np.random.Generator) -> None:
        self.shown[env] = generator.integers(OPTIONS)

    def advance(self, actions: Actions) -> tuple[Any, Any]:
        assert actions.discrete is not None
        right = actions.discrete[:, 0] == self.shown
        self.shown = (self.shown * 3 + 1) % OPTIONS
        return right.astype(np.float32), np.zeros(len(right), np.bool_)

    def observe(self) -> dict[str, Any]:
        return {f"sensor {i}": value for i, value in enumerate(seen(self.shown, self.sizes))}


def seen(shown: np.ndarray, sizes: Sequence[int]) -> list[np.ndarray]:
    first = np.eye(sizes[0], dtype=np.float32)[shown]
    return [first, *(np.ones((len(shown), size), np.float32) for size in sizes[1:])]


def expert(path: Path, name: str, episodes: int = 10, length: int = 20) -> None:
    """A demonstration of an agent that always does what is right."""
    steps = []
    for episode in range(episodes):
        shown, before = episode % OPTIONS, 0
        for place in range(length + 1):
            observations = (vector(values[0]) for values in seen(np.array([shown]), SENSORS[name]))
            last = place == length
            steps.append(step(*observations, reward=float(place > 0), done=last, max_step=last, agent=episode + 1,
                              old_actions=[float(before)]))  # fmt: skip
            shown, before = (shown * 3 + 1) % OPTIONS, shown
    write(path, old_brain([OPTIONS], False, f"{name}?team=0"), steps)


Train = Callable[..., dict[str, float]]


@pytest.fixture
def train(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, run_rlcore: RunRlcore) -> Train:
    """``train(text, "--set", "a.b=1")``: the statistics of the run's last summary."""
    monkeypatch.setitem(environments.FOR_CONFIGURATIONS, "corridor", Corridor)  # type: ignore[arg-type]
    monkeypatch.setenv("RLCORE_ALLOW_LOCAL", "1")

    def train(text: str, *options: str) -> dict[str, float]:
        name = "Pyramids" if "Pyramids" in text else "Hallway"
        short = "ExpertPyramid" if name == "Pyramids" else "ExpertHallway"
        expert(tmp_path / f"working/Project/Assets/ML-Agents/Examples/{name}/Demos/{short}.demo", name)
        (tmp_path / "unity.yaml").write_text(
            text + "environment: {type: testing, id: corridor, num_envs: 8}\n"
            "env_settings: {seed: 4}\n"
            "plugins: {local: [rlcore_devkit.hooks]}\n"
        )
        ended = run_rlcore("run", tmp_path / "unity.yaml", *options)
        assert ended.exit_code == 0, ended.stderr
        lines = (tmp_path / "working/results/ppo/metrics.jsonl").read_text().splitlines()
        stats: dict[str, float] = json.loads(lines[-1])["stats"]
        assert all(np.isfinite(value) for value in stats.values() if isinstance(value, float))
        return stats

    return train


def short(name: str, steps: int) -> list[str]:
    of = f"behaviors.{name}"
    options = [f"{of}.max_steps={steps}", f"{of}.summary_freq={steps // 2}", "checkpoint_settings.run_id=ppo"]
    return [part for option in options for part in ("--set", option)]


def test_the_file_of_pyramids_trains(train: Train) -> None:
    sooner = "behaviors.Pyramids.hyperparameters.buffer_size=512", "behaviors.Pyramids.behavioral_cloning.strength=10"
    stats = train(PYRAMIDS, *short("Pyramids", 4096), *(part for each in sooner for part in ("--set", each)))
    for tag in ("Losses/Pretraining Loss", "Losses/GAIL Loss", "Policy/Gail Reward", "Policy/Curiosity Reward"):
        assert tag in stats, sorted(stats)
    # The expert's reward is 20; random agents get 4. Actions that are one step late would be right by chance only.
    assert stats["Environment/Cumulative Reward"] > 10.0


@pytest.mark.parametrize(
    ("text", "name", "there", "absent"),
    [
        (PYRAMIDS_RND, "Pyramids", {"Policy/Rnd Reward", "Losses/GAIL Loss"}, set()),
        (HALLWAY, "Hallway", {"Losses/GAIL Loss"}, {"Losses/Pretraining Loss"}),  # with memory
    ],
)
def test_a_file_of_ml_agents_trains(train: Train, text: str, name: str, there: set[str], absent: set[str]) -> None:
    stats = train(text, *short(name, 2048))
    assert there <= stats.keys() and not absent & stats.keys(), sorted(stats)
