"""The games for self-play keep the rules of environments, and those of ML-Agents run with its blocks."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import selfplay_games as games

from rlcore import Run
from rlcore_devkit import EnvironmentConformance

# A game of each class, with as many teams and behaviors as it can have.
CASES: dict[str, tuple[Any, dict[str, Any]]] = {
    "Saddle": (games.Saddle, {}),
    "Kuhn": (partial(games.Kuhn, players=3), {}),
    "Contest": (partial(games.Contest, teams=4, group=2), {}),
    # The episodes of agents end, those of environments do not.
    "TwoSides": (partial(games.TwoSides, names=("Left", "Right"), discrete=False), {"episodes_end": False}),
    "Remember": (games.Remember, {}),
    "Strikers": (games.strikers_vs_goalie, {}),
}
for name, (make, facts) in CASES.items():
    members = {"make": lambda self, num_envs, make=make: make(num_envs), **facts}
    globals()[f"Test{name}"] = type(f"Test{name}", (EnvironmentConformance,), members)


def test_self_play_blocks_of_mlagents_run_on_the_pitch(tmp_path: Path) -> None:
    """The keys are those of ML-Agents' file for this game, with fewer steps; PPO stands for POCA."""
    behavior = {
        "trainer_type": "ppo",
        "hyperparameters": {
            "batch_size": 64, "buffer_size": 256, "learning_rate": 3e-4, "beta": 0.005, "epsilon": 0.2, "lambd": 0.95,
            "num_epoch": 3, "learning_rate_schedule": "constant",
        },
        "network_settings": {"normalize": False, "hidden_units": 32, "num_layers": 2, "vis_encode_type": "simple"},
        "reward_signals": {"extrinsic": {"gamma": 0.99, "strength": 1.0}},
        "keep_checkpoints": 5, "max_steps": 1024, "time_horizon": 100, "summary_freq": 512,
    }  # fmt: skip
    play = {"save_steps": 256, "swap_steps": 128, "window": 10, "play_against_latest_model_ratio": 0.5,
            "initial_elo": 1200.0}  # fmt: skip
    team_change = {"Striker": 256, "Goalie": 512}
    blocks = {name: {**behavior, "self_play": {**play, "team_change": each}} for name, each in team_change.items()}
    results = Run({
        "environment": {"type": "game", "id": "strikers_vs_goalie", "num_envs": 4},
        "behaviors": blocks,
        "checkpoint_settings": {"results_dir": str(tmp_path)},
        "plugins": {"local": ["selfplay_games"]},
    }).train()  # fmt: skip
    assert all(result.updates and result.steps >= 1024 for result in results.values())
