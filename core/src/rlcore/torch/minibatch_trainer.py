"""What off-policy and offline trainers share: a store of transitions, gradient steps on minibatches of it, state.

A subclass brings a network (:meth:`MinibatchTrainer.build_model`), its optimisers (:meth:`build_optimizers`) and one
gradient step (:meth:`gradient_step`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import attrs
import numpy as np
import torch
from torch import Tensor, nn

from rlcore.environment import BehaviorSpec
from rlcore.errors import RunStateError, TrainingDiverged
from rlcore.plugins.run_context import RunContext
from rlcore.rewards import ExtrinsicReward, RewardProvider
from rlcore.saved_values import saved_count, saved_mapping
from rlcore.seeding import derive_generator, derive_seed, generator_state, restore_generator
from rlcore.settings import BehaviorSettings, MinibatchSettings
from rlcore.torch.device import choose_device
from rlcore.torch.divergence import remedy, strength_of
from rlcore.torch.flat import FlatParameters
from rlcore.torch.networks import Actor
from rlcore.torch.optimizer import Adam
from rlcore.torch.policy import ActorPolicy
from rlcore.torch.schedules import Schedule
from rlcore.torch.tensor_state import load_model_state, model_state, require_model_fit
from rlcore.torch.transition_batch import BatchReader, TransitionBatch


@attrs.frozen(eq=False)
class GradientStep:
    """What one gradient step tells: statistics by tag, each a scalar, and what prioritised replay needs."""

    stats: Mapping[str, Tensor]
    td_error: Tensor | None = None  # [B] temporal-difference errors, of any sign


class MinibatchTrainer:
    """Common ground of :class:`OffPolicyTrainer` and :class:`OfflineTrainer`; derive from one of those."""

    learns_from_rewards = True
    source = "environment"  # where observations and rewards come from, for messages
    reader: BatchReader

    def __init__(self, settings: BehaviorSettings, behavior: BehaviorSpec, run: RunContext) -> None:
        self.behavior = behavior
        self.settings = settings
        self.hyperparameters: MinibatchSettings = settings.hyperparameters
        self.device = choose_device(settings, run)
        self.providers: Sequence[RewardProvider] = run.create_reward_providers(behavior, settings)
        self.provider_names = tuple(settings.reward_signals)  # in the same order
        # Those with nothing to learn need no samples.
        self.learning_providers = [p for p in self.providers if type(p).update is not ExtrinsicReward.update]
        torch.set_num_threads(run.config.torch_settings.num_threads)
        with torch.random.fork_rng(devices=[]):  # initial weights depend on the run's seed and nothing else
            torch.manual_seed(derive_seed(run.seed, f"{behavior.name}/weights"))
            self.model = self.build_model(len(self.providers)).to(self.device)
        self.optimizers: Mapping[str, Adam] = self.build_optimizers()
        self.policy = ActorPolicy(behavior, self.model, settings.network_settings.activation, self.device)
        self.generator = derive_generator(run.seed, f"{behavior.name}/learning")  # for sampling, and for losses
        self.steps = 0
        self.gradient_steps = 0
        self._learning_rate = Schedule(
            self.hyperparameters.learning_rate_schedule, self.hyperparameters.learning_rate, 1e-10, settings.max_steps
        )

    # ------------------------------------------------------------ what a subclass brings

    def build_model(self, value_heads: int) -> Actor:
        """The network, an :class:`Actor` with whatever else learns; called once, with PyTorch's generator seeded.

        ``value_heads`` is R, the number of reward providers. All that a run must save is a parameter or a buffer of
        it, target networks among them.
        """
        raise NotImplementedError

    def build_optimizers(self) -> Mapping[str, Adam]:
        """An optimiser for each part of the model that learns by itself, by name; see :meth:`adam`."""
        raise NotImplementedError

    def gradient_step(self, batch: TransitionBatch) -> GradientStep:
        """Learns from one minibatch: losses, gradients, optimiser steps, target networks."""
        raise NotImplementedError

    # ------------------------------------------------------------ for subclasses

    def adam(self, parameters: Iterable[nn.Parameter]) -> Adam:
        """Adam over ``parameters``, which are laid out in one piece; its learning rate follows the schedule."""
        h = self.hyperparameters
        return Adam(FlatParameters(parameters), h.learning_rate, h.adam_epsilon)

    def set_learning_rates(self) -> dict[str, float]:
        """Puts the schedule's value of this step into every optimiser; returns it as a statistic."""
        rate = self._learning_rate(self.steps)
        for optimizer in self.optimizers.values():
            optimizer.learning_rate = rate
        return {"Policy/Learning Rate": rate}

    def summarise(self, taken: Sequence[GradientStep]) -> dict[str, float]:
        """Means of the statistics of several gradient steps. Raises TrainingDiverged if one is not finite."""
        tags = tuple(taken[0].stats)
        values = torch.stack([torch.stack(tuple(step.stats.values())) for step in taken]).mean(0).tolist()
        if not np.isfinite(sum(values)):
            bad = next(f"{tag} is {value:g}" for tag, value in zip(tags, values, strict=True) if not np.isfinite(value))
            raise self.diverged(bad)
        return dict(zip(tags, values, strict=True))

    def diverged(self, what: str) -> TrainingDiverged:
        """The error to raise where ``what`` is no finite number any more."""
        strength = strength_of(self.providers) if self.learns_from_rewards else 0.0
        normalised = self.model.inputs.normalizer is not None
        return TrainingDiverged(
            f"behavior {self.behavior.name!r}: learning diverged in the update at step {self.steps} ({what}); "
            f"{remedy(self.reader.buffer, normalised, strength, where=self.source)}"
        )

    # ------------------------------------------------------------ state

    def state_dict(self) -> dict[str, Any]:
        return {
            "model": model_state(self.model),
            "optimizers": {name: optimizer.state_dict() for name, optimizer in self.optimizers.items()},
            "steps": self.steps,
            "gradient_steps": self.gradient_steps,
            "generators": {"learning": generator_state(self.generator)},
            "providers": {name: p.state_dict() for name, p in zip(self.provider_names, self.providers, strict=True)},
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        self.require_fit(state)
        load_model_state(self.model, state["model"], self.behavior.name)
        for name, optimizer in self.optimizers.items():
            optimizer.load_state_dict(state["optimizers"][name])
        self.steps = saved_count(state, "steps")
        self.gradient_steps = saved_count(state, "gradient_steps")
        restore_generator(self.generator, state["generators"]["learning"])
        for name, provider in zip(self.provider_names, self.providers, strict=True):
            provider.load_state_dict(state["providers"][name])
        self.policy.refresh()

    def require_fit(self, state: Mapping[str, Any]) -> None:
        """Raises RunStateError, before anything is changed, for the state of another configuration."""
        saved = tuple(saved_mapping(state, "providers"))
        if set(saved) != set(self.provider_names):
            raise RunStateError(
                f"behavior {self.behavior.name!r}: the checkpoint has reward_signals {', '.join(saved)}, this "
                f"configuration {', '.join(self.provider_names)}; resume with those it was saved with"
            )
        require_model_fit(self.model, saved_mapping(state, "model"), self.behavior.name)
        if saved_mapping(state, "optimizers").keys() != self.optimizers.keys():
            raise RunStateError(
                f"behavior {self.behavior.name!r}: the checkpoint has optimizers {', '.join(state['optimizers'])}, "
                f"this trainer {', '.join(self.optimizers)}; resume with the trainer it was saved with"
            )
        for name, optimizer in self.optimizers.items():
            optimizer.require_fit(saved_mapping(state["optimizers"], name))

    def load_model(self, model: Mapping[str, Any]) -> None:
        load_model_state(self.model, model, self.behavior.name)
        self.policy.refresh()
