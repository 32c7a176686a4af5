"""Replay samplers: which transitions of a replay buffer a minibatch has.

A plugin registers a class derived from :class:`ReplaySampler` with ``rlcore_replay_buffer_samplers``. A behavior
chooses a sampler with ``hyperparameters: {replay_sampler: {type: NAME}}``.
:class:`rlcore_devkit.ReplaySamplerConformance` has the tests that every sampler must pass.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import attrs
import numpy as np

from rlcore import BehaviorSpec, ConfigError, PluginError, RunContext, blamed
from rlcore_torch.arrays import FloatArray
from rlcore_torch.hookspecs import ReplaySamplerSpec
from rlcore_torch.off_policy.priorities import importance_exponent
from rlcore_torch.off_policy.replay import ReplayBuffer
from rlcore_torch.off_policy.replay_rings import Rows, Steps
from rlcore_torch.settings import OffPolicySettings, PrioritizedSamplerSettings

__all__ = ["ReplaySampler", "Sample"]


@attrs.frozen(eq=False)
class Sample:
    """The B transitions of one minibatch.

    Attributes:
        rows: [B] rows of the replay buffer, each of which holds a transition.
        weight: [B] of each transition in the loss, finite and positive; None: all equal.
        steps: Transitions to learn from instead of those of the rows, if the sampler ``changes_steps``; None otherwise.
    """

    rows: Rows
    weight: FloatArray | None = None
    steps: Steps | None = None


class ReplaySampler:
    """The base class of replay samplers. A sampler implements :meth:`sample`; the rest has defaults.

    Attributes:
        priority_alpha: Exponent of the priorities that the buffer keeps, for
            :meth:`rlcore_torch.ReplayBuffer.sample_prioritized`; None: the buffer keeps none.
        uses_td_errors: Whether :meth:`learned` is called; trainers that compute no temporal-difference errors are
            refused.
        described: How messages call the sampler of a plugin; empty for those of rlcore, which are not checked.
        changes_steps: Whether samples have ``steps``, changed copies of stored transitions, as in hindsight relabeling;
            ``n_steps`` above 1 is refused then.
    """

    priority_alpha: float | None = None
    uses_td_errors: bool = False
    changes_steps: bool = False
    described: str = ""

    def __init__(
        self, settings: Any = None, behavior: BehaviorSpec | None = None, run: RunContext | None = None
    ) -> None:
        """The target of a record: called with the block ``replay_sampler``, the agents and the run."""

    def sample(self, buffer: ReplayBuffer, batch_size: int, generator: np.random.Generator, progress: float) -> Sample:
        """Draw ``batch_size`` transitions of ``buffer``, which holds at least one.

        Draw random numbers from ``generator`` only: the run seeds and saves it. ``progress`` is the share of
        ``max_steps`` taken, in [0, 1]. Called once per gradient step.
        """
        raise NotImplementedError

    def learned(self, buffer: ReplayBuffer, rows: Rows, td_errors: FloatArray) -> None:
        """Receive the temporal-difference errors [B] of the gradient step on ``rows`` [B]; all are finite."""

    def state_dict(self) -> dict[str, Any]:
        """Return what a checkpoint needs, as JSON values and arrays; it is saved together with the replay buffer."""
        return {}

    def require_fit(self, state: Mapping[str, Any]) -> None:
        """Raise RunStateError, changing nothing, if :meth:`load_state_dict` could not load ``state``."""

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue from what :meth:`state_dict` returned; the replay buffer is restored already."""


class UniformSampler(ReplaySampler):
    """Every stored transition is equally likely."""

    def sample(self, buffer: ReplayBuffer, batch_size: int, generator: np.random.Generator, progress: float) -> Sample:
        return Sample(buffer.sample(batch_size, generator))


class PrioritizedSampler(ReplaySampler):
    """Proportional prioritized replay (Schaul et al. 2016, arXiv:1511.05952). The buffer keeps and saves priorities."""

    uses_td_errors = True

    def __init__(self, settings: PrioritizedSamplerSettings, behavior: BehaviorSpec, run: RunContext) -> None:
        self.settings = settings
        self.priority_alpha = settings.alpha

    def sample(self, buffer: ReplayBuffer, batch_size: int, generator: np.random.Generator, progress: float) -> Sample:
        beta = importance_exponent(self.settings, progress)
        return Sample(*buffer.sample_prioritized(batch_size, generator, beta))

    def learned(self, buffer: ReplayBuffer, rows: Rows, td_errors: FloatArray) -> None:
        buffer.set_priorities(rows, td_errors)


def create_replay_sampler(hyperparameters: OffPolicySettings, behavior: BehaviorSpec, run: RunContext) -> ReplaySampler:
    """Return the sampler that ``hyperparameters.replay_sampler`` chooses; uniform without the block.

    Raises ConfigError if the sampler changes single transitions and ``n_steps`` is not 1.
    """
    settings = hyperparameters.replay_sampler
    if settings is None:
        return UniformSampler()
    spec = run.plugins.record(ReplaySamplerSpec, settings.type)
    sampler: ReplaySampler = run.plugins.create(spec, settings=settings, behavior=behavior, run=run)
    if sampler.changes_steps and hyperparameters.n_steps > 1:
        raise ConfigError(
            f"must be 1 with {spec.described}, which changes single transitions, not {hyperparameters.n_steps}",
            key=("behaviors", behavior.name, "hyperparameters", "n_steps"),
        )
    if not isinstance(sampler, UniformSampler | PrioritizedSampler):
        sampler.described = spec.described
    return sampler


def draw(
    sampler: ReplaySampler, buffer: ReplayBuffer, batch_size: int, generator: np.random.Generator, progress: float
) -> Sample:
    """Return a sample. Errors of a plugin's sampler name the plugin, and its rows must hold transitions."""
    if not sampler.described:
        return sampler.sample(buffer, batch_size, generator, progress)
    with blamed(sampler.described, "in sample"):
        sample = sampler.sample(buffer, batch_size, generator, progress)
    problem = _problem(sample, buffer, batch_size, sampler.changes_steps)
    if problem:
        raise PluginError(f"{sampler.described}: sample returned {problem}")
    return sample


def _problem(sample: object, buffer: ReplayBuffer, batch_size: int, changes_steps: bool) -> str:
    """Return what is wrong with a sample; empty if nothing is."""
    if not isinstance(sample, Sample):
        return f"a {type(sample).__name__} instead of a Sample"
    rows = sample.rows
    weight = sample.weight
    if not _is_array(rows, np.int64, batch_size):
        return f"rows that are not an int64 array of {batch_size} numbers"
    if rows.min() < 0 or rows.max() >= buffer.capacity or not buffer.flags.take(rows).all():
        return "rows of the replay buffer that hold no transition"
    if weight is not None:
        if not _is_array(weight, np.float32, batch_size):
            return f"weights that are not a float32 array of {batch_size} numbers"
        if not (weight.min() > 0 and np.isfinite(weight.max())):  # a NaN fails the first comparison
            return "weights that are not finite and positive"
    if (sample.steps is not None) > changes_steps:
        return "steps, but its changes_steps is False"
    return ""


def _is_array(array: object, dtype: type, size: int) -> bool:
    return isinstance(array, np.ndarray) and array.dtype == dtype and array.shape == (size,)
