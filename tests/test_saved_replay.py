"""Presets of off-policy trainers save the replay buffer where that is cheap, and say what it takes, or why not."""

from __future__ import annotations

import errno
import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from rlcore import Run
from rlcore.storage import store
from rlcore.storage.checkpoints import rotate
from rlcore_devkit.fixtures import RunRlcore, run_rlcore
from rlcore_torch.off_policy import replay_segments, saved_replay
from rlcore_torch.off_policy.saved_replay import SavedReplay

__all__ = ["run_rlcore"]

PRESETS = {"sac": "Pendulum-v1", "td3": "Pendulum-v1", "dqn": "CartPole-v1"}


def started(
    path: Path, preset: str | None = "sac", trainer: str = "sac", block: Mapping[str, Any] = {}, **hyperparameters: Any
) -> Run:
    behavior: dict[str, Any] = {"trainer_type": trainer, "hyperparameters": hyperparameters, **block}
    config: dict[str, Any] = {
        "preset": preset or "none",
        "environment": {"type": "gymnasium", "id": PRESETS[trainer]},
        "behaviors": {"Agent": behavior},
        "checkpoint_settings": {"results_dir": str(path)},
        "stats": {"console": False},
    }
    run = Run(config)
    run.start()
    return run


def refuse_links(*_: Any) -> None:
    raise OSError(errno.EPERM, "Operation not permitted")


@pytest.mark.parametrize("trainer", PRESETS)
@pytest.mark.parametrize(
    ("preset", "links", "most", "promise"),
    [
        (True, True, 1 << 30, r"exact"),
        (
            True,
            True,
            1 << 20,
            r"statistical, because the replay of Agent, \d+\.\d MB, is not saved \({key}: true.*\)",
        ),
        (True, False, 1 << 30, r"statistical, because .* MB, is not saved without hard links \({key}: true saves it\)"),
        (False, True, 1 << 30, r"statistical, because {key} of Agent is false"),
    ],
)
def test_a_preset_saves_a_small_replay_where_checkpoints_share_files(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    trainer: str,
    preset: bool,
    links: bool,
    most: int,
    promise: str,
) -> None:
    monkeypatch.setattr(saved_replay, "MOST_BYTES", most)
    if not links:
        monkeypatch.setattr(os, "link", refuse_links)
    with started(tmp_path, trainer if preset else None, trainer) as run:
        said = str(run.describe().resume)
        assert re.fullmatch(promise.replace("{key}", r"hyperparameters\.save_replay_buffer"), said), said
        assert ("buffer" in run.behaviors["Agent"].trainer.state_dict()) == (said == "exact")
        assert not list(run.directory.path.glob(".rlcore-tmp*")), "the file with which links were tried is gone"


def test_a_file_that_asks_for_the_replay_gets_it_where_a_preset_would_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "link", refuse_links)
    monkeypatch.setattr(saved_replay, "MOST_BYTES", 0)
    with started(tmp_path, save_replay_buffer=True) as run:
        assert str(run.describe().resume) == "exact"


@pytest.mark.parametrize(
    ("keep", "interval", "links"),
    [(5, 150, True), (5, None, True), (1, 150, True), (0, 150, True), (3, 450, False)],
)
def test_the_start_knows_about_what_the_replay_takes_on_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, keep: int, interval: int | None, links: bool
) -> None:
    """Compared with the files of its segments in all checkpoints, before an old one is deleted."""
    for module in (replay_segments, saved_replay):
        monkeypatch.setattr(module, "SEGMENT_BYTES", 4_000)
    if not links:
        monkeypatch.setattr(os, "link", refuse_links)
    taken = [0]

    def measured(directory: Path, *arguments: Any) -> Any:
        files = {file.stat().st_ino: file.stat().st_size for file in directory.glob("*/_frozen-*.safetensors")}
        taken.append(sum(files.values()))
        return rotate(directory, *arguments)

    monkeypatch.setattr(store, "rotate", measured)
    block = {"max_steps": 3000, "checkpoint_interval": interval, "keep_checkpoints": keep}
    only_collect = {"buffer_size": 1500, "buffer_init_steps": 10_000, "save_replay_buffer": True}
    with started(tmp_path, None, "dqn", block, **only_collect) as run:
        trainer = run.behaviors["Agent"].trainer
        nbytes = trainer.buffer.capacity * trainer.buffer.nbytes_of_row
        stated = SavedReplay(nbytes, nbytes, trainer.buffer.nbytes_of_row, links).on_disk(trainer.settings)
        run.train()
    assert 0.6 * stated < max(taken) < 1.1 * stated, "files have headers"


@pytest.mark.parametrize("asked", [None, True])
def test_the_trials_of_a_sweep_save_it_only_if_the_file_says_true(
    tmp_path: Path, run_rlcore: RunRlcore, asked: bool | None
) -> None:
    # An episode has 200 steps.
    block = {
        "trainer_type": "sac",
        "max_steps": 250,
        "hyperparameters": {} if asked is None else {"save_replay_buffer": asked},
    }
    config = {
        "preset": "sac",
        "environment": {"type": "gymnasium", "id": "Pendulum-v1"},
        "behaviors": {"Agent": block},
        "sweep": {
            "trials": 1,
            "metric": "reward",
            "parameters": {"behaviors.Agent.hyperparameters.tau": {"choices": [0.01, 0.02]}},
        },
        "checkpoint_settings": {"results_dir": str(tmp_path)},
    }
    (tmp_path / "few.yaml").write_text(yaml.safe_dump(config))
    run_rlcore("sweep", tmp_path / "few.yaml")
    (trial,) = tmp_path.glob("few/trial-*/*/configuration.yaml")

    def saved(file: Path) -> Any:
        return yaml.safe_load(file.read_text())["behaviors"]["Agent"]["hyperparameters"]["save_replay_buffer"]

    assert saved(trial) is bool(asked)
    assert saved(tmp_path / "few/best.yaml") == (asked or "auto")
