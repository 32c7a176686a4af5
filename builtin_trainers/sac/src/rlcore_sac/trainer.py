"""Soft Actor-Critic (Haarnoja et al. 2018, arXiv:1812.05905) for continuous, discrete and hybrid actions.

:class:`rlcore_torch.OffPolicyTrainer` stores transitions and has the parts of an update; the docstring of its module
names their files. This file has the update, from top to bottom, then the networks. On a CPU, ``by_hand.py`` computes
the gradients of plain networks faster, up to rounding the same, unless a subclass overrides them. For discrete
branches, the losses use the exact expectation over all options (Christodoulou 2019, arXiv:1910.07207). Only continuous
parts of an action are sampled.

Each of the R reward providers has its own value and its own discount. The policy maximizes the sum of the R values.
This sum decides which critic counts (:func:`rlcore_torch.min_q`). Each value contains 1/R of the entropy bonus,
so the sum contains it once.

With ``n_steps`` > 1, a target contains the entropy bonus of every step in between: that of the current policy at the
stored observations (for continuous parts, of a fresh draw: the log-probability of a stored action says nothing of it).
The actions in between are those of earlier policies, and no importance ratio corrects them, as in most implementations:
a bias that grows with n and with the age of the transitions.

Shapes: B transitions, R reward providers, ``columns`` values per critic (one per combination of discrete options, or
one without branches). ``raw`` are continuous actions in the policy's range [-1, 1]; ``choices`` are the chosen options.
"""

from __future__ import annotations

import copy
import functools
import math
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

import attrs
import torch
from torch import Tensor, nn
from torch.nn.functional import mse_loss

from rlcore import BehaviorSettings, BehaviorSpec, RunContext
from rlcore_sac.settings import SACSettings
from rlcore_torch import (
    ActionLayout,
    Actor,
    Critic,
    DiscreteOptions,
    GradientStep,
    Inputs,
    NetworkSettings,
    OffPolicyTrainer,
    Optimizer,
    SquashedGaussian,
    StepNoise,
    TransitionBatch,
    function_of_tensors,
    log_probabilities,
    mask_logits,
    min_q,
)

Encoded = Sequence[Tensor | None] | None  # encoded observations for each critic, as of `Body.encode_once`


class SACTrainer(OffPolicyTrainer):
    """SAC with two critics or more and a learned temperature for the continuous parts and for each discrete branch."""

    soft_values = True
    hyperparameters: SACSettings
    model: SoftActorCritic

    def __init__(self, settings: BehaviorSettings, behavior: BehaviorSpec, run: RunContext) -> None:
        super().__init__(settings, behavior, run)
        layout = self.policy.layout
        model = self.model
        self._targets = list(zip(model.targets.parameters(), model.critics.parameters(), strict=True))
        self.continuous_target = self.hyperparameters.continuous_target_entropy * layout.continuous  # nats
        options = [float(size) for size in layout.branches]
        self._options = torch.tensor(options, device=self.device)  # [branches]

    # ------------------------------------------------------------ the update

    def gradient_step(self, batch: TransitionBatch) -> GradientStep:
        """Learn from one minibatch."""
        number = self.gradient_steps + 1  # the template counts a step when it is done
        with self.burn_in_once(batch):  # no weight moves before all losses are computed
            noise = self.step_noise(batch)
            if number % self.hyperparameters.policy_delay:
                return self.learn_critics(batch, noise)
            return self.learn(batch, noise)

    @function_of_tensors(unless="target_critics")
    def learn(self, batch: TransitionBatch, noise: SACNoise) -> GradientStep:
        """Compute the gradients of all losses at the same parameters, as the authors' code does; then move them.

        A function of tensors, unless it has critics drawn for targets: nothing in it depends on their values or waits
        for a device, so it can be captured in a CUDA graph.
        """
        for optimizer in self.optimizers.values():
            optimizer.zero_grad()
        gradients = self.gradients(batch, noise)
        self.sum_gradients(batch)
        h = self.hyperparameters
        for name, optimizer in self.optimizers.items():
            if name != "temperature" or h.learn_entcoef:
                optimizer.step()
        self._move_targets()
        return GradientStep(self._statistics(*gradients), gradients.critic_loss.td_error)

    @function_of_tensors(unless="target_critics")
    def learn_critics(self, batch: TransitionBatch, noise: SACNoise) -> GradientStep:
        """Move the critics alone, in the gradient steps between those of the policy, with ``policy_delay`` > 1."""
        loss = self.critic_loss(batch, noise)
        self.descend(loss.total, batch, *self._critics)
        self._move_targets()
        return GradientStep(self._critic_statistics(loss), loss.td_error)

    @torch.no_grad()
    def _move_targets(self) -> None:
        """Let the target critics move a share tau of the way to the critics (section 4.2)."""
        for target, critic in self._targets:
            target.lerp_(critic, self.hyperparameters.tau)

    def gradients(self, batch: TransitionBatch, noise: SACNoise) -> Gradients:
        """Leave the gradients of all losses in the parameters."""
        encoded = self.model.encode_once(batch.inputs)  # both losses look at the same images with the same weights
        drawn, policy_loss = self.policy_loss(batch, noise.here, encoded)
        # Neither loss has a gradient for the other's parameters: one pass backward serves both.
        policy_and_temperature = policy_loss + self.temperature_loss(drawn, batch.mask)
        policy_and_temperature.backward()  # type: ignore[no-untyped-call]
        critic_loss = self.critic_loss(batch, noise, encoded)
        critic_loss.total.backward()  # type: ignore[no-untyped-call]
        return Gradients(drawn, policy_loss.detach(), critic_loss)

    # ------------------------------------------------------------ the losses

    def critic_loss(self, batch: TransitionBatch, noise: SACNoise, encoded: Encoded = None) -> CriticLoss:
        """Half the squared difference between each critic and the target: reward + discount * soft value (eq. 5, 3)."""
        model = self.model
        with torch.no_grad():
            next_value = self._soft_value(batch.next_inputs, batch.next_mask, noise)
            after = batch.after_ends
            if after is not None:  # rewards with ignore_done continue in the next episode
                continued = self._soft_value(after.inputs, after.mask, noise)
                next_value = torch.where(after.ignores_done, continued, next_value)
            target_q = batch.reward + batch.discount * next_value  # [B, R]
            if batch.between is not None:
                target_q = target_q + self._bonus_between(batch, noise.between)

        q_values = model.q_values(model.critics, batch.inputs, batch.raw, encoded=encoded)
        chosen = [model.options.chosen(q, batch.choices) for q in q_values]
        losses = [0.5 * mse_loss(q, target_q) for q in chosen]
        detached = tuple(loss.detach() for loss in losses)
        if batch.weight is None:
            return CriticLoss(summed(losses), detached, chosen[0].detach())

        errors = [q - target_q for q in chosen]
        squares = summed([error.square() for error in errors])
        total = 0.5 * (batch.weight.unsqueeze(1) * squares).mean()
        sizes = [error.detach().sum(1).abs() for error in errors]
        td_error = summed(sizes) / len(sizes)
        return CriticLoss(total, detached, chosen[0].detach(), td_error)

    def _bonus_between(self, batch: TransitionBatch, noise: Tensor | None) -> Tensor:
        """[B, R]: what each step of a stretch between its ends earned for its entropy, discounted to the first."""
        model = self.model
        steps = batch.between
        assert steps is not None
        drawn = model.draw(steps.inputs, steps.mask, noise)
        bonus = model.entropy_bonus(drawn).view(len(steps.discount), -1, 1)  # [n - 1, B, 1]
        bonus = bonus / len(self.providers)
        return (steps.discount * bonus).sum(0)

    def _soft_value(self, inputs: Inputs, mask: Tensor | None, noise: SACNoise) -> Tensor:
        """The value [B, R] of observations by the target critics, with the bonus for the policy's entropy (eq. 3)."""
        model = self.model
        drawn = model.draw(inputs, mask, noise.next)
        targets = [model.targets[k] for k in noise.target_critics]
        q = min_q(*model.q_values(targets, inputs, drawn.action))  # [B, R, columns]
        bonus = model.entropy_bonus(drawn) / len(self.providers)
        return model.options.expected(q, drawn.probabilities) + bonus.unsqueeze(1)

    def policy_loss(
        self, batch: TransitionBatch, noise: Tensor | None, encoded: Encoded = None
    ) -> tuple[PolicyDraw, Tensor]:
        """Minus the critics' value of the policy's actions, minus the entropy bonus (eq. 7).

        The value is that of the critic that expects least, or the mean of all critics with ``policy_value: mean``
        (REDQ; Chen et al. 2021, arXiv:2101.05982, algorithm 1).
        """
        model = self.model
        drawn = model.draw(batch.inputs, batch.mask, noise)
        q_values = model.q_values(model.critics, batch.inputs, drawn.action, True, encoded)
        takes_mean = self.hyperparameters.policy_value == "mean"
        q = summed(q_values) / len(q_values) if takes_mean else min_q(*q_values)
        q = q.sum(1)  # [B, columns]
        value = model.options.expected(q, drawn.probabilities)
        soft_value = value + model.entropy_bonus(drawn)
        return drawn, -soft_value.mean()

    def temperature_loss(self, drawn: PolicyDraw, mask: Tensor | None) -> Tensor:
        """Raise a temperature while the entropy is below its target (eq. 18; the parameter is its logarithm)."""
        excess = []  # entropy minus target entropy: of the continuous parts together, then of each branch
        if drawn.log_prob is not None:
            entropy = -drawn.log_prob.detach()
            excess.append((entropy - self.continuous_target).mean().unsqueeze(0))
        if drawn.entropies is not None:
            options = self._options  # [branches], how many of each are allowed
            if mask is not None:
                allowed = [branch.sum(1) for branch in self.model.options.branches(mask)]
                options = torch.stack(allowed, dim=1)  # [B, branches]
            # A share of log(n), the entropy of choosing among n options at random.
            target_entropy = self.hyperparameters.discrete_target_entropy * options.log()
            excess.append((drawn.entropies.detach() - target_entropy).mean(0))
        return (self.model.log_temperature * torch.cat(excess)).sum()

    # ------------------------------------------------------------ networks, optimizers, noise and statistics

    def build_model(self, value_heads: int) -> SoftActorCritic:
        network = self.settings.network_settings
        h = self.hyperparameters
        return SoftActorCritic(self.behavior, network, value_heads, h.init_entcoef, h.num_critics)

    def build_optimizers(self) -> Mapping[str, Optimizer]:
        model = self.model
        h = self.hyperparameters
        of_critics = {}
        for name, critic in zip(self._critics, model.critics, strict=True):
            of_critics[name] = self.make_optimizer(critic.parameters(), h.critic_learning_rate)
        return {
            "policy": self.make_optimizer([*model.actor.parameters(), *model.policy_head.parameters()]),
            **of_critics,
            "temperature": self.make_optimizer([model.log_temperature], h.temperature_learning_rate),
        }

    @property
    def _critics(self) -> list[str]:
        """The names of the critics' optimizers."""
        return [f"critic_{k}" for k in range(self.hyperparameters.num_critics)]

    def step_noise(self, batch: TransitionBatch) -> SACNoise:
        """Draw the noise of a gradient step, then the critics of its targets, if these are not all.

        They are two of ten in REDQ (Chen et al. 2021, arXiv:2101.05982, algorithm 1) and in RLPD.
        """
        noise = super().step_noise(batch)
        h = self.hyperparameters
        critics: Sequence[int] = range(h.num_critics)
        if h.target_critics is not None:
            critics = self.generator.choice(h.num_critics, h.target_critics, replace=False).tolist()
        return SACNoise(noise.here, noise.next, noise.between, tuple(critics))

    @torch.no_grad()
    def _statistics(self, drawn: PolicyDraw, policy_loss: Tensor, critic_loss: CriticLoss) -> dict[str, Tensor]:
        stats = {"Losses/Policy Loss": policy_loss, **self._critic_statistics(critic_loss)}
        temperature = self.model.log_temperature.detach().exp()
        if drawn.log_prob is not None:
            stats["Policy/Entropy"] = -drawn.log_prob.mean()
            stats["Policy/Continuous Entropy Coeff"] = temperature[0]
        if drawn.entropies is not None:
            entropy = drawn.entropies.sum(1).mean()
            stats["Policy/Entropy"] = entropy + stats.get("Policy/Entropy", 0.0)
            branches = len(self.policy.layout.branches)
            stats["Policy/Discrete Entropy Coeff"] = temperature[-branches:].mean()
        return stats

    def _critic_statistics(self, critic_loss: CriticLoss) -> dict[str, Tensor]:
        stats = {}
        for k, loss in enumerate(critic_loss.q_losses):
            stats[f"Losses/Q{k + 1} Loss"] = loss
        for name, value in zip(self.provider_names, critic_loss.q_values.mean(0), strict=True):
            stats[f"Policy/{name.capitalize()} Value"] = value
        return stats


def summed(tensors: Sequence[Tensor]) -> Tensor:
    """Return the sum of tensors of one shape."""
    return functools.reduce(torch.add, tensors)


# ---------------------------------------------------------------- what the parts of a gradient step hand to each other


@attrs.define(eq=False)
class PolicyDraw:
    """The policy at B observations: a draw of the continuous parts, and the whole distribution of each branch."""

    action: Tensor | None  # [B, continuous] in [-1, 1]
    log_prob: Tensor | None  # [B] of the continuous parts together
    probabilities: Tensor | None  # [B, logits] of each branch's options
    entropies: Tensor | None  # [B, branches] nats


@attrs.define(eq=False)
class CriticLoss:
    """The loss of all critics, with the tensors that statistics and replay priorities need."""

    total: Tensor
    q_losses: tuple[Tensor, ...]  # of each critic, without importance weights
    q_values: Tensor  # [B, R] of the first critic
    # [B], under prioritized replay: the mean over the critics of the absolute error of the sum of values
    td_error: Tensor | None = None


@attrs.frozen(eq=False)
class SACNoise(StepNoise):
    """Noise that one gradient step of SAC draws, and the target critics that it chooses.

    Attributes:
        target_critics: The critics of which the smallest value counts in its targets.
    """

    target_critics: tuple[int, ...]


class Gradients(NamedTuple):
    """The losses of a gradient step, and the draw of the policy; their gradients are in the parameters."""

    drawn: PolicyDraw
    policy_loss: Tensor  # []
    critic_loss: CriticLoss


# ---------------------------------------------------------------- the networks


class SoftActorCritic(Actor):
    """The policy, critics with a value for each of R rewards, their target networks, and the temperatures.

    There is one temperature for the continuous parts together and one for each discrete branch.
    """

    def __init__(
        self,
        behavior: BehaviorSpec,
        settings: NetworkSettings,
        rewards: int,
        initial_temperature: float,
        num_critics: int = 2,
        numbers: int = 1,
    ) -> None:
        """``numbers`` are those of each value: 1, or the quantiles of its distribution."""
        distribution: SquashedGaussian | None = SquashedGaussian(behavior)
        if settings.action_distribution is not None and behavior.continuous:
            distribution = None  # the one that the settings name
        super().__init__(behavior, settings, distribution)
        layout = ActionLayout(behavior)
        self.layout = layout
        self.options = DiscreteOptions(layout)
        self.rewards = rewards
        outputs = rewards * self.options.columns * numbers
        inputs = self.learner_inputs
        # Two critics or more against overestimation (Fujimoto et al. 2018, arXiv:1802.09477).
        places = range(1, 1 + num_critics)
        self.critics = nn.ModuleList(Critic(inputs, settings, outputs, layout.continuous, k) for k in places)
        self.targets = nn.ModuleList(copy.deepcopy(critic) for critic in self.critics)
        self.targets.requires_grad_(False)
        temperatures = bool(layout.continuous) + len(layout.branches)
        initial = torch.full((temperatures,), math.log(initial_temperature))
        self.log_temperature = nn.Parameter(initial)

    def draw(self, inputs: Inputs, mask: Tensor | None, noise: Tensor | None) -> PolicyDraw:
        """``noise`` [B, continuous] is standard normal; ``mask`` [B, logits] is True where allowed."""
        columns, logits = self.policy(self.of_actor(inputs))
        action = log_prob = None
        distribution = self.policy_head.distribution
        if columns is not None and noise is not None and distribution is not None:
            action, log_prob = distribution.sample_log_prob(columns, noise)
        if logits is None:
            return PolicyDraw(action, log_prob, None, None)
        if mask is not None:
            logits = mask_logits(logits, mask)
        probabilities = []
        entropies = []
        for branch in self.options.branches(logits):
            log_p = log_probabilities(branch)
            p = log_p.exp()
            probabilities.append(p)
            entropies.append(-(p * log_p).sum(1))
        return PolicyDraw(action, log_prob, torch.cat(probabilities, dim=1), torch.stack(entropies, dim=1))

    def encode_once(self, inputs: Inputs) -> Encoded:
        """Encode ``inputs`` once in each critic, for several calls of :meth:`q_values` with the same weights."""
        return [critic.body.encode_once(inputs) for critic in self.critics]  # type: ignore[union-attr, operator]

    def q_values(
        self,
        critics: Iterable[nn.Module],
        inputs: Inputs,
        action: Tensor | None,
        frozen: bool = False,
        encoded: Encoded = None,
    ) -> list[Tensor]:
        """The values of each of ``critics``, [B, R, columns]; with ``frozen`` only the action gets a gradient."""
        values = []
        for k, critic in enumerate(critics):
            of_critic = encoded[k] if encoded else None
            value = critic(inputs, action, frozen, of_critic)
            values.append(value.view(-1, self.rewards, self.options.columns))
        return values

    def entropy_bonus(self, drawn: PolicyDraw) -> Tensor:
        """[B]: each part's entropy (for continuous ones, minus the log-probability of the draw) by its temperature."""
        temperature = self.log_temperature.detach().exp()
        bonus: Tensor | None = None
        if drawn.log_prob is not None:
            bonus = -temperature[0] * drawn.log_prob
        if drawn.entropies is not None:
            branches = len(self.layout.branches)
            of_branches = drawn.entropies @ temperature[-branches:]
            bonus = of_branches if bonus is None else bonus + of_branches
        assert bonus is not None
        return bonus
