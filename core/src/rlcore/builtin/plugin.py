"""The plugin inside rlcore. It uses the same hooks as every other plugin."""

from __future__ import annotations

from collections.abc import Generator
from importlib import import_module
from typing import TYPE_CHECKING, Any

from rlcore.plugins.markers import hookimpl
from rlcore.plugins.records import (
    ActionDistributionSpec,
    EncoderSpec,
    ExecutorSpec,
    OpponentSpec,
    OptimizerSpec,
    ReplaySamplerSpec,
    RewardProviderSpec,
    ScheduleSpec,
    StatsWriterSpec,
    TrainerSpec,
)

if TYPE_CHECKING:
    from rlcore.plugins.run_context import RunContext
    from rlcore.settings import BehaviorSettings


@hookimpl
def rlcore_reward_providers() -> list[RewardProviderSpec]:
    return [
        RewardProviderSpec(
            name="extrinsic",
            target="rlcore.rewards:ExtrinsicReward.create",
            settings="rlcore.settings:RewardSettings",
            summary="the environment's own reward, the group's included",
            ranks=True,
        )
    ]


@hookimpl
def rlcore_executors() -> list[ExecutorSpec]:
    return [
        ExecutorSpec(
            name="processes",
            target="rlcore.workers.processes:ProcessExecutor.create",
            summary="processes of this machine that share memory",
        )
    ]


@hookimpl
def rlcore_replay_buffer_samplers() -> list[ReplaySamplerSpec]:
    return [
        ReplaySamplerSpec(
            name="uniform",
            target="rlcore_torch.off_policy.replay_sampler:UniformSampler.create",
            settings="rlcore.settings:ReplaySamplerSettings",
            summary="every stored transition is equally likely",
            ranks=True,
        ),
        ReplaySamplerSpec(
            name="prioritized",
            target="rlcore_torch.off_policy.replay_sampler:PrioritizedSampler.create",
            settings="rlcore.settings:PrioritizedSamplerSettings",
            summary="by the size of temporal-difference errors, with importance weights",
        ),
    ]


@hookimpl
def rlcore_opponents() -> list[OpponentSpec]:
    return [
        OpponentSpec(
            name="random",
            target="rlcore.builtin.opponents:RandomPolicy.create",
            summary="every allowed action is equally likely",
        ),
        OpponentSpec(
            name="run",
            target="rlcore.runs.opponents:policy_of_run",
            settings="rlcore.settings:RunOpponentSettings",
            summary="the policy of a checkpoint of another run",
        ),
    ]


@hookimpl
def rlcore_optimizers() -> list[OptimizerSpec]:
    return [
        OptimizerSpec(
            name="adam",
            target="rlcore_torch.optimization.optimizer:TorchAdam",
            settings="rlcore.settings:OptimizerSettings",
            summary="Kingma and Ba 2015, with adam_epsilon",
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
        ScheduleSpec(name=name, target=f"rlcore_torch.optimization.schedules:{name}", summary=summary)
        for name, summary in summaries.items()
    ]


@hookimpl
def rlcore_stats_writers() -> list[StatsWriterSpec]:
    return [
        StatsWriterSpec(
            name="jsonl",
            target="rlcore.builtin.writers:JsonlWriter.create",
            summary="metrics.jsonl in the run directory, one summary a line",
            default_on=True,
        ),
        StatsWriterSpec(
            name="console",
            target="rlcore.builtin.writers:ConsoleWriter.create",
            summary="a line for each summary on the terminal",
            default_on=True,
            inference=True,
        ),
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
        EncoderSpec(name=name, target=f"rlcore_torch.networks.encoders:{name}", kinds={"image"}, summary=summary)
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
        ),
        ActionDistributionSpec(
            name="state_dependent_gaussian",
            target="rlcore_torch.networks.distributions:StateDependentGaussian",
            settings="rlcore.settings:StateDependentGaussianSettings",
            initial_log_std=True,
            summary="a Gaussian whose mean and standard deviation depend on the observation",
        ),
        ActionDistributionSpec(
            name="squashed_gaussian",
            target="rlcore_torch.networks.distributions:SquashedGaussian",
            initial_log_std=True,
            summary="a state-dependent Gaussian whose draws pass through tanh, for actions within bounds",
        ),
    ]


@hookimpl(wrapper=True)
def rlcore_create_trainer(spec: TrainerSpec, settings: BehaviorSettings, run: RunContext) -> Generator[None, Any, Any]:
    """Let a trainer imitate where its behavior has a ``behavioral_cloning`` block; torch is imported only then."""
    trainer = yield
    if settings.behavioral_cloning is None or run.inference or trainer is None:
        return trainer
    return import_module("rlcore_torch.imitation").imitating(trainer, run)
