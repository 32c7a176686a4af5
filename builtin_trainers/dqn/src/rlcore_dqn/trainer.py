"""Deep Q-learning (Mnih et al. 2015, doi:10.1038/nature14236) and what Rainbow joined (Hessel et al. 2018,
arXiv:1710.02298): double, dueling, distributional, noisy, of several steps, prioritized.

:class:`rlcore_torch.OffPolicyTrainer` stores transitions and has the parts of an update; the docstring of its module
names their files. This file has the update from top to bottom, then how actions are chosen. ``networks.py`` has the
networks.

An action of several branches has a value for each option of each branch, and all branches learn from one target, the
mean over the branches of the values of the next options (Tavakoli et al. 2018, arXiv:1711.08946, eq. 6). Each of the R
reward providers has its own value and its own discount; the best action has the greatest sum of them.

Shapes: B transitions, R reward providers, D branches, L options of all branches, K numbers for the value of an option:
1, the logits of c51's atoms, or quantiles.
"""

from __future__ import annotations

from collections.abc import Mapping

import attrs
import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn.functional import huber_loss, mse_loss

from rlcore import AgentBatch, BehaviorSettings, BehaviorSpec, RunContext
from rlcore_dqn.networks import QNetwork, noise_in
from rlcore_dqn.settings import DQNSettings
from rlcore_torch import (
    CategoricalReturns,
    GradientStep,
    Inputs,
    OffPolicyTrainer,
    Optimizer,
    QuantileReturns,
    RawActions,
    Schedule,
    Statistic,
    TransitionBatch,
    function_of_tensors,
    linear,
    mask_logits,
)


@attrs.frozen(eq=False)
class StepNoise:
    """Standard normal noise of noisy layers in one gradient step, each [1, noise_size]; None without such layers."""

    online: Tensor | None = None  # of the values that learn
    selection: Tensor | None = None  # of the network that chooses the next action, with double
    target: Tensor | None = None  # of the target network


class DQNTrainer(OffPolicyTrainer):
    """DQN for discrete actions of any number of branches."""

    hyperparameters: DQNSettings
    model: QNetwork

    def __init__(self, settings: BehaviorSettings, behavior: BehaviorSpec, run: RunContext) -> None:
        super().__init__(settings, behavior, run)
        h = self.hyperparameters
        model = self.model
        self._targets = list(zip(model.target_parameters(), model.online_parameters(), strict=True))
        self._epsilon_schedule = Schedule(linear, h.initial_epsilon, h.final_epsilon, h.epsilon_steps)

    # ------------------------------------------------------------ learning

    def update(self) -> Mapping[str, Statistic]:
        """Take all gradient steps that are due (Mnih et al., algorithm 1); return statistics, means over them.

        Raises TrainingDiverged if one is not finite.
        """
        epsilon = self.epsilon  # of the steps collected since the last update
        return {**super().update(), "Policy/Epsilon": epsilon}

    def gradient_step(self, batch: TransitionBatch) -> GradientStep:
        """Learn from one minibatch; at every ``target_update_interval``-th, copy the network to the target network."""
        h = self.hyperparameters
        number = self.gradient_steps + 1  # the template counts a step when it is done
        step = self.learn(batch, self.draw_noise())
        if h.tau is None and number % h.target_update_interval == 0:
            self.move_target(1.0)
        return step

    @function_of_tensors()
    def learn(self, batch: TransitionBatch, noise: StepNoise) -> GradientStep:
        """Target, loss, gradient, clipping, optimizer, and a soft target network.

        A function of tensors: nothing in it depends on their values or waits for a device, so it can be captured in a
        CUDA graph.
        """
        h = self.hyperparameters
        optimizer = self.optimizers["q"]
        assert batch.choices is not None
        next_value = self.next_value(batch, noise)  # [B, R, K]
        values = self.values(batch.inputs, noise.online)
        q = self.chosen(values, batch.choices)  # [B, R, D, K]
        losses, error = self.losses(q, batch.reward, batch.discount, next_value)  # [B, R, D] each
        priority = None
        if batch.weight is not None:
            losses = losses * batch.weight[:, None, None]
            priority = joint_error(error.detach())
        loss = losses.mean()
        optimizer.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        self.sum_gradients(batch)
        if h.max_grad_norm is not None:
            optimizer.clip_grad_norm(h.max_grad_norm)
        optimizer.step()
        if h.tau is not None:
            self.move_target(h.tau)
        stats = {"Losses/Q Loss": loss.detach()}
        means = self.expected(q.detach()).mean((0, 2))  # [R]
        for name, mean in zip(self.provider_names, means, strict=True):
            stats[f"Policy/{name.capitalize()} Value"] = mean
        return GradientStep(stats, priority)

    @torch.no_grad()
    def next_value(self, batch: TransitionBatch, noise: StepNoise) -> Tensor:
        """Return the value [B, R, K] of the observations at the ends of the stretches, by the target network.

        With c51, the K numbers are the probabilities of the atoms here, not their logits.
        """
        value = self._best_value(batch.next_inputs, batch.next_mask, noise)
        after = batch.after_ends
        if after is not None:  # rewards with ignore_done continue in the next episode
            continued = self._best_value(after.inputs, after.mask, noise)
            value = torch.where(after.ignores_done[:, None], continued, value)
        return value

    def _best_value(self, inputs: Inputs, mask: Tensor | None, noise: StepNoise) -> Tensor:
        """The value [B, R, K] of the best allowed actions; the probabilities of atoms with c51."""
        target = self.values(inputs, noise.target, target=True)  # [B, R, L, K]
        # Double DQN (van Hasselt et al. 2016, eq. 4): the network that learns chooses, the target network values.
        judged = target
        if self.hyperparameters.double:
            judged = self.values(inputs, noise.selection)
        values = self.chosen(target, self.best(judged, mask))  # [B, R, D, K]
        if isinstance(self.model.returns, CategoricalReturns):
            values = values.softmax(-1)
        return values.mean(2)

    def losses(self, q: Tensor, reward: Tensor, discount: Tensor, next_value: Tensor) -> tuple[Tensor, Tensor]:
        """Return the losses and the errors for priorities, each [B, R, D].

        Those of ``q`` [B, R, D, K] against ``reward`` [B, R] + ``discount`` [B, R] * ``next_value`` [B, R, K].
        """
        returns = self.model.returns
        h = self.hyperparameters
        if isinstance(returns, CategoricalReturns):
            target = returns.target(next_value, reward, discount)  # [B, R, K]
            return returns.losses(q, target.unsqueeze(2))
        if isinstance(returns, QuantileReturns):
            target = returns.target(next_value, reward, discount).unsqueeze(2)  # [B, R, 1, K]
            losses = returns.losses(q, target, h.huber_delta)
            return losses, q.mean(-1) - target.mean(-1)
        q = q.squeeze(-1)  # [B, R, D]
        target = reward + discount * next_value.squeeze(-1)  # [B, R]
        target = target.unsqueeze(2).expand(q.shape)
        error = q - target
        if h.loss == "squared":
            return mse_loss(q, target, reduction="none"), error
        # Linear from `huber_delta` on: the error term clipped to [-1, 1] of Mnih et al. is the slope of this loss.
        return huber_loss(q, target, reduction="none", delta=h.huber_delta), error

    @torch.no_grad()
    def move_target(self, share: float) -> None:
        """Move the target network ``share`` of the way to the network: 1 copies it."""
        for target, online in self._targets:
            target.lerp_(online, share)

    # ------------------------------------------------------------ values

    def values(self, inputs: Inputs, noise: Tensor | None, target: bool = False) -> Tensor:
        """Return the numbers of all values, [B, R, L, K], by the network or by the target network."""
        model = self.model
        body, head, noisy_layers = model.actor, model.policy_head, model.noisy_layers
        if target:
            body, head, noisy_layers = model.target_actor, model.target_head, model.noisy_targets
        if noise is None:
            return body.into(inputs, head.linear).view(-1, *model.shape)
        with noise_in(noisy_layers, noise):
            return body.into(inputs, head.linear).view(-1, *model.shape)

    def expected(self, values: Tensor) -> Tensor:
        """Return the expected returns [...] of ``values`` [..., K]."""
        returns = self.model.returns
        if returns is None:
            return values.squeeze(-1)
        return returns.expected(values)

    def best(self, values: Tensor, mask: Tensor | None) -> Tensor:
        """Return the choices [B, D] of the greatest expected returns; ``mask`` [B, L] is True where allowed."""
        expected = self.expected(values).sum(1)  # [B, L]
        if mask is not None:
            expected = mask_logits(expected, mask)
        branches = torch.split(expected, [*self.behavior.discrete], dim=1)
        choices = [branch.argmax(1, keepdim=True) for branch in branches]
        return torch.cat(choices, dim=1)

    def chosen(self, values: Tensor, choices: Tensor) -> Tensor:
        """Select [B, R, D, K] of ``choices`` [B, D] from ``values`` [B, R, L, K]."""
        _, rewards, _, size = values.shape
        columns = choices + self.model.offsets  # [B, D] among the L options
        index = columns[:, None, :, None].expand(-1, rewards, -1, size)
        return values.gather(2, index)

    # ------------------------------------------------------------ acting

    @property
    def epsilon(self) -> float:
        """The probability of a random action; a function of agent steps, which every rank has alike."""
        return 0.0 if self.hyperparameters.noisy else self._epsilon_schedule(self.exploration_step)

    def explore(self, batch: AgentBatch) -> tuple[RawActions, NDArray[np.int64] | None]:
        """Return the best choices [S, D]: of noisy layers with new noise for each agent, or by epsilon random."""
        # Drawn for all slots of the run: an agent draws the same whichever rank it is in.
        slots = self.share.total
        local = self.share.numbers
        noise = self.draw_acting_noise(slots)
        if noise is not None:
            noise = noise[local]
        with noise_in(self.model.noisy_layers, noise):
            _, best = self.policy.choose(self.parameters(batch), None)
        epsilon = self.epsilon
        if epsilon == 0.0:
            return None, best
        coins = self.action_generator.random((slots, 1)) < epsilon
        if not coins.any():
            return None, best
        _, random = self.random_actions(batch)
        assert best is not None and random is not None
        return None, np.where(coins[local], random, best)

    # ------------------------------------------------------------ the network, its optimizer, and noise

    def build_model(self, value_heads: int) -> QNetwork:
        return QNetwork(self.behavior, self.settings.network_settings, value_heads, self.hyperparameters)

    def build_optimizers(self) -> Mapping[str, Optimizer]:
        return {"q": self.make_optimizer(self.model.online_parameters())}

    def draw_noise(self) -> StepNoise:
        """Return separate draws for the networks of one gradient step, each one for all rows (section 3.1)."""
        if not self.model.noise_size:
            return StepNoise()
        drawn = self.generator.standard_normal((3, 1, self.model.noise_size), dtype=np.float32)
        return StepNoise(*torch.from_numpy(drawn).to(self.device))

    def draw_acting_noise(self, agents: int) -> Tensor | None:
        """Return a draw for each of ``agents``, [agents, noise_size]; None without noisy layers."""
        if not self.model.noise_size:
            return None
        drawn = self.action_generator.standard_normal((agents, self.model.noise_size), dtype=np.float32)
        return torch.from_numpy(drawn).to(self.device)


def joint_error(error: Tensor) -> Tensor:
    """Return the error [B] that is a transition's priority, from those of R rewards and D branches, [B, R, D].

    The error of a branch is that of the sum of its rewards, which chooses the action. Those of branches are added up by
    their size (Tavakoli et al. 2018, arXiv:1711.08946): each of them is to be learned, also if they cancel.
    """
    return error.sum(1).abs().sum(1)
