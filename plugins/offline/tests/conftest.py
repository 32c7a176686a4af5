from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

from rlcore import (
    Actions,
    BehaviorSpec,
    Plugins,
    Recording,
    RecordingAbout,
    RunContext,
    config_from_mapping,
    load_plugins,
)
from rlcore_devkit.fixtures import run_rlcore
from rlcore_offline.minari_format import MinariFormat

__all__ = ["run_rlcore"]

MakeRecording = Callable[..., Recording]


@pytest.fixture(scope="session")
def random_recording() -> MakeRecording:
    """``random_recording(behavior, lengths, masked=False)``: every value the behavior allows, ends of both kinds."""

    def make(behavior: BehaviorSpec, lengths: Sequence[int], masked: bool = False) -> Recording:
        generator = np.random.default_rng(len(lengths))
        transitions, rows = sum(lengths), sum(lengths) + len(lengths)

        def values(shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
            if dtype.kind == "f":
                return generator.normal(size=shape).astype(dtype)
            return np.frombuffer(generator.bytes(int(np.prod(shape)) * dtype.itemsize), dtype).reshape(shape).copy()

        bits = np.dtype(np.bool_)
        last = np.zeros(transitions, np.bool_)
        last[np.cumsum(lengths) - 1] = True
        terminated = last & (generator.random(transitions) < 0.5)
        return Recording(
            behavior,
            {
                o.name: generator.random((rows, *o.shape)) < 0.5
                if o.dtype == bits
                else values((rows, *o.shape), o.dtype)
                for o in behavior.observations
            },
            Actions(
                values((transitions, behavior.continuous), np.dtype(np.float32)) if behavior.continuous else None,
                generator.integers(behavior.discrete, size=(transitions, len(behavior.discrete)))
                if behavior.discrete
                else None,
            ),
            values((transitions,), np.dtype(np.float32)),
            terminated,
            last & ~terminated,
            np.array(lengths),
            generator.random((rows, behavior.mask_size)) < 0.7 if masked else None,
        )

    return make


@pytest.fixture
def write(tmp_path) -> Callable[..., MinariFormat]:
    """``write(name, recording, ...)`` into a dataset of that name, one part after the other."""

    def write(name: str, *parts: Recording, about: RecordingAbout | None = None) -> MinariFormat:
        made = MinariFormat()
        writer = made.writer(tmp_path / name, parts[0].behavior, about or RecordingAbout())
        for part in parts:
            writer.write(part)
        writer.close()
        return made

    return write


@pytest.fixture
def recorded(tmp_path) -> Callable[..., str]:
    """``recorded(recording)``: the path of a dataset of it, named after the behavior."""

    def write_down(recording: Recording, directory: str = "recordings") -> str:
        writer = MinariFormat().writer(tmp_path / directory / "Agent", recording.behavior, RecordingAbout())
        writer.write(recording)
        writer.close()
        return str(tmp_path / directory)

    return write_down


@pytest.fixture
def make_trainer(tmp_path, recorded) -> Callable[..., Any]:
    """``make_trainer("iql", recording, tau=0.1)``: keywords are hyperparameters, ``block`` other settings."""
    paths: dict[int, str] = {}

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
            paths[id(recording)] = recorded(recording, f"recordings-{len(paths)}")
        plugins = plugins or load_plugins()
        settings = {
            "trainer_type": name,
            "hyperparameters": {"demo_path": paths[id(recording)], "batch_size": 64, **hyperparameters},
            "network_settings": {"hidden_units": 32, "num_layers": 1},
            **(block or {}),
        }
        config = config_from_mapping({"behaviors": {"Agent": settings}}, plugins)
        run = RunContext(config, plugins, tmp_path, seed, 1)
        return plugins.create_trainer(plugins.trainer(name), config.behaviors["Agent"], recording.behavior, run)

    return make
