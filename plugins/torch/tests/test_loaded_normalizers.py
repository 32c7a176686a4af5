"""Weights of a run with another ``normalize``: what fits is loaded into a new run."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from rlcore import Run, RunStateError


def run_of(place: Path, run_id: str, normalize: bool, **start: Any) -> Run:
    network = {"normalize": normalize, "hidden_units": 8, "num_layers": 1}
    hyperparameters = {"batch_size": 16, "buffer_size": 32}
    behavior = {"trainer_type": "ppo", "hyperparameters": hyperparameters, "network_settings": network, "max_steps": 64}
    return Run(
        {
            "preset": "none",
            "environment": {"type": "gymnasium", "id": "CartPole-v1", "num_envs": 2},
            "behaviors": {"A": behavior},
            "checkpoint_settings": {"results_dir": str(place), "run_id": run_id, **start},
            "stats": {"console": False},
        }
    )


@pytest.mark.parametrize("normalize", [False, True])
def test_what_fits_is_loaded_with_another_normalize(
    normalize: bool, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    first = run_of(tmp_path, "first", normalize)
    first.train()
    learned: Any = first.behaviors["A"].trainer.state_dict()["model"]
    second = run_of(tmp_path, "second", not normalize, initialize_from="first")
    with caplog.at_level(logging.WARNING):
        second.start()
    loaded: Any = second.behaviors["A"].trainer.state_dict()["model"]
    shared = learned.keys() & loaded.keys()
    assert len(shared) >= 6 and all(np.array_equal(learned[name], loaded[name]) for name in shared)
    assert {name.rpartition(".")[0].rpartition(".")[2] for name in learned.keys() ^ loaded.keys()} == {"normalizer"}
    assert caplog.text.count("network_settings.normalize is not as it was when the weights were learned") == 1
    second.train()
    with pytest.raises(RunStateError, match="does not fit"):  # a resume is of the same network
        run_of(tmp_path, "first", not normalize, resume=True).start()
