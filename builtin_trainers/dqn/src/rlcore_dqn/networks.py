"""The network of DQN: values of actions or distributions of them, dueling streams, noisy layers, the target network.

Shapes: B rows, R reward providers, L options of all branches, K numbers for the value of an option: 1, the logits of
c51's atoms, or quantiles. D are the branches of an action.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import pairwise

import attrs
import torch
from torch import Tensor, nn
from torch.nn.functional import linear

from rlcore import BehaviorSpec
from rlcore_dqn.settings import DQNSettings
from rlcore_torch import (
    ActionLayout,
    Actor,
    Body,
    CategoricalReturns,
    NetworkSettings,
    PolicyHead,
    QuantileReturns,
    ReturnDistribution,
    dense,
    initialize,
)


def make_returns(h: DQNSettings) -> ReturnDistribution | None:
    """Return the distribution that the settings name; None if a value is one number, the expected return."""
    if h.distributional == "c51":
        return CategoricalReturns(h.num_atoms, h.v_min, h.v_max)
    if h.distributional == "quantile":
        return QuantileReturns(h.num_quantiles)
    return None


class NoisyLinear(nn.Linear):
    """A linear layer whose weights have factorised Gaussian noise (Fortunato et al. 2018, section 3.1b).

    Attributes:
        noise: f(e) of the inputs [B or 1, in] and of the outputs [B or 1, out]; None computes with the means.
    """

    noise: tuple[Tensor, Tensor] | None = None

    def __init__(self, features: int, outputs: int, std: float) -> None:
        super().__init__(features, outputs)  # means: PyTorch's own, uniform within 1 / sqrt(features), as the paper's
        sigma = std / features**0.5
        self.weight_sigma = nn.Parameter(torch.full_like(self.weight, sigma))
        self.bias_sigma = nn.Parameter(torch.full_like(self.bias, sigma))

    def forward(self, x: Tensor) -> Tensor:
        mean = super().forward(x)
        if self.noise is None:
            return mean
        inputs, outputs = self.noise  # the weights' noise is the outer product of both: it is never written out
        deviation = linear(x * inputs, self.weight_sigma, self.bias_sigma)
        return mean + outputs * deviation


class DuelingStreams(nn.Module):
    """Features [B, features] to V + A - mean A (Wang et al. 2016, eq. 9), [B, R * L * K].

    The mean is over the options of a branch; all branches have the same V (Tavakoli et al. 2018, arXiv:1711.08946).
    """

    def __init__(
        self, features: int, settings: NetworkSettings, branches: tuple[int, ...], rewards: int, size: int
    ) -> None:
        super().__init__()
        self.activation = settings.activation
        self.branches = branches
        self.shape = (rewards, sum(branches), size)
        self.value = self._stream(features, settings, rewards * size)
        self.advantage = self._stream(features, settings, rewards * sum(branches) * size)

    def _stream(self, features: int, settings: NetworkSettings, outputs: int) -> nn.ModuleList:
        """The last hidden layer of ``settings``, if there is one, and the outputs."""
        widths = [features, *settings.widths[-1:], outputs]
        *hidden, last = (nn.Linear(inputs, units) for inputs, units in pairwise(widths))
        gain = 2**0.5 if settings.init == "orthogonal" else 1.0
        for layer in hidden:
            initialize(layer, settings.init, gain)
        initialize_outputs(last, settings.init)
        return nn.ModuleList([*hidden, last])

    def forward(self, features: Tensor) -> Tensor:
        rewards, options, size = self.shape
        value = dense(features, list(self.value), self.activation)
        value = value.view(-1, rewards, 1, size)
        advantage = dense(features, list(self.advantage), self.activation)
        advantage = advantage.view(-1, rewards, options, size)
        centered = []
        for branch in torch.split(advantage, [*self.branches], dim=2):
            centered.append(branch - branch.mean(2, keepdim=True))
        q = value + torch.cat(centered, dim=2)
        return q.flatten(1)


class ValueHead(PolicyHead):
    """A policy's head whose logits are expected returns, the sum over R rewards: the best action is the most likely.

    Attributes:
        returns: What the K numbers of a value mean; None if K is 1.
        shape: R, L and K.
    """

    def __init__(
        self, features: int, layout: ActionLayout, settings: NetworkSettings, h: DQNSettings, rewards: int
    ) -> None:
        super().__init__(features, layout, settings.init, None)
        self.returns = make_returns(h)
        size = 1 if self.returns is None else self.returns.size
        self.shape = (rewards, layout.logits, size)
        outputs: nn.Module
        if h.dueling:
            outputs = DuelingStreams(features, settings, layout.branches, rewards, size)
        else:
            outputs = nn.Linear(features, rewards * layout.logits * size)
            initialize_outputs(outputs, settings.init)
        self.linear = outputs  # type: ignore[assignment]

    def split(self, output: Tensor) -> tuple[None, Tensor]:
        """Return None, and the expected returns [B, L] of ``output`` [B, R * L * K]."""
        values = output.view(-1, *self.shape)
        expected = values.squeeze(-1) if self.returns is None else self.returns.expected(values)
        return None, expected.sum(1)


def initialize_outputs(layer: nn.Linear, init: str) -> None:
    """As :class:`rlcore_torch.PolicyHead` does: the first values are small."""
    initialize(layer, init, gain=0.01 if init == "orthogonal" else 0.1)


class QNetwork(Actor):
    """An actor whose logits are the values of actions, and the target network.

    With one reward, expected values and no streams, the actor is rlcore-torch's own, which also acts in NumPy.

    Attributes:
        returns: What the K numbers of a value mean; None if K is 1.
        shape: R, L and K.
        noisy_layers: The layers with noise of the network.
        noisy_targets: Those of the target network.
        noise_size: Standard normal numbers of a draw for either.
    """

    offsets: Tensor  # [D] index of the first option of each branch

    def __init__(self, behavior: BehaviorSpec, settings: NetworkSettings, rewards: int, h: DQNSettings) -> None:
        widths = settings.widths
        if h.dueling:  # each stream has the last hidden layer for itself
            widths = widths[:-1]
        trunk = attrs.evolve(settings, hidden_layers=widths)
        super().__init__(behavior, trunk)
        self.layout = ActionLayout(behavior)
        if h.dueling or h.distributional or rewards > 1:
            self.policy_head = ValueHead(self.actor.features, self.layout, settings, h, rewards)
        self.returns: ReturnDistribution | None = None
        self.shape = (1, self.layout.logits, 1)
        head = self.policy_head
        if isinstance(head, ValueHead):
            self.returns = head.returns
            self.shape = head.shape
        if h.noisy:
            for part in (self.actor.layers, self.policy_head):
                make_noisy(part, h.noisy_std)
        self.target_actor: Body = copy.deepcopy(self.actor).requires_grad_(False)
        self.target_head: PolicyHead = copy.deepcopy(self.policy_head).requires_grad_(False)
        self.noisy_layers = noisy_layers_of(self.actor, self.policy_head)
        self.noisy_targets = noisy_layers_of(self.target_actor, self.target_head)
        self.noise_size = sum(noise_sizes(self.noisy_layers))
        self.register_buffer("offsets", torch.tensor(self.layout.offsets), persistent=False)

    def online_parameters(self) -> list[nn.Parameter]:
        """Return the parameters of the online network."""
        return [*self.actor.parameters(), *self.policy_head.parameters()]

    def target_parameters(self) -> list[nn.Parameter]:
        """Return those of the target network, in the order of :meth:`online_parameters`."""
        return [*self.target_actor.parameters(), *self.target_head.parameters()]


def make_noisy(module: nn.Module, std: float) -> None:
    """Replace every linear layer in ``module``."""
    for name, layer in module.named_children():
        if isinstance(layer, nn.Linear):
            setattr(module, name, NoisyLinear(layer.in_features, layer.out_features, std))
        else:
            make_noisy(layer, std)


def noisy_layers_of(body: Body, head: PolicyHead) -> list[NoisyLinear]:
    modules = [*body.modules(), *head.modules()]
    return [layer for layer in modules if isinstance(layer, NoisyLinear)]


def noise_sizes(layers: list[NoisyLinear]) -> list[int]:
    """Return how many numbers of noise the inputs and the outputs of each layer take, one after the other."""
    sizes = []
    for layer in layers:
        sizes += [layer.in_features, layer.out_features]
    return sizes


@contextmanager
def noise_in(layers: list[NoisyLinear], noise: Tensor | None) -> Iterator[None]:
    """Let ``layers`` compute with ``noise`` [B or 1, noise_size], standard normal; None: with their means.

    Acting, learning and evaluation choose here, and not with ``train()``: what acts with noise is exploration alone.
    """
    if noise is None:
        yield
        return
    scaled = noise.sign() * noise.abs().sqrt()  # f, eq. 11
    parts = iter(scaled.split(noise_sizes(layers), dim=1))  # type: ignore[no-untyped-call]
    for layer in layers:
        layer.noise = next(parts), next(parts)
    try:
        yield
    finally:
        for layer in layers:
            layer.noise = None
