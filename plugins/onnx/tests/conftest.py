"""Needs `rlcore-onnx[torch]` and pytest installed."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import attrs
import numpy as np
import onnxruntime
import pytest
import torch
from numpy.typing import NDArray
from onnx_files import export_policy

from rlcore import BehaviorSpec, ObservationSpec
from rlcore_torch import Actor, ActorPolicy, Gaussian, MemorySettings, NetworkSettings
from rlcore_torch.backend import Backend

STATE = ObservationSpec("state", (5,), np.float32)
CAMERA = ObservationSpec("camera", (20, 24, 3), np.uint8, "image")
LOW = np.array([-2.0, 0.0, -1.0], np.float32)
HIGH = np.array([1.0, 5.0, 1.0], np.float32)
ACTIONS: dict[str, dict[str, Any]] = {
    "continuous": {"continuous": 3, "low": LOW, "high": HIGH},
    "discrete": {"discrete": (4,)},
    "branches": {"discrete": (2, 3, 4)},
    "hybrid": {"continuous": 2, "low": LOW[:2], "high": HIGH[:2], "discrete": (3, 2)},
}


@pytest.fixture
def make_behavior() -> Callable[..., BehaviorSpec]:
    """A behavior with actions of one kind, and by default with one vector observation."""

    def make(actions: str, *observations: ObservationSpec) -> BehaviorSpec:
        return BehaviorSpec("Walker", observations or (STATE,), **ACTIONS[actions])

    return make


def random_policy(behavior: BehaviorSpec, settings: NetworkSettings) -> ActorPolicy:
    """A policy whose actions use their whole range, with features of the size that training makes."""
    with torch.random.fork_rng(devices=()), torch.no_grad():
        torch.manual_seed(3)
        model = Actor(behavior, attrs.evolve(settings, init="uniform"))
        model.policy_head.linear.weight *= 4.0
        if isinstance(model.policy_head.distribution, Gaussian):
            model.policy_head.distribution.log_std.uniform_(-1.0, 0.0)
        if model.inputs.normalizer is not None:
            model.inputs.normalizer.update(0.5 + 2.0 * torch.randn(100, model.inputs.vector_size))
    return ActorPolicy(behavior, model, Backend(torch.device("cpu")))


@pytest.fixture
def make_policy(make_behavior: Callable[..., BehaviorSpec]) -> Callable[..., ActorPolicy]:
    """A policy with random weights: ``network`` is mlp, cnn (an image and a vector) or lstm."""

    def make(network: str, actions: str, **settings: Any) -> ActorPolicy:
        observations = (CAMERA, STATE) if network == "cnn" else (STATE,)
        memory = MemorySettings(memory_size=16, sequence_length=4) if network == "lstm" else None
        chosen = {"hidden_units": 32, "num_layers": 2, "normalize": True, "memory": memory, **settings}
        return random_policy(make_behavior(actions, *observations), NetworkSettings(**chosen))

    return make


@pytest.fixture
def export(tmp_path: Path) -> Callable[..., Path]:
    """Export a policy with ``settings``, and return the file."""

    def exported(policy: Any, behavior: BehaviorSpec | None = None, **settings: Any) -> Path:
        directory = tmp_path / "exported"
        directory.mkdir(exist_ok=True)
        path = directory / f"{len(list(directory.iterdir()))}.onnx"
        export_policy(policy, behavior or policy.behavior, path, **settings)
        return path

    return exported


Act = Callable[..., dict[str, NDArray[Any]]]


@pytest.fixture
def load() -> Callable[[Path], Act]:
    """Load a file: a function from inputs to outputs, both by the names in the file."""

    def loaded(path: Path) -> Act:
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = 1
        session = onnxruntime.InferenceSession(path, options)
        outputs = [each.name for each in session.get_outputs()]

        def act(**inputs: NDArray[Any]) -> dict[str, NDArray[Any]]:
            return dict(zip(outputs, session.run(outputs, inputs), strict=True))

        return act

    return loaded
