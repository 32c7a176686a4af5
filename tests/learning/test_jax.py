"""PPO learns in games of pgx, alone and by self-play, and in a task of MuJoCo Playground, as the examples say."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from late_scores import late_score, with_late_summaries

from rlcore import Run

pytest.importorskip("jax", reason="JAX is not installed: pip install './plugins/jax[pgx,playground]'")

pytestmark = [pytest.mark.learning, pytest.mark.timeout(3600)]

Example = Callable[[str, Path, int], dict[str, Any]]


def test_breakout(tmp_path: Path, example: Example, reached_on_every_seed: Any) -> None:
    pytest.importorskip("pgx", reason="pgx is not installed: pip install './plugins/jax[pgx]'")

    def measure(seed: int) -> float:
        config = example("minatar_breakout.yaml", tmp_path / str(seed), seed)
        with Run(with_late_summaries(config)) as run:
            return late_score(run, 64)

    reached_on_every_seed(measure, 10.0, near=2.0, seeds=(1, 2, 3))


def test_cartpole_balance(tmp_path: Path, example: Example, reached_on_every_seed: Any) -> None:
    pytest.importorskip(
        "mujoco_playground", reason="MuJoCo Playground is not installed: pip install './plugins/jax[playground]'"
    )

    def measure(seed: int) -> float:
        config = example("cartpole_balance.yaml", tmp_path / str(seed), seed)
        with Run(with_late_summaries(config)) as run:
            return late_score(run, 64)

    reached_on_every_seed(measure, 980.0, near=10.0, seeds=(1, 2, 3))


def test_connect_four_by_self_play(tmp_path: Path, example: Example) -> None:
    pytest.importorskip("pgx", reason="pgx is not installed: pip install './plugins/jax[pgx]'")
    with Run(example("connect_four.yaml", tmp_path, 1)) as run:
        run.train()
    directory = tmp_path / "connect_four"
    evaluation = json.loads((directory / "result.json").read_text())["evaluation"]
    lines = [json.loads(line) for line in (directory / "metrics.jsonl").read_text().splitlines()]
    ratings = [line["stats"]["Self-play/ELO"] for line in lines if "Self-play/ELO" in line["stats"]]
    print(evaluation, ratings)
    assert ratings[-1] > ratings[0] + 300
    assert evaluation["opponents"]["random"]["win_rate"] >= 0.85
