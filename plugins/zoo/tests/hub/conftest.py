"""A fake hub, and a small real run to share; the fake is in fake_hub.py beside this file."""

from __future__ import annotations

import importlib.util
import os
import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from made_once import made_once

from rlcore_devkit.fixtures import RunRlcore, run_rlcore

__all__ = ["run_rlcore"]

CONFIGURATION = """\
preset: none
environment: {type: gymnasium, id: CartPole-v1, num_envs: 4}
behaviors:
  CartPole:
    trainer_type: ppo
    max_steps: 4096
    summary_freq: 1024
    checkpoint_interval: 2048
    hyperparameters: {buffer_size: 512, batch_size: 128}
    network_settings: {hidden_units: 16}
checkpoint_settings: {run_id: pole}
env_settings: {seed: 3}
evaluation: {interval: 1024, episodes: 4}
export: {onnx: {}}
"""


def module_beside(name: str) -> ModuleType:
    """Import a file of this folder, which is not a package."""
    spec = importlib.util.spec_from_file_location(f"hub_tests_{name}", Path(__file__).with_name(f"{name}.py"))
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


fake_hub = module_beside("fake_hub")


@contextmanager
def on_a_hub(patch: pytest.MonkeyPatch, cache: Path) -> Iterator[Any]:
    """A fake hub to which commands in the block speak as its owner ``ann``, with a cache of their own."""
    constants = pytest.importorskip("huggingface_hub.constants")
    patch.setattr(constants, "HF_HUB_DISABLE_XET", True)
    patch.setattr(constants, "HF_HUB_OFFLINE", False)
    patch.setattr(constants, "HF_HUB_CACHE", str(cache))
    with fake_hub.running() as running:
        patch.setenv("HF_ENDPOINT", running.endpoint)
        patch.setenv("HF_TOKEN", fake_hub.TOKEN)
        yield running


@pytest.fixture
def hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """A fake hub of one test."""
    with on_a_hub(monkeypatch, tmp_path / "cache") as running:
        yield running


@pytest.fixture(scope="session")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of PPO that was trained once; copy it."""
    for needed in ("rlcore_ppo", "rlcore_gymnasium", "rlcore_onnx"):
        pytest.importorskip(needed)
    from rlcore import main

    def train(place: Path) -> None:
        (place / "pole.yaml").write_text(CONFIGURATION)
        before = Path.cwd()
        os.chdir(place)
        try:
            assert main(["run", "pole.yaml"]) == 0
        finally:
            os.chdir(before)

    return made_once(tmp_path_factory, CONFIGURATION, train) / "results/pole"


@pytest.fixture
def pole(trained: Path, run_rlcore: RunRlcore, tmp_path: Path) -> Path:
    """A copy of the trained run, called ``pole`` in the results of the directory in which commands start."""
    place = tmp_path / "working/results/pole"
    shutil.copytree(trained, place)
    return place


@pytest.fixture(scope="session")
def uploaded(trained: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    """The files of a repository after the trained run was pushed to it."""
    from rlcore import main

    place = tmp_path_factory.mktemp("uploaded")
    shutil.copytree(trained, place / "results/pole")
    with pytest.MonkeyPatch.context() as patch, on_a_hub(patch, place / "cache") as running:
        patch.chdir(place)
        assert main(["push", "pole", "ann/pole", "--yes", "--episodes", "0"]) == 0
        return dict(running.repositories["ann/pole"].files)


@pytest.fixture
def pushed(hub: Any, pole: Path, uploaded: dict[str, bytes]) -> Any:
    """The repository ``ann/pole`` with the trained run, of which ``pole`` is a copy."""
    hub.repositories["ann/pole"] = repository = fake_hub.Repository(private=True)
    repository.commit(uploaded, "the run")
    return repository


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let ``huggingface_hub`` try again at once, instead of after seconds."""
    monkeypatch.setattr("time.sleep", lambda seconds: None)
