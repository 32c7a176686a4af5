"""The plugin of rlcore-torch. rlcore imports it at every start, so torch is imported with a target, not here."""

from __future__ import annotations

import logging
from collections.abc import Callable, Generator, Mapping
from importlib import import_module
from itertools import chain
from typing import TYPE_CHECKING, Any

from rlcore import (
    BehaviorSection,
    CommandSpec,
    ConfigSection,
    EnvironmentSpec,
    RunOptionSpec,
    TrainerSpec,
    hookimpl,
    watch_process,
)
from rlcore_torch import hookspecs
from rlcore_torch.hookspecs import (
    AccelerationSpec,
    ActionDistributionSpec,
    EncoderSpec,
    OptimizerSpec,
    ReplaySamplerSpec,
    ScheduleSpec,
)
from rlcore_torch.process_settings import read_process_settings

if TYPE_CHECKING:
    from pluggy import PluginManager

    from rlcore import BehaviorSettings, Launch, Ranks, Registry, RunConfig, RunContext, StatSummary, StopRequests

log = logging.getLogger("rlcore.plugin.torch")


@hookimpl
def rlcore_addhooks(manager: PluginManager) -> None:
    manager.add_hookspecs(hookspecs)
    watch_process(read_process_settings)


@hookimpl
def rlcore_config_sections() -> list[BehaviorSection | ConfigSection]:
    return [
        ConfigSection(
            name="torch_settings",
            target="rlcore_torch.torch_settings:TorchSettings",
            summary="Device and threads of PyTorch.",
        ),
        BehaviorSection(
            name="behavioral_cloning",
            target="rlcore_torch.settings:BehavioralCloningSettings",
            summary="imitation of demonstrations beside reinforcement learning",
        ),
    ]


@hookimpl
def rlcore_commands() -> list[RunOptionSpec | CommandSpec]:
    return [
        CommandSpec(
            name="torchrun",
            target="rlcore_torch.ranks.command:torchrun_command",
            summary="Train in several processes, on this host and others.",
        ),
        RunOptionSpec(
            name="device",
            sets="torch_settings.device",
            summary="Device of the trainers, such as cpu or cuda:0.",
        ),
    ]


def _own(record: Callable[..., Any], module: str, summaries: Mapping[str, str], **more: Any) -> list[Any]:
    """The records of ``summaries``, whose targets ``module`` has by the same names."""
    target = f"rlcore_torch.{module}:"
    return [record(name=name, target=target + name, summary=summary, **more) for name, summary in summaries.items()]


@hookimpl
def rlcore_environments() -> list[EnvironmentSpec]:
    return [
        EnvironmentSpec(
            name="torch-cartpole",
            target="rlcore_torch.tensors.made:make_cart_pole",
            settings="rlcore_torch.tensors.made:CartPoleSettings",
            names_behaviors=False,
            adapter="rlcore_torch.tensors.made:adapt",
            summary="the cart-pole as tensors on torch_settings.device, thousands of it at once",
        )
    ]


@hookimpl
def rlcore_encoders() -> list[EncoderSpec]:
    """Encoders of images; :data:`rlcore_torch.networks.encoders.BUILT_IN` has them by the same names."""
    summaries = {
        "auto": "simple for images of at least 20x20 pixels, fully_connected for smaller ones",
        "simple": "two convolutions, for images of at least 20x20 pixels",
        "nature_cnn": "three convolutions (Mnih et al. 2015), at least 36x36 pixels",
        "resnet": "three residual stages (Espeholt et al. 2018), at least 15x15 pixels",
        "match3": "two convolutions of 3x3, for boards of at least 5x5 cells",
        "fully_connected": "no convolution, for images of any size",
    }
    impala = EncoderSpec(
        name="impala",
        target="rlcore_torch.networks.encoders:impala",
        settings="rlcore_torch.networks.settings:ImpalaSettings",
        kinds={"image"},
        summary="three residual stages with the sizes of IMPALA's paper (Espeholt et al. 2018), at least 8x8 pixels",
    )
    return [*_own(EncoderSpec, "networks.encoders", summaries, kinds={"image"}), impala]


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
            settings="rlcore_torch.networks.settings:StateDependentGaussianSettings",
            initial_log_std=True,
            summary="a Gaussian whose mean and standard deviation depend on the observation",
        ),
        ActionDistributionSpec(
            name="squashed_gaussian",
            target="rlcore_torch.networks.distributions:SquashedGaussian",
            initial_log_std=True,
            log_prob_of_draws=True,
            summary="a state-dependent Gaussian whose draws pass through tanh, for actions within bounds",
        ),
        ActionDistributionSpec(
            name="gsde",
            target="rlcore_torch.networks.gsde:GSDE",
            settings="rlcore_torch.networks.settings:GSDESettings",
            summary="smooth noise that agents keep for several steps, made of the policy's features (gSDE)",
        ),
        ActionDistributionSpec(
            name="squashed_gsde",
            target="rlcore_torch.networks.gsde:SquashedGSDE",
            settings="rlcore_torch.networks.settings:SquashedGSDESettings",
            log_prob_of_draws=True,
            summary="gSDE whose draws pass through tanh, for actions within bounds, and for SAC",
        ),
    ]


@hookimpl
def rlcore_replay_buffer_samplers() -> list[ReplaySamplerSpec]:
    return [
        ReplaySamplerSpec(
            name="uniform",
            target="rlcore_torch.off_policy.replay_sampler:UniformSampler",
            settings="rlcore_torch.settings:ReplaySamplerSettings",
            summary="every stored transition is equally likely",
            ranks=True,
        ),
        ReplaySamplerSpec(
            name="prioritized",
            target="rlcore_torch.off_policy.replay_sampler:PrioritizedSampler",
            settings="rlcore_torch.settings:PrioritizedSamplerSettings",
            summary="by the size of temporal-difference errors, with importance weights",
        ),
    ]


@hookimpl
def rlcore_optimizers() -> list[OptimizerSpec]:
    return [
        OptimizerSpec(
            name="adam",
            target="rlcore_torch.optimization.optimizer:TorchAdam",
            settings="rlcore_torch.settings:AdamSettings",
            summary="Kingma and Ba 2015, with adam_epsilon",
        ),
        OptimizerSpec(
            name="adamw",
            target="rlcore_torch.optimization.torch_optimizers:adamw",
            settings="rlcore_torch.settings:AdamWSettings",
            summary="Adam with decoupled weight decay of matrices and kernels (Loshchilov and Hutter 2019)",
        ),
        OptimizerSpec(
            name="radam",
            target="rlcore_torch.optimization.torch_optimizers:radam",
            settings="rlcore_torch.settings:RAdamSettings",
            summary="Adam whose first steps are rectified (Liu et al. 2020)",
        ),
    ]


@hookimpl
def rlcore_schedules() -> list[ScheduleSpec]:
    """The schedules of :data:`rlcore_torch.optimization.schedules.BUILT_IN`."""
    summaries = {
        "constant": "the initial value",
        "cosine": "half a cosine, slow at both ends (Loshchilov and Hutter 2017)",
        "linear": "equal changes at every step",
    }
    return _own(ScheduleSpec, "optimization.schedules", summaries)


@hookimpl
def rlcore_accelerations() -> list[AccelerationSpec]:
    return [
        AccelerationSpec(
            name="values",
            trainer="rlcore_torch.on_policy.trainer:OnPolicyTrainer",
            target="rlcore_torch.acceleration.network_stacks:VALUES",
            summary="values of rollouts by linear layers, as many rows at once as a cache holds",
        ),
        AccelerationSpec(
            name="pieces",
            trainer="rlcore_torch.on_policy.trainer:OnPolicyTrainer",
            target="rlcore_torch.acceleration.piece_threads:PIECES",
            summary="pieces of a minibatch of images side by side, with num_threads",
        ),
    ]


@hookimpl(wrapper=True)
def rlcore_create_trainer(spec: TrainerSpec, settings: BehaviorSettings, run: RunContext) -> Generator[None, Any, Any]:
    """Let a trainer imitate where its behavior has a ``behavioral_cloning`` block; torch is imported only then."""
    trainer = yield
    if settings.sections.get("behavioral_cloning") is None or run.inference or trainer is None:
        return trainer
    return import_module("rlcore_torch.imitation").imitating(trainer, run)


@hookimpl
def rlcore_run_started(run: RunContext) -> None:
    """Say which encoders small images have, warn of settings without effect, and begin to measure other layouts."""
    warnings = import_module("rlcore_torch.warnings_at_start")
    for message in warnings.chosen_encoders(run):
        log.info("%s", message)
    of_run = (warnings.unused_encoders(run), warnings.few_gradient_steps(run), warnings.alone_in_slurm(run))
    for message in chain.from_iterable(of_run):
        log.warning("%s", message)
    import_module("rlcore_torch.layouts").advised(run, {})


@hookimpl
def rlcore_summary_written(run: RunContext, stats: Mapping[str, StatSummary]) -> None:
    """Say, once, whether workers or ranks would make the run faster."""
    if message := import_module("rlcore_torch.layouts").advised(run, stats):
        log.info("speed: %s", message)


@hookimpl
def rlcore_create_ranks(launch: Launch, config: RunConfig, plugins: Registry, stops: StopRequests) -> Ranks:
    import_module("rlcore_torch.ranks.refusals").refuse_in_ranks(config, plugins, launch.size)
    module = import_module("rlcore_torch.ranks.torch_ranks")
    settings = import_module("rlcore_torch.torch_settings").torch_settings(config)
    ranks: Ranks = module.TorchRanks(launch, settings.rank_timeout, stops)
    return ranks
