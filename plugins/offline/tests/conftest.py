from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from rlcore import (
    Plugins,
    Recording,
    RecordingAbout,
    RunContext,
    TrainerSpec,
    config_from_mapping,
    load_plugins,
)
from rlcore_devkit.fixtures import run_rlcore
from rlcore_offline.minari_format import MinariFormat

__all__ = ["run_rlcore"]

MakeRecording = Callable[..., Recording]


@pytest.fixture
def write(tmp_path) -> Callable[..., Path]:
    """``write(name, recording, ...)`` into a dataset of that name, one part after the other; returns its path."""

    def write(name: str, *parts: Recording, about: RecordingAbout | None = None) -> Path:
        writer = MinariFormat().writer(tmp_path / name, parts[0].behavior, about or RecordingAbout())
        for part in parts:
            writer.write(part)
        writer.close()
        return tmp_path / name

    return write


@pytest.fixture
def make_trainer(tmp_path, write) -> Callable[..., Any]:
    """``make_trainer("iql", recording, tau=0.1)``: keywords are hyperparameters, ``block`` other settings."""
    paths: dict[int, Path] = {}

    def make(
        name: str,
        recording: Recording,
        *,
        block: dict[str, Any] | None = None,
        plugins: Plugins | None = None,
        seed: int = 1,
        **hyperparameters: Any,
    ) -> Any:
        if id(recording) not in paths:
            paths[id(recording)] = write(f"recordings-{len(paths)}/Agent", recording).parent
        plugins = plugins or load_plugins()
        settings = {
            "trainer_type": name,
            "hyperparameters": {"demo_path": str(paths[id(recording)]), "batch_size": 64, **hyperparameters},
            "network_settings": {"hidden_units": 32, "num_layers": 1},
            **(block or {}),
        }
        config = config_from_mapping({"behaviors": {"Agent": settings}}, plugins)
        run = RunContext(config, plugins, tmp_path, seed, 1)
        return plugins.create(
            plugins.record(TrainerSpec, name), settings=config.behaviors["Agent"], behavior=recording.behavior, run=run
        )

    return make
