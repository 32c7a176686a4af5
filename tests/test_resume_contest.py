"""``benchmarks/resume_contest.py``: what counts as equal after kills, and a run of rlcore in it."""

from __future__ import annotations

import json
from importlib import import_module
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
from click.testing import CliRunner
from workspace import ROOT


@pytest.fixture
def contest(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    return import_module("resume_contest")


@pytest.fixture
def states(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    return import_module("compared_states")


def test_states_are_equal_only_bit_for_bit(states: ModuleType) -> None:
    whole = {"weights/a": np.float32([1.0, 2.0]), "weights/b": np.float32([0.0])}
    assert states.compare("weights", whole, dict(whole)) == "equal"
    assert states.compare("weights", whole, {**whole, "weights/b": np.float32([-0.0])}) == (
        "differs, at most 0 (1 of 2 arrays)"
    )
    assert states.compare("weights", whole, {**whole, "weights/a": np.float32([1.0, 2.5])}) == (
        "differs, at most 0.5 (1 of 2 arrays)"
    )
    assert states.compare("weights", whole, {"weights/a": whole["weights/a"]}) == "differs (1 of 2 arrays)"
    assert states.compare("optimizer", whole, whole) == "none"


def test_counters_are_shown_and_rows_of_a_replay_buffer_are_counted(states: ModuleType) -> None:
    assert states.compare("steps", {"steps/": np.int64(2000)}, {"steps/": np.int64(2500)}) == "2,500 instead of 2,000"
    whole = {"replay/reward": np.arange(4.0), "replay/obs": np.zeros((4, 2))}
    other = {"replay/reward": np.float64([0, 9, 2]), "replay/obs": np.zeros((3, 2))}
    assert states.compare("replay", whole, other) == "differs: 2 of 4 rows, 3 held"


def test_points_of_tensorboard_that_are_missing_or_new_are_counted(states: ModuleType, tmp_path: Path) -> None:
    from torch.utils.tensorboard import SummaryWriter

    for name, steps in {"whole": (1, 2, 3), "other": (1, 3, 4)}.items():
        with SummaryWriter(str(tmp_path / name)) as writer:
            for step in steps:
                writer.add_scalar("loss", 0.5, step)
    assert states.compare_tensorboard(tmp_path / "whole", tmp_path / "whole") == "equal"
    told = states.compare_tensorboard(tmp_path / "whole", tmp_path / "other")
    assert told == "1 missing, 1 at other steps (of 3)"


def test_every_contestant_has_a_script_and_lines_that_resume_it(contest: ModuleType) -> None:
    for contestant in contest.CONTESTANTS:
        _, resuming = contest.marked_lines(contestant)
        assert resuming > 0, contestant.key


def test_a_finished_contestant_is_found_in_the_results_again_unless_its_training_is_another(
    contest: ModuleType, tmp_path: Path
) -> None:
    first, second, *_ = contest.CONTESTANTS
    training = contest.training_of(first, 4000, 1)
    outcome = contest.Outcome(first, {"weights": "equal"}, [contest.Kill(step=900, resumed=800)])
    file = tmp_path / "results.jsonl"
    assert contest.kept(file, first, training) is None  # there is no file
    contest.keep(file, contest.Outcome(second, {}, []), contest.training_of(second, 4000, 1))
    contest.keep(file, outcome, training)
    assert contest.kept(file, first, training) == outcome
    assert contest.kept(file, first, contest.training_of(first, 2000, 1)) is None
    assert contest.kept(file, first, contest.training_of(first, 4000, 2)) is None


@pytest.mark.faults
def test_a_run_of_rlcore_that_is_killed_three_times_equals_the_whole_one(contest: ModuleType, tmp_path: Path) -> None:
    file = tmp_path / "contest.json"
    words = ["--only", "rlcore-ppo", "--ppo-steps", "4096", "--jobs", "3", "--folder", str(tmp_path / "all")]
    result = CliRunner().invoke(contest.main, [*words, "--json", str(file)], catch_exceptions=False)
    assert result.exit_code == 0, result.output
    (column,) = json.loads(file.read_text())["contestants"].values()
    assert column["cells"]["weights"] == column["cells"]["TensorBoard"] == column["cells"]["random states"] == "equal"
    assert len(column["kills"]) == 3 and all(kill["step"] - kill["resumed"] >= 0 for kill in column["kills"])
