"""After a power failure, no checkpoint stands beside summaries that end before it: these are on disk first."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
from small_runs import small_run
from tracked_runs import in_senders

from rlcore import Run

SUPPORT = Path(__file__).with_name("support")
FAILING = """
from rlcore import StatsWriterSpec, hookimpl


class Writer:
    def write(self, behavior, step, stats):
        pass

    def flush(self):
        raise OSError("the disk is on fire")

    def close(self):
        pass


@hookimpl
def rlcore_stats_writers():
    return [StatsWriterSpec(name="failing", target="failing:create")]


def create(settings, run):
    return Writer()
"""
CHANGES: dict[str, Any] = {
    "environment": {"type": "gymnasium", "id": "CartPole-v1", "num_envs": 2},
    "behaviors.Agent": {
        "trainer_type": "ppo", "hyperparameters": {"buffer_size": 64, "batch_size": 32},
        "max_steps": 384, "summary_freq": 64, "checkpoint_interval": 128,
    },
}  # fmt: skip


class Disk:
    """The state that a power failure would leave: files as of their last fsync, if their names were on disk."""

    def __init__(self, run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.content: dict[str, int] = {}
        self.names: set[str] = set()
        self.renamed: list[tuple[int, dict[str, int], dict[str, int]]] = []
        self._run, self._fsync, self._rename = run, os.fsync, os.rename
        monkeypatch.setattr(os, "fsync", self.fsync)
        monkeypatch.setattr(os, "rename", self.rename)

    def fsync(self, descriptor: int) -> None:
        self._fsync(descriptor)
        path = Path(os.readlink(f"/proc/self/fd/{descriptor}"))
        if path.is_dir():
            self.names |= {str(each) for each in path.iterdir()}
        else:
            self.content[str(path)] = path.stat().st_size

    def rename(self, source: Any, target: Any, **options: Any) -> None:
        found = Path(target)
        if found.parent == self._run / "checkpoints" and found.name.isdigit():
            self.renamed.append((int(found.name), self.survivors(), self.files()))
        self._rename(source, target, **options)

    def files(self) -> dict[str, int]:
        """The sizes of the files with summaries as they are."""
        found = [self._run / "metrics.jsonl", self._run / "trackers/lake.jsonl"]
        found += self._run.glob("*/events.out.tfevents.*")
        return {str(path): path.stat().st_size for path in found if path.exists()}

    def survivors(self) -> dict[str, int]:
        """The sizes of these files after a power failure."""
        return {
            name: self.content.get(name, 0)
            for name in self.files()
            if all(str(place) in self.names for place in (Path(name), *self._between(Path(name))))
        }

    def _between(self, path: Path) -> list[Path]:
        return [place for place in path.parents if place.is_relative_to(self._run) and place != self._run]


@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="needs the paths of open files")
@pytest.mark.parametrize("asynchronous", [False, True])
def test_every_writer_has_its_summaries_on_disk_before_a_checkpoint_has_its_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, asynchronous: bool
) -> None:
    in_senders(monkeypatch)
    blocks = {
        "plugins": {"local": [str(SUPPORT / "lake_plugin.py")]},
        "stats": {"console": False, "lake": {"checkpoints": "none"}},
        "checkpoint_settings.asynchronous": asynchronous,
    }
    run = Run(small_run(tmp_path, CHANGES | blocks))
    disk = Disk(run.directory.path.absolute(), monkeypatch)
    run.train()
    assert [step for step, _, _ in disk.renamed] == [128, 256, 384]
    for step, survivors, files in disk.renamed:
        assert len(files) == 3 and survivors == files, step
    # A summary of a later step is written only when the checkpoint has its name.
    for step, _, files in disk.renamed:
        content = (run.directory.path / "metrics.jsonl").read_bytes()[
            : files[str(run.directory.path.absolute() / "metrics.jsonl")]
        ]
        assert json.loads(content.splitlines()[-1])["step"] == step


def test_a_writer_that_cannot_flush_is_left_out_and_the_run_goes_on(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "failing.py").write_text(FAILING)
    blocks = {"plugins": {"local": [str(tmp_path / "failing.py")]}, "stats": {"console": False, "failing": {}}}
    run = Run(small_run(tmp_path, CHANGES | blocks))
    run.train()
    assert run.steps == 384
    (said,) = [
        each.getMessage()
        for each in caplog.records
        if "failing" in each.getMessage() and "missed" not in each.getMessage()
    ]
    assert "at step 128" in said and "the disk is on fire; the run continues without it" in said
