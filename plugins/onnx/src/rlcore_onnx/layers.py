"""Layers of networks as nodes: each function adds what a PyTorch module computes to a graph."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import Tensor, nn

from rlcore_onnx.graph import Graph
from rlcore_torch import ImageEncoder, Recurrent, ResidualBlock

__all__ = ["UnknownModule", "activation", "array", "has_no_hooks", "layer", "linear", "lstm_step", "require_plain"]


class UnknownModule(Exception):
    """A module that cannot be written node by node."""


def array(tensor: Tensor) -> NDArray[np.float32]:
    """The values of a parameter or buffer, in its shape."""
    return tensor.detach().cpu().numpy().astype(np.float32)


# ---------------------------------------------------------------- activations


def _silu(graph: Graph, x: str) -> str:
    return graph.node("Mul", x, graph.node("Sigmoid", x))


def _gelu(graph: Graph, x: str) -> str:
    error = graph.node("Erf", graph.node("Mul", x, graph.number(math.sqrt(0.5))))
    return graph.node("Mul", graph.node("Mul", x, graph.number(0.5)), graph.node("Add", error, graph.number(1.0)))


def _mish(graph: Graph, x: str) -> str:
    return graph.node("Mul", x, graph.node("Tanh", graph.node("Softplus", x)))


# Those of network_settings.activation, in operators that opset 15 has.
ACTIVATIONS: dict[str, Callable[[Graph, str], str]] = {
    "swish": _silu,
    "tanh": lambda graph, x: graph.node("Tanh", x),
    "relu": lambda graph, x: graph.node("Relu", x),
    "leaky_relu": lambda graph, x: graph.node("LeakyRelu", x, alpha=0.01),
    "elu": lambda graph, x: graph.node("Elu", x, alpha=1.0),
    "selu": lambda graph, x: graph.node("Selu", x),
    "gelu": _gelu,
    "mish": _mish,
    "softplus": lambda graph, x: graph.node("Softplus", x),
    "sigmoid": lambda graph, x: graph.node("Sigmoid", x),
}


def activation(graph: Graph, name: str, x: str) -> str:
    """Add the activation that ``network_settings.activation`` calls ``name``."""
    return ACTIVATIONS[name](graph, x)


# ---------------------------------------------------------------- layers


def has_no_hooks(module: nn.Module) -> bool:
    """Whether ``module`` computes what its class does: no hooks, and no ``forward`` of its own."""
    hooks = (module._forward_hooks, module._forward_pre_hooks)
    return not any(hooks) and "forward" not in module.__dict__


def linear(graph: Graph, module: nn.Linear, x: str) -> str:
    """Add ``x`` [B, in] times the weight of a linear layer, plus its bias: [B, out]."""
    inputs = [graph.constant(array(module.weight))]
    if module.bias is not None:
        inputs.append(graph.constant(array(module.bias)))
    return graph.node("Gemm", x, *inputs, transB=1)


def layer(graph: Graph, module: nn.Module, x: str) -> str:
    """Add a layer of an encoder. Raises UnknownModule for one of another kind."""
    if not has_no_hooks(module):
        raise UnknownModule(f"a {type(module).__name__} with hooks")
    make = LAYERS.get(type(module))
    if make is None:
        raise UnknownModule(f"a {type(module).__name__}")
    return make(graph, module, x)


def _sequential(graph: Graph, module: nn.Module, x: str) -> str:
    for each in module.children():
        x = layer(graph, each, x)
    return x


def _convolution(graph: Graph, module: nn.Conv2d, x: str) -> str:
    if isinstance(module.padding, str) or module.padding_mode != "zeros":
        raise UnknownModule(f"a Conv2d with padding {module.padding!r} of {module.padding_mode}")
    constants = [graph.constant(array(each)) for each in (module.weight, module.bias) if each is not None]
    return graph.node(
        "Conv", x, *constants, kernel_shape=module.kernel_size, strides=module.stride, dilations=module.dilation,
        group=module.groups, pads=(*module.padding, *module.padding),
    )  # fmt: skip


def _max_pool(graph: Graph, module: nn.MaxPool2d, x: str) -> str:
    size, stride, padding = (
        each if isinstance(each, tuple) else (each, each)
        for each in (module.kernel_size, module.stride, module.padding)
    )
    if module.dilation not in (1, (1, 1)) or module.ceil_mode or module.return_indices:
        raise UnknownModule("a MaxPool2d with dilation, ceil_mode or return_indices")
    return graph.node("MaxPool", x, kernel_shape=size, strides=stride, pads=(*padding, *padding))


def _residual(graph: Graph, module: ResidualBlock, x: str) -> str:
    return graph.node("Add", x, layer(graph, module.layers, x))


def _image_encoder(graph: Graph, module: ImageEncoder, x: str) -> str:
    return layer(graph, module.dense, layer(graph, module.convolutions, x))


def _flatten(graph: Graph, module: nn.Flatten, x: str) -> str:
    if (module.start_dim, module.end_dim) != (1, -1):
        raise UnknownModule(f"a Flatten of the axes {module.start_dim} to {module.end_dim}")
    return graph.node("Flatten", x, axis=1)


LAYERS: dict[type[nn.Module], Callable[[Graph, Any, str], str]] = {
    nn.Sequential: _sequential,
    nn.Linear: linear,
    nn.Conv2d: _convolution,
    nn.MaxPool2d: _max_pool,
    nn.Flatten: _flatten,
    nn.ReLU: lambda graph, _, x: graph.node("Relu", x),
    nn.LeakyReLU: lambda graph, module, x: graph.node("LeakyRelu", x, alpha=module.negative_slope),
    ResidualBlock: _residual,
    ImageEncoder: _image_encoder,
}


# ---------------------------------------------------------------- memory


def lstm_step(graph: Graph, module: Recurrent, x: str, memory: str) -> tuple[str, str]:
    """Add one step of an LSTM layer: features [B, M / 2] and the next memory [B, M], from ``x`` and ``memory`` [B, M].

    The gates are computed by single operators: engines differ in how they read the operator LSTM.
    """
    lstm, units = module.lstm, module.features
    h, c = graph.split(memory, [units, units])
    weights = [array(getattr(lstm, f"{name}_l0")) for name in ("weight_ih", "bias_ih", "weight_hh", "bias_hh")]
    of_x, bias_x, of_h, bias_h = map(graph.constant, weights)
    gates = graph.node(
        "Add", graph.node("Gemm", x, of_x, bias_x, transB=1), graph.node("Gemm", h, of_h, bias_h, transB=1)
    )
    into, kept, new, out = graph.split(gates, [units] * 4)  # the order of PyTorch
    stored = graph.node("Mul", graph.node("Sigmoid", into), graph.node("Tanh", new))
    c = graph.node("Add", graph.node("Mul", graph.node("Sigmoid", kept), c), stored)
    h = graph.node("Mul", graph.node("Sigmoid", out), graph.node("Tanh", c))
    return h, graph.concatenate([h, c])


def require_plain(module: nn.Module, kind: type[nn.Module]) -> None:
    """Raise UnknownModule for a subclass of ``kind``, and for a module with hooks or a ``forward`` of its own."""
    if type(module) is not kind or not has_no_hooks(module):
        raise UnknownModule(f"a {type(module).__name__} where rlcore has a plain {kind.__name__}")
