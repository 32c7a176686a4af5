"""A policy as a model of ONNX: a PyTorch module with the inputs and outputs of a profile, traced by torch.onnx."""

from __future__ import annotations

import copy
import io
import math
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from typing import Any

import attrs
import onnx
import torch
from onnx import helper, numpy_helper
from torch import Tensor, nn
from torch.jit._trace import TracerWarning
from torch.nn import functional

from rlcore import BehaviorSpec, ExportAbout, UnsupportedExport, one_line
from rlcore_onnx.metadata import KEY, Metadata
from rlcore_onnx.profiles import PROFILES, Profile
from rlcore_torch import BatchNorm, FoldedLayer, PolicyModule, Recurrent, folded_actor

BATCH = "batch"
"""The name of the first axis of every input and output, whose size is not fixed."""
LOGITS = "rlcore_logits"
"""The tensor of masked logits [B, logits], which the check reads; not an output, and not there in every model."""
ROWS = 3  # of the examples
SMALLEST = 2.0**-24
"""The distance that uniform numbers keep from 0 and 1, whose logarithms are infinite: that of 1 to the next smaller
float32."""
# Operators that draw. A file must give equal actions for equal inputs: its random numbers are the input epsilon.
RANDOM = {"RandomNormal", "RandomNormalLike", "RandomUniform", "RandomUniformLike", "Multinomial", "Bernoulli"}


def convert(
    module: nn.Module, behavior: BehaviorSpec, about: ExportAbout, profile_name: str
) -> tuple[onnx.ModelProto, Metadata]:
    """Return the module of a policy as a model of ONNX, and the metadata in the model.

    Raises UnsupportedExport if the profile or ONNX cannot have it.
    """
    memory_size = getattr(module, "memory_size", None)
    noise_size = getattr(module, "noise_size", None)
    if not isinstance(memory_size, int) or not isinstance(noise_size, int):
        raise UnsupportedExport(
            f"the policy's module {type(module).__name__} does not have the sizes memory_size and noise_size, as "
            "rlcore_torch.PolicyModule has"
        )
    profile = PROFILES[profile_name](behavior, memory_size, noise_size)
    if isinstance(module, PolicyModule):
        module = folded(module)
        for part in module.modules():
            if isinstance(part, Recurrent):
                part.step = partial(recurrent_step, part)  # type: ignore[method-assign]
    model = traced(PolicyProgram(module, profile).eval(), profile)
    if model.graph.output[-1].name == LOGITS:
        del model.graph.output[-1]
    for name, value in profile.constants().items():
        output = helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, value.shape)
        model.graph.initializer.append(numpy_helper.from_array(value, name))
        model.graph.output.append(output)
    metadata = Metadata(
        profile=profile.name,
        behavior=profile.behavior,
        inputs=profile.inputs,
        outputs=profile.outputs,
        continuous_units=profile.units,
        action_order=profile.action_order,
        **attrs.asdict(about),
    )
    model.graph.name = behavior.name
    model.producer_name = "rlcore"
    model.producer_version = about.rlcore_version
    helper.set_model_props(model, {KEY: metadata.to_json()})
    return model, metadata


def folded(module: PolicyModule) -> PolicyModule:
    """Return a copy whose linear layers do what batch normalization did: the file has no operators for it.

    ``module`` itself where the policy has none, and where other layers are beside it.
    """
    if not any(isinstance(part, BatchNorm) for part in module.model.actor.modules()):
        return module
    layers = folded_actor(module.model)
    if layers is None:
        return module
    module = copy.deepcopy(module)
    *hidden, head = [linear_layer(layer) for layer in layers]
    module.model.actor.layers = nn.ModuleList(hidden)
    module.model.policy_head.linear = head
    return module


def linear_layer(layer: FoldedLayer) -> nn.Linear:
    """Return a module of the weights, without a gradient."""
    outputs, inputs = layer.weight.shape
    linear = nn.Linear(inputs, outputs, device="meta")  # draws no weights
    linear.weight = nn.Parameter(layer.weight, requires_grad=False)
    linear.bias = nn.Parameter(layer.bias, requires_grad=False)
    return linear


def gumbel(normal: Tensor) -> Tensor:
    """Turn normal numbers [R, N] into standard Gumbel numbers: -log(-log(u)) for u = (1 + erf(e / sqrt 2)) / 2."""
    u = (torch.erf(normal * math.sqrt(0.5)) + 1.0) * 0.5
    return -torch.log(-torch.log(u.clamp(SMALLEST, 1.0 - SMALLEST)))


def recurrent_step(recurrent: Recurrent, x: Tensor, memory: Tensor) -> tuple[Tensor, Tensor]:
    """Compute :meth:`Recurrent.step` without the operators LSTM and GRU, which engines read in different ways."""
    layer = recurrent.layer
    units = recurrent.features
    h = memory if isinstance(layer, nn.GRU) else memory[:, :units]
    of_x = functional.linear(x, layer.weight_ih_l0, layer.bias_ih_l0)
    of_h = functional.linear(h, layer.weight_hh_l0, layer.bias_hh_l0)
    if isinstance(layer, nn.GRU):
        reset_x, kept_x, new_x = of_x.split(units, dim=1)  # type: ignore[no-untyped-call]
        reset_h, kept_h, new_h = of_h.split(units, dim=1)  # type: ignore[no-untyped-call]
        kept = (kept_x + kept_h).sigmoid()
        replaced = 1.0 - kept
        new = (new_x + (reset_x + reset_h).sigmoid() * new_h).tanh()
        h = replaced * new + kept * h
        return h, h
    into, kept, new, out = (of_x + of_h).split(units, dim=1)  # type: ignore[no-untyped-call]
    c = kept.sigmoid() * memory[:, units:] + into.sigmoid() * new.tanh()
    h = out.sigmoid() * c.tanh()
    return h, torch.cat([h, c], dim=1)


class PolicyProgram(nn.Module):
    """A policy with the inputs and outputs of a profile, both in order.

    The module of the policy may be called twice: torch.onnx computes what is equal once.
    """

    def __init__(self, module: nn.Module, profile: Profile) -> None:
        super().__init__()
        self.module = module
        self.profile = profile
        layout = profile.layout
        self.middle = torch.from_numpy(layout.middle)
        self.half_range = torch.from_numpy(layout.half_range)

    def forward(self, *tensors: Tensor) -> tuple[Tensor, ...]:
        named = zip(self.profile.input_types(), tensors, strict=True)
        outputs = self.outputs(dict(named))
        return tuple(outputs.values())

    def outputs(self, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """Return the outputs by name, and the masked logits if the module shows them, for inputs by name."""
        profile = self.profile
        inputs = profile.inputs
        names = profile.outputs
        mask = None
        if inputs.action_mask is not None:
            mask = tensors[inputs.action_mask]
            if mask.dtype != torch.bool:  # a profile whose masks are zeros and ones
                mask = mask > 0.5
        memory = None
        if inputs.memory is not None:
            memory = tensors[inputs.memory].flatten(1)
        arguments = (self._observations(tensors), mask, memory)
        greedy = self.module(*arguments)
        logits = None
        if isinstance(self.module, PolicyModule):
            _, logits, _ = self.module.distribution_parameters(*arguments)
        outputs: dict[str | None, Tensor | None] = {
            names.deterministic_continuous: self._in_units(greedy.continuous),
            names.deterministic_discrete: greedy.discrete,
        }
        if inputs.epsilon is not None:
            epsilon = tensors[inputs.epsilon]
            noise_size = inputs.epsilon_size - profile.layout.logits
            gaussian = epsilon[:, :noise_size]
            noise = (gaussian, gumbel(epsilon[:, noise_size:]))
            drawn = self.module(*arguments, noise)
            outputs[names.continuous] = self._in_units(drawn.continuous)
            outputs[names.discrete] = drawn.discrete
        if names.memory is not None:
            axes = [None] * profile.memory_axes  # of size 1, in front of the numbers of a row
            outputs[names.memory] = greedy.memory[(slice(None), *axes)]
        if names.actions is not None:
            outputs[names.actions] = self._side_by_side(greedy.continuous, logits)
        for output, name in profile.echoes.items():
            outputs[output] = tensors[name]
        outputs[LOGITS] = logits
        present = {}
        for meaning, tensor in outputs.items():
            if meaning is not None and tensor is not None:
                present[meaning] = tensor
        return present

    def _observations(self, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """The observations in the layout and units of the environment, and in its types unless the module converts."""
        observations = {}
        for o in self.profile.behavior.observations:
            x = tensors[o.input]
            if o.channels_first:
                x = x.permute(0, 2, 3, 1)
            elif o.input_shape != o.shape:
                x = x.reshape(-1, *o.shape)
            if o.scale != 1.0:
                x = x * (1.0 / o.scale)
            dtype = getattr(torch, o.dtype)
            if x.dtype != dtype and not isinstance(self.module, PolicyModule):
                if not dtype.is_floating_point:
                    x = x.round()  # scaled and back, a pixel of 7 may be 6.9999995
                x = x.to(dtype)
            observations[o.name] = x
        return observations

    def _in_units(self, actions: Tensor | None) -> Tensor | None:
        """Continuous actions [B, continuous] of the environment in the units of the profile."""
        if actions is None or self.profile.units == "environment":
            return actions
        sizes = torch.where(self.half_range > 0, self.half_range, 1.0)
        normalized = (actions - self.middle) / sizes
        return normalized.clamp(-1.0, 1.0)

    def _side_by_side(self, continuous: Tensor | None, logits: Tensor | None) -> Tensor:
        """The continuous actions, and the probabilities of the options of each branch."""
        units = self._in_units(continuous)
        parts = [] if units is None else [units]
        branches = self.profile.layout.branches
        if branches and logits is None:
            name = type(self.module).__name__
            raise self.profile.refused(f"it has the probabilities of options, and the module {name} shows only choices")
        if logits is not None:
            parts += [branch.softmax(1) for branch in logits.split(branches, dim=1)]  # type: ignore[no-untyped-call]
        return torch.cat(parts, dim=1)


@torch.no_grad()
def traced(program: PolicyProgram, profile: Profile) -> onnx.ModelProto:
    """Record the operators of ``program`` for an example.

    The exporter of TorchScript writes the operator set that a reader has, also an older one, and needs no other
    package; the exporter of torch.export, its successor, has neither.
    """
    examples = {}
    for name, (dtype, shape) in profile.input_types().items():
        examples[name] = torch.ones(ROWS, *shape, dtype=getattr(torch, dtype))
    outputs = program.outputs(examples)
    file: Any = io.BytesIO()
    dynamic_axes = {name: {0: BATCH} for name in (*examples, *outputs)}
    try:
        with _quiet():
            torch.onnx.export(
                program,
                tuple(examples.values()),
                file,
                dynamo=False,
                opset_version=profile.opset,
                input_names=list(examples),
                output_names=list(outputs),
                dynamic_axes=dynamic_axes,
            )
    except Exception as error:
        cause: BaseException = error
        while cause.__cause__ is not None:
            cause = cause.__cause__
        raise UnsupportedExport(f"torch.onnx cannot convert it: {one_line(cause)}") from error
    model = onnx.load_model_from_string(file.getvalue())
    for value, tensor in zip(model.graph.output, outputs.values(), strict=True):
        axes = [BATCH, *tensor.shape[1:]]
        element = value.type.tensor_type.elem_type
        described = helper.make_tensor_value_info(value.name, element, axes)
        value.CopyFrom(described)
    operators = {node.op_type for node in model.graph.node}
    random = sorted(operators & RANDOM)
    if random:
        raise UnsupportedExport(f"it draws random numbers by itself ({', '.join(random)})")
    return model


@contextmanager
def _quiet() -> Iterator[None]:
    """Raise a branch that depends on values as an error, and keep torch.onnx from printing anything.

    PyTorch itself branches on sizes that are known. Of a module that torch.onnx cannot convert, it prints the graph.
    """
    log = torch._C._jit_onnx_log
    torch._C._jit_onnx_log = lambda *_: None
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            warnings.filterwarnings("error", category=TracerWarning, module=r"(?!torch\.)")
            yield
    finally:
        torch._C._jit_onnx_log = log
