"""Random network distillation (Burda et al. 2019, arXiv:1810.12894): a reward for observations that are new.

A predictor learns the outputs of a random network, the target, for the observations that the agents reach. Where its
error is large, they have rarely been. Shapes: ``*L`` is the shape of the transitions, N their number, S slots.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from rlcore import BehaviorSpec, RunContext
from rlcore.rewards import Transitions
from rlcore.saved_values import saved_mapping
from rlcore.seeding import derive_seed
from rlcore.torch.normalizer import RunningNormalizer
from rlcore.torch.optimizer import TorchAdam
from rlcore.torch.saved_networks import load_model_state, model_state
from rlcore_rnd.plugin import RNDSettings


class Networks(nn.Module):
    """Everything that is saved: both networks, and the running statistics that normalize."""

    def __init__(self, inputs: int, slots: int, settings: RNDSettings) -> None:
        super().__init__()
        units, layers = settings.network_settings.hidden_units, settings.network_settings.num_layers
        self.normalizer = RunningNormalizer(inputs)  # of observations; clips at 5 (section 2.4)
        self.target = perceptron(inputs, units, layers, settings.features).requires_grad_(False)
        self.predictor = perceptron(inputs, units, layers + 2, settings.features)  # deeper, as in section A.4
        self.returns = RunningNormalizer(1)  # of discounted sums of errors
        self.sums: Tensor
        self.register_buffer("sums", torch.zeros(slots))  # the latest discounted sum of each slot [S]


class RNDReward:
    """Rewards each transition with the error of the prediction for its next observation, in units of the returns."""

    name = "rnd"
    ignore_done = True  # what was seen stays seen when an episode ends (section 2.3)

    def __init__(self, settings: RNDSettings, behavior: BehaviorSpec, run: RunContext) -> None:
        self.gamma, self.strength = settings.gamma, settings.strength
        self.batch_size, self.behavior = settings.batch_size, behavior.name
        inputs = sum(observation.size for observation in behavior.observations)
        with torch.random.fork_rng(devices=[]):  # initial weights depend on the run's seed alone
            torch.manual_seed(derive_seed(run.seed, f"{behavior.name}/rnd"))
            self.networks = Networks(inputs, behavior.slots, settings)
        self.optimizer = TorchAdam(self.networks.predictor.parameters(), settings.learning_rate, 1e-8)

    def evaluate(self, transitions: Transitions) -> NDArray[np.float32]:
        """Rewards [*L]; zero until the first update, which measures what to normalize by."""
        scale = self.networks.returns.inverse_std if self.networks.returns.count else torch.zeros(1)
        rewards: NDArray[np.float32] = (self.errors(seen(transitions)) * scale).numpy()
        return rewards.reshape(transitions.reward.shape)

    def update(self, transitions: Transitions) -> Mapping[str, float]:
        observations = seen(transitions)
        self.networks.normalizer.update(observations)
        with torch.no_grad():
            returns = self.discounted(self.errors(observations).reshape(transitions.reward.shape))
            self.networks.returns.update(returns.reshape(-1, 1))
        parts = -(-len(observations) // self.batch_size)
        losses = [self.learn(observations[part::parts]) for part in range(parts)]  # far apart in time: no shuffling
        return {"Losses/RND Loss": sum(losses) / parts}

    def learn(self, observations: Tensor) -> float:
        loss = self.errors(observations).mean()
        self.optimizer.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        self.optimizer.step()
        return loss.item()

    def errors(self, observations: Tensor) -> Tensor:
        """Mean squared errors [N] of the predictor for ``observations`` [N, inputs]."""
        inputs = self.networks.normalizer(observations)
        return (self.networks.predictor(inputs) - self.networks.target(inputs)).square().mean(-1)

    def discounted(self, errors: Tensor) -> Tensor:
        """Discounted sums [*L] of ``errors`` [*L] that the agents have met so far, as if no episode ended."""
        if errors.dim() == 1:  # single transitions in no order: spread as much as sums of independent errors
            return errors / (1 - self.gamma**2) ** 0.5
        sums = []
        for row in errors:  # [S]
            self.networks.sums.mul_(self.gamma).add_(row)
            sums.append(self.networks.sums.clone())
        return torch.stack(sums)

    def state_dict(self) -> dict[str, Any]:
        return {"model": model_state(self.networks), "optimizer": self.optimizer.state_dict()}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        self.optimizer.require_fit(saved_mapping(state, "optimizer"))
        load_model_state(self.networks, saved_mapping(state, "model"), self.behavior)
        self.optimizer.load_state_dict(state["optimizer"])


def seen(transitions: Transitions) -> Tensor:
    """The next observations side by side, [N, inputs]."""
    rows = transitions.reward.size
    arrays = [array.reshape(rows, -1) for array in transitions.next_observations.values()]
    return torch.from_numpy(np.concatenate(arrays, 1, dtype=np.float32))


def perceptron(inputs: int, units: int, layers: int, outputs: int) -> nn.Sequential:
    """``layers`` hidden layers of ``units``, initialized as in the paper."""
    widths = [inputs, *[units] * layers, outputs]
    linear = [nn.Linear(before, after) for before, after in zip(widths, widths[1:], strict=False)]
    for layer in linear:
        nn.init.orthogonal_(layer.weight, 2**0.5)
        nn.init.zeros_(layer.bias)
    return nn.Sequential(*[part for layer in linear for part in (layer, nn.ReLU())][:-1])
