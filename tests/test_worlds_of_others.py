"""Spaces of MiniGrid that need keys of the configuration: what is said without them, and that they do.

Runs in environments of packages that users try first are in ``data/resumed_runs.yaml``; their ids are in
``plugins/gymnasium/tests/test_worlds.py``, what is learned in them in ``tests/learning/test_worlds.py``.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from small_runs import small_run

from rlcore import Run, UnsupportedSpace

pytest.importorskip("minigrid")


def config_of(place: Path, observations: dict[str, Any], **agent: Any) -> dict[str, Any]:
    environment = {"id": "MiniGrid-Empty-5x5-v0", "num_envs": 2, "observations": observations}
    keys = {f"behaviors.Agent.{key}": value for key, value in agent.items()}
    return small_run(place, {"environment": environment, **keys})


@pytest.mark.parametrize(
    ("observations", "told"),
    [
        ({}, r"observation 'mission' has the unsupported space .*environment\.observations: \{mission: ignore\}"),
        ({"mission": "ignore"}, r"encoder 'simple' needs .*environment\.observations: \{image: \{flatten: true\}\}\)"),
    ],
)
def test_what_minigrid_lacks_is_told_with_the_keys_to_write(
    tmp_path: Path, observations: dict[str, Any], told: str
) -> None:
    with pytest.raises(UnsupportedSpace, match=told):
        Run(config_of(tmp_path, observations)).start()


def test_small_images_have_an_encoder_that_fits(tmp_path: Path) -> None:
    batches = {"batch_size": 24, "buffer_size": 24}
    network = {"vis_encode_type": "match3", "hidden_units": 8}
    config = config_of(tmp_path, {"mission": "ignore"}, max_steps=48, hyperparameters=batches, network_settings=network)
    assert Run(config).train()["Agent"].steps == 48
