"""The file of a sweep: its trials, and mistakes that are found before a trial starts. Nothing here starts Ray."""

from __future__ import annotations

import importlib.util
import math
from pathlib import Path
from typing import Any

import pytest
import yaml
from small_runs import data

from rlcore import ConfigError

if importlib.util.find_spec("rlcore_ray") is None:
    pytest.skip("rlcore-ray is not installed", allow_module_level=True)

from rlcore_ray.sweep_file import SweepPlan, read_sweep

pytestmark = pytest.mark.distributed

RATE = "behaviors.Pole.hyperparameters.learning_rate"
UNITS = "behaviors.Pole.network_settings.hidden_units"
REFUSED = {name: (case["content"], case["message"]) for name, case in data("refused_sweeps").items()}
CONFIG = """
environment: {type: gymnasium, id: CartPole-v1}
behaviors:
  Pole: {trainer_type: ppo, max_steps: 100}
"""


def sweep(where: Path, **content: Any) -> SweepPlan:
    (where / "pole.yaml").write_text(CONFIG)
    (where / "rates.yaml").write_text(yaml.safe_dump({"config": "pole.yaml", **content}, sort_keys=False))
    return read_sweep(where / "rates.yaml")


def test_there_is_a_trial_for_each_combination_and_seed(tmp_path: Path) -> None:
    plan = sweep(tmp_path, set={"env_settings.num_envs": 2}, grid={RATE: [1e-05, 0.1], UNITS: [8, 16]}, seeds=[3, 4])
    assert [trial.sets for trial in plan.trials] == [
        ("env_settings.num_envs=2", f"{RATE}={rate}", f"{UNITS}={units}", f"env_settings.seed={seed}")
        for rate in ("1.0e-05", "0.1")
        for units in (8, 16)
        for seed in (3, 4)
    ]
    assert plan.directory == Path("results/rates")
    names = [trial.name for trial in plan.trials]
    assert len(set(names)) == 8 and names[0].startswith("learning_rate-1.0e-05_hidden_units-8_seed-3-")
    assert plan.trials[0].command(plan) == (
        f"rlcore run {tmp_path / 'pole.yaml'} --run-id {names[0]} --results-dir results/rates "
        f"--set env_settings.num_envs=2 --set {RATE}=1.0e-05 --set {UNITS}=8 --set env_settings.seed=3"
    )


def test_a_file_without_lists_has_one_trial(tmp_path: Path) -> None:
    (trial,) = sweep(tmp_path).trials
    assert trial.sets == () and trial.seed is None and trial.name.startswith("trial-")


def test_draws_stay_in_their_range_and_do_not_depend_on_each_other(tmp_path: Path) -> None:
    keys: dict[str, Any] = {RATE: {"low": 1e-5, "high": 1e-1, "log": True}}
    rates = [trial.point[RATE] for trial in sweep(tmp_path, random={"draws": 400, "keys": keys}).trials]
    assert all(1e-5 <= rate <= 1e-1 for rate in rates)
    # A logarithm that is uniform has the mean -3 and the standard deviation 4 / sqrt(12).
    mean = sum(map(math.log10, rates)) / len(rates)
    assert abs(mean + 3) < 4 * (4 / math.sqrt(12)) / math.sqrt(len(rates))
    keys[UNITS] = {"low": 1, "high": 3, "whole": True}
    more = sweep(tmp_path, random={"draws": 60, "keys": keys}).trials
    assert [trial.point[RATE] for trial in more] == rates[:60]
    assert {trial.point[UNITS] for trial in more} == {1, 2, 3}
    others = sweep(tmp_path, random={"draws": 60, "seed": 1, "keys": keys}).trials
    assert not {trial.point[RATE] for trial in others} & set(rates)


@pytest.mark.parametrize(("content", "message"), REFUSED.values(), ids=REFUSED)
def test_a_mistake_is_named_with_its_line_before_a_trial_starts(
    tmp_path: Path, content: dict[str, Any], message: str
) -> None:
    with pytest.raises(ConfigError) as refused:
        sweep(tmp_path, **content)
    assert message in str(refused.value)
    assert not (tmp_path / "results").exists()
