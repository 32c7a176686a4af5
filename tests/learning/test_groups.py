"""POCA learns that an agent should leave for its group, which PPO, whose returns end with the agent, does not."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from late_scores import late_score, with_late_summaries

from rlcore import EvaluationResult, Run

pytestmark = [pytest.mark.learning, pytest.mark.timeout(1200)]

ROOT = Path(__file__).parents[2]
SEEDS = (1, 2, 3)


def rewarded(example: Callable[..., dict[str, Any]], trainer: str, seed: int, directory: Path) -> float:
    """The share of episodes in which the group is rewarded, after the example's training with ``trainer``.

    Half of the agents' episodes end before: the mean group reward of all is half of the share.
    """
    config = example("sacrifice/sacrifice.yaml", directory, seed)
    config["behaviors"]["Agent"]["trainer_type"] = trainer
    config["plugins"] = {"local": [str(ROOT / "examples/sacrifice/sacrifice.py")]}

    def share(result: EvaluationResult) -> float:
        reward = result.behaviors["Agent"].mean_group_reward
        assert reward is not None
        return 2.0 * reward

    with Run(with_late_summaries(config)) as run:
        return late_score(run, 400, share, deterministic=False)


@pytest.mark.parametrize("seed", SEEDS)
def test_an_agent_learns_to_leave_for_its_group(
    example: Callable[..., dict[str, Any]], tmp_path: Path, seed: int
) -> None:
    poca = rewarded(example, "poca", seed, tmp_path / "poca")
    ppo = rewarded(example, "ppo", seed, tmp_path / "ppo")
    print(f"seed {seed}: poca {poca:.3f}, ppo {ppo:.3f}")
    assert poca >= 0.9 and ppo <= 0.1
