"""Record episodes of small environments, for tests of recordings and of trainers that learn from them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from rlcore import Actions, AgentBatch, Environment, Recording
from rlcore_devkit.playing import first_batches, random_actions
from rlcore_offline import SlotRecorder

Choose = Callable[[AgentBatch], Actions]


def record(environment: Environment, steps: int, choose: Choose | None = None, seed: int = 1) -> Recording:
    """Record the whole episodes within ``steps`` environment steps, with random actions unless ``choose`` is set."""
    [(name, behavior)] = environment.behaviors.items()
    generator = np.random.default_rng(seed)
    episodes: list[Recording] = []
    recorder = SlotRecorder(behavior, episodes.append)
    batches = first_batches(environment, seed)
    for _ in range(steps):
        batch = batches[name]
        actions = {name: choose(batch)} if choose else random_actions(environment.behaviors, batches, generator)
        recorder.act(batch, actions[name])
        batches = environment.step(actions)
        after = batches[name]
        recorder.observe(after, after.ended)
    return Recording.joined(episodes)


def arrays(recording: Recording) -> dict[str, Any]:
    """Return all arrays of a recording."""
    names = ("observations", "actions", "reward", "terminated", "truncated", "lengths", "action_mask")
    return {name: getattr(recording, name) for name in names}
