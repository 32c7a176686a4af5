"""Recorded episodes in every minibatch find a reward that lies at the goal alone, as their page shows it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml
from late_scores import late_score, with_late_summaries
from pages import blocks

from rlcore import Run
from rlcore.cli.main import main

pytestmark = [pytest.mark.learning, pytest.mark.timeout(2400), pytest.mark.xdist_group("prior_data")]

PAGE = "docs/how-to/prior-data.md"


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with the files of the page, and the recordings that its first command makes."""
    directory = tmp_path_factory.mktemp("car")
    for block in [*blocks("python"), *blocks("yaml")]:
        if block.page == PAGE and block.title:
            (directory / block.title).write_text(block.text)
    with pytest.MonkeyPatch.context() as patched:
        patched.chdir(directory)
        wrapped = "environment.wrappers=['goal_only:GoalOnly']"
        words = ["evaluate", "zoo:ppo/MountainCarContinuous-v0", "--episodes", "20", "--record", "recordings"]
        assert main([*words, "-p", "module:./goal_only.py", "--set", wrapped]) == 0
    return directory


def score(place: Path, seed: int, recorded: bool) -> float:
    """The score of the page's training, which may end as soon as the car arrives."""
    config: dict[str, Any] = yaml.safe_load((place / "car.yaml").read_text())
    [block] = config["behaviors"].values()
    assert block["max_steps"] == 20_000
    block["hyperparameters"]["prior_data"]["demo_path"] = str(place / "recordings")
    if not recorded:
        del block["hyperparameters"]["prior_data"]
    config["env_settings"] = {"seed": seed}
    config["stats"] = {"console": False}
    config["checkpoint_settings"] = {"run_id": f"{seed}", "results_dir": str(place / f"recorded-{recorded}")}
    with Run(with_late_summaries(config)) as run:
        return late_score(run, 20, enough=90.0)


@pytest.fixture
def in_place(place: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.syspath_prepend(place)  # the wrapper's file is beside the configuration
    return place


def test_a_car_reaches_its_goal_with_recorded_episodes(in_place: Path, reached_on_every_seed: Any) -> None:
    reached_on_every_seed(lambda seed: score(in_place, seed, True), 90.0, near=5.0, seeds=(1, 2, 3))


@pytest.mark.parametrize("seed", [2, pytest.param(3, marks=pytest.mark.deep)])
def test_it_does_not_without_them(in_place: Path, seed: int) -> None:
    """The car of seed 1 finds the goal by chance, and does not learn it reliably."""
    assert score(in_place, seed, False) < 90.0
