"""The plugin of rlcore-torch, and the records of what plugins add to it.

Both are of encoders, distributions of actions, replay samplers, optimizers and schedules. rlcore imports this module at
every start, so torch is imported with a target, not here.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable
from importlib import import_module
from typing import TYPE_CHECKING, Any, ClassVar

import attrs

from rlcore import BehaviorSection, Record, TrainerSpec, check_target, hookimpl

if TYPE_CHECKING:
    from pluggy import PluginManager

    from rlcore import BehaviorSettings, Launch, Ranks, RunConfig, RunContext


# ---------------------------------------------------------------- records


def _frozen(values: Iterable[str]) -> frozenset[str]:
    return frozenset(values)


OBSERVATIONS = ("image", "vector")  # kinds of observations that an encoder may read


def _check_kinds(record: Record, attribute: attrs.Attribute[Any], value: frozenset[str]) -> None:
    if not value or not value <= set(OBSERVATIONS):
        raise ValueError(
            f"EncoderSpec {record.name!r}: kinds {sorted(map(str, value))} must have one or more of "
            f"{', '.join(OBSERVATIONS)}"
        )


@attrs.frozen(kw_only=True)
class EncoderSpec(Record):
    """An encoder of observations for the networks of :mod:`rlcore_torch`, which ``network_settings`` may name.

    ``target(settings, observation: ObservationSpec, features: int)``, called by keyword once for each observation and
    network, returns a :class:`torch.nn.Module`. The module's argument is a tensor of float32: for an image [B,
    channels, height, width], divided by 255 if the image is of integers; for a vector [B, size], normalized with
    ``normalize: true``. Its result is [B, any number]; ``features``, which is ``hidden_units``, is a suggestion.
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

    kinds: frozenset[str] = attrs.field(converter=_frozen, validator=_check_kinds)
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
    """

    kind: ClassVar[str] = "action_distribution"
    called: ClassVar[str] = "action distribution"
    key: ClassVar[str] = "action_distribution"

    settings: str | None = attrs.field(default=None, validator=check_target)
    initial_log_std: bool = False


@attrs.frozen(kw_only=True)
class ReplaySamplerSpec(Record):
    """A way of drawing minibatches from a replay buffer, which ``hyperparameters.replay_sampler.type`` may name.

    ``target(settings, behavior: BehaviorSpec, run: RunContext)``, called by keyword, returns a
    :class:`rlcore_torch.ReplaySampler`. Trainers built on
    :class:`rlcore_torch.OffPolicyTrainer` use it.

    Attributes:
        settings: The attrs class of such a block, as ``"package.module:Name"``; derives from
            :class:`rlcore_torch.ReplaySamplerSettings`.
        ranks: Whether it may be used in a run of several processes, each of which has a part of the replay buffer; only
            the ``uniform`` sampler of rlcore may.
    """

    kind: ClassVar[str] = "replay_sampler"
    called: ClassVar[str] = "replay sampler"
    key: ClassVar[str] = "replay_sampler.type"

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


# ---------------------------------------------------------------- hooks


@hookimpl
def rlcore_addhooks(manager: PluginManager) -> None:
    from rlcore_torch import hookspecs

    manager.add_hookspecs(hookspecs)


@hookimpl
def rlcore_config_sections() -> list[BehaviorSection]:
    return [
        BehaviorSection(
            name="behavioral_cloning",
            target="rlcore_torch.settings:BehavioralCloningSettings",
            summary="imitation of demonstrations beside reinforcement learning",
        )
    ]


@hookimpl
def rlcore_encoders() -> list[EncoderSpec]:
    """ML-Agents' encoders of images; :data:`rlcore_torch.networks.encoders.BUILT_IN` has them by the same names."""
    summaries = {
        "simple": "two convolutions, for images of at least 20x20 pixels",
        "nature_cnn": "three convolutions (Mnih et al. 2015), at least 36x36 pixels",
        "resnet": "three residual stages (Espeholt et al. 2018), at least 15x15 pixels",
        "match3": "two convolutions of 3x3, for boards of at least 5x5 cells",
        "fully_connected": "no convolution, for images of any size",
    }
    return [
        EncoderSpec(
            name=name,
            target=f"rlcore_torch.networks.encoders:{name}",
            kinds={"image"},
            summary=summary,
            formerly=f"rlcore/{name}",
        )
        for name, summary in summaries.items()
    ]


@hookimpl
def rlcore_action_distributions() -> list[ActionDistributionSpec]:
    """rlcore's own; :data:`rlcore_torch.networks.distributions.BUILT_IN` has them by the same names."""
    return [
        ActionDistributionSpec(
            name="gaussian",
            target="rlcore_torch.networks.distributions:Gaussian",
            initial_log_std=True,
            summary="a Gaussian with one standard deviation for each part of an action, which is learned",
            formerly="rlcore/gaussian",
        ),
        ActionDistributionSpec(
            name="state_dependent_gaussian",
            target="rlcore_torch.networks.distributions:StateDependentGaussian",
            settings="rlcore_torch.settings:StateDependentGaussianSettings",
            initial_log_std=True,
            summary="a Gaussian whose mean and standard deviation depend on the observation",
            formerly="rlcore/state_dependent_gaussian",
        ),
        ActionDistributionSpec(
            name="squashed_gaussian",
            target="rlcore_torch.networks.distributions:SquashedGaussian",
            initial_log_std=True,
            summary="a state-dependent Gaussian whose draws pass through tanh, for actions within bounds",
            formerly="rlcore/squashed_gaussian",
        ),
    ]


@hookimpl
def rlcore_replay_buffer_samplers() -> list[ReplaySamplerSpec]:
    return [
        ReplaySamplerSpec(
            name="uniform",
            target="rlcore_torch.off_policy.replay_sampler:UniformSampler.create",
            settings="rlcore_torch.settings:ReplaySamplerSettings",
            summary="every stored transition is equally likely",
            formerly="rlcore/uniform",
            ranks=True,
        ),
        ReplaySamplerSpec(
            name="prioritized",
            target="rlcore_torch.off_policy.replay_sampler:PrioritizedSampler.create",
            settings="rlcore_torch.settings:PrioritizedSamplerSettings",
            summary="by the size of temporal-difference errors, with importance weights",
            formerly="rlcore/prioritized",
        ),
    ]


@hookimpl
def rlcore_optimizers() -> list[OptimizerSpec]:
    return [
        OptimizerSpec(
            name="adam",
            target="rlcore_torch.optimization.optimizer:TorchAdam",
            settings="rlcore_torch.settings:OptimizerSettings",
            summary="Kingma and Ba 2015, with adam_epsilon",
            formerly="rlcore/adam",
        )
    ]


@hookimpl
def rlcore_schedules() -> list[ScheduleSpec]:
    """The schedules of :data:`rlcore_torch.optimization.schedules.BUILT_IN`."""
    summaries = {
        "constant": "the initial value",
        "cosine": "half a cosine, slow at both ends (Loshchilov and Hutter 2017)",
        "linear": "equal changes at every step",
    }
    return [
        ScheduleSpec(
            name=name,
            target=f"rlcore_torch.optimization.schedules:{name}",
            summary=summary,
            formerly=f"rlcore/{name}",
        )
        for name, summary in summaries.items()
    ]


@hookimpl(wrapper=True)
def rlcore_create_trainer(spec: TrainerSpec, settings: BehaviorSettings, run: RunContext) -> Generator[None, Any, Any]:
    """Let a trainer imitate where its behavior has a ``behavioral_cloning`` block; torch is imported only then."""
    trainer = yield
    if settings.sections.get("behavioral_cloning") is None or run.inference or trainer is None:
        return trainer
    return import_module("rlcore_torch.imitation").imitating(trainer, run)


@hookimpl
def rlcore_create_ranks(launch: Launch, config: RunConfig, stop_requested: Callable[[], bool]) -> Ranks:
    ranks: Ranks = import_module("rlcore_torch.distributed").TorchRanks(
        launch, config.torch_settings.rank_timeout, stop_requested
    )
    return ranks
