"""The network of a policy as nodes: from observations to the parameters of the distribution of actions."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple, cast

import numpy as np
from torch import nn

from rlcore import ObservationSpec
from rlcore_onnx.graph import Graph
from rlcore_onnx.layers import UnknownModule, activation, array, linear, lstm_step, require_plain
from rlcore_torch import Actor, Body, ObservationInputs, PolicyHead, Recurrent, RunningNormalizer

__all__ = ["Parameters", "network", "require_known"]

Encode = Callable[[Graph, nn.Module, str, ObservationSpec], str]
"""Adds the encoder of an observation, from a tensor of it to features [B, any number]."""


class Parameters(NamedTuple):
    """Names of the tensors that describe the distribution of actions.

    Attributes:
        columns: [B, columns] of the continuous parts; None without them.
        logits: [B, logits]; None without branches.
        memory: [B, M] after the step; None without memory.
    """

    columns: str | None
    logits: str | None
    memory: str | None


def require_known(model: Actor) -> None:
    """Raise UnknownModule unless every part of the network, apart from encoders and the distribution, is rlcore's."""
    inputs, body, head = model.inputs, model.actor, model.policy_head
    parts: list[tuple[nn.Module, type[nn.Module]]] = [
        (model, Actor), (inputs, ObservationInputs), (body, Body), (head, PolicyHead), (head.linear, nn.Linear)
    ]  # fmt: skip
    parts += [(layer, nn.Linear) for layer in body.layers]
    if inputs.normalizer is not None:
        parts.append((inputs.normalizer, RunningNormalizer))
    if body.recurrent is not None:
        parts += [(body.recurrent, Recurrent), (body.recurrent.lstm, nn.LSTM)]
    for module, kind in parts:
        require_plain(module, kind)
    if body.recurrent is not None:
        lstm = body.recurrent.lstm
        if (lstm.num_layers, lstm.bidirectional, lstm.proj_size, lstm.bias) != (1, False, 0, True):
            raise UnknownModule("an LSTM with several layers, two directions, a projection or no bias")
    if not getattr(body.dense, "__module__", "").startswith("rlcore_torch."):
        raise UnknownModule(f"the function {body.dense!r} for its layers")


def network(
    graph: Graph, model: Actor, observations: Mapping[str, str], memory: str | None, encode: Encode
) -> Parameters:
    """Add the network of ``model``.

    ``observations`` are tensors by name: [B, size], and images [B, channels, height, width] with scaled values.
    ``memory`` is [B, M]. ``encode`` adds an encoder. :func:`require_known` says whether ``model`` can be added.
    """
    inputs, body, head = model.inputs, model.actor, model.policy_head
    parts = []
    if inputs.vectors:
        vectors = graph.concatenate([observations[o.name] for o in inputs.vectors])
        if inputs.normalizer is not None:
            vectors = _normalized(graph, inputs, inputs.normalizer, vectors)
        if body.vector_encoders:
            each = graph.split(vectors, body.vector_sizes)
            made = zip(body.vector_encoders, each, inputs.vectors, strict=True)
            parts += [encode(graph, encoder, x, o) for encoder, x, o in made]
        else:
            parts.append(vectors)
    for encoder, o in zip(body.encoders, inputs.images, strict=True):
        parts.append(encode(graph, encoder, observations[o.name], o))
    x = graph.concatenate(parts)
    for hidden in body.layers:
        x = activation(graph, body.activation, linear(graph, cast(nn.Linear, hidden), x))
    after = None
    if body.recurrent is not None:
        assert memory is not None
        x, after = lstm_step(graph, body.recurrent, x, memory)
    output = linear(graph, head.linear, x)
    if not head.logits:
        return Parameters(output, None, after)
    if not head.continuous:
        return Parameters(None, output, after)
    columns, logits = graph.split(output, [head.continuous, head.logits])
    return Parameters(columns, logits, after)


def _normalized(graph: Graph, inputs: ObservationInputs, normalizer: RunningNormalizer, x: str) -> str:
    """Subtract means, divide by standard deviations and clip; columns of one-hot observations stay as they are."""
    shift, inverse_std = map(array, normalizer.scale())
    normalized = inputs.normalized_columns.cpu().numpy()
    limit = np.where(normalized, np.float32(normalizer.clip), np.finfo(np.float32).max)
    x = graph.node("Sub", x, graph.constant(np.where(normalized, shift, np.float32(0))))
    x = graph.node("Mul", x, graph.constant(np.where(normalized, inverse_std, np.float32(1))))
    x = graph.node("Min", x, graph.constant(limit.astype(np.float32)))
    return graph.node("Max", x, graph.constant(-limit.astype(np.float32)))
