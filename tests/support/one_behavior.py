"""Steps of environments with one behavior."""

from __future__ import annotations

from typing import Any

import numpy as np

from rlcore import Actions, AgentBatch, Environment, EpisodeSeeds


def begin(environment: Environment, seeds: EpisodeSeeds | int = 3, episodes: Any = 0) -> AgentBatch:
    """Reset the environments, all to one episode or each to its own."""
    first = np.broadcast_to(np.asarray(episodes, np.int64), environment.num_envs).copy()
    (batch,) = environment.reset(EpisodeSeeds(seeds) if isinstance(seeds, int) else seeds, first).values()
    return batch


def act(environment: Environment, choices: Any = 0, steps: int = 1) -> AgentBatch:
    """Step with these discrete choices: one for all, one for each slot, or [S, branches]."""
    ((name, spec),) = environment.behaviors.items()
    chosen = np.asarray(choices, np.int64)
    rows = np.broadcast_to(chosen if chosen.ndim == 2 else chosen.reshape(-1, 1), (spec.slots, len(spec.discrete)))
    for _ in range(steps):
        batch = environment.step({name: Actions(discrete=rows.copy())})[name]
    return batch


def move(environment: Environment, reals: Any) -> AgentBatch:
    """Step with these continuous actions: one for all, one for each slot, or [S, n]."""
    ((name, spec),) = environment.behaviors.items()
    moves = np.asarray(reals, np.float32)
    rows = np.broadcast_to(moves if moves.ndim == 2 else moves.reshape(-1, 1), (spec.slots, spec.continuous))
    return environment.step({name: Actions(continuous=rows.copy())})[name]
