"""The hooks that rlcore-torch adds: what plugins provide for trainers in PyTorch."""

from __future__ import annotations

from collections.abc import Iterable

from rlcore import registry_of
from rlcore_torch.plugin import ActionDistributionSpec, EncoderSpec, OptimizerSpec, ReplaySamplerSpec, ScheduleSpec


@registry_of(EncoderSpec)
def rlcore_encoders() -> Iterable[EncoderSpec]:
    """The encoders of observations that this plugin provides, for ``vis_encode_type`` and ``vector_encode_type``.

    Called once per loading of plugins, before the configuration is checked. Must not import torch or numpy.
    """


@registry_of(ActionDistributionSpec)
def rlcore_action_distributions() -> Iterable[ActionDistributionSpec]:
    """The distributions of continuous actions that this plugin provides, for ``action_distribution``.

    Called once per loading of plugins, at the latest when a configuration chooses a distribution. Must not import torch
    or numpy.
    """


@registry_of(ReplaySamplerSpec)
def rlcore_replay_buffer_samplers() -> Iterable[ReplaySamplerSpec]:
    """The ways of drawing minibatches from a replay buffer that this plugin provides, for ``replay_sampler.type``.

    Called once per loading of plugins, at the latest when a configuration chooses a replay sampler. Must not import
    torch or numpy.
    """


@registry_of(OptimizerSpec)
def rlcore_optimizers() -> Iterable[OptimizerSpec]:
    """The optimizers that this plugin provides, for ``optimizer.type``.

    Called once per loading of plugins, at the latest when a configuration chooses an optimizer. Must not import torch
    or numpy.
    """


@registry_of(ScheduleSpec)
def rlcore_schedules() -> Iterable[ScheduleSpec]:
    """The schedules that this plugin provides, for ``learning_rate_schedule`` and similar keys.

    Called once per loading of plugins, at the latest when a configuration names a schedule. Must not import torch or
    numpy.
    """
