"""The hooks that rlcore-torch adds, and their records: what plugins provide for trainers in PyTorch."""

from __future__ import annotations

from collections.abc import Iterable
from typing import ClassVar

import attrs
from attrs.validators import deep_iterable, in_, min_len

from rlcore import Record, check_target, frozen_set, registry_of

# ---------------------------------------------------------------- records


OBSERVATIONS = ("image", "vector")  # kinds of observations that an encoder may read
KNOWN_KINDS = deep_iterable(in_(OBSERVATIONS))


@attrs.frozen(kw_only=True)
class EncoderSpec(Record):
    """An encoder of observations for the networks of :mod:`rlcore_torch`, which ``network_settings`` may name.

    ``target(settings, observation: ObservationSpec, features: int)``, called by keyword once for each observation and
    network, returns a :class:`torch.nn.Module`. The module's argument is a tensor of float32: for an image [B,
    channels, height, width], divided by :attr:`rlcore.ObservationSpec.full_scale`; for a vector [B, size], normalized
    with ``normalize: true``. Its result is [B, any number]; ``features``, which is ``hidden_units``, is a suggestion.
    ``settings`` is None without a settings class. Raise :class:`rlcore.UnsupportedSpace` for an observation that
    the encoder cannot read.

    Attributes:
        kinds: Observations that the encoder reads: ``"image"``, so that ``vis_encode_type`` may name it, ``"vector"``,
            so that ``vector_encode_type`` may, or both.
        settings: The attrs class of ``vis_encode_settings`` or ``vector_encode_settings``, as
            ``"package.module:Name"``; None if it has no settings.
    """

    kind: ClassVar[str] = "encoder"
    key: ClassVar[str] = "vis_encode_type"

    kinds: frozenset[str] = attrs.field(converter=frozen_set, validator=[min_len(1), KNOWN_KINDS])
    settings: str | None = attrs.field(default=None, validator=check_target)


@attrs.frozen(kw_only=True)
class ActionDistributionSpec(Record):
    """A distribution of continuous actions for :mod:`rlcore_torch`, which ``action_distribution`` may name.

    ``target(settings, behavior: BehaviorSpec)``, called by keyword once for each policy network, returns a
    :class:`rlcore_torch.ActionDistribution` of ``behavior.continuous`` parts; ``settings`` is None
    without a settings class. With ``initial_log_std``, the target also takes the number of that name: the logarithm of
    the first standard deviation, from ``hyperparameters.initial_log_std`` of a trainer that has this key, else 0. A
    distribution without it refuses a value other than the key's default. Raise :class:`rlcore.UnsupportedSpace`
    for actions that the distribution cannot have.

    Attributes:
        settings: The attrs class of ``action_distribution_settings``, as ``"package.module:Name"``; None if it has no
            settings.
        initial_log_std: Whether the target takes the argument of that name.
        log_prob_of_draws: Whether the distribution has :meth:`rlcore_torch.ActionDistribution.sample_log_prob`, which
            SAC needs.
    """

    kind: ClassVar[str] = "action_distribution"
    called: ClassVar[str] = "action distribution"
    key: ClassVar[str] = "action_distribution"

    settings: str | None = attrs.field(default=None, validator=check_target)
    initial_log_std: bool = False
    log_prob_of_draws: bool = False


@attrs.frozen(kw_only=True)
class ReplaySamplerSpec(Record):
    """A way of drawing minibatches from a replay buffer, which ``hyperparameters.replay_sampler.type`` may name.

    ``target(settings, behavior: BehaviorSpec, run: RunContext)``, called by keyword, returns a
    :class:`rlcore_torch.ReplaySampler`. Trainers built on
    :class:`rlcore_torch.OffPolicyTrainer` use it.

    Attributes:
        settings: The attrs class of such a block, as ``"package.module:Name"``; derives from
            :class:`rlcore_torch.ReplaySamplerSettings`.
        ranks: Whether it may be used in a run of several processes, each of which has a part of the replay buffer. Only
            the ``uniform`` sampler of rlcore may: ranks draw from their joined buffers without asking a sampler, and a
            run refuses any other.
    """

    kind: ClassVar[str] = "replay_sampler"
    called: ClassVar[str] = "replay sampler"
    key: ClassVar[str] = "replay_sampler.type"
    protocol: ClassVar[str] = "rlcore_torch:ReplaySampler"

    settings: str = attrs.field(validator=check_target)
    ranks: bool = False


@attrs.frozen(kw_only=True)
class OptimizerSpec(Record):
    """An optimizer of the trainers of :mod:`rlcore_torch`, which ``hyperparameters.optimizer.type`` may name.

    ``target(parameters: list[nn.Parameter], learning_rate: float, settings)``, called by keyword, returns a
    :class:`torch.optim.Optimizer` that has each of the parameters in one of its groups. The trainer sets ``lr`` of
    every group to the value of ``learning_rate_schedule``. The target is called twice for each optimizer: the second
    time with copies of the parameters, on which one step shows what the optimizer keeps. A checkpoint has the tensors
    and numbers in the ``state`` of the optimizer, and the options of its groups that a step changed. The optimizer must
    not draw random numbers, and its ``step`` must not need a closure.

    Attributes:
        settings: The attrs class of such a block, as ``"package.module:Name"``; derives from
            :class:`rlcore_torch.OptimizerSettings`.
    """

    kind: ClassVar[str] = "optimizer"
    key: ClassVar[str] = "optimizer.type"

    settings: str = attrs.field(validator=check_target)


@attrs.frozen(kw_only=True)
class ScheduleSpec(Record):
    """A way in which a value changes during a run, which ``learning_rate_schedule`` and similar keys may name.

    ``target(progress: float)``, called by position, returns the share of the way from the initial to the final value.
    Both are numbers from 0 to 1; ``progress`` is the share of ``max_steps`` taken. ``lambda progress: progress`` is
    the schedule ``linear``. The result must depend on nothing but ``progress``, so that a run can be resumed.
    """

    kind: ClassVar[str] = "schedule"
    key: ClassVar[str] = "learning_rate_schedule"


@attrs.frozen(kw_only=True)
class AccelerationSpec(Record):
    """A faster way to compute what methods of a trainer of :mod:`rlcore_torch` compute, where the CPU has one.

    ``target`` is a :class:`rlcore_torch.Acceleration`. It is imported when a trainer of the class is made, and used
    where the trainer's methods are exactly those it names. ``torch_settings.fast_cpu: false`` runs without it.

    Attributes:
        trainer: The class of the trainer, as ``"package.module:Name"``.
    """

    kind: ClassVar[str] = "acceleration"

    trainer: str = attrs.field(validator=check_target)


# ---------------------------------------------------------------- hooks


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


@registry_of(AccelerationSpec)
def rlcore_accelerations() -> Iterable[AccelerationSpec]:
    """The faster ways of computing what trainers compute that this plugin provides.

    Called once per loading of plugins. Must not import torch or numpy.
    """
