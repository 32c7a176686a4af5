"""An imitation of the loader of Unity's ML-Agents package, written from tables of its rules, not from rlcore-onnx.

The two generations of the loader read constants differently: the one for Inference Engine as outputs of the graph, the
one for Barracuda as initializers by name.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

import attrs
import numpy as np
import onnx
import onnxruntime
from numpy.typing import NDArray

from rlcore import BehaviorSpec

Generation = Literal["outputs", "initializers"]

KNOWN_INPUTS = ("action_masks", "recurrent_in", "epsilon")
NEWEST_OPSET = 15  # what the oldest Inference Engine in use reads


class ModelRefused(Exception):
    """Unity would report an error, or crash."""


@attrs.frozen
class Agent:
    """An agent in the scene: the shapes of its sensors in their order, and its actions."""

    sensors: Sequence[tuple[int, ...]]  # of one agent, images as (channels, height, width)
    continuous: int = 0
    branches: Sequence[int] = ()


def in_scene(behavior: BehaviorSpec) -> Agent:
    """The agent of a scene with this behavior: images are (channels, height, width) in Unity."""
    shapes = [(o.shape[2], *o.shape[:2]) if o.kind == "image" else o.shape for o in behavior.observations]
    return Agent(shapes, behavior.continuous, behavior.discrete)


def sensed(behavior: BehaviorSpec, observations: Mapping[str, NDArray[Any]]) -> list[NDArray[np.float32]]:
    """The observations as Unity's sensors write them: float32, and images from 0 to 1 with the channels first."""
    arrays = []
    for o in behavior.observations:
        array = observations[o.name].astype(np.float32)
        scale = 255 if o.dtype == np.uint8 else 1
        arrays.append(np.ascontiguousarray(np.moveaxis(array / scale, -1, 1)) if o.kind == "image" else array)
    return arrays


class UnityModel:
    """A model in a scene: the constructor loads and tries it, and :meth:`step` decides for agents."""

    def __init__(
        self,
        path: Path,
        agent: Agent,
        generation: Generation = "outputs",
        deterministic: bool = False,
        seed: int = 0,
    ) -> None:
        """``deterministic`` is the box "Deterministic Inference" of the agent, ``seed`` the inference seed."""
        self.agent, self.generation = agent, generation
        self.model = onnx.load(path)
        self.session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
        self.generator = np.random.default_rng(seed)
        self._check_operators()
        self.probed = self._probe()
        self._check_version()
        self.continuous, self.discrete = self._choose_outputs(deterministic)
        self._check_actions()
        self._check_inputs()
        self.memory: NDArray[np.float32] | None = None

    # ------------------------------------------------------------ loading

    def _check_operators(self) -> None:
        for each in self.model.opset_import:
            if each.domain not in ("", "ai.onnx") or each.version > NEWEST_OPSET:
                raise ModelRefused(f"operator set {each.domain!r} {each.version}")
        used = {node.op_type for node in self.model.graph.node}
        for name in sorted(used):
            if "Random" in name or name in ("Multinomial", "Bernoulli", "Loop", "If", "Scan"):
                raise ModelRefused(f"operator {name}")

    def _probe(self) -> dict[str, NDArray[Any]]:
        """Run the model once: unknown sizes are 1, and every input is a tensor of float32 with zeros, masks too.

        No tensor inside may be infinite or NaN: GPUs and CPUs treat them differently.
        """
        feeds = {}
        for each in self.session.get_inputs():
            shape = [size if isinstance(size, int) else 1 for size in each.shape]
            feeds[each.name] = np.zeros(shape, np.float32)
        inside = onnx.ModelProto()
        inside.CopyFrom(self.model)
        outputs = {each.name for each in inside.graph.output}
        for node in inside.graph.node:
            inside.graph.output.extend(onnx.ValueInfoProto(name=name) for name in node.output if name not in outputs)
        session = onnxruntime.InferenceSession(inside.SerializeToString(), providers=["CPUExecutionProvider"])
        names = [each.name for each in session.get_outputs()]
        try:
            found = dict(zip(names, session.run(names, feeds), strict=True))
        except Exception as error:  # onnxruntime has no common class for its errors
            raise ModelRefused(f"cannot be run with zeros of float32: {error}") from error
        for name, array in found.items():
            if array.dtype.kind == "f" and not np.isfinite(array).all():
                raise ModelRefused(f"tensor {name!r} is not finite for zeros")
        return {name: array for name, array in found.items() if name in outputs}

    def _constant(self, name: str) -> NDArray[np.float32]:
        if self.generation == "outputs":
            if name not in self.probed:
                raise ModelRefused(f"no output {name!r}")
            array = self.probed[name]
        else:
            by_name = {each.name: each for each in self.model.graph.initializer}
            if name not in by_name:
                raise ModelRefused(f"no constant {name!r}")
            array = onnx.numpy_helper.to_array(by_name[name])
        if array.dtype != np.float32:
            raise ModelRefused(f"{name!r} is a tensor of {array.dtype}")
        return np.asarray(array)

    def _check_version(self) -> None:
        version, self.memory_size = (int(self._constant(name)[0]) for name in ("version_number", "memory_size"))
        if version == 2 and self.memory_size:
            raise ModelRefused("version 2 with memory")
        if version not in (2, 3):
            raise ModelRefused(f"version {version}")

    def _choose_outputs(self, deterministic: bool) -> tuple[str | None, str | None]:
        """The outputs to read; that there are any is decided by a part of their names."""
        names = [each.name for each in self.session.get_outputs()]
        kinds = {kind: any(f"{kind}_actions" in name for name in names) for kind in ("continuous", "discrete")}
        if not any(kinds.values()):
            self._constant("is_continuous_control")  # of models for old versions; absent, so this fails
        chosen = []
        for kind, there in kinds.items():
            name = f"deterministic_{kind}_actions" if deterministic else f"{kind}_actions"
            if there and name not in names:
                raise ModelRefused(f"no output {name!r}")
            chosen.append(name if there else None)
        return chosen[0], chosen[1]

    def _check_actions(self) -> None:
        """The scene's actions must be those of the model."""
        agent = self.agent
        if self.continuous is not None:
            shape = self._constant("continuous_action_output_shape")
            if shape.shape != (1,) or int(shape[0]) != agent.continuous:
                raise ModelRefused(f"continuous_action_output_shape is {shape.tolist()}")
        elif agent.continuous:
            raise ModelRefused("no continuous actions")
        if self.discrete is not None:
            shape = self._constant("discrete_action_output_shape")
            if shape.shape != (1, len(agent.branches)) or shape[0].astype(int).tolist() != list(agent.branches):
                raise ModelRefused(f"discrete_action_output_shape is {shape.tolist()}")
            if self.probed[self.discrete].dtype.kind != "i":
                raise ModelRefused("discrete actions are not whole numbers")
            if "action_masks" not in {each.name for each in self.session.get_inputs()}:
                raise ModelRefused("no input 'action_masks'")
        elif agent.branches:
            raise ModelRefused("no discrete actions")
        if self.memory_size:
            if "recurrent_in" not in {each.name for each in self.session.get_inputs()}:
                raise ModelRefused("no input 'recurrent_in'")
            if self.probed["recurrent_out"].shape != (1, 1, self.memory_size):
                raise ModelRefused(f"recurrent_out has shape {self.probed['recurrent_out'].shape}")

    def _check_inputs(self) -> None:
        """An input that Unity does not know is an error when the game runs; each must have a batch of any size."""
        for each in self.session.get_inputs():
            index = each.name.removeprefix("obs_")
            known = each.name in KNOWN_INPUTS or (each.name != index and index.isdecimal())
            if not known or (index.isdecimal() and int(index) >= len(self.agent.sensors)):
                raise ModelRefused(f"unknown input {each.name!r}")

    # ------------------------------------------------------------ playing

    def step(
        self, sensors: Sequence[NDArray[np.float32]], masks: NDArray[np.float32] | None, starts: NDArray[np.bool_]
    ) -> tuple[NDArray[np.float32] | None, NDArray[np.int64] | None]:
        """The actions of the agents: continuous within -1 and 1, and the chosen option of each branch.

        ``sensors`` has an array [agents, *shape] for each sensor, ``masks`` [agents, options] is 1 where an option is
        allowed, ``starts`` [agents] says whose episode begins.
        """
        agents = len(starts)
        if self.memory is None or len(self.memory) != agents:
            self.memory = np.zeros((agents, 1, self.memory_size), np.float32)
        self.memory[starts] = 0.0
        feeds: dict[str, NDArray[np.float32]] = {}
        for each in self.session.get_inputs():
            if each.name == "action_masks":
                assert masks is not None
                feeds[each.name] = masks
            elif each.name == "recurrent_in":
                feeds[each.name] = self.memory
            elif each.name == "epsilon":
                feeds[each.name] = self.generator.standard_normal((agents, each.shape[1]), np.float32)
            else:
                feeds[each.name] = sensors[int(each.name.removeprefix("obs_"))]
        names = [name for name in (self.continuous, self.discrete) if name is not None]
        names += ["recurrent_out"] if self.memory_size else []
        try:
            found = dict(zip(names, self.session.run(names, feeds), strict=True))
        except Exception as error:
            raise ModelRefused(f"cannot decide for {agents} agents: {error}") from error
        if self.memory_size:
            self.memory = found["recurrent_out"]
        continuous = None if self.continuous is None else found[self.continuous]
        if continuous is not None and np.abs(continuous).max() > 1:
            raise ModelRefused("a continuous action is not within -1 and 1")
        return continuous, None if self.discrete is None else found[self.discrete]
