"""Environments of test players (``unity_player.py``) in the process of a test, without a run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import psutil
from unity_player import make_player

from rlcore import Actions, AgentBatch, BehaviorSpec, EnvSettings
from rlcore_unity import UnityEnvironment, UnitySettings
from rlcore_unity.player import Launch


def make_game(
    directory: Path,
    players: int = 1,
    *,
    wanted: Sequence[str] = (),
    start_seconds: float = 60.0,
    step_seconds: float = 30.0,
    limits: EnvSettings | None = None,
    settings: Mapping[str, Any] | None = None,
    **options: Any,
) -> UnityEnvironment:
    """Start test players with these ``options`` of theirs, and ``settings`` of the environment block."""
    path = make_player(directory, **options)
    block = UnitySettings(executable=str(path), num_envs=players, **(settings or {}))
    old = str(options.get("package", "4")) < "1.9"

    def command(number: int, port: int, log: Path) -> list[str]:
        return [str(path), "--mlagents-port", str(port), "-logFile", str(log)]

    launch = Launch(
        command=command,
        folder=directory,
        logs=lambda number: directory / f"Player-{number}.log",
        address=block.address,
        port=lambda number: 0 if block.base_port is None else block.base_port + number,
        seed=lambda number: 1 + number,
        announced_version="0.25.0" if old else "1.1.0",
        num_areas=1,
        largest=block.max_message_mb << 20,
        start_seconds=start_seconds,
        step_seconds=step_seconds,
        end_seconds=10.0,
    )
    return UnityEnvironment(block, launch, limits or EnvSettings(), players, wanted)


def drawn_actions(spec: BehaviorSpec, batch: AgentBatch, generator: np.random.Generator) -> Actions:
    """Draw an action for every slot, among the options that its mask allows."""
    continuous = discrete = None
    if spec.continuous:
        continuous = generator.uniform(-1, 1, (spec.slots, spec.continuous)).astype(np.float32)
    if spec.discrete:
        mask = np.ones((spec.slots, spec.mask_size), np.bool_) if batch.action_mask is None else batch.action_mask
        parts = np.split(mask * generator.random(mask.shape), np.cumsum(spec.discrete)[:-1], axis=1)
        discrete = np.stack([part.argmax(axis=1) for part in parts], axis=1)
    return Actions(continuous, discrete)


def player_processes() -> list[psutil.Process]:
    """The test players that this process started, in the order of their numbers."""
    found = []
    for process in psutil.Process().children(recursive=True):
        try:
            if any(word.endswith("unity_player.py") for word in process.cmdline()) and "-I" not in process.cmdline():
                found.append(process)
        except psutil.NoSuchProcess:
            continue
    return sorted(found, key=lambda process: process.create_time())
