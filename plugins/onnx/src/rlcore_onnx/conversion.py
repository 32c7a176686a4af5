"""A policy as a model of ONNX: the profile's inputs, the network, actions, the profile's outputs."""

from __future__ import annotations

from typing import Any

import attrs
import numpy as np
import onnx
from numpy.typing import NDArray
from torch import nn

from rlcore import BehaviorSpec, ExportAbout, UnsupportedExport
from rlcore_onnx.actions import ActionTensors, choices, clipped, finite_logits, gumbel
from rlcore_onnx.graph import Graph
from rlcore_onnx.layers import UnknownModule, has_no_hooks
from rlcore_onnx.metadata import KEY, BehaviorInfo, Metadata, ObservationInput, bounds
from rlcore_onnx.network import network, require_known
from rlcore_onnx.pieces import distribution_actions, encoder, foreign_network, foreign_policy
from rlcore_onnx.profiles import PROFILES, Profile
from rlcore_torch import PolicyModule, image_scale

__all__ = ["Converted", "convert"]


@attrs.frozen(eq=False)
class Converted:
    """A policy as a model of ONNX.

    Attributes:
        model: The model.
        metadata: The metadata in the model.
        logits: The name of the tensor of masked logits [B, logits] in the graph; None if there is none.
    """

    model: onnx.ModelProto
    metadata: Metadata
    logits: str | None


def convert(module: nn.Module, behavior: BehaviorSpec, about: ExportAbout, profile_name: str) -> Converted:
    """Convert the module of a policy. Raises UnsupportedExport if the profile cannot have it."""
    memory_size, noise_size = (getattr(module, name, None) for name in ("memory_size", "noise_size"))
    if not isinstance(memory_size, int) or not isinstance(noise_size, int):
        raise UnsupportedExport(
            f"the policy's module {type(module).__name__} does not have the sizes memory_size and noise_size, as "
            "rlcore_torch.PolicyModule has"
        )
    profile = PROFILES[profile_name](behavior, memory_size, noise_size)
    reason = profile.refusal()
    if reason is not None:
        raise UnsupportedExport(f"profile {profile.name}: {reason}")
    graph = Graph(profile.opset)
    profile.declare_inputs(graph)
    profile.declare_outputs(graph)
    actions = _actions(graph, profile, module)
    profile.write(graph, actions)
    metadata = _metadata(profile, about)
    model = graph.model(behavior.name, {KEY: metadata.to_json()}, about.rlcore_version)
    return Converted(model, metadata, actions.logits)


def _actions(graph: Graph, profile: Profile, module: nn.Module) -> ActionTensors:
    """The actions of a policy: node by node as far as its parts are rlcore's."""
    if type(module) is not PolicyModule or not has_no_hooks(module):
        return _foreign_actions(graph, profile, module)
    layout, memory = profile.layout, profile.memory(graph)
    try:
        require_known(module.model)
    except UnknownModule as unknown:
        what = f"the network of the policy, which has {unknown},"
        columns, logits, after = foreign_network(graph, module, what, _for_environment(graph, profile), memory)
    else:
        observations = _for_network(graph, profile)
        columns, logits, after = network(graph, module.model, observations, memory, encoder)
    gaussian, normal = _noise(graph, profile)
    raw = raw_sampled = discrete = discrete_sampled = None
    if columns is not None:
        distribution = module.model.policy_head.distribution
        assert distribution is not None
        raw, raw_sampled = distribution_actions(graph, distribution, columns, gaussian)
        raw = clipped(graph, layout, raw)
        raw_sampled = None if raw_sampled is None else clipped(graph, layout, raw_sampled)
    if logits is not None:
        logits = profile.masked(graph, finite_logits(graph, logits))
        discrete = choices(graph, layout.branches, logits)
        if normal is not None:
            drawn = graph.node("Add", logits, gumbel(graph, normal))
            discrete_sampled = choices(graph, layout.branches, drawn)
    return ActionTensors(raw, raw_sampled, discrete, discrete_sampled, logits, after)


def _noise(graph: Graph, profile: Profile) -> tuple[str | None, str | None]:
    """The columns of ``epsilon`` for continuous parts, and those for options; None for what is not there."""
    name, sizes = profile.inputs.epsilon, [profile.noise_size, profile.layout.logits]
    if name is None:
        return None, None
    parts = iter(graph.split(name, [size for size in sizes if size]))
    gaussian, normal = (next(parts) if size else None for size in sizes)
    return gaussian, normal


def _foreign_actions(graph: Graph, profile: Profile, module: nn.Module) -> ActionTensors:
    """The actions of a policy whose module is not rlcore's."""
    layout, name = profile.layout, type(module).__name__
    if profile.outputs.actions is not None and layout.branches:
        raise UnsupportedExport(
            f"profile {profile.name}: it has the probabilities of options, and the module {name} shows only choices"
        )
    mask, memory, (gaussian, normal) = profile.boolean_mask(graph), profile.memory(graph), _noise(graph, profile)
    noise = None if normal is None else gumbel(graph, normal)
    given = {
        "mask": (mask, np.ones(layout.logits, np.bool_)),
        "memory": (memory, np.zeros(profile.memory_size, np.float32)),
        "gaussian": (gaussian, np.zeros(profile.noise_size, np.float32)),
        "gumbel": (noise, np.zeros(layout.logits, np.float32)),
    }
    there = {name: (tensor, example) for name, (tensor, example) in given.items() if tensor is not None}
    return foreign_policy(graph, module, layout, _for_environment(graph, profile), there)


def _for_network(graph: Graph, profile: Profile) -> dict[str, str]:
    """The observations as a network reads them: [B, size], or images [B, channels, height, width], scaled."""
    tensors = {}
    for given, o in zip(profile.observations, profile.behavior.observations, strict=True):
        x = given.input if given.input_dtype == "float32" else graph.cast(given.input, np.float32)
        if o.kind == "image":
            if not given.channels_first:
                x = graph.node("Transpose", _shaped(graph, given, x), perm=[0, 3, 1, 2])
            scale = image_scale(o) / given.scale
            x = x if scale == 1.0 else graph.node("Mul", x, graph.number(scale))
        elif len(given.input_shape) != 1:
            x = graph.node("Flatten", x, axis=1) if given.input_shape else graph.node("Unsqueeze", x, graph.integers(1))
        tensors[o.name] = x
    return tensors


def _for_environment(graph: Graph, profile: Profile) -> dict[str, tuple[str, NDArray[Any]]]:
    """The observations in the layout, units and type of the environment, each with one row of an example."""
    tensors = {}
    for given, o in zip(profile.observations, profile.behavior.observations, strict=True):
        x = given.input
        x = graph.node("Transpose", x, perm=[0, 2, 3, 1]) if given.channels_first else _shaped(graph, given, x)
        if given.scale != 1.0:
            x = graph.node("Mul", x, graph.number(1.0 / given.scale))
        if o.dtype.kind in "iu" and given.input_dtype == "float32":
            x = graph.node("Round", x)
        if o.dtype.name != given.input_dtype:
            x = graph.cast(x, o.dtype)
        tensors[o.name] = (x, np.zeros(o.shape, o.dtype))
    return tensors


def _shaped(graph: Graph, given: ObservationInput, x: str) -> str:
    """An observation in the shape of the environment."""
    return x if given.input_shape == given.shape else graph.node("Reshape", x, graph.integers(-1, *given.shape))


def _metadata(profile: Profile, about: ExportAbout) -> Metadata:
    behavior = profile.behavior
    return Metadata(
        profile=profile.name,
        behavior=BehaviorInfo(
            name=behavior.name,
            observations=profile.observations,
            continuous=behavior.continuous,
            low=bounds(behavior.low),
            high=bounds(behavior.high),
            discrete=tuple(behavior.discrete),
            memory_size=profile.memory_size,
        ),
        inputs=profile.inputs,
        outputs=profile.outputs,
        continuous_units=profile.units,
        action_order=profile.action_order,
        **attrs.asdict(about),
    )
