"""Profiles: the names, layouts and units of inputs and outputs that a reader of the file expects."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import attrs
import numpy as np
from numpy.typing import NDArray

from rlcore import BehaviorSpec, ObservationSpec, UnsupportedExport
from rlcore_onnx.metadata import ActionPart, BehaviorInfo, InputNames, ObservationInput, OutputNames
from rlcore_torch import ActionLayout

__all__ = ["PROFILES", "Generic", "Godot", "Profile", "Unity"]

Shape = tuple[int, ...]

SIGNED = {"uint16": "int32", "uint32": "int64", "uint64": "int64"}  # in place of types that torch.onnx does not write
VERSION_NUMBER = 3  # of ML-Agents' models, MLAgents2_0


class Profile:
    """The inputs and outputs that one kind of reader expects of the file of a policy.

    Attributes:
        name: The name in the block ``export.onnx``.
        opset: The operator set of the file.
        units: ``continuous_units`` of the metadata.
        mask_dtype: Type of the action mask.
        memory_axes: How many axes of size 1 the memory has between the batch and its numbers.
        input_names: Names of the inputs of a policy with memory, branches and continuous actions.
        output_names: Names of the outputs of such a policy.
        echoes: Outputs that return an unused input, with its name.
        behavior: The observations and actions, and the inputs that observations feed.
        inputs: The names of the inputs that this policy has.
        outputs: The names of the outputs that this policy has.
        layout: The parts of an action.
    """

    name: ClassVar[str]
    opset: ClassVar[int]
    units: ClassVar[str] = "normalized"
    mask_dtype: ClassVar[str] = "float32"
    memory_axes: ClassVar[int] = 0
    input_names: ClassVar[InputNames]
    output_names: ClassVar[OutputNames]
    echoes: ClassVar[Mapping[str, str]] = {}

    def __init__(self, behavior: BehaviorSpec, memory_size: int, noise_size: int) -> None:
        """Raise UnsupportedExport if the reader cannot use the policy.

        ``noise_size`` are the standard normal numbers that the continuous parts of one action need.
        """
        self.layout = ActionLayout(behavior)
        absent_inputs: dict[str, Any] = {}
        absent_outputs: dict[str, Any] = {}
        if not behavior.continuous:
            absent_outputs |= dict.fromkeys(("continuous", "deterministic_continuous"))
        if not behavior.discrete:
            absent_inputs["action_mask"] = None
            absent_outputs |= dict.fromkeys(("discrete", "deterministic_discrete"))
        if not memory_size:
            absent_inputs["memory"] = None
            absent_outputs["memory"] = None
        epsilon_size = 0
        if self.input_names.epsilon:
            epsilon_size = noise_size + self.layout.logits
        self.inputs = attrs.evolve(self.input_names, epsilon_size=epsilon_size, **absent_inputs)
        self.outputs = attrs.evolve(self.output_names, **absent_outputs)
        self.behavior = BehaviorInfo.of(behavior, self._observations(behavior), memory_size)
        if self.units == "normalized":
            self._require_bounds()

    def _require_bounds(self) -> None:
        for part, clip in enumerate(self.layout.clip):
            if not np.isfinite(clip):
                raise self.refused(
                    f"part {part} of the continuous actions has the bounds {self.layout.low[part]:g} and "
                    f"{self.layout.high[part]:g}, and actions in {self.name.title()} are within -1 and 1, which "
                    "stand for finite bounds; give the action space bounds, or choose profile: generic"
                )

    def refused(self, reason: str) -> UnsupportedExport:
        """Return the error for a policy that the reader cannot use."""
        return UnsupportedExport(f"profile {self.name}: {reason}")

    def _observations(self, behavior: BehaviorSpec) -> tuple[ObservationInput, ...]:
        """The inputs that observations feed."""
        raise NotImplementedError

    def constants(self) -> dict[str, NDArray[np.float32]]:
        """Return outputs that are constants, each [n], which readers find as either."""
        return {}

    @property
    def action_order(self) -> tuple[ActionPart, ...]:
        """The parts of an action: the continuous ones, then the branches."""
        parts = []
        for index in range(self.layout.continuous):
            part = ActionPart(part="continuous", index=index, size=1)
            parts.append(part)
        for index, options in enumerate(self.layout.branches):
            part = ActionPart(part="discrete", index=index, size=options)
            parts.append(part)
        return tuple(parts)

    def input_types(self) -> dict[str, tuple[str, tuple[int, ...]]]:
        """Return the type and the shape of one row of each input, by name, in the order of the inputs in the file."""
        inputs = self.inputs
        memory_axes = [1] * self.memory_axes
        types: dict[str | None, tuple[str, Shape]] = {}
        for o in self.behavior.observations:
            types[o.input] = (o.input_dtype, o.input_shape)
        types[inputs.action_mask] = (self.mask_dtype, (self.layout.logits,))
        types[inputs.memory] = ("float32", (*memory_axes, self.behavior.memory_size))
        types[inputs.epsilon] = ("float32", (inputs.epsilon_size,))
        for name, shape in inputs.unused.items():
            types[name] = ("float32", shape)
        return {name: kind for name, kind in types.items() if name is not None}


class Generic(Profile):
    """The behavior's own names, types, layouts and units."""

    name = "generic"
    opset = 18
    units = "environment"
    mask_dtype = "bool"
    input_names = InputNames(action_mask="action_mask", memory="memory", epsilon="epsilon")
    output_names = OutputNames(
        continuous="continuous",
        discrete="discrete",
        deterministic_continuous="deterministic_continuous",
        deterministic_discrete="deterministic_discrete",
        memory="memory_out",
    )

    def _observations(self, behavior: BehaviorSpec) -> tuple[ObservationInput, ...]:
        reserved = set()
        for names_of in (self.inputs, self.outputs):
            for value in attrs.asdict(names_of).values():
                if isinstance(value, str):
                    reserved.add(value)
        names = free_names(behavior, reserved)
        observations = []
        for o in behavior.observations:
            dtype = SIGNED.get(o.dtype.name, o.dtype.name)
            observations.append(fed_by(o, names[o.name], o.shape, dtype))
        return tuple(observations)


class Unity(Profile):
    """Names, layouts and units that the inference of Unity's ML-Agents package reads."""

    name = "unity"
    opset = 15
    memory_axes = 1
    input_names = InputNames(action_mask="action_masks", memory="recurrent_in", epsilon="epsilon")
    output_names = OutputNames(
        continuous="continuous_actions",
        discrete="discrete_actions",
        deterministic_continuous="deterministic_continuous_actions",
        deterministic_discrete="deterministic_discrete_actions",
        memory="recurrent_out",
    )

    def _observations(self, behavior: BehaviorSpec) -> tuple[ObservationInput, ...]:
        observations = []
        for index, o in enumerate(behavior.observations):
            name = f"obs_{index}"
            if o.kind == "image":
                height, width, channels = o.shape
                scale = 1.0 / float(o.full_scale.max())  # Unity has pixels from 0 to 1
                shape: Shape = (channels, height, width)
                fed = fed_by(o, name, shape, channels_first=True, scale=scale)
            else:
                shape = o.shape or (1,)
                fed = fed_by(o, name, shape)
            observations.append(fed)
        return tuple(observations)

    def constants(self) -> dict[str, NDArray[np.float32]]:
        layout = self.layout
        numbers: dict[str, Any] = {}
        numbers["version_number"] = [VERSION_NUMBER]
        numbers["memory_size"] = [self.behavior.memory_size]
        if layout.continuous:
            numbers["continuous_action_output_shape"] = [layout.continuous]
        if layout.branches:
            numbers["discrete_action_output_shape"] = [layout.branches]
        return {name: np.array(value, np.float32) for name, value in numbers.items()}


class Godot(Profile):
    """Names and layouts that the plugin Godot RL Agents reads: flat observations, and one output for all actions.

    Branches are written as probabilities: the plugin starts its search for the largest number at 0, so logits, which
    may all be negative, would make it choose the first option.
    """

    name = "godot"
    opset = 17
    input_names = InputNames(unused={"state_ins": ()})
    output_names = OutputNames(actions="output")
    echoes: ClassVar[Mapping[str, str]] = {"state_outs": "state_ins"}

    def __init__(self, behavior: BehaviorSpec, memory_size: int, noise_size: int) -> None:
        super().__init__(behavior, memory_size, noise_size)
        if memory_size:
            raise self.refused("the plugin Godot RL Agents does not keep the memory of a policy from step to step")
        if behavior.continuous and behavior.discrete:
            raise self.refused(
                "the plugin Godot RL Agents reads continuous and discrete actions together in an order that depends "
                "on its own names of actions"
            )

    def _observations(self, behavior: BehaviorSpec) -> tuple[ObservationInput, ...]:
        names = free_names(behavior, {"state_ins", "state_outs", "output"})
        if len(names) == 1:
            names = dict.fromkeys(names, "obs")
        return tuple(fed_by(o, names[o.name], (o.size,)) for o in behavior.observations)


PROFILES: Mapping[str, type[Profile]] = {
    "generic": Generic,
    "unity": Unity,
    "godot": Godot,
}
"""The profiles by the name that ``export.onnx.profile`` has."""


def fed_by(o: ObservationSpec, name: str, shape: Shape, dtype: str = "float32", **layout: Any) -> ObservationInput:
    """The input ``name`` [batch, *shape] that an observation feeds."""
    return ObservationInput(
        name=o.name,
        shape=o.shape,
        dtype=o.dtype.name,
        kind=o.kind,
        input=name,
        input_shape=shape,
        input_dtype=dtype,
        **layout,
    )


def free_names(behavior: BehaviorSpec, reserved: set[str]) -> dict[str, str]:
    """The input of each observation: its name, or one with ``observation_`` in front where no input can have it.

    torch.onnx gives no tensor a number as its name.
    """
    names: dict[str, str] = {}
    observations = {o.name for o in behavior.observations}
    for o in behavior.observations:
        # Another observation keeps its own name, also if it comes later.
        others = observations - {o.name}
        used = reserved | others | set(names.values())
        name = o.name
        while not name or name.isdecimal() or name in used:
            name = f"observation_{name}"
        names[o.name] = name
    return names
