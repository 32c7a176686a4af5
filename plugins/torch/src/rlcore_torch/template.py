"""The part that the on-policy, off-policy and offline templates share: network, optimizers, rewards, policy."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any, TypeVar

import torch
from torch import nn
from torch.nn.modules.batchnorm import _BatchNorm

from rlcore import (
    AgentBatch,
    BehaviorSettings,
    BehaviorSpec,
    ConfigError,
    NetworkSize,
    PluginError,
    RewardProvider,
    RunContext,
    RunStateError,
    derive_seed,
    saved_mapping,
)
from rlcore_torch.acceleration.captured import CapturedStep, require_capturable
from rlcore_torch.acceleration.compiled import compiled_step, leave_out
from rlcore_torch.backend import choose_backend
from rlcore_torch.hookspecs import OptimizerSpec
from rlcore_torch.networks.actions import require_bounds
from rlcore_torch.networks.batch_norm import BatchNorm
from rlcore_torch.networks.distributions import DEFAULT
from rlcore_torch.networks.layers import Dropout
from rlcore_torch.networks.models import Actor
from rlcore_torch.networks.saved_networks import (
    fitted_normalizers,
    load_model_state,
    model_state,
    require_model_fit,
    with_critics,
)
from rlcore_torch.networks.settings import NetworkSettings
from rlcore_torch.optimization.optimizer import BETAS, Optimizer, TorchAdam, call_after_steps
from rlcore_torch.optimization.plugin_optimizer import PluginOptimizer
from rlcore_torch.optimization.schedules import create_schedule
from rlcore_torch.policy.policy import ActorPolicy, ActorSnapshot
from rlcore_torch.ranks.step_count import StepCount
from rlcore_torch.reward_scaling import RewardScaling
from rlcore_torch.settings import AdamSettings, AdamWSettings

__all__ = ["Statistic", "TorchTrainer"]

Result = TypeVar("Result")
Statistic = float | Sequence[float]
"""A statistic of an update, or one of each of several episodes."""

IMITATION_STATE = "behavioral_cloning"  # the entry that rlcore_torch.imitation adds to a trainer's state


def layers_text(settings: NetworkSettings) -> str:
    """``2 x 64 tanh``, or ``64, 32 tanh`` for layers that differ; then ``LSTM 32`` or ``GRU 64``, if there is one."""
    widths = settings.widths
    if not widths:
        layers = "linear"
    elif len(set(widths)) == 1:
        layers = f"{len(widths)} x {widths[0]} {settings.activation}"
    else:
        layers = f"{', '.join(map(str, widths))} {settings.activation}"
    memory = settings.memory
    if memory is None:
        return layers
    units = memory.memory_size // 2 if memory.type == "lstm" else memory.memory_size
    return f"{layers} + {memory.type.upper()} {units}"


log = logging.getLogger(__name__)


class TorchTrainer:
    """Base of the three templates; derive from one of those.

    PyTorch's random state outside of the trainer is not changed: the weights depend on the run's seed and nothing else.

    Attributes:
        model: The network, on ``device``.
        policy: The current policy.
        behavior: The observations and actions of the agents.
        settings: The behavior's block of the configuration.
        hyperparameters: The block ``hyperparameters``.
        backend: The choices that ``torch_settings`` makes.
        device: The device of the network.
        providers: The reward providers, R of them.
        provider_names: The keys of the providers under ``reward_signals``, in their order.
        steps: Agent steps observed so far; gradient steps for a trainer of recorded data.
        step_count: Counts ``steps``, in all ranks.
        learning_rate: The schedule of the learning rate.
        ranks: The processes of the run.
        share: The slots of the behavior that this process has.
        inference: Whether the policy is only measured, and nothing is learned.
    """

    model: Any
    policy: ActorPolicy

    def __init__(self, settings: BehaviorSettings, behavior: BehaviorSpec, run: RunContext) -> None:
        self.behavior = behavior
        self.settings = settings
        self.hyperparameters = settings.hyperparameters
        self.backend = choose_backend(run)
        self.device = self.backend.device
        self.providers: Sequence[RewardProvider] = run.create_reward_providers(behavior, settings)
        self.provider_names = tuple(settings.reward_signals)  # in the same order
        self.ranks = run.ranks
        self.inference = run.inference
        self.share = run.ranks.share_slots(behavior.env_index, run.first_env)
        self.step_count = StepCount(self.ranks, self.share.total)
        self._captured: list[CapturedStep[Any]] = []
        self._after_steps: list[Callable[[], None]] = []
        h = self.hyperparameters
        self.learning_rate = create_schedule(
            h.learning_rate_schedule, h.learning_rate, h.final_learning_rate, settings.max_steps, run
        )
        self._plugins = run.plugins
        torch.set_num_threads(self.backend.threads)
        with torch.random.fork_rng(devices=[]):  # initial weights depend on the run's seed and nothing else
            torch.manual_seed(derive_seed(run.seed, f"{behavior.name}/weights"))
            self.model = self.build_model(len(self.providers)).to(self.device)
        self.backend.prepare(self.model)
        self._refuse_dropout()
        self._refuse_batch_norm()
        distribution = self.model.policy_head.distribution
        if distribution is not None and distribution.bounded:
            named = settings.network_settings.action_distribution
            if named is None or getattr(self.hyperparameters, "needs_log_prob_of_draws", False):
                require_bounds(behavior, settings.trainer_type, "trainer_type ppo")
            else:
                require_bounds(behavior, f"action_distribution {named!r}", f"action_distribution {DEFAULT}")

    def _refuse_dropout(self) -> None:
        """Raise ConfigError where gradient steps cannot draw what dropout leaves out."""
        if self.backend.cuda_graphs:
            cause = "a step that is recorded (cuda_graphs)"
        elif self.ranks.size > 1:
            cause = "a run of several ranks"
        else:
            return
        if any(isinstance(module, Dropout) for module in self.model.modules()):
            raise ConfigError(
                f"draws random numbers within a gradient step, which {cause} cannot repeat; leave it out",
                key=("behaviors", self.behavior.name, "network_settings", "dropout"),
            )

    def _refuse_batch_norm(self) -> None:
        """Raise PluginError for PyTorch's batch normalization, ConfigError where minibatches have other statistics."""
        normalizes = False
        for name, module in self.model.named_modules():
            normalizes |= isinstance(module, BatchNorm)
            if isinstance(module, _BatchNorm) and (module.training or not module.track_running_stats):
                kind = type(module).__name__
                raise PluginError(
                    f"trainer {self.settings.trainer_type!r}: {name} of its network is a torch.nn.{kind}, which would "
                    "act with the statistics of the rows beside it; use rlcore_torch.BatchNorm, which does so only in "
                    "calls with batch_statistics=True, or freeze a trained one with eval()"
                )
        if not normalizes or self.inference:
            return
        behavior = ("behaviors", self.behavior.name)
        if self.ranks.size > 1:
            cause = "needs the statistics of whole minibatches, of which each rank has some rows"
            raise ConfigError(
                f"{cause}; leave it out, or use one rank", key=(*behavior, "network_settings", "batch_norm")
            )
        batch_size = getattr(self.hyperparameters, "batch_size", 2)
        if batch_size < 2:
            problem = f"must be at least 2 for a network with batch normalization, not {batch_size}"
            raise ConfigError(problem, key=(*behavior, "hyperparameters", "batch_size"))

    def build_model(self, value_heads: int) -> Actor:
        """Return the network. Called once, with PyTorch's generator seeded. A subclass implements it.

        ``value_heads`` is R, the number of reward providers. Everything that a run must save is a parameter or a buffer
        of the network, target networks included.
        """
        raise NotImplementedError

    @property
    def steps(self) -> int:
        """Agent steps observed so far; gradient steps for a trainer of recorded data."""
        return self.step_count.steps

    @steps.setter
    def steps(self, steps: int) -> None:
        self.step_count.steps = steps

    def actor_optimizer(self) -> Optimizer:
        """Return the optimizer that moves the policy's parameters. Behavioral cloning uses it."""
        raise NotImplementedError

    def after_step(self, name: str) -> None:
        """Change weights after a step of the optimizer called ``name``, such as to project them; by default nothing.

        Called without recording gradients after each step of each optimizer, those of imitation included; for each name
        once when a training begins, before the first step; and after :meth:`load_model`. A resumed training has the
        weights as they were saved. ``name`` is that in :attr:`rlcore_torch.MinibatchTrainer.optimizers`, and
        ``optimizer`` for the only one of a trainer of rollouts. Change parameters in place (``copy_``): they may be
        views of other tensors. The attributes that a subclass sets after ``super().__init__`` are not there yet when a
        training begins. Nothing in it may depend on values of tensors where a gradient step is captured.
        """

    @property
    def network_size(self) -> NetworkSize:
        """The hidden layers of the policy, and the number of parameters that updates change."""
        trained = sum(parameter.numel() for parameter in self.model.parameters() if parameter.requires_grad)
        return NetworkSize(layers_text(self.settings.network_settings), trained)

    # ------------------------------------------------------------ for subclasses

    def captured(self, step: Callable[..., Result]) -> Callable[..., Result]:
        """Return a gradient step that is compiled, or recorded and replayed, as ``torch_settings`` say; else ``step``.

        ``step`` must be a function of tensors that allocates nothing which outlives it. Steps of networks with memory
        are not compiled: the sizes of their sequences differ. Raises ConfigError in several ranks, which exchange
        gradients within a step.
        """
        if not self.backend.changes_steps:
            return step
        if self.ranks.size > 1:
            key, done = ("cuda_graphs", "recorded") if self.backend.cuda_graphs else ("compile", "compiled")
            raise ConfigError(
                f"ranks exchange gradients within a step, which cannot be {done}; leave {key} out",
                key=("torch_settings", key),
            )
        if self.backend.compiled and not self.model.memory_size:
            step = compiled_step(step)
        if not self.backend.cuda_graphs:
            return step
        recorded = CapturedStep(step, self.device)
        self._captured.append(recorded)
        return recorded

    def forget_captured(self) -> None:
        """Record gradient steps again; call it when parameters or states of optimizers were replaced."""
        for step in self._captured:
            step.forget()

    def make_optimizer(
        self,
        parameters: Iterable[nn.Parameter],
        learning_rate: float | None = None,
        *,
        betas: tuple[float, float] = BETAS,
        weight_decay: float = 0.0,
    ) -> Optimizer:
        """The optimizer that the hyperparameters choose, over ``parameters``; by default Adam.

        ``learning_rate`` is that of its first step, by default ``hyperparameters.learning_rate``, whose schedule it
        follows. ``betas``, and a ``weight_decay`` above 0 with which Adam becomes AdamW, are what the algorithm has
        for this part of the model. An ``optimizer`` in the hyperparameters replaces both.
        """
        h = self.hyperparameters
        rate = h.learning_rate if learning_rate is None else learning_rate
        # A policy that is only measured needs no optimizer, so that its plugin may be absent.
        chosen = None if self.inference else h.optimizer
        if chosen is None and weight_decay and not self.inference:
            beta1, beta2 = betas
            chosen = AdamWSettings(
                type="rlcore-torch/adamw",
                beta1=beta1,
                beta2=beta2,
                weight_decay=weight_decay,
                epsilon=h.adam_epsilon,
            )
        spec = None if chosen is None else self._plugins.record(OptimizerSpec, chosen.type)
        if spec is not None and spec.resolve() is not TorchAdam:
            optimizer: Optimizer = PluginOptimizer(spec, chosen, list(parameters), rate)
        else:
            if isinstance(chosen, AdamSettings):
                betas = (chosen.beta1, chosen.beta2)
            optimizer = self.backend.adam(parameters, rate, h.adam_epsilon, betas)
        optimizer.rate_factor = rate / h.learning_rate
        if self.backend.compiled:
            leave_out(optimizer)
        if self.backend.cuda_graphs:
            require_capturable(optimizer)
        return optimizer

    def _follow_steps(self, optimizers: Mapping[str, Optimizer]) -> None:
        """Let :meth:`after_step` change the weights as they are, and after each step of the named ``optimizers``.

        Templates call it once. Does nothing for a policy that is only measured.
        """
        if self.inference or type(self).after_step is TorchTrainer.after_step:
            return
        for name, optimizer in optimizers.items():
            function = partial(self.after_step, name)
            call_after_steps(optimizer, function)
            self._after_steps.append(function)
        self._project_now()

    @torch.no_grad()
    def _project_now(self) -> None:
        for function in self._after_steps:
            function()

    def make_reward_scaling(self) -> RewardScaling | None:
        """Return how the hyperparameters change the environment's reward, if they do and this run learns."""
        h = self.hyperparameters
        if self.inference or (not h.normalize_rewards and h.clip_rewards is None):
            return None
        names = self.provider_names
        providers = self.providers
        return RewardScaling.of(h, names, providers, self.share, self.ranks)

    def normalize(self, batch: AgentBatch) -> None:
        """Add the observations of the slots that act next, in all ranks, to the running mean and variance.

        Does nothing for a policy that is only measured.
        """
        inputs = self.model.learner_inputs
        if inputs.normalizer is None or self.inference:
            return
        observations = batch.observations
        if batch.needs_action is not None:
            observations = {name: array[batch.needs_action] for name, array in observations.items()}
        inputs.update_normalizer(inputs.raw(observations), self.ranks)
        self.policy.refresh()

    # ------------------------------------------------------------ state

    def providers_state(self) -> dict[str, Any]:
        """Return the state of each reward provider by its name."""
        return {name: p.state_dict() for name, p in zip(self.provider_names, self.providers, strict=True)}

    def load_providers(self, state: Mapping[str, Any]) -> None:
        """Load what :meth:`providers_state` returned.

        The state of a provider that does not fit raises RunStateError.
        """
        for name, provider in zip(self.provider_names, self.providers, strict=True):
            provider.load_state_dict(state[name])

    def require_fit(self, state: Mapping[str, Any]) -> None:
        """Raise RunStateError, before anything is changed, for the state of another configuration."""
        saved = tuple(saved_mapping(state, "providers"))
        if set(saved) != set(self.provider_names):
            raise RunStateError(
                f"behavior {self.behavior.name!r}: the checkpoint has reward_signals {', '.join(saved)}, this "
                f"configuration {', '.join(self.provider_names)}; resume with those it was saved with"
            )
        if IMITATION_STATE in state:
            raise RunStateError(
                f"behavior {self.behavior.name!r}: the checkpoint was saved with a behavioral_cloning block and this "
                "configuration has none; resume with the block as it was"
            )
        require_model_fit(self.model, saved_mapping(state, "model"), self.behavior.name)

    def require_optimizer_fit(self, optimizer: Optimizer, state: Mapping[str, Any]) -> None:
        """Raises RunStateError unless ``optimizer`` could load ``state``."""
        saved = state.get("type")
        if saved != optimizer.type:
            raise RunStateError(
                f"behavior {self.behavior.name!r}: the checkpoint was saved with hyperparameters.optimizer.type "
                f"{saved!r} and this run has {optimizer.type!r}; resume with the optimizer of the checkpoint, or start "
                "a new run"
            )
        optimizer.require_fit(state)

    def snapshot(self, state: Mapping[str, Any] | None = None) -> ActorSnapshot:
        """Return a frozen copy of the policy, or the policy that ``state`` describes.

        Raises RunStateError for a state that does not fit.
        """
        return self.policy.snapshot(state)

    def load_model(self, model: Mapping[str, Any]) -> None:
        """Load the weights of the network. Raises RunStateError if they do not fit.

        A new run may have another ``normalize`` than the one that learned them: its statistics of observations are its
        own then. A ``model`` may have only what the policy acts with, as :meth:`ActorPolicy.state_dict` returns it:
        critics then stay as they are.
        """
        critics = model_state(self.model).keys() - self.policy.state_dict().keys()
        if critics and critics.isdisjoint(model):
            model = with_critics(model, self.model, critics)
            if not self.inference:
                log.warning(
                    "behavior %r: the weights are those of a policy alone; its critics begin untrained",
                    self.behavior.name,
                )
        fitted = None if self.inference else fitted_normalizers(self.model, model)
        if fitted is not None:
            log.warning(
                "behavior %r: network_settings.normalize is not as it was when the weights were learned; they are "
                "loaded without the statistics of observations",
                self.behavior.name,
            )
        load_model_state(self.model, fitted or model, self.behavior.name)
        self._project_now()
        self.policy.refresh()
