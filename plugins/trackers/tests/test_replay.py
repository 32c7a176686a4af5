"""Trackers keep replay buffers of checkpoints only if they are asked for them."""

from __future__ import annotations

from pathlib import Path

import pytest
from tracked_runs import in_senders

from rlcore import Run, load_checkpoint
from rlcore_devkit.conformance.states import assert_equal

LAKE = Path(__file__).parents[3] / "tests/support/lake_plugin.py"


@pytest.mark.parametrize("replay", [False, True])
def test_replay_buffers_of_checkpoints_are_kept_only_if_they_are_asked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, replay: bool
) -> None:
    pytest.importorskip("rlcore_dqn")
    in_senders(monkeypatch)
    monkeypatch.syspath_prepend(str(LAKE.parent))
    config = {
        "preset": "dqn",
        "environment": {"id": "CartPole-v1"},
        "default_settings": {"max_steps": 300},
        "checkpoint_settings": {"run_id": "run", "results_dir": str(tmp_path)},
        "stats": {"console": False, "lake": {"replay": replay, "finish_timeout": 25}},
        "plugins": {"local": [str(LAKE)]},
    }
    Run(config).train()
    whole = tmp_path / "run/checkpoints/300"
    kept = tmp_path / "run/copies/300"
    assert list(whole.glob("_frozen-*"))
    if replay:
        assert {file.name: file.read_bytes() for file in kept.iterdir()} == {
            file.name: file.read_bytes() for file in whole.iterdir()
        }
        return
    assert not list(kept.glob("_frozen-*"))
    saved, copy = load_checkpoint(whole), load_checkpoint(kept)
    assert_equal(copy["CartPole"]["model"], saved["CartPole"]["model"])
    assert copy["run"]["resume"]["promise"] == "statistical"
    assert copy["run"]["resume"]["reasons"] == ["the replay buffer was not uploaded"]
