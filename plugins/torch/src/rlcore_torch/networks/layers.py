"""Layers of networks: dense layers and their first weights, normalization, residual blocks, dropout, hypernetworks."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TypeGuard

import torch
from torch import Tensor, nn
from torch.func import functional_call
from torch.nn import functional
from torch.nn.functional import linear

from rlcore import derive_seed
from rlcore_torch.allocation import require_network_memory
from rlcore_torch.networks.batch_norm import BatchNorm, BatchRenorm
from rlcore_torch.networks.settings import NetworkSettings

__all__ = ["Dropout", "dense", "initialize"]

# By their names in NetworkSettings.activation.
ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "swish": functional.silu,
    "tanh": torch.tanh,
    "relu": torch.relu,
    "leaky_relu": functional.leaky_relu,
    "elu": functional.elu,
    "selu": functional.selu,
    "gelu": functional.gelu,
    "mish": functional.mish,
    "softplus": functional.softplus,
    "sigmoid": torch.sigmoid,
}


def dense(
    x: Tensor,
    layers: Sequence[nn.Module],
    activation: str,
    activate_last: bool = False,
    frozen: bool = False,
    batch_statistics: bool = False,
) -> Tensor:
    """Apply ``layers`` to x [B, in], with the activation between them, and after the last if ``activate_last``.

    With ``frozen`` x gets a gradient and the layers get none. ``batch_statistics`` is the mode of layers that normalize
    over rows, such as :class:`rlcore_torch.BatchNorm`; after these there is no activation but their own. Raises
    ValueError for both: layers that get no gradient keep their running statistics.
    """
    if frozen and batch_statistics:
        raise ValueError("frozen layers keep their running statistics; leave out batch_statistics")
    for index, layer in enumerate(layers):
        if isinstance(layer, BatchNorm | NormalizedLayer | ResidualLayers):
            x = frozen_call(layer, x) if frozen else layer(x, batch_statistics)
            continue
        x = frozen_call(layer, x) if frozen else layer(x)
        if activate_last or index < len(layers) - 1:
            x = ACTIVATIONS[activation](x)
    return x


def frozen_call(layer: nn.Module, *x: Tensor) -> Tensor:
    """Return ``layer(*x)`` without a gradient for the layer."""
    if is_plain_linear(layer):
        weight = layer.weight.detach()
        bias = layer.bias.detach()
        return linear(x[0], weight, bias)
    parameters = {name: parameter.detach() for name, parameter in layer.named_parameters()}
    return functional_call(layer, parameters, x)  # type: ignore[no-any-return]


def is_plain_linear(layer: nn.Module) -> TypeGuard[nn.Linear]:
    """Whether ``layer`` only multiplies by its weight and adds its bias: no hooks, no parametrization, no subclass."""
    return type(layer) is nn.Linear and layer.bias is not None and is_unchanged(layer)


def is_unchanged(layer: nn.Module) -> bool:
    """Whether ``layer`` computes what its class does: no hooks, no function of its own."""
    if "forward" in layer.__dict__:
        return False
    hooks = (layer._forward_hooks, layer._forward_pre_hooks, layer._backward_hooks, layer._backward_pre_hooks)
    return not any(hooks)


def initialize(layer: nn.Linear, init: str, gain: float) -> None:
    """Set biases to zero and weights to ``init`` times ``gain``; ``uniform`` keeps PyTorch's own initial values."""
    if init == "uniform":
        return
    if init == "orthogonal":
        nn.init.orthogonal_(layer.weight, gain)
    else:
        nn.init.kaiming_normal_(layer.weight, nonlinearity="linear")
        with torch.no_grad():
            layer.weight *= gain
    if layer.bias is not None:
        nn.init.zeros_(layer.bias)


def hidden_layers(width: int, widths: Sequence[int], settings: NetworkSettings) -> list[nn.Module]:
    """Return hidden layers of these ``widths`` for :func:`dense`, of ``width`` numbers.

    With residual blocks, all layers but the first are blocks. With batch normalization, one of the numbers comes first.
    """
    layers: list[nn.Module] = []
    if settings.batch_norm != "none":
        layers.append(batch_norm(width, settings))
    for place, units in enumerate(widths):
        if place and settings.blocks == "residual":
            layers.append(ResidualLayers(units, settings))
        else:
            layers.append(hidden_layer(width, units, settings))
        width = units
    return layers


def hidden_layer(width: int, units: int, settings: NetworkSettings) -> nn.Module:
    """Return a linear layer from ``width`` to ``units`` numbers, without the activation that follows it.

    With batch normalization it contains its activation.
    """
    if settings.batch_norm != "none":
        return NormalizedLayer(width, units, settings)
    layer = first_linear(width, units, settings)
    # In the order of DroQ (Hiraoka et al. 2022, arXiv:2110.02034).
    parts: list[nn.Module] = [layer]
    if settings.dropout:
        parts.append(Dropout(settings.dropout))
    if settings.layer_norm:
        parts.append(nn.LayerNorm(units))
    if len(parts) == 1:
        return layer
    return nn.Sequential(*parts)


def first_linear(width: int, units: int, settings: NetworkSettings, bias: bool = True) -> nn.Linear:
    """Return a linear layer with the first weights of a hidden layer."""
    layer = nn.Linear(width, units, bias)
    # Of orthogonal weights, as in OpenAI Baselines; ML-Agents' Kaiming weights have no gain.
    gain = 2**0.5 if settings.init == "orthogonal" else 1.0
    initialize(layer, settings.init, gain)
    return layer


def batch_norm(features: int, settings: NetworkSettings) -> BatchNorm:
    """Return the normalization over rows that ``settings`` choose."""
    momentum = settings.batch_norm_momentum
    epsilon = settings.batch_norm_epsilon
    warm_up = settings.batch_renorm_after
    if warm_up is None:
        return BatchNorm(features, momentum, epsilon)
    return BatchRenorm(features, momentum, epsilon, warm_up)


class NormalizedLayer(nn.Module):
    """A hidden layer with batch normalization before its non-linearity, or after it."""

    def __init__(self, width: int, units: int, settings: NetworkSettings) -> None:
        super().__init__()
        self.before = settings.batch_norm == "pre"
        self.activation = settings.activation
        # A bias before the normalization would be subtracted with the mean.
        self.linear = first_linear(width, units, settings, bias=not self.before)
        self.norm = batch_norm(units, settings)

    def forward(self, x: Tensor, batch_statistics: bool = False) -> Tensor:
        """Return [B, units] of ``x`` [B, width]."""
        activate = ACTIVATIONS[self.activation]
        x = self.linear(x)
        if self.before:
            return activate(self.norm(x, batch_statistics))
        return self.norm(activate(x), batch_statistics)  # type: ignore[no-any-return]


EXPANSION = 4  # the width between both layers of a block, as in SimBa (Lee et al. 2025, arXiv:2410.09754)


class ResidualLayers(nn.Module):
    """A residual block: features plus what two hidden layers, the first of them wide, make of them."""

    def __init__(self, units: int, settings: NetworkSettings) -> None:
        super().__init__()
        self.activation = settings.activation
        wide = EXPANSION * units
        require_network_memory(units, [wide, units])
        self.layers = nn.ModuleList([hidden_layer(units, wide, settings), hidden_layer(wide, units, settings)])

    def forward(self, x: Tensor, batch_statistics: bool = False) -> Tensor:
        """Return [B, units] of ``x`` [B, units]."""
        added = dense(x, list(self.layers), self.activation, activate_last=True, batch_statistics=batch_statistics)
        return x + added


class Dropout(nn.Module):
    """Sets a share of the features to zero and scales up the others, where a gradient is computed and nowhere else.

    Acting, targets, statistics and exported policies use all features: they are computed without a gradient, or with
    the module in ``eval()`` (Srivastava et al. 2014, "Dropout: a simple way to prevent neural networks from
    overfitting"). What is left out depends on the buffers alone, not on PyTorch's generator.

    Attributes:
        share: The probability with which a feature is left out.
        seed: [] int64, drawn from PyTorch's generator when the module was made.
        draws: [] int64, how many times features were left out so far.
    """

    seed: Tensor
    draws: Tensor

    def __init__(self, share: float) -> None:
        super().__init__()
        self.share = share
        self.register_buffer("seed", torch.randint(2**62, ()))
        self.register_buffer("draws", torch.zeros((), dtype=torch.int64))

    def forward(self, x: Tensor) -> Tensor:
        """Return ``x`` [B, features] with a share of its numbers left out."""
        if not (self.training and torch.is_grad_enabled()):
            return x
        seed = derive_seed(int(self.seed), "dropout", int(self.draws))
        self.draws += 1
        generator = torch.Generator(x.device).manual_seed(seed)
        kept_share = 1.0 - self.share
        kept = torch.empty_like(x).bernoulli_(kept_share, generator=generator)
        return x * kept / kept_share


class HyperLinear(nn.Module):
    """A linear layer with weights of its own for each row, made of the row's goal, as in ML-Agents.

    The idea is of Ha, Dai and Le 2017, "HyperNetworks", arXiv:1609.09106.

    Attributes:
        weights: The network from goals to weights.
        bias: [outputs] bias of all rows.
    """

    def __init__(self, inputs: int, outputs: int, goal: int) -> None:
        """Map ``inputs`` numbers to ``outputs``, with weights made of ``goal`` numbers."""
        super().__init__()
        self.inputs = inputs
        self.outputs = outputs
        first = nn.Linear(goal, outputs)
        second = nn.Linear(outputs, outputs)
        last = nn.Linear(outputs, inputs * outputs)
        norm = nn.LayerNorm(outputs, elementwise_affine=False)
        self.weights = nn.Sequential(first, nn.SiLU(), second, nn.SiLU(), norm, last)
        self.bias = nn.Parameter(torch.zeros(outputs))
        for layer in (first, second):
            nn.init.kaiming_normal_(layer.weight, nonlinearity="linear")
            nn.init.zeros_(layer.bias)
        # The weights that it makes have the variance 1 / (3 inputs) then.
        bound = 1.0 / math.sqrt(outputs * inputs)
        nn.init.uniform_(last.weight, -bound, bound)
        nn.init.zeros_(last.bias)

    def forward(self, x: Tensor, goal: Tensor) -> Tensor:
        """Return [B, outputs] of ``x`` [B, inputs] and the ``goal`` [B, goal] of each row."""
        weights = self.weights(goal).view(-1, self.inputs, self.outputs)
        rows = x.unsqueeze(1)  # [B, 1, inputs]
        outputs = torch.bmm(rows, weights).squeeze(1)
        return outputs + self.bias
