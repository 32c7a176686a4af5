"""The games that tests of rlcore-godot play, the engines that play them, and actions for them."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest
from workspace import ROOT

from rlcore import Actions, AgentBatch, Environment, EpisodeSeeds

PLAYER = ROOT / "tests/support/godot_player.py"
PROJECT = ROOT / "tests/support/godot_project"
NAMES = {3: ("godot3-server",), 4: ("godot4", "godot")}  # of the engines' programs, by version


def engine_of(version: int) -> str:
    """Return the path of Godot 3 or 4, or skip the test."""
    for name in NAMES[version]:
        engine = shutil.which(name)
        if engine is not None and _says(engine, "--version").startswith(f"{version}."):
            return engine
    advice = f"apt install {NAMES[version][0]}" if version == 3 else "godotengine.org, or Debian's package godot"
    pytest.skip(f"Godot {version} is not on the PATH as {' or '.join(NAMES[version])} ({advice})")


def _says(engine: str, *words: str) -> str:
    return subprocess.run([engine, *words], capture_output=True, text=True, timeout=60, check=False).stdout


def project_of(version: int, directory: Path) -> Path:
    """Return the folder of the test project for Godot 3 or 4; that for 4 is put together in ``directory``."""
    if version == 3:
        return PROJECT
    folder = directory / "godot4_project"
    shutil.copytree(ROOT / "tests/support/godot4_project", folder)
    for script in PROJECT.glob("*.gd"):
        shutil.copy(script, folder)
    return folder


def idle(environment: Environment, steps: int = 1) -> dict[str, AgentBatch]:
    """Step with actions that add up to 0."""
    actions = {}
    for name, spec in environment.behaviors.items():
        continuous = np.zeros((spec.slots, spec.continuous), np.float32) if spec.continuous else None
        actions[name] = Actions(continuous, np.zeros((spec.slots, len(spec.discrete)), np.int64))
    for _ in range(steps):
        batches = environment.step(actions)
    return batches


def begun(environment: Environment) -> dict[str, AgentBatch]:
    return environment.reset(EpisodeSeeds(1), np.zeros(environment.num_envs, np.int64))
