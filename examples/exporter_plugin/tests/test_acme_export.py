"""The rules of exporters, and a policy that is exported by a run and by a command, and used without rlcore."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from rlcore import Actions, Run, export_policies, load_policies
from rlcore_devkit import ExporterConformance, PluginConformance, RunRlcore

CONFIG: dict[str, Any] = {
    "preset": "none",
    "environment": {"type": "gymnasium", "id": "CartPole-v1", "num_envs": 4},
    "behaviors": {
        "CartPole": {
            "trainer_type": "ppo",
            "hyperparameters": {"batch_size": 64, "buffer_size": 128},
            "max_steps": 512,
            "checkpoint_interval": 128,
            "keep_checkpoints": 2,
        }
    },
    "export": {"pt2": {"checkpoints": True}},
    "checkpoint_settings": {"run_id": "exported"},
    "stats": {"console": False},
}
# The whole program of a user who has PyTorch only.
WITHOUT_RLCORE = """\
import json, sys
sys.modules["rlcore"] = sys.modules["acme_export"] = None  # importing one of them is an error
import numpy, torch
for path in sys.argv[2:]:
    found = {"about.json": ""}
    policy = torch.export.load(path, extra_files=found).module()
    with numpy.load(sys.argv[1]) as seen:
        observations = {name: torch.from_numpy(seen[name]) for name in seen.files}
    rows = len(next(iter(observations.values())))
    actions = policy(observations, torch.ones(rows, 2, dtype=torch.bool), None)["discrete"]
    print(json.dumps({"actions": actions.tolist(), "about": json.loads(found["about.json"])}))
"""


class TestPlugin(PluginConformance):
    plugin = "acme-export"


class TestPT2(ExporterConformance):
    exporter = "acme-export/pt2"

    def load(self, path: Path) -> Any:
        program = torch.export.load(path).module()

        def act(
            observations: Mapping[str, NDArray[Any]],
            action_mask: NDArray[np.bool_] | None,
            memory: NDArray[np.float32] | None,
        ) -> tuple[Actions, NDArray[np.float32] | None]:
            tensors = {name: torch.from_numpy(array) for name, array in observations.items()}
            given = [None if array is None else torch.from_numpy(array) for array in (action_mask, memory)]
            with torch.no_grad():
                output = {name: part.numpy() for name, part in program(tensors, *given).items()}
            return Actions(output.get("continuous"), output.get("discrete")), output.get("memory")

        return act


def test_a_run_exports_a_policy_that_acts_without_rlcore(
    run_rlcore: RunRlcore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with Run(CONFIG) as run:
        run.train()
    directory = tmp_path / "results/exported"
    assert [result.file for result in run.exports] == ["CartPole.pt2"]
    kept = {path.name for path in (directory / "CartPole").glob("*.pt2")}
    assert kept == {"CartPole-384.pt2", "CartPole-512.pt2"}

    policy = load_policies(directory)["CartPole"]
    (observation,) = run.behaviors["CartPole"].spec.observations
    seen = {observation.name: np.random.default_rng(0).uniform(-1, 1, (50, 4)).astype(np.float32)}
    np.savez(tmp_path / "seen.npz", **seen)
    run_rlcore("export", directory, "-o", tmp_path / "again.pt2")
    from_python = export_policies(directory / "checkpoints/512", "pt2", tmp_path / "python.pt2")["CartPole"]
    expected = policy.act(seen).discrete
    assert expected is not None
    files = (directory / "CartPole.pt2", tmp_path / "again.pt2", from_python)
    acted = subprocess.run(
        [sys.executable, "-c", WITHOUT_RLCORE, *map(str, (tmp_path / "seen.npz", *files))],
        capture_output=True,
        text=True,
        check=False,
    )
    assert acted.returncode == 0, acted.stderr
    for line in acted.stdout.splitlines():
        answer = json.loads(line)
        assert answer["actions"] == expected.tolist()
        assert answer["about"]["step"] == 512 and answer["about"]["trainer_type"] == "ppo"
    assert len(acted.stdout.splitlines()) == len(files)


def test_a_run_learns_the_same_with_and_without_exports(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    learned = []
    for name, block in (("with", CONFIG["export"]), ("without", {})):
        settings = {"run_id": name}
        with Run({**CONFIG, "export": block, "env_settings": {"seed": 1}, "checkpoint_settings": settings}) as run:
            run.train()
        learned.append((tmp_path / "results" / name / "checkpoints/512/CartPole.safetensors").read_bytes())
    assert learned[0] == learned[1]
