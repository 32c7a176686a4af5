"""The files of a run directory: shapes of JSON files, permissions, metrics and the written configuration."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path
from typing import Any

import yaml

from rlcore.run.run import Run

RESUME = {"checkpoint_settings.resume": True}
FORCE = {"checkpoint_settings.force": True}


def test_the_files_of_a_run_have_exactly_their_shapes(make_run: Any, files: Any) -> None:
    before = os.umask(0o027)
    try:
        run = make_run(keep_checkpoints=3)
        run.train()
    finally:
        os.umask(before)
    result = files().result
    assert list(result) == ["outcome", "wall_seconds", "steps_per_second", "resume", "behaviors"]
    assert result["outcome"] == "done" and result["wall_seconds"] > 0 and result["steps_per_second"] > 0
    ((name, agent),) = result["behaviors"].items()
    assert (name, list(agent)) == ("Agent", ["steps", "episodes", "mean_reward"]) and agent["steps"] == 200
    assert agent["episodes"] == run.results()["Agent"].episodes > 0
    assert agent["mean_reward"] == run.results()["Agent"].mean_reward
    # The training status is ML-Agents', and lists what is on disk.
    status = files().status
    assert list(status) == ["Agent", "metadata"]
    assert list(status["Agent"]) == ["checkpoints", "final_checkpoint"]
    checkpoints = status["Agent"]["checkpoints"]
    assert [entry["steps"] for entry in checkpoints] == files().steps == [120, 160, 200]
    for entry in checkpoints:
        assert {"steps", "file_path", "reward", "creation_time", "auxillary_file_paths"} < set(entry)
        assert (files().path / entry["file_path"]).is_file()
        assert all((files().path / path).is_file() for path in entry["auxillary_file_paths"])
        assert isinstance(entry["reward"], float) and entry["creation_time"] > 1.7e9
    assert status["Agent"]["final_checkpoint"] == checkpoints[-1]
    assert status["metadata"]["stats_format_version"] == "0.3.0"
    assert {"rlcore_version", "numpy_version", "plugins"} < set(status["metadata"])
    # The timers have a gauge for every statistic.
    gauges = files().json("run_logs/timers.json")["gauges"]
    lines = files().metrics
    tags = {tag for line in lines for tag in line["stats"]}
    assert set(gauges) == {f"Agent.{tag}.mean".replace("/", ".").replace(" ", "") for tag in tags}
    losses = [line["stats"]["Losses/Policy Loss"] for line in lines]
    assert gauges["Agent.Losses.PolicyLoss.mean"] == {
        "value": losses[-1], "min": min(losses), "max": max(losses), "count": len(losses)
    }  # fmt: skip
    # Permissions are those of the umask, and JSON is written one way.
    written = [path for path in files().path.rglob("*") if path.is_file() and path.name != ".lock"]
    assert {path.suffix for path in written} >= {".safetensors", ".json"}
    assert {oct(path.stat().st_mode & 0o777) for path in written} == {"0o640"}
    for path in written:
        if path.suffix == ".json":
            text = path.read_text()
            end = "" if "checkpoints" in path.parts else "\n"  # a checkpoint's last byte must matter
            assert text == json.dumps(json.loads(text), indent=4) + end, path


def test_without_an_episode_the_mean_reward_is_null(make_run: Any, files: Any) -> None:
    make_run({"environment.options": {"length": 1000}}, max_steps=20).train()
    assert files().result["behaviors"]["Agent"] == {"steps": 20, "episodes": 0, "mean_reward": None}


def test_the_written_configuration_runs_again_and_gives_the_same_run(make_run: Any, files: Any, tmp_path: Path) -> None:
    """Seed included, also where it was drawn at random, and whichever way the run began."""
    for changes in ({}, FORCE, RESUME):
        make_run({"env_settings.seed": -1, **changes}).train()
        written = yaml.safe_load((files().path / "configuration.yaml").read_text())
        settings = written["checkpoint_settings"]
        assert not (settings["resume"] or settings["force"] or settings["inference"])
        assert written["env_settings"]["seed"] >= 0
    shutil.move(files().path, tmp_path / "results" / "moved")
    Run(tmp_path / "results" / "moved" / "configuration.yaml").train()
    assert files().steps == files("moved").steps
    for step in files().steps:
        assert files().checkpoint(step) == files("moved").checkpoint(step)
