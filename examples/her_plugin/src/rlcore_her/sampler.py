"""Hindsight experience replay (Andrychowicz et al. 2017, arXiv:1707.01495) with the strategy "future"."""

import numpy as np

from rlcore import BehaviorSpec, ConfigError, RunContext
from rlcore_her.plugin import HindsightSettings
from rlcore_torch import ReplayBuffer, ReplaySampler, Sample


class HindsightSampler(ReplaySampler):
    """Uniform transitions, of which some get a goal that their episode reached later.

    Observations have Gymnasium's names for goals: ``desired_goal`` and ``achieved_goal``, both of one shape [G].
    """

    changes_steps = True

    def __init__(self, settings: HindsightSettings, behavior: BehaviorSpec, run: RunContext) -> None:
        names = {observation.name for observation in behavior.observations}
        if not names >= {"desired_goal", "achieved_goal"}:
            raise ConfigError(
                f"behavior {behavior.name!r}: replay_sampler her needs the observations desired_goal and "
                f"achieved_goal, not {', '.join(sorted(names))}; choose another sampler"
            )
        self.settings = settings

    def sample(self, buffer: ReplayBuffer, batch_size: int, generator: np.random.Generator, progress: float) -> Sample:
        rows = buffer.sample(batch_size, generator)
        steps = buffer.transitions(rows)
        chosen = np.flatnonzero(generator.random(batch_size) < self.settings.relabeled)  # [K]
        indices, valid, _ = buffer.stretches(rows[chosen], self.settings.horizon)  # [horizon, K]
        later = (generator.random(len(chosen)) * valid.sum(0)).astype(np.int64)
        reached = buffer.next_rows(indices[later, np.arange(len(chosen))])
        goals = buffer.observations["achieved_goal"][reached]  # [K, G]
        for observations in (steps.observations, steps.next_observations):
            observations["desired_goal"][chosen] = goals
        distance = np.linalg.norm(steps.next_observations["achieved_goal"][chosen] - goals, axis=1)
        steps.reward[chosen] = np.where(distance <= self.settings.tolerance, 0.0, -1.0)
        return Sample(rows, steps=steps)
