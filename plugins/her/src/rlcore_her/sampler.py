"""Hindsight experience replay (Andrychowicz et al. 2017, arXiv:1707.01495).

A transition of which another goal was reached teaches what its own goal, which was missed, does not. Transitions are
drawn uniformly; some of them get a goal that their episode reached. Their reward, and whether they end the episode, are
computed for this goal.

An episode that is still open has the goals that it has reached so far. Nothing is kept beside the replay buffer: where
an episode begins and ends is read from its flags, so that a resumed run draws what a run that never stopped draws.

Shapes: B transitions of a minibatch, K of which get another goal.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from rlcore import BehaviorSpec, ConfigError, GoalRules, RunContext
from rlcore_her.settings import HindsightSettings
from rlcore_torch import ReplayBuffer, ReplaySampler, Rows, Sample

__all__ = ["HindsightSampler"]

ACHIEVED = "achieved_goal"
DESIRED = "desired_goal"
SPAN = 64  # rows of an episode that are looked at together, at first


class HindsightSampler(ReplaySampler):
    """Uniform transitions, of which some get a goal that their episode reached.

    Observations have Gymnasium's names for goals: ``desired_goal`` and ``achieved_goal``, both of one shape.
    """

    changes_steps = True

    def __init__(self, settings: HindsightSettings, behavior: BehaviorSpec, run: RunContext) -> None:
        """Raise ConfigError for agents without goals, and without rules for the rewards of other goals."""
        self.settings = settings
        self._rules = _rules(settings, behavior, run)

    def sample(self, buffer: ReplayBuffer, batch_size: int, generator: np.random.Generator, progress: float) -> Sample:
        """Draw ``batch_size`` transitions, as :meth:`rlcore_torch.ReplaySampler.sample` says."""
        rows = buffer.sample(batch_size, generator)
        steps = buffer.transitions(rows)
        draws = generator.random(batch_size)
        chosen = np.flatnonzero(draws < self.settings.relabeled)  # [K]
        if len(chosen):
            # The goal that was reached with a transition is in the row after it.
            goal_rows = self._goal_rows(buffer, rows[chosen], generator)
            reached = buffer.next_rows(goal_rows)
            goals = buffer.observations[ACHIEVED].take(reached, 0)  # [K, *shape]
            for observations in (steps.observations, steps.next_observations):
                observations[DESIRED][chosen] = goals
            achieved = steps.next_observations[ACHIEVED][chosen]
            steps.reward[chosen] = self._rules.reward(achieved, goals)
            terminated = self._rules.terminated(achieved, goals)
            if terminated is not None:
                steps.terminated[chosen] = terminated
        return Sample(rows, steps=steps)

    def _goal_rows(self, buffer: ReplayBuffer, rows: Rows, generator: np.random.Generator) -> Rows:
        """Rows [K] of the episodes of ``rows`` [K], whose goals these get."""
        after = episode_steps(buffer, rows, 1)
        before = np.zeros_like(after)
        if self.settings.strategy == "episode":
            before = episode_steps(buffer, rows, -1)
        distance = after
        if self.settings.strategy != "final":
            distance = generator.integers(-before, after, endpoint=True)
        # The rows of a slot are `slots` apart, and the buffer is a ring.
        goal_rows: Rows = (rows + buffer.slots * distance) % buffer.capacity
        return goal_rows


def episode_steps(buffer: ReplayBuffer, rows: Rows, direction: int) -> NDArray[np.int64]:
    """Return how many transitions [K] the episode of each of ``rows`` [K] has after it, or before it for -1.

    Between two episodes is a row that holds no transition: a final observation, or the current one of a slot, which is
    also between the newest and the oldest row of a ring that is full.
    """
    steps = np.zeros(len(rows), np.int64)
    searched = np.arange(len(rows))  # the rows whose episode has no end so far
    span = SPAN
    while len(searched):
        distance = steps[searched] + np.arange(1, span + 1)[:, None]  # [span, searched]
        places = (rows[searched] + direction * buffer.slots * distance) % buffer.capacity
        has_transition = buffer.flags.take(places) != 0
        count = np.logical_and.accumulate(has_transition, 0).sum(0)  # up to the first row without one
        steps[searched] += count
        searched = searched[count == span]
        span = 2 * span
    return steps


class SparseRules:
    """Rewards of 0 within ``tolerance`` of the goal and -1 elsewhere, as :class:`rlcore.GoalRules`."""

    def __init__(self, tolerance: float, ends_at_goal: bool) -> None:
        self.tolerance = tolerance
        self.ends_at_goal = ends_at_goal

    def reward(self, achieved: NDArray[np.float32], desired: NDArray[np.float32]) -> NDArray[np.float32]:
        """Return the rewards [B] of goals [B, *shape]."""
        return np.where(self._at_goal(achieved, desired), 0.0, -1.0).astype(np.float32)

    def terminated(self, achieved: NDArray[np.float32], desired: NDArray[np.float32]) -> NDArray[np.bool_]:
        """Return where an episode ends at its goal, [B]."""
        return self._at_goal(achieved, desired) & self.ends_at_goal

    def _at_goal(self, achieved: NDArray[np.float32], desired: NDArray[np.float32]) -> NDArray[np.bool_]:
        away = (achieved - desired).reshape(len(achieved), -1)
        near: NDArray[np.bool_] = np.linalg.norm(away, axis=1) <= self.tolerance
        return near


def _rules(settings: HindsightSettings, behavior: BehaviorSpec, run: RunContext) -> GoalRules:
    shapes = {observation.name: observation.shape for observation in behavior.observations}
    key = ("behaviors", behavior.name, "hyperparameters", "replay_sampler")
    if not shapes.keys() >= {ACHIEVED, DESIRED}:
        names = ", ".join(shapes)
        raise ConfigError(
            f"her needs the observations {ACHIEVED} and {DESIRED} of a goal environment, and there are {names}; choose "
            "another sampler",
            key=key,
        )
    if shapes[ACHIEVED] != shapes[DESIRED]:
        raise ConfigError(
            f"her puts an {ACHIEVED} in the place of a {DESIRED}, and their shapes are {list(shapes[ACHIEVED])} and "
            f"{list(shapes[DESIRED])}; choose another sampler",
            key=key,
        )
    if settings.tolerance is not None:
        return SparseRules(settings.tolerance, settings.ends_at_goal)
    if behavior.goal_rules is None:
        raise ConfigError(
            "the environment has no method compute_reward(achieved_goal, desired_goal, info) for the rewards of other "
            "goals; add it, or set tolerance if rewards are 0 at the goal and -1 elsewhere",
            key=key,
        )
    return behavior.goal_rules
