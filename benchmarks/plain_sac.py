"""SAC in forty lines of plain PyTorch: what an update costs without a library around it.

The update has the products of rlcore's. The twin critics are two modules, or one stack of matrices whose layers are
one ``baddbmm`` each; Adam is PyTorch's fused one. :class:`PlainTraining` is the shortest loop around the update that
trains: one environment, a replay buffer of NumPy arrays, no statistics, no checkpoints.
"""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
import torch
from sac_trainings import SACCase
from torch import Tensor, nn
from torch.nn import functional


class Stack(nn.Module):
    """Two networks side by side: [B, inputs] to [2, B, 1]."""

    def __init__(self, inputs: int, width: int) -> None:
        super().__init__()
        sizes = [(inputs, width), (width, width), (width, 1)]
        layers = [[nn.Linear(*size) for _ in range(2)] for size in sizes]
        self.weights = nn.ParameterList(torch.stack([each.weight.detach().t() for each in pair]) for pair in layers)
        self.biases = nn.ParameterList(torch.stack([each.bias.detach()[None] for each in pair]) for pair in layers)

    def forward(self, x: Tensor) -> Tensor:
        x = x.expand(2, -1, -1)
        for k, (weight, bias) in enumerate(zip(self.weights, self.biases, strict=True)):
            x = torch.baddbmm(bias, functional.relu(x) if k else x, weight)
        return x


class Modules(nn.Module):
    """Two networks one after the other: [B, inputs] to [2, B, 1]."""

    def __init__(self, inputs: int, width: int) -> None:
        super().__init__()
        self.networks = nn.ModuleList(network(inputs, width, 1) for _ in range(2))

    def forward(self, x: Tensor) -> Tensor:
        return torch.stack([each(x) for each in self.networks])


def network(inputs: int, width: int, outputs: int) -> nn.Sequential:
    last = nn.Linear(width, outputs)
    return nn.Sequential(nn.Linear(inputs, width), nn.ReLU(), nn.Linear(width, width), nn.ReLU(), last)


class PlainSAC:
    def __init__(self, case: SACCase, observations: int, actions: int, stacked: bool) -> None:
        self.case, self.target_entropy = case, -float(actions)
        self.actor = network(observations, case.width, 2 * actions)
        self.critics = (Stack if stacked else Modules)(observations + actions, case.width)
        self.targets = copy.deepcopy(self.critics).requires_grad_(False)
        self.log_alpha = torch.zeros((), requires_grad=True)
        groups: list[Any] = [list(self.actor.parameters()), list(self.critics.parameters()), [self.log_alpha]]
        self.optimizers = [torch.optim.Adam(each, case.learning_rate, fused=True) for each in groups]

    def draw(self, observations: Tensor) -> tuple[Tensor, Tensor]:
        """Actions [B, A] in [-1, 1] and their log-probabilities [B, 1]."""
        mean, log_std = self.actor(observations).chunk(2, dim=1)
        log_std = log_std.clamp(-20.0, 2.0)
        noise = torch.randn_like(mean)
        u = mean + log_std.exp() * noise
        slope = 2.0 * (np.log(2.0) - u - functional.softplus(-2.0 * u))
        return u.tanh(), (-0.5 * noise.square() - log_std - 0.5 * np.log(2.0 * np.pi) - slope).sum(1, keepdim=True)

    def update(self, seen: Tensor, action: Tensor, reward: Tensor, following: Tensor, going_on: Tensor) -> None:
        alpha, (of_actor, of_critics, of_alpha) = self.log_alpha.detach().exp(), self.optimizers
        with torch.no_grad():
            next_action, log_prob = self.draw(following)
            value = self.targets(torch.cat([following, next_action], 1)).min(0).values - alpha * log_prob
            target = reward + self.case.gamma * going_on * value
        q = self.critics(torch.cat([seen, action], 1))
        of_critics.zero_grad()
        functional.mse_loss(q, target.expand_as(q)).backward()  # type: ignore[no-untyped-call]
        of_critics.step()

        drawn, log_prob = self.draw(seen)
        self.critics.requires_grad_(False)
        loss = (alpha * log_prob - self.critics(torch.cat([seen, drawn], 1)).min(0).values).mean()
        self.critics.requires_grad_(True)
        of_actor.zero_grad()
        loss.backward()
        of_actor.step()
        of_alpha.zero_grad()
        (-self.log_alpha * (log_prob.detach() + self.target_entropy).mean()).backward()
        of_alpha.step()
        with torch.no_grad():
            targets = list(self.targets.parameters())
            critics = list(self.critics.parameters())
            torch._foreach_lerp_(targets, critics, self.case.tau)


class PlainTraining:
    """A training of :class:`PlainSAC`."""

    def __init__(self, case: SACCase, seed: int, stacked: bool) -> None:
        import gymnasium

        torch.manual_seed(seed)
        self.case, self.generator = case, np.random.default_rng(seed)
        self.environment = gymnasium.make(case.env_id, **case.options)
        self.observations, self.actions = (
            space.shape[0] for space in (self.environment.observation_space, self.environment.action_space)
        )
        self.learner = PlainSAC(case, self.observations, self.actions, stacked)
        self.first, _ = self.environment.reset(seed=seed)

    def train(self) -> int:
        case = self.case
        environment = self.environment
        space = self.environment.action_space
        widths = (self.observations, self.actions, 1, self.observations, 1)
        stored = [np.empty((min(case.buffer_size, case.steps), width), np.float32) for width in widths]
        seen = self.first
        for step in range(case.steps):
            if step < case.random_steps:
                action = self.generator.uniform(-1.0, 1.0, self.actions).astype(np.float32)
            else:
                with torch.no_grad():
                    drawn, _ = self.learner.draw(torch.from_numpy(seen.astype(np.float32)[None]))
                action = drawn[0].numpy()
            stretched = space.low + (action + 1.0) * 0.5 * (space.high - space.low)
            following, reward, terminated, truncated, _ = environment.step(stretched)
            row = step % len(stored[0])
            for array, value in zip(stored, (seen, action, reward, following, not terminated), strict=True):
                array[row] = value
            seen = environment.reset()[0] if terminated or truncated else following
            if step >= case.random_steps:
                rows = self.generator.integers(0, min(step + 1, len(stored[0])), case.batch_size)
                self.learner.update(*(torch.from_numpy(array[rows]) for array in stored))
        return case.steps
