"""Configurations in the shape of ML-Agents' own files are learnt in test players: stopped, killed, resumed, exported.

The exported model plays in the same world without rlcore, as Unity plays it. ML-Agents' files themselves, whose steps
are many, are run by ``tests/support/unity_training.py``.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import attrs
import pytest
import yaml
from unity_player import make_player
from unity_training import Task, returns, train

from rlcore import Run
from rlcore_zoo.trainings import score_of

pytestmark = [pytest.mark.learning, pytest.mark.timeout(1200)]

PPO = {"batch_size": 128, "buffer_size": 1024, "learning_rate": 3e-3}
SAC = {"batch_size": 128, "buffer_size": 20_000, "buffer_init_steps": 500, "learning_rate": 1e-3,
       "steps_per_update": 10, "init_entcoef": 0.1}  # fmt: skip
LESSONS = {
    "wall_height": {
        "curriculum": [
            {
                "name": f"Lesson{number}",
                "completion_criteria": {
                    "measure": "progress", "behavior": "Wall", "signal_smoothing": True, "min_lesson_length": 100,
                    "threshold": threshold,  # of 2 million steps
                },
                "value": {
                    "sampler_type": "uniform",
                    "sampler_parameters": {"min_value": 0.5 * number, "max_value": 0.5 * number + 0.5},
                },
            }
            for number, threshold in enumerate((0.0007, 0.005))
        ]
        + [{"name": "Lesson2", "value": 1.5}]
    }
}  # fmt: skip
# The trainer, its hyperparameters, further keys of the file, and the task. Who goes straight to the goal has 0.96: four
# decisions at -0.01, and 1 with the fifth; 0.93 in the last lesson, 1 in groups, and 31/32 against random actions in a
# duel. Actions at random have less than 0.1.
KINDS = {
    "continuous": ("ppo", PPO, {}, Task("", "continuous", "Ball", 0.85, 0.9)),
    "hybrid": ("sac", SAC, {}, Task("", "hybrid", "Food", 0.85, 0.9)),
    "visual": ("ppo", PPO, {}, Task("", "visual", "Look", 0.85, 0.9)),
    "teams": (
        "poca", PPO,
        {"self_play": {"save_steps": 2000, "team_change": 8000, "swap_steps": 1000, "window": 10,
                       "play_against_latest_model_ratio": 0.5, "initial_elo": 1200.0}},
        Task("", "teams", "Soccer", 1225.0, 0.9, "ELO"),
    ),
    "groups": ("poca", PPO, {}, Task("", "groups", "Push", 0.85, 0.93, "Mean Group Reward")),
    "lessons": ("ppo", PPO, {}, Task("", "lessons", "Wall", 0.85, 0.85, least=16_000, player={"size": "wall_height"})),
}  # fmt: skip


def written(kind: str, directory: Path) -> Path:
    trainer, hyperparameters, more, task = KINDS[kind]
    block = {
        "trainer_type": trainer, "hyperparameters": hyperparameters, "max_steps": 2_000_000, "time_horizon": 64,
        "network_settings": {"normalize": False, "hidden_units": 32, "num_layers": 1, "vis_encode_type": "simple"},
        "reward_signals": {"extrinsic": {"gamma": 0.95, "strength": 1.0}}, "summary_freq": 2000, **more,
    }  # fmt: skip
    document = {"behaviors": {task.behavior: block}, "env_settings": {"seed": 3}}
    if kind == "lessons":
        document["environment_parameters"] = LESSONS
    path = directory / f"{task.behavior}.yaml"
    path.write_text(yaml.safe_dump(document), encoding="utf-8")
    return path


# The world of each file in examples/unity, and what a trained policy scores on every seed.
EXAMPLES = {"reach": ("continuous", 0.9), "mixed": ("hybrid", 0.8), "rescue": ("groups", 0.9), "duel": ("teams", 0.9)}


@pytest.mark.parametrize("name", EXAMPLES)
def test_an_example_learns_what_it_says(
    name: str, example: Callable[[str, Path, int], dict[str, Any]], tmp_path: Path
) -> None:
    world, needed = EXAMPLES[name]
    config = example(f"unity/{name}.yaml", tmp_path, 5)
    config["environment"]["id"] = str(make_player(tmp_path, world=world))
    with Run(config) as run:
        run.train()
        score = score_of(run.evaluate(100).to_json())
    print(f"{name}: {score:.3f}")
    assert score >= needed


@pytest.mark.parametrize("kind", KINDS)
def test_a_file_of_mlagents_is_learnt_over_a_stop_and_a_kill(kind: str, tmp_path: Path) -> None:
    task = KINDS[kind][3]
    found = train(tmp_path, written(kind, tmp_path), task)
    print(attrs.asdict(found))
    forgets = " and hyperparameters.save_replay_buffer of Food is false" if kind == "hybrid" else ""
    player = "a player's state is neither saved nor set, so its next episodes are others"
    assert found.promise == f"statistical, because {player}{forgets}"
    # The kill lost what came after the stop, and nothing else: the next session prints the same steps again.
    assert found.stopped < found.resumed <= found.killed
    lines = [json.loads(line) for line in (tmp_path / "results/it/metrics.jsonl").read_text("utf-8").splitlines()]
    steps = [line["step"] for line in lines if line["behavior"] == task.behavior]
    assert steps == sorted(set(steps))
    if kind == "lessons":
        numbers = [line["stats"]["Environment/Lesson Number/wall_height"] for line in lines]
        assert numbers == sorted(numbers) and numbers[0] == 1 and numbers[-1] == 2  # 1 before the stop
    size = 1.5 if kind == "lessons" else 1.0
    random = returns(task, None, size)
    played = returns(task, found.model, size)
    print(f"at random {random:.3f}, the model {played:.3f}")
    assert random < 0.15 and played >= task.needs
