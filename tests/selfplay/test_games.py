"""The games for self-play keep the rules of environments, and those of ML-Agents run with its blocks."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import selfplay_games as games
import yaml

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
    config = yaml.safe_load((Path(__file__).parent / "data/strikers.yaml").read_text(encoding="utf-8"))
    results = Run({**config, "checkpoint_settings": {"results_dir": str(tmp_path)}}).train()
    assert all(result.updates and result.steps >= 1024 for result in results.values())
