"""Ten example scenes of ML-Agents, with the messages that Unity sends, trained in the test player, and counted."""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from unity_player import make_player

from rlcore import Run

PPO = {"batch_size": 128, "buffer_size": 1024, "learning_rate": 3.0e-3, "learning_rate_schedule": "constant"}
POCA = {**PPO, "batch_size": 256}
SAC = {"batch_size": 128, "buffer_size": 20_000, "buffer_init_steps": 1000, "steps_per_update": 20.0}
SELF_PLAY = {"save_steps": 1000, "team_change": 2000, "swap_steps": 500, "window": 10}
# Trainer, hyperparameters, and further keys of each behavior; the files of ML-Agents' release have these trainers.
SCENES: Mapping[str, tuple[str, dict[str, Any], dict[str, Any]]] = {
    "3DBall": ("ppo", PPO, {}),
    "WallJump": ("ppo", PPO, {}),
    "Pyramids": ("ppo", PPO, {}),
    "Sorter": ("ppo", PPO, {}),
    "FoodCollector": ("sac", SAC, {}),
    "Match3": (
        "ppo",
        PPO,
        {"network_settings": {"hidden_units": 32, "num_layers": 1, "vis_encode_type": "match3"}},
    ),
    "PushBlockCollab": ("poca", POCA, {}),
    "DungeonEscape": ("poca", POCA, {}),
    "SoccerTwos": ("poca", POCA, {"self_play": SELF_PLAY}),
    "StrikersVsGoalie": ("poca", POCA, {"self_play": SELF_PLAY}),
}
BEHAVIORS = {
    "FoodCollector": {"GridFoodCollector"},
    "WallJump": {"BigWallJump", "SmallWallJump"},
    "Match3": {"Match3VectorObs", "Match3VisualObs"},
    "StrikersVsGoalie": {"Striker", "Goalie"},
}
# The mean return of the last episodes of those that learn in 20,000 steps. Actions at random have less than -1.
LEARNT = {"3DBall": 1.5, "WallJump": 1.0}
RATED = {"SoccerTwos": 200, "StrikersVsGoalie": 200}


def trained(directory: Path, scene: str, steps: int) -> tuple[Run, list[Any], list[Any]]:
    """Train in a scene; return the run, and what the player and the run counted in each round."""
    trainer, hyperparameters, more = SCENES[scene]
    player = make_player(directory, world=f"scene:{scene}", tally=directory / "sent.json")
    block = {
        "trainer_type": trainer, "hyperparameters": hyperparameters, "max_steps": steps, "time_horizon": 64,
        "network_settings": {"hidden_units": 32, "num_layers": 1}, "summary_freq": steps // 2,
        "reward_signals": {"extrinsic": {"gamma": 0.9, "strength": 1.0}}, **more,
    }  # fmt: skip
    config = {
        "default_settings": block,
        "environment": {"type": "unity", "executable": str(player), "no_graphics": True},
        "env_settings": {"seed": 5},
        "plugins": {"local": ["unity_tally"]},
        "stats": {"console": False, "tensorboard": False},
        "export": {},
        "checkpoint_settings": {"results_dir": str(directory), "run_id": "scene"},
    }
    run = Run(config)
    run.train()
    sent, received = (json.loads((directory / name).read_text()) for name in ("sent.json", "scene/received.json"))
    return run, sent, received


def check(directory: Path, scene: str, steps: int, caplog: pytest.LogCaptureFixture) -> Run:
    caplog.set_level(logging.WARNING, "rlcore.plugin.unity")
    run, sent, received = trained(directory, scene, steps)
    assert sent[1:] == received  # without the round of the start, in which agents were counted
    assert {name for part in received for name in part} == BEHAVIORS.get(scene, {scene})
    counted = [each for part in received for each in part.values()]
    print(
        f"{scene}: {sum(each['decisions'] for each in counted):,} decisions, "
        f"{sum(each['episodes'] for each in counted):,} episodes, "
        f"returns {sum(sum(each['returns']) for each in counted):.1f} at both ends"
    )
    assert sum(each["decisions"] for each in counted) > steps
    assert not [each.getMessage() for each in caplog.records if each.name == "rlcore.plugin.unity"]
    return run


@pytest.mark.parametrize("scene", ["WallJump", "SoccerTwos", "DungeonEscape"])
def test_what_a_scene_sends_is_received(scene: str, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    check(tmp_path, scene, 1500, caplog)


@pytest.mark.learning
@pytest.mark.parametrize("scene", SCENES)
def test_a_scene_is_trained_for_20000_steps(scene: str, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    check(tmp_path, scene, 20_000, caplog)
    result = json.loads((tmp_path / "scene/result.json").read_text("utf-8"))
    means = {name: each["mean_reward"] for name, each in result["behaviors"].items()}
    status = json.loads((tmp_path / "scene/run_logs/training_status.json").read_text("utf-8"))
    rated = status.get("self_play", {}).get("rated_games", 0)
    print(f"mean rewards {means}, rated games {rated:,}")
    assert all(mean >= LEARNT.get(scene, -1e9) for mean in means.values())
    assert rated >= RATED.get(scene, 0)
