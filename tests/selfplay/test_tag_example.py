"""``examples/tag``: the rules of environments and of the game, and its configuration."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from workspace import ROOT

from rlcore import Run
from rlcore_devkit import EnvironmentConformance

EXAMPLE = ROOT / "examples/tag"


@pytest.fixture(autouse=True, scope="module")
def _importable() -> Iterator[None]:
    sys.path.append(str(EXAMPLE))
    yield
    sys.path.remove(str(EXAMPLE))


def make(num_envs: int, **options: Any) -> Any:
    import tag

    return tag.Tag(num_envs, tag.TagSettings(**options))


class TestTag(EnvironmentConformance):
    def make(self, num_envs: int) -> Any:
        return make(num_envs)


def test_the_configuration_trains_both_sides(tmp_path: Path) -> None:
    document = yaml.safe_load((EXAMPLE / "tag.yaml").read_text(encoding="utf-8"))
    document["default_settings"]["hyperparameters"] |= {"batch_size": 64, "buffer_size": 256}
    document["default_settings"]["self_play"] |= {"save_steps": 256, "team_change": 512, "swap_steps": 128}
    for behavior in document["behaviors"].values():
        behavior["max_steps"] = 1024
    document["checkpoint_settings"]["results_dir"] = str(tmp_path)
    document["plugins"] = {"local": [str(EXAMPLE / "tag.py")]}
    run = Run(document)
    results = run.train()
    status = json.loads((run.directory.path / "run_logs/training_status.json").read_text())
    elo = {name: status[name]["elo"] for name in results}  # where ML-Agents writes it
    assert elo == status["self_play"]["elo"] and all(1000 < each < 1400 for each in elo.values())
    assert set(elo.values()) != {1200.0} and all(status[name]["checkpoints"] for name in results)
    assert {name: each.updates > 0 for name, each in results.items()} == {"Chaser": True, "Runner": True}
