"""The games that tests of rlcore-godot play, and actions for them."""

from __future__ import annotations

import numpy as np
from workspace import ROOT

from rlcore import Actions, AgentBatch, Environment, EpisodeSeeds

PLAYER = ROOT / "tests/support/godot_player.py"
PROJECT = ROOT / "tests/support/godot_project"


def nothing(environment: Environment) -> dict[str, Actions]:
    """Actions that add up to 0."""
    return {
        name: Actions(
            np.zeros((spec.slots, spec.continuous), np.float32) if spec.continuous else None,
            np.zeros((spec.slots, len(spec.discrete)), np.int64),
        )
        for name, spec in environment.behaviors.items()
    }


def begun(environment: Environment) -> dict[str, AgentBatch]:
    return environment.reset(EpisodeSeeds(1), np.zeros(environment.num_envs, np.int64))
