"""PPO learns in a pool of EnvPool what it learns in Gymnasium's environments."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from late_scores import late_score, with_late_summaries

from rlcore import Run

pytest.importorskip("envpool", reason="EnvPool has no wheel for this platform")

pytestmark = [pytest.mark.learning, pytest.mark.timeout(1200)]


def test_cartpole_is_balanced_after_a_hundred_thousand_steps(
    tmp_path: Path, example: Callable[[str, Path, int], dict[str, Any]], reached_on_every_seed: Any
) -> None:
    def measure(seed: int) -> float:
        config = example("cartpole.yaml", tmp_path / str(seed), seed)
        config["environment"]["type"] = "envpool"
        with Run(with_late_summaries(config)) as run:
            return late_score(run, 20)

    reached_on_every_seed(measure, 475.0, near=20.0, seeds=(1, 2, 3))
