"""ONNX files from a run and from ``rlcore export``: names, profiles, checkpoints, and what is reported."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
import yaml
from small_runs import data

from rlcore import ExitCode, load_policies
from rlcore_devkit.fixtures import CommandResult, RunRlcore, run_rlcore
from rlcore_onnx.runtime import load

__all__ = ["run_rlcore"]

CONFIG = data("onnx_command")


@pytest.fixture
def train(run_rlcore: RunRlcore, tmp_path: Path) -> Any:
    """``train(export=[...])``: a run with this block, in the working directory of the commands."""

    def run(*options: str, expect: int = 0, **blocks: Any) -> CommandResult:
        path = tmp_path / "pole.yaml"
        path.write_text(yaml.safe_dump({**CONFIG, **blocks}))
        ended = run_rlcore("run", path, *options)
        assert ended.exit_code == expect, ended.stderr
        return ended

    return run


@pytest.fixture
def directory(train: Any, tmp_path: Path) -> Path:
    """The directory of a finished run without an ``export`` block."""
    train()
    return tmp_path / "working/results/pole"


def assert_acts_as(path: Path, run: Path, checkpoint: str) -> None:
    """The file acts as the policy of the checkpoint."""
    seen = np.random.default_rng(1).uniform(-1, 1, (50, 4)).astype(np.float32)
    (policy,) = load_policies(run, checkpoint).values()
    (observation,) = load(path).behavior.observations
    expected = policy.act({observation.name: seen}).discrete
    np.testing.assert_array_equal(load(path).act(seen).discrete, expected)


def test_a_run_with_the_short_form_exports_at_its_end(train: Any, tmp_path: Path) -> None:
    train(export=["onnx"])
    run = tmp_path / "working/results/pole"
    assert_acts_as(run / "Pole.onnx", run, "last")
    assert list(run.rglob("*.onnx")) == [run / "Pole.onnx"]
    written = yaml.safe_load((run / "configuration.yaml").read_text())["export"]
    assert written == {"onnx": {"checkpoints": False, "profile": "generic", "tolerance": 1e-5}}
    (result,) = json.loads((run / "result.json").read_text())["exports"]
    assert (result["file"], result["problem"]) == ("Pole.onnx", None)
    assert re.search(r"differ by at most \d", result["report"])
    final = json.loads((run / "run_logs/training_status.json").read_text())["Pole"]["final_checkpoint"]
    assert final["file_path"] == "Pole.onnx"


def test_files_beside_checkpoints_are_named_and_recorded_as_in_ml_agents(train: Any, tmp_path: Path) -> None:
    train(export={"onnx": {"profile": "unity", "checkpoints": True}})
    run = tmp_path / "working/results/pole"
    section = json.loads((run / "run_logs/training_status.json").read_text())["Pole"]
    assert [each["file_path"] for each in section["checkpoints"]] == ["Pole/Pole-512.onnx", "Pole/Pole-1024.onnx"]
    assert section["final_checkpoint"]["file_path"] == "Pole.onnx"
    for step in (512, 1024):
        path = run / f"Pole/Pole-{step}.onnx"
        assert_acts_as(path, run, str(step))
        assert (load(path).profile, load(path).metadata["step"]) == ("unity", step)
    seal = (run / "configuration.yaml").read_text().partition("\n")[0]
    assert seal.endswith(load(run / "Pole.onnx").metadata["configuration_sha256"])


@pytest.mark.parametrize(("profile", "checkpoint"), [("generic", "best"), ("unity", "512"), ("godot", "last")])
def test_the_command_exports_a_profile_of_a_checkpoint(
    directory: Path, run_rlcore: RunRlcore, tmp_path: Path, profile: str, checkpoint: str
) -> None:
    """Without the plugin of the environment: none is started."""
    arguments = ("--format", "onnx", "--profile", profile, "--checkpoint", checkpoint, "-p", "no:gymnasium")
    done = run_rlcore("export", "pole", *arguments)
    assert done.exit_code == 0, done.stderr
    path = tmp_path / "working/Pole.onnx"
    assert done.stdout.startswith("Pole: exported to Pole.onnx (checkpoint ")
    (difference,) = re.findall(r"differ by at most ([\d.e-]+)", done.stdout)
    assert float(difference) <= 1e-5
    assert load(path).profile == profile
    assert_acts_as(path, directory, checkpoint)
    onnx.checker.check_model(path, full_check=True)


def test_a_package_that_is_missing_is_noticed_before_the_first_step(
    train: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in [name for name in sys.modules if name.startswith("rlcore_onnx.") and "settings" not in name]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "onnxruntime", None)
    refused = train(export=["onnx"], expect=ExitCode.PLUGIN)
    assert "pip install onnxruntime, which rlcore-onnx requires" in refused.stderr
    assert not (tmp_path / "working/results/pole").exists()
