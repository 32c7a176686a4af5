"""Profiles: the names, layouts and units of inputs and outputs that a reader of the file expects."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import attrs
import numpy as np

from rlcore import BehaviorSpec, ObservationSpec
from rlcore_onnx.actions import ActionTensors, stretched
from rlcore_onnx.graph import Graph
from rlcore_onnx.metadata import ActionPart, InputNames, ObservationInput, OutputNames
from rlcore_torch import MASKED_LOGIT, ActionLayout, image_scale

__all__ = ["PROFILES", "Generic", "Godot", "Profile", "Unity"]

VERSION_NUMBER = 3.0  # of ML-Agents' models, MLAgents2_0


class Profile:
    """The expectations of one kind of reader; this class has the part that ``generic`` and ``unity`` share.

    Attributes:
        name: The name in the block ``export.onnx``.
        opset: The operator set of the file.
        units: ``continuous_units`` of the metadata.
        mask_dtype: Type of the action mask.
        input_names: Names of the inputs of a policy with memory, branches and continuous actions.
        output_names: Names of the outputs of such a policy.
    """

    name: str
    opset: int
    units: str
    mask_dtype: type[np.generic]
    input_names: InputNames
    output_names: OutputNames

    def __init__(self, behavior: BehaviorSpec, memory_size: int, noise_size: int) -> None:
        self.behavior = behavior
        self.layout = ActionLayout(behavior)
        self.memory_size = memory_size
        self.noise_size = noise_size
        self.inputs = self._inputs()
        self.outputs = self._outputs()
        self.observations = self._observations()

    def refusal(self) -> str | None:
        """Why the policy has no place in the profile; None if it has."""
        return None

    def unbounded(self, reader: str) -> str | None:
        """Why ``reader``, whose actions are within -1 and 1, cannot have the actions; None if all have bounds."""
        for part, clip in enumerate(self.layout.clip):
            if not np.isfinite(clip):
                return (
                    f"part {part} of the continuous actions has the bounds {self.layout.low[part]:g} and "
                    f"{self.layout.high[part]:g}, and actions in {reader} are within -1 and 1, which stand for finite "
                    "bounds; give the action space bounds, or choose profile: generic"
                )
        return None

    # ------------------------------------------------------------ names

    def _observations(self) -> tuple[ObservationInput, ...]:
        """The inputs that observations feed."""
        raise NotImplementedError

    def _inputs(self) -> InputNames:
        """The names of the inputs that this policy has."""
        names, layout = self.input_names, self.layout
        return attrs.evolve(
            names,
            action_mask=names.action_mask if layout.branches else None,
            memory=names.memory if self.memory_size else None,
            epsilon_size=self.epsilon_size if names.epsilon else 0,
        )

    def _outputs(self) -> OutputNames:
        """The names of the outputs that this policy has."""
        names, layout = self.output_names, self.layout
        return attrs.evolve(
            names,
            continuous=names.continuous if layout.continuous else None,
            discrete=names.discrete if layout.branches else None,
            deterministic_continuous=names.deterministic_continuous if layout.continuous else None,
            deterministic_discrete=names.deterministic_discrete if layout.branches else None,
            memory=names.memory if self.memory_size else None,
        )

    @property
    def epsilon_size(self) -> int:
        """Numbers per row of the input for noise."""
        return self.noise_size + self.layout.logits

    @property
    def memory_shape(self) -> tuple[int, ...]:
        """Shape of one row of the memory."""
        return (self.memory_size,)

    @property
    def action_order(self) -> tuple[ActionPart, ...]:
        """The parts of an action: the continuous ones, then the branches."""
        parts = [ActionPart(part="continuous", index=k, size=1) for k in range(self.layout.continuous)]
        parts += [ActionPart(part="discrete", index=k, size=n) for k, n in enumerate(self.layout.branches)]
        return tuple(parts)

    # ------------------------------------------------------------ the graph

    def declare_inputs(self, graph: Graph) -> None:
        """Declare all inputs."""
        for each in self.observations:
            graph.input(each.input, np.dtype(each.input_dtype), each.input_shape)
        if self.inputs.action_mask is not None:
            graph.input(self.inputs.action_mask, self.mask_dtype, (self.layout.logits,))
        if self.inputs.memory is not None:
            graph.input(self.inputs.memory, np.float32, self.memory_shape)
        for name, shape in self.inputs.unused.items():
            graph.input(name, np.float32, shape)
        if self.inputs.epsilon is not None:
            graph.input(self.inputs.epsilon, np.float32, (self.epsilon_size,))

    def declare_outputs(self, graph: Graph) -> None:
        """Declare all outputs."""
        outputs, layout = self.outputs, self.layout
        for name in (outputs.continuous, outputs.deterministic_continuous):
            if name is not None:
                graph.output(name, np.float32, (layout.continuous,))
        for name in (outputs.discrete, outputs.deterministic_discrete):
            if name is not None:
                graph.output(name, np.int64, (len(layout.branches),))
        if outputs.memory is not None:
            graph.output(outputs.memory, np.float32, self.memory_shape)

    def masked(self, graph: Graph, logits: str) -> str:
        """Add the action mask to finite logits [B, logits], if there is an input for it."""
        mask = self.inputs.action_mask
        return logits if mask is None else graph.node("Where", mask, logits, graph.number(MASKED_LOGIT))

    def boolean_mask(self, graph: Graph) -> str | None:
        """The action mask [B, logits] as a tensor of bool; None without one."""
        return self.inputs.action_mask

    def memory(self, graph: Graph) -> str | None:
        """The memory [B, M]; None without memory."""
        return self.inputs.memory

    def write(self, graph: Graph, actions: ActionTensors) -> None:
        """Give all outputs their values."""
        outputs, memory = self.outputs, actions.memory
        pairs = {
            outputs.continuous: self.in_units(graph, actions.raw_sampled),
            outputs.discrete: actions.discrete_sampled,
            outputs.deterministic_continuous: self.in_units(graph, actions.raw),
            outputs.deterministic_discrete: actions.discrete,
            outputs.memory: None if memory is None else self.memory_output(graph, memory),
        }
        for name, tensor in pairs.items():
            if name is not None and tensor is not None:
                graph.yield_output(name, tensor)

    def in_units(self, graph: Graph, raw: str | None) -> str | None:
        """Convert clipped actions [B, continuous] to the units of the profile."""
        return None if raw is None else stretched(graph, self.layout, raw)

    def memory_output(self, graph: Graph, memory: str) -> str:
        """The memory [B, M] in the layout of the profile."""
        return memory


class Generic(Profile):
    """The behavior's own names, types, layouts and units."""

    name = "generic"
    opset = 18
    units = "environment"
    mask_dtype = np.bool_
    input_names = InputNames(action_mask="action_mask", memory="memory", epsilon="epsilon")
    output_names = OutputNames(
        continuous="continuous",
        discrete="discrete",
        deterministic_continuous="deterministic_continuous",
        deterministic_discrete="deterministic_discrete",
        memory="memory_out",
    )

    def _observations(self) -> tuple[ObservationInput, ...]:
        others = [*attrs.asdict(self.inputs).values(), *attrs.asdict(self.outputs).values()]
        names = free_names(self.behavior, {name for name in others if isinstance(name, str)})
        return tuple(fed_by(o, names[o.name], o.shape, o.dtype.name) for o in self.behavior.observations)


class Unity(Profile):
    """Names, layouts and units that the inference of Unity's ML-Agents package reads."""

    name = "unity"
    opset = 15
    units = "normalized"
    mask_dtype = np.float32
    input_names = InputNames(action_mask="action_masks", memory="recurrent_in", epsilon="epsilon")
    output_names = OutputNames(
        continuous="continuous_actions",
        discrete="discrete_actions",
        deterministic_continuous="deterministic_continuous_actions",
        deterministic_discrete="deterministic_discrete_actions",
        memory="recurrent_out",
    )

    def refusal(self) -> str | None:
        return self.unbounded("Unity")

    def _observations(self) -> tuple[ObservationInput, ...]:
        return tuple(self._observation(index, o) for index, o in enumerate(self.behavior.observations))

    @staticmethod
    def _observation(index: int, o: ObservationSpec) -> ObservationInput:
        shape: tuple[int, ...] = o.shape or (1,)
        image = o.kind == "image"
        if image:
            height, width, channels = o.shape
            shape = (channels, height, width)
        return fed_by(o, f"obs_{index}", shape, channels_first=image, scale=image_scale(o) if image else 1.0)

    @property
    def memory_shape(self) -> tuple[int, ...]:
        return (1, self.memory_size)

    def declare_outputs(self, graph: Graph) -> None:
        layout = self.layout
        graph.constant_output("version_number", np.array([VERSION_NUMBER], np.float32))
        graph.constant_output("memory_size", np.array([self.memory_size], np.float32))
        super().declare_outputs(graph)
        if layout.continuous:
            graph.constant_output("continuous_action_output_shape", np.array([layout.continuous], np.float32))
        if layout.branches:
            graph.constant_output("discrete_action_output_shape", np.array([layout.branches], np.float32))

    def masked(self, graph: Graph, logits: str) -> str:
        """ML-Agents' formula: Unity tries a model with masks of zeros only, and all tensors must be finite."""
        mask = self.inputs.action_mask
        assert mask is not None
        forbidden = graph.node("Sub", graph.number(1.0), mask)
        penalty = graph.node("Mul", forbidden, graph.number(-MASKED_LOGIT))
        return graph.node("Sub", graph.node("Mul", logits, mask), penalty)

    def boolean_mask(self, graph: Graph) -> str | None:
        mask = self.inputs.action_mask
        return None if mask is None else graph.node("Greater", mask, graph.number(0.5))

    def memory(self, graph: Graph) -> str | None:
        return None if self.inputs.memory is None else graph.node("Flatten", self.inputs.memory, axis=1)

    def memory_output(self, graph: Graph, memory: str) -> str:
        return graph.node("Unsqueeze", memory, graph.integers(1))

    def in_units(self, graph: Graph, raw: str | None) -> str | None:
        return raw


class Godot(Profile):
    """Names and layouts that the plugin Godot RL Agents reads: flat observations, and one output for all actions.

    Branches are written as probabilities: the plugin starts its search for the largest number at 0, so logits, which
    may all be negative, would make it choose the first option.
    """

    name = "godot"
    opset = 17
    units = "normalized"
    mask_dtype = np.float32
    input_names = InputNames(unused={"state_ins": ()})
    output_names = OutputNames(actions="output")

    def refusal(self) -> str | None:
        if self.memory_size:
            return "the plugin Godot RL Agents does not keep the memory of a policy from step to step"
        if self.layout.continuous and self.layout.branches:
            return (
                "the plugin Godot RL Agents reads continuous and discrete actions together in an order that depends "
                "on its own names of actions"
            )
        return self.unbounded("Godot")

    def _observations(self) -> tuple[ObservationInput, ...]:
        names = free_names(self.behavior, {"state_ins", "state_outs", "output"})
        if len(names) == 1:
            names = dict.fromkeys(names, "obs")
        return tuple(fed_by(o, names[o.name], (o.size,)) for o in self.behavior.observations)

    def declare_outputs(self, graph: Graph) -> None:
        graph.output("output", np.float32, (self.layout.continuous + self.layout.logits,))
        graph.output("state_outs", np.float32, ())

    def write(self, graph: Graph, actions: ActionTensors) -> None:
        parts = [] if actions.raw is None else [actions.raw]
        if actions.logits is not None:
            branches = graph.split(actions.logits, self.layout.branches)
            parts += [graph.node("Softmax", branch, axis=1) for branch in branches]
        graph.yield_output("output", graph.concatenate(parts))
        graph.yield_output("state_outs", "state_ins")


PROFILES: Mapping[str, type[Profile]] = {each.name: each for each in (Generic, Unity, Godot)}
"""The profiles by the name that ``export.onnx.profile`` has."""


def fed_by(
    o: ObservationSpec, name: str, shape: tuple[int, ...], dtype: str = "float32", **layout: Any
) -> ObservationInput:
    """The input ``name`` [batch, *shape] that an observation feeds."""
    return ObservationInput(
        name=o.name, shape=o.shape, dtype=o.dtype.name, kind=o.kind,
        input=name, input_shape=shape, input_dtype=dtype, **layout,
    )  # fmt: skip


def free_names(behavior: BehaviorSpec, reserved: set[str]) -> dict[str, str]:
    """The input of each observation: its name, or one with ``observation_`` in front where the name is reserved."""
    names: dict[str, str] = {}
    own = {o.name for o in behavior.observations}
    for o in behavior.observations:
        name = o.name
        while not name or name in reserved or (name != o.name and name in own | set(names.values())):
            name = f"observation_{name}"
        names[o.name] = name
    return names
