"""Runs of POCA in the example of a sacrifice, exported and in ranks."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
import yaml
from rank_training import train_both, written
from workspace import ROOT

from rlcore import Run

SACRIFICE = ROOT / "examples/sacrifice"
SMALL = {"buffer_size": 512, "batch_size": 128}


def sacrifice(directory: Path, **changes: Any) -> dict[str, Any]:
    """The example, short: three updates on four rooms. ``changes`` are blocks."""
    config: dict[str, Any] = yaml.safe_load((SACRIFICE / "sacrifice.yaml").read_text(encoding="utf-8"))
    config["environment"]["num_envs"] = 4
    config["behaviors"]["Agent"] |= {"max_steps": 1200, "summary_freq": 400, "checkpoint_interval": 700}
    config["behaviors"]["Agent"]["hyperparameters"] |= SMALL
    config["checkpoint_settings"]["results_dir"] = str(directory)
    plugins = {"local": [str(SACRIFICE / "sacrifice.py")]}
    return {**config, "env_settings": {"seed": 3}, "stats": {"console": False}, "plugins": plugins, **changes}


@pytest.mark.parametrize("profile", ["generic", "unity", "godot"])
def test_an_exported_policy_has_the_weights_of_the_actor_alone(tmp_path: Path, profile: str) -> None:
    config = sacrifice(tmp_path, export={"onnx": {"profile": profile, "tolerance": 1e-6}})
    config["behaviors"]["Agent"]["max_steps"] = 20
    with Run(config) as run:
        run.train()
        [exported] = run.exports
        assert exported.file is not None and exported.problem is None
    weights = onnx.load(tmp_path / "sacrifice" / exported.file).graph.initializer
    layers = sorted(tuple(sorted(each.dims)) for each in weights if each.dims[0] > 1 and len(each.dims) == 2)
    assert layers == [(2, 32), (4, 32)]


@pytest.mark.distributed
def test_two_ranks_learn_what_one_process_learns(tmp_path: Path) -> None:
    config = sacrifice(tmp_path)
    del config["checkpoint_settings"]
    config["behaviors"]["Agent"]["network_settings"]["normalize"] = True
    where = train_both(tmp_path, {"poca": yaml.safe_dump(config)})
    one, two = (written(where / kind, "poca", rank)["weights Agent"] for kind, rank in (("one", "one"), ("two", 0)))
    assert len(one) == 3 and np.abs(one[1] - one[0]).max() > 1e-4
    np.testing.assert_allclose(two, one, rtol=0, atol=1e-6)
