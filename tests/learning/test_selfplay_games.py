"""Self-play of tag, measured by many games against random play."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import yaml
from workspace import ROOT

from rlcore import Run, SavedRun

pytestmark = [pytest.mark.learning, pytest.mark.timeout(1800)]

SEEDS = (1, 2, 3, 4, 5)
TAG = ROOT / "examples/tag"

NEVER = 10**9  # agent steps


def first_is_quick(*quick: int) -> pytest.MarkDecorator:
    """All seeds; those that are not ``quick`` are for a deep run."""
    return pytest.mark.parametrize(
        "seed", [pytest.param(seed, marks=() if seed in quick else pytest.mark.deep) for seed in SEEDS]
    )


def wins_against_random(seed: int, directory: Path, max_steps: int) -> list[float]:
    """How often chasers and runners win against random play, after so many steps of each side of the example."""
    config = yaml.safe_load((TAG / "tag.yaml").read_text(encoding="utf-8"))
    config["default_settings"]["summary_freq"] = NEVER
    for block in config["behaviors"].values():
        block["max_steps"] = max_steps
    config |= {"env_settings": {"seed": seed}, "stats": {"console": False}, "plugins": {"local": [str(TAG / "tag.py")]}}
    config["evaluation"] = {"interval": None, "environment": {"num_envs": 64}, "opponents": {"random": {}}}
    config["checkpoint_settings"]["results_dir"] = str(directory)
    Run(config).train()
    evaluated = SavedRun.open(directory / "tag", allow_local=True).evaluate(1000, deterministic=False)
    result = evaluated.opponents["random"]
    won, teams = np.array(result.returns) > 0, np.array(result.teams)
    return [float(won[teams == team].mean()) for team in (0, 1)]


@first_is_quick(1)
def test_each_side_of_tag_beats_random_play(tmp_path: Path, seed: int, deep: bool) -> None:
    untrained = wins_against_random(seed, tmp_path / "untrained", 1)
    won = wins_against_random(seed, tmp_path, 204_800 if deep else 102_400)
    print(f"seed {seed}: won {won}, untrained {untrained}")
    assert max(untrained) < 0.85 <= min(won)
