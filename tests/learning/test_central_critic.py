"""MAPPO by configuration: a speaker and a listener, each of whom sees half of what their reward depends on."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from late_scores import late_score, with_late_summaries

from rlcore import EvaluationResult, Run

pytestmark = [pytest.mark.learning, pytest.mark.timeout(1200)]

SEEDS = (1, 2, 3)


def trained_return(config: dict[str, Any]) -> float:
    """The mean return of the speaker and the listener, who are rewarded alike, over 100 games late in the training."""

    def mean(result: EvaluationResult) -> float:
        speaker, listener = (each.returns for each in result.behaviors.values())
        np.testing.assert_array_equal(speaker, listener)
        return float(np.mean(listener))

    with Run(with_late_summaries(config)) as run:
        return late_score(run, 100, mean)


@pytest.mark.parametrize("seed", SEEDS)
def test_agents_with_a_central_critic_learn_sooner_than_independent_ones(
    example: Callable[..., dict[str, Any]], tmp_path: Path, seed: int
) -> None:
    central = example("zoo:ppo/simple_speaker_listener", tmp_path / "central", seed)
    independent = example("zoo:ppo/simple_speaker_listener", tmp_path / "independent", seed)
    independent["environment"]["options"]["state"] = None
    independent["default_settings"]["network_settings"]["critic_observations"] = []
    returns = [trained_return(config) for config in (central, independent)]
    print(f"seed {seed}: central {returns[0]:.2f}, independent {returns[1]:.2f}")
    assert returns[0] > returns[1] + 1.0
