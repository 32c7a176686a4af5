"""Record episodes of small environments, for tests of trainers that learn from recordings."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from rlcore import Actions, AgentBatch, Environment, EpisodeSeeds, Recording
from rlcore_devkit.playing import random_actions
from rlcore_offline import SlotRecorder

Choose = Callable[[AgentBatch], Actions]


def record(environment: Environment, steps: int, choose: Choose | None = None, seed: int = 1) -> Recording:
    """Record the whole episodes within ``steps`` environment steps, with random actions unless ``choose`` is set."""
    [(name, behavior)] = environment.behaviors.items()
    generator = np.random.default_rng(seed)
    episodes: list[Recording] = []
    recorder = SlotRecorder(behavior, episodes.append)
    batch = environment.reset(EpisodeSeeds(seed), np.zeros(environment.num_envs, np.int64))[name]
    for _ in range(steps):
        if choose is None:
            actions = random_actions(environment.behaviors, {name: batch}, generator)[name]
        else:
            actions = choose(batch)
        recorder.act(batch, actions)
        batch = environment.step({name: actions})[name]
        recorder.observe(batch, batch.ended)
    return Recording.joined(episodes)
