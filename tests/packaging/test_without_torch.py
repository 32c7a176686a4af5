"""The core, Gymnasium and a stranger's trainer in NumPy train and resume exactly where PyTorch is not installed."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from made_once import made_once
from virtualenvs import Venv, build_wheels, wheel_in
from workspace import CORE, ROOT

from rlcore_devkit.scaffold.names import new_package
from rlcore_devkit.scaffold.writing import write_plugin

pytestmark = [pytest.mark.packaging, pytest.mark.daily]


@pytest.fixture(scope="session")
def numpy_venv(tmp_path_factory: pytest.TempPathFactory, shared_venv: Callable[..., Venv]) -> Venv:
    """The wheels of the core, of rlcore-gymnasium, and of the trainer that `rlcore plugins new` writes."""

    def build(directory: Path) -> None:
        stranger = write_plugin(new_package("acme", ["trainer"]), tmp_path_factory.mktemp("stranger"))
        build_wheels(directory, CORE.directory, ROOT / "plugins/gymnasium", stranger)

    wheels = made_once(tmp_path_factory, "wheels without PyTorch", build)
    return shared_venv(*(wheel_in(wheels, name) for name in ("rlcore", "rlcore-gymnasium", "rlcore-acme")))


def test_a_strangers_trainer_resumes_exactly_without_torch(numpy_venv: Venv, tmp_path: Path) -> None:
    assert "torch" not in numpy_venv.distributions()
    (tmp_path / "pole.yaml").write_text(
        "environment: {type: gymnasium, id: CartPole-v1, num_envs: 4}\n"
        "behaviors:\n"
        "  Pole:\n"
        "    trainer_type: acme\n    max_steps: 4096\n    summary_freq: 1024\n"
        "    checkpoint_interval: 1024\n    keep_checkpoints: 9\n"
        "checkpoint_settings: {run_id: pole}\n"
    )
    numpy_venv.rlcore("run", "pole.yaml", "--seed", "3", cwd=tmp_path)
    whole = checksums(tmp_path / "results/pole")
    assert list(whole) == ["1024", "2048", "3072", "4096"]
    assert all(whole.values()) and whole["2048"] != whole["4096"]
    numpy_venv.rlcore("run", "--resume", "--run-id", "pole", "--checkpoint", "2048", cwd=tmp_path)
    assert checksums(tmp_path / "results/pole") == whole
    measured = numpy_venv.rlcore("evaluate", "pole", "--episodes", "5", "--json", cwd=tmp_path)
    assert json.loads(measured.stdout)["behaviors"]["Pole"]["episodes"] == 5


def checksums(run: Path) -> dict[str, dict[str, str]]:
    """Return the checksum of each array file of each checkpoint."""
    manifests = sorted(run.glob("checkpoints/[0-9]*/manifest.json"), key=lambda path: int(path.parent.name))
    files = {path.parent.name: json.loads(path.read_text(encoding="utf-8"))["files"] for path in manifests}
    return {
        step: {name: each["sha256"] for name, each in entries.items() if name.endswith(".safetensors")}
        for step, entries in files.items()
    }
