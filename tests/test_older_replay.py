"""A replay buffer that an earlier rlcore saved, without segments, is resumed and saved in segments."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import numpy as np
from small_runs import small_run

from rlcore import Run, load_checkpoint, read_object
from rlcore.storage.checkpoint import FORMAT_VERSION

STORED = Path(__file__).parent / "support" / "replay_of_format_3" / "300"


HYPERPARAMETERS = {
    "batch_size": 16, "buffer_size": 200, "buffer_init_steps": 100, "steps_per_update": 10, "save_replay_buffer": True,
    "replay_sampler": {"type": "prioritized"},
}  # fmt: skip
# With these changes the stored checkpoint was written; the run ended at 300 steps.
CHANGES = {
    "environment": {"type": "gymnasium", "id": "Pendulum-v1", "num_envs": 2}, "env_settings.seed": 5,
    "behaviors.Agent": {
        "trainer_type": "sac", "max_steps": 340, "checkpoint_interval": 20, "hyperparameters": HYPERPARAMETERS,
        "network_settings": {"hidden_units": 4, "num_layers": 1},
    },
}  # fmt: skip


def test_a_replay_buffer_of_format_3_is_resumed_and_saved_in_segments(tmp_path: Path) -> None:
    place = tmp_path / "run" / "checkpoints"
    shutil.copytree(STORED, place / "300")
    assert read_object(STORED / "manifest.json")["format_version"] == 3
    stored = load_checkpoint(STORED)["Agent"]["buffer"]
    with Run(small_run(tmp_path, CHANGES, resume=True)) as run:
        run.start()
        buffer: Any = run.behaviors["Agent"].trainer.buffer  # type: ignore[attr-defined]
        for name in ("raw", "choices", "reward", "flags"):
            np.testing.assert_array_equal(getattr(buffer, name), stored[name])
        np.testing.assert_array_equal(buffer.priorities.tree.leaves, stored["priorities"]["leaves"])
        run.train()
    assert read_object(place / "340/manifest.json")["format_version"] == FORMAT_VERSION
    (segment,) = load_checkpoint(place / "340")["Agent"]["buffer"]["segments"]
    again = load_checkpoint(place / "320")["Agent"]["buffer"]["segments"][0]
    kept = slice(140, 180)  # rows that the last 40 steps did not reach
    for state in (segment, again):
        np.testing.assert_array_equal(state["raw"][kept], stored["raw"][kept])
        assert len(state["flags"]) == 200
