"""Record episodes of small environments, for tests of trainers that learn from recordings."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise

import numpy as np

from rlcore import Actions, AgentBatch, BehaviorSpec, Environment, EpisodeSeeds, Recording
from rlcore_offline import SlotRecorder

Choose = Callable[[AgentBatch], Actions]


def random_actions(behavior: BehaviorSpec, seed: int = 0) -> Choose:
    """Return a function that draws uniform actions: within bounds, or else from [-1, 1], and from allowed options."""
    generator = np.random.default_rng(seed)
    bounded = np.isfinite(behavior.low) & np.isfinite(behavior.high)
    low, high = np.where(bounded, behavior.low, -1.0), np.where(bounded, behavior.high, 1.0)
    offsets = np.cumsum((0, *behavior.discrete))

    def choose(batch: AgentBatch) -> Actions:
        continuous = discrete = None
        if behavior.continuous:
            drawn = generator.uniform(low, high, (behavior.slots, behavior.continuous))
            continuous = np.clip(drawn.astype(np.float32), behavior.low, behavior.high)
        if behavior.discrete:
            lot = generator.random((behavior.slots, behavior.mask_size))
            if batch.action_mask is not None:
                lot = np.where(batch.action_mask, lot, -1.0)
            discrete = np.stack([lot[:, first:last].argmax(1) for first, last in pairwise(offsets)], axis=1)
        return Actions(continuous, discrete)

    return choose


def record(environment: Environment, steps: int, choose: Choose | None = None, seed: int = 1) -> Recording:
    """Record the whole episodes within ``steps`` environment steps, with random actions unless ``choose`` is set."""
    [(name, behavior)] = environment.behaviors.items()
    choose = choose or random_actions(behavior, seed)
    episodes: list[Recording] = []
    recorder = SlotRecorder(behavior, episodes.append)
    batch = environment.reset(EpisodeSeeds(seed), np.zeros(environment.num_envs, np.int64))[name]
    for _ in range(steps):
        actions = choose(batch)
        recorder.act(batch, actions)
        batch = environment.step({name: actions})[name]
        recorder.observe(batch, batch.ended)
    return joined(episodes)


def joined(parts: Sequence[Recording]) -> Recording:
    """Return one recording with the episodes of several, in order; see :meth:`rlcore.Recording.joined`."""
    return Recording.joined(parts)
