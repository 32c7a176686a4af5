"""Policies with random weights, exported with rlcore-onnx: one for each behavior of the conformance tests."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import attrs
import numpy as np
from numpy.typing import NDArray

from rlcore import (
    BehaviorSettings,
    BehaviorSpec,
    ExportAbout,
    Exporter,
    ExporterSpec,
    RunConfig,
    RunContext,
    load_plugins,
    selection_from,
)
from rlcore_devkit.conformance.exporters import BEHAVIORS
from rlcore_devkit.conformance.rules import checked_block
from rlcore_torch import MemorySettings, NetworkSettings
from rlcore_torch.policy.untrained import untrained_policy

EXPORTER = "rlcore-onnx/onnx"
ABOUT = ExportAbout(
    run_id="walker",
    step=500,
    behavior_steps=300,
    trainer_type="ppo",
    rlcore_version="0.1.0",
    configuration_sha256="0" * 64,
)
# What no file of the profile can hold; see the README of rlcore-onnx.
REFUSED = {"generic": (), "unity": (), "godot": ("hybrid", "memory")}
PAIRS = [(kind, profile) for profile, refused in REFUSED.items() for kind in BEHAVIORS if kind not in refused]


@attrs.frozen
class ExportedPolicy:
    """A policy of PyTorch and its file."""

    policy: Any
    behavior: BehaviorSpec
    path: Path


def exporter(directory: Path, **settings: Any) -> Exporter:
    """The exporter with the block ``export.onnx``."""
    plugins = load_plugins(selection_from(None, {}, (), False, used=(EXPORTER,)))
    spec = plugins.record(ExporterSpec, EXPORTER)
    run = RunContext(RunConfig(behaviors={"Walker": BehaviorSettings()}), plugins, directory, 1, 1)
    created: Exporter = plugins.create(spec, settings=checked_block(spec, settings), run=run)
    return created


def export(kind: str, directory: Path, profile: str = "generic", seed: int = 1) -> ExportedPolicy:
    """A policy with random weights for the behavior called ``kind``, and its file in ``directory``."""
    path = directory / f"{kind}-{profile}.onnx"
    path.write_bytes(_file(kind, profile, seed))
    return ExportedPolicy(_policy(kind, seed), BEHAVIORS[kind], path)


@cache
def _file(kind: str, profile: str, seed: int) -> bytes:
    """What the exporter writes. Many tests read a file of the same policy, and exporting takes most of their time."""
    with TemporaryDirectory() as directory:
        path = Path(directory) / "policy.onnx"
        export_policy(_policy(kind, seed), BEHAVIORS[kind], path, profile=profile)
        return path.read_bytes()


def _policy(kind: str, seed: int) -> Any:
    memory = MemorySettings(memory_size=8, sequence_length=4) if kind == "memory" else None
    return untrained_policy(
        BEHAVIORS[kind], NetworkSettings(hidden_units=16, num_layers=1, normalize=True, memory=memory), seed
    )


def export_policy(policy: Any, behavior: BehaviorSpec, path: Path, **settings: Any) -> str | None:
    """Export ``policy`` to ``path``, and return the report."""
    return exporter(path.parent, **settings).export(policy, behavior, path, ABOUT)


def random_mask(behavior: BehaviorSpec, rows: int, generator: np.random.Generator) -> NDArray[np.bool_] | None:
    """A mask [rows, mask_size] that allows half of the options, at least one of each branch; None without branches."""
    if not behavior.discrete:
        return None
    mask = generator.random((rows, behavior.mask_size)) < 0.5
    for first, options in zip(np.cumsum((0, *behavior.discrete)), behavior.discrete, strict=False):
        mask[np.arange(rows), first + generator.integers(options, size=rows)] = True
    return mask
