"""A run of a study in the log that 'wandb sync' uploads: group, tags, commit, deviations, system metrics."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from tracked_runs import written_in_study

from rlcore import Tag
from rlcore_trackers.wandb.settings import WandbSettings
from rlcore_trackers.wandb.transaction_log import records, rows

TRACKER = "rlcore_trackers.wandb.tracker:WandbTracker"


def of_kind(log: Path, kind: str) -> list[Any]:
    """The records of a kind in a log."""
    from wandb.proto.wandb_internal_pb2 import Record

    found = []
    for content in records(log.read_bytes()):
        record = Record()
        record.ParseFromString(content)
        if record.WhichOneof("record_type") == kind:
            found.append(getattr(record, kind))
    return found


@pytest.mark.learning
def test_a_run_of_a_study_is_grouped_and_has_its_commit_deviations_and_system_metrics(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WANDB_X_STATS_SAMPLING_INTERVAL", "0.1")
    commit = written_in_study("wandb", TRACKER, WandbSettings(tags=["mine"]), tmp_path, monkeypatch)
    (log,) = tmp_path.glob("walk-seed-3/trackers/wandb/wandb/offline-run-*/run-*.wandb")
    run = of_kind(log, "run")[0]
    assert (run.display_name, run.run_group, run.job_type) == ("walk-seed-3", "walk", "seed")
    assert set(run.tags) == {"mine", "seed:3"}
    config = {item.key: json.loads(item.value_json) for item in run.config.update}
    assert config["rlcore"] == {"seed": "3", "job_type": "seed", "commit": commit, "dirty": True}
    means = [row[f"Walker/{Tag.CUMULATIVE_REWARD}"] for row in rows(log)]
    stds = [row[f"Walker/{Tag.CUMULATIVE_REWARD} Std"] for row in rows(log)]
    assert means == pytest.approx([1.0, 2.0]) and stds == pytest.approx([2.0, 2.0])
    metrics = {item.key for stats in of_kind(log, "stats") for item in stats.item}
    assert {"memory_percent", "proc.memory.rssMB"} <= metrics
    assert b"example.org" not in log.read_bytes() and b"secret" not in log.read_bytes()


@pytest.mark.learning
def test_one_key_leaves_commit_and_system_metrics_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WANDB_X_STATS_SAMPLING_INTERVAL", "0.1")
    settings = WandbSettings(system_info=False)
    commit = written_in_study("wandb", TRACKER, settings, tmp_path, monkeypatch)
    (log,) = tmp_path.glob("walk-seed-3/trackers/wandb/wandb/offline-run-*/run-*.wandb")
    assert of_kind(log, "stats") == [] and commit.encode() not in log.read_bytes()
    assert of_kind(log, "run")[0].run_group == "walk"
