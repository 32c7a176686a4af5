"""Random network distillation (Burda et al. 2019, arXiv:1810.12894): a reward for observations that are new.

A predictor learns the outputs of a random network, the target, for the observations that the agents reach. Where its
error is large, they have rarely been. Shapes: ``*L`` is the shape of the transitions, N their number, S slots.
"""

import itertools

import numpy as np
import torch
from torch import nn

from rlcore import derive_seed, saved_mapping
from rlcore_torch import RunningNormalizer, TorchAdam, load_model_state, model_state


class Networks(nn.Module):
    """Everything that is saved: both networks, and the running statistics that normalize."""

    def __init__(self, inputs, slots, units, layers):
        super().__init__()
        self.normalizer = RunningNormalizer(inputs)  # of observations; clips at 5 (section 2.4)
        self.target = perceptron(inputs, units, layers).requires_grad_(False)
        self.predictor = perceptron(inputs, units, layers + 2)  # deeper than the target, as the paper's
        self.returns = RunningNormalizer(1)  # of discounted sums of errors
        self.register_buffer("sums", torch.zeros(slots))  # the latest discounted sum of each slot [S]


class NoveltyReward:
    """Rewards each transition with the error of the prediction for its next observation, in units of the returns."""

    name = "novelty"

    def __init__(self, settings, behavior, run):
        self.behavior = behavior.name
        self.gamma = settings.gamma
        self.strength = settings.strength
        # What was seen stays seen when an episode ends, so the value continues unless it is episodic (section 2.3).
        self.ignore_done = not settings.episodic
        self.batch_size = settings.batch_size
        inputs = sum(observation.size for observation in behavior.observations)
        sizes = settings.network_settings
        with torch.random.fork_rng(devices=[]):  # initial weights depend on the run's seed alone
            torch.manual_seed(derive_seed(run.seed, f"{behavior.name}/rnd"))
            self.networks = Networks(inputs, behavior.slots, sizes.hidden_units, sizes.num_layers)
        learned = self.networks.predictor.parameters()
        self.optimizer = TorchAdam(learned, settings.learning_rate, 1e-8)

    def evaluate(self, transitions):
        """Rewards [*L]; zero until the first update, which measures what to normalize by."""
        returns = self.networks.returns
        scale = returns.inverse_std if returns.count else torch.zeros(1)
        rewards = self.errors(seen(transitions)) * scale
        return rewards.numpy().reshape(transitions.reward.shape)

    def update(self, transitions):
        collected = transitions.collected
        if collected is not None:
            self.measure(collected)
        observations = seen(transitions)
        parts = -(-len(observations) // self.batch_size)  # rounded up
        # Every parts-th row makes a minibatch. Its rows are far apart in time, so nothing is shuffled.
        losses = [self.learn(observations[part::parts]) for part in range(parts)]
        return {"Losses/Novelty Loss": sum(losses) / parts}

    def measure(self, collected):
        """Add what was collected to the running statistics of observations and of discounted sums of errors."""
        observations = seen(collected)
        self.networks.normalizer.update(observations)
        with torch.no_grad():
            returns = self.discounted(self.errors(observations), collected)
        self.networks.returns.update(returns[:, None])

    def learn(self, observations):
        loss = self.errors(observations).mean()
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
        return loss.item()

    def errors(self, observations):
        """Mean squared errors [N] of the predictor for ``observations`` [N, inputs]."""
        inputs = self.networks.normalizer(observations)
        difference = self.networks.predictor(inputs) - self.networks.target(inputs)
        return difference.square().mean(-1)

    def discounted(self, errors, collected):
        """Discounted sums [N] of ``errors`` [N] that the agents have met so far, as if no episode ended."""
        sums = self.networks.sums
        returns = torch.empty_like(errors)
        for positions, slots in collected.by_time():
            sums[slots] = self.gamma * sums[slots] + errors[positions]
            returns[positions] = sums[slots]
        return returns

    def state_dict(self):
        return {"model": model_state(self.networks), "optimizer": self.optimizer.state_dict()}

    def load_state_dict(self, state):
        # Compare both entries with what is here first: an error then leaves everything as it was.
        self.optimizer.require_fit(saved_mapping(state, "optimizer"))
        load_model_state(self.networks, saved_mapping(state, "model"), self.behavior)
        self.optimizer.load_state_dict(state["optimizer"])


def seen(transitions):
    """The next observations side by side, [N, inputs]."""
    rows = transitions.reward.size
    arrays = [array.reshape(rows, -1) for array in transitions.next_observations.values()]
    return torch.from_numpy(np.concatenate(arrays, 1, dtype=np.float32))


def perceptron(inputs, units, layers):
    """``layers`` hidden layers and the outputs, all of ``units``, initialized as in the paper."""
    widths = [inputs, *[units] * (layers + 1)]
    linear = [nn.Linear(*sizes) for sizes in itertools.pairwise(widths)]
    modules = []
    for layer in linear:
        nn.init.orthogonal_(layer.weight, 2**0.5)
        nn.init.zeros_(layer.bias)
        modules += [layer, nn.ReLU()]
    return nn.Sequential(*modules[:-1])  # no ReLU on the outputs
