"""The part that the off-policy and offline templates share: gradient steps on minibatches of stored transitions.

A subclass provides a network (``build_model``), its optimizers (``build_optimizers``) and one gradient step
(``gradient_step``).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import attrs
import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from rlcore import (
    BehaviorSettings,
    BehaviorSpec,
    ExtrinsicReward,
    PluginError,
    RunContext,
    RunStateError,
    TrainingDiverged,
    Transitions,
    derive_generator,
    generator_state,
    restore_generator,
    saved_count,
    saved_mapping,
)
from rlcore_torch.networks.saved_networks import load_model_state, model_state
from rlcore_torch.networks.sequence_inputs import Inputs, SequenceInputs
from rlcore_torch.off_policy.batch_reader import BatchReader
from rlcore_torch.off_policy.replay import ReplayBuffer
from rlcore_torch.off_policy.replay_rings import Rows
from rlcore_torch.off_policy.replay_sequences import SequenceRows, sequences_around
from rlcore_torch.off_policy.step_noise import StepNoise
from rlcore_torch.off_policy.transition_batch import TransitionBatch
from rlcore_torch.optimization.divergence import remedy
from rlcore_torch.optimization.optimizer import Optimizer
from rlcore_torch.policy.policy import ActorPolicy
from rlcore_torch.ranks.torch_ranks import sum_gradients, sum_over_ranks
from rlcore_torch.settings import MinibatchSettings
from rlcore_torch.template import TorchTrainer

__all__ = ["GradientStep", "MinibatchTrainer"]


@attrs.define(eq=False)  # torch.compile cannot make frozen ones
class GradientStep:
    """The outcome of one gradient step: statistics and errors for prioritized replay.

    A step may leave tags out, as TD3 does while it delays its actor: a summary averages each tag over the steps that
    have it.

    Attributes:
        stats: Detached scalars of shape [] by tag.
        td_error: [B] temporal-difference errors, of any sign, for prioritized replay; None if the trainer computes
            none.
    """

    stats: Mapping[str, Tensor]
    td_error: Tensor | None = None


def mean_by_tag(statistics: Iterable[tuple[str, float]]) -> dict[str, float]:
    """Average the numbers of each tag, over as many as the tag has."""
    of_tag: dict[str, list[float]] = {}
    for tag, number in statistics:
        of_tag.setdefault(tag, []).append(number)
    return {tag: sum(numbers) / len(numbers) for tag, numbers in of_tag.items()}


class MinibatchTrainer(TorchTrainer):
    """Base of the templates for off-policy and offline trainers; derive from one of those.

    Attributes:
        hyperparameters: The block ``hyperparameters``.
        reader: Makes batches from rows of the buffer.
        learning_providers: The reward providers that have something to learn.
        optimizers: The optimizers that :meth:`build_optimizers` returned, by name.
        generator: The random generator for sampling, and for a subclass's losses; seeded and saved.
        gradient_steps: Gradient steps so far.
    """

    hyperparameters: MinibatchSettings
    reader: BatchReader

    def __init__(self, settings: BehaviorSettings, behavior: BehaviorSpec, run: RunContext) -> None:
        super().__init__(settings, behavior, run)
        # Providers with nothing to learn need no samples.
        self.learning_providers = [
            provider for provider in self.providers if type(provider).update is not ExtrinsicReward.update
        ]
        self.optimizers: Mapping[str, Optimizer] = self.build_optimizers()
        self._follow_steps(self.optimizers)
        self.policy = ActorPolicy(behavior, self.model, self.backend)
        self.generator = derive_generator(run.seed, f"{behavior.name}/learning")  # for sampling, and for losses
        self.gradient_steps = 0

    # ------------------------------------------------------------ for a subclass to implement

    def build_optimizers(self) -> Mapping[str, Optimizer]:
        """Return an optimizer for each part of the model that learns by itself, by name; see :meth:`make_optimizer`.

        A subclass implements it.
        """
        raise NotImplementedError

    def gradient_step(self, batch: TransitionBatch) -> GradientStep:
        """Learn from one minibatch: losses, gradients, optimizer steps, target networks. A subclass implements it."""
        raise NotImplementedError

    # ------------------------------------------------------------ what a subclass may change

    def actor_optimizer(self) -> Optimizer:
        """Return the optimizer called ``policy``. Raises PluginError if there is none."""
        if "policy" not in self.optimizers:
            raise PluginError(
                f"trainer {self.settings.trainer_type!r} is to imitate, and none of its optimizers is called policy: "
                f"its optimizers are {', '.join(self.optimizers)}; override actor_optimizer"
            )
        return self.optimizers["policy"]

    # ------------------------------------------------------------ for subclasses

    def set_learning_rates(self, step: int | None = None) -> dict[str, float]:
        """Set the schedule's value of ``step``, by default the current one, in every optimizer.

        Returns it as a statistic.
        """
        rate = self.learning_rate(self.steps if step is None else step)
        for optimizer in self.optimizers.values():
            optimizer.learning_rate = rate * optimizer.rate_factor
        return {"Policy/Learning Rate": rate}

    def with_neighbors(self, rows: Rows, buffer: ReplayBuffer) -> Rows | SequenceRows:
        """Return the sequences around drawn ``rows`` [B] of ``buffer``, for networks with memory; else the rows."""
        memory = self.model.memory
        if memory is None:
            return rows
        return sequences_around(rows, memory, buffer.flags, buffer.slots, self.generator)

    def descend(self, loss: Tensor, batch: TransitionBatch, *names: str) -> None:
        """Move the parameters of the optimizers called ``names`` against the gradient of ``loss``, in all ranks.

        Without names, those of all optimizers. ``loss`` [] must be a mean over the rows of ``batch``. Earlier
        gradients of these parameters are dropped.
        """
        for name in names or self.optimizers:
            self.optimizers[name].zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        self.move(batch, *names)

    def move(self, batch: TransitionBatch, *names: str) -> None:
        """Move the parameters of the optimizers called ``names`` against their gradients, in all ranks.

        As :meth:`descend` does it, where the gradients of the loss are in the parameters.
        """
        self.sum_gradients(batch, *names)
        for name in names or self.optimizers:
            self.optimizers[name].step()

    @contextmanager
    def burn_in_once(self, batch: TransitionBatch) -> Iterator[None]:
        """Compute the burn-in of each network once for all losses of ``batch``; nothing changes without memory.

        Use it where losses are computed at the same weights. Networks must not change in it, nor their noise: what they
        remember would be that of before.
        """
        if not isinstance(batch.inputs, SequenceInputs):
            yield
            return
        batch.inputs.starts.computed = {}
        try:
            yield
        finally:
            batch.inputs.starts.computed = None

    def sum_gradients(self, batch: TransitionBatch, *names: str) -> None:
        """Replace the gradients of the optimizers called ``names`` by those of the minibatch of all ranks.

        Without names, of all optimizers. Call it before their steps. Losses must be means over the rows of the
        minibatch. Does nothing in one process.
        """
        if batch.rows is None:
            return
        parameters: list[nn.Parameter] = []
        for name in names or self.optimizers:
            parameters.extend(self.optimizers[name].parameters)
        sum_gradients(self.ranks, parameters, batch.rows.share)

    def standard_normal(self, batch: TransitionBatch, rows: int, columns: int) -> NDArray[np.float32]:
        """Draw standard normal noise [rows, columns] for ``rows`` of a minibatch, or k rows for each of its B.

        A row gets the same numbers whichever rank it is in.
        """
        if batch.rows is None:
            return self.generator.standard_normal((rows, columns), dtype=np.float32)
        of_each = rows // len(batch.rows.places)
        drawn = self.generator.standard_normal((of_each * batch.rows.total, columns), dtype=np.float32)
        return batch.rows.of_own(drawn)

    def noise_for(self, batch: TransitionBatch, inputs: Inputs) -> Tensor:
        """Draw standard normal noise [rows, C] for an action at each row of ``inputs``, which are of ``batch``.

        C are the continuous parts of an action. It is :meth:`standard_normal` on the device of the network.
        """
        noise = self.standard_normal(batch, len(inputs[0]), self.behavior.continuous)
        return torch.from_numpy(noise).to(self.device)

    def step_noise(self, batch: TransitionBatch) -> StepNoise:
        """Draw the noise of a gradient step whose losses draw an action at each observation of ``batch``."""
        here = self.noise_for(batch, batch.inputs)
        after = self.noise_for(batch, batch.next_inputs)
        between = None
        if batch.between is not None:
            between = self.noise_for(batch, batch.between.inputs)
        return StepNoise(here, after, between)

    def smoothing_noise(self, batch: TransitionBatch, deviation: float, limit: float) -> Tensor | None:
        """Draw noise [B, C] for the actions of a deterministic target policy, as TD3 does (arXiv:1802.09477, eq. 14).

        Its standard deviation is ``deviation``, and it is clipped to ``limit``. None if ``deviation`` is 0.
        """
        if not deviation:
            return None
        noise = self.noise_for(batch, batch.inputs)
        return (deviation * noise).clamp(-limit, limit)

    def summarize(self, steps: Sequence[GradientStep], shares: Sequence[float] = ()) -> dict[str, float]:
        """Average each statistic over the gradient steps that have it. Raises TrainingDiverged if one is not finite.

        ``shares`` are those of this rank in each step; the statistics are of all ranks then.
        """
        tags: list[str] = []
        scalars: list[Tensor] = []
        share_of_scalar: list[float] = []
        for k, step in enumerate(steps):
            tags += step.stats
            scalars += step.stats.values()
            if shares:
                share_of_scalar += [shares[k]] * len(step.stats)
        if not tags:
            return {}
        values = torch.stack(scalars)  # one read waits for the device once
        if shares:
            values = values * torch.tensor(share_of_scalar, device=values.device)
            sum_over_ranks(self.ranks, values)
        numbers: list[float] = values.tolist()
        for tag, number in zip(tags, numbers, strict=True):
            if not math.isfinite(number):
                raise self.diverged(f"{tag} is {number:g}")
        return mean_by_tag(zip(tags, numbers, strict=True))

    def update_providers(self, shown: Transitions) -> dict[str, float]:
        """Let the reward providers that learn do so; return their statistics."""
        stats: dict[str, float] = {}
        with torch.enable_grad():
            for provider in self.learning_providers:
                stats |= provider.update(shown)
        return stats

    def diverged(self, what: str) -> TrainingDiverged:
        """Return the error to raise if ``what`` is not finite."""
        advice = remedy(self.reader.buffer, self.model.learner_inputs.normalizer is not None)
        return TrainingDiverged(
            f"behavior {self.behavior.name!r}: learning diverged in the update at step {self.steps} ({what}); {advice}"
        )

    # ------------------------------------------------------------ state

    def state_dict(self) -> dict[str, Any]:
        """Return what a run must save. A subclass adds what its network does not hold."""
        return {
            "model": model_state(self.model),
            "optimizers": {name: optimizer.state_dict() for name, optimizer in self.optimizers.items()},
            "steps": self.steps,
            "gradient_steps": self.gradient_steps,
            "generators": {"learning": generator_state(self.generator)},
            "providers": self.providers_state(),
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue from :meth:`state_dict`. Raises RunStateError, changing nothing, for a state that does not fit."""
        self.require_fit(state)
        self._load(state)

    def _load(self, state: Mapping[str, Any]) -> None:
        load_model_state(self.model, state["model"], self.behavior.name)
        for name, optimizer in self.optimizers.items():
            optimizer.load_state_dict(state["optimizers"][name])
        self.forget_captured()
        self.steps = saved_count(state, "steps")
        self.gradient_steps = saved_count(state, "gradient_steps")
        restore_generator(self.generator, state["generators"]["learning"])
        self.load_providers(state["providers"])
        self.policy.refresh()

    def require_fit(self, state: Mapping[str, Any]) -> None:
        super().require_fit(state)
        if saved_mapping(state, "optimizers").keys() != self.optimizers.keys():
            raise RunStateError(
                f"behavior {self.behavior.name!r}: the checkpoint has optimizers {', '.join(state['optimizers'])}, "
                f"this trainer {', '.join(self.optimizers)}; resume with the trainer it was saved with"
            )
        for name, optimizer in self.optimizers.items():
            self.require_optimizer_fit(optimizer, saved_mapping(state["optimizers"], name))
