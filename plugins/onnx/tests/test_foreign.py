"""Parts of a policy that rlcore does not know: torch.onnx converts them, or the policy is refused with the reason."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import onnx
import pytest
import torch
from torch import Tensor, nn

from rlcore import Actions, BehaviorSpec, ObservationSpec, UnsupportedExport
from rlcore_torch import (
    ActionLayout,
    NetworkSettings,
    PolicyOutput,
    mask_logits,
)
from rlcore_torch.policy.untrained import untrained_policy

CAMERA = ObservationSpec("camera", (20, 24, 3), np.uint8, "image")
STATE = ObservationSpec("state", (5,), np.float32)


class Pooled(nn.Module):
    """An encoder with operators whose form changed from opset 15 to 18: a split, and means over axes."""

    def __init__(self, settings: Any, observation: ObservationSpec, features: int) -> None:
        super().__init__()
        self.convolution = nn.Conv2d(observation.shape[2], 8, 3, padding=1)
        self.norm = nn.GroupNorm(2, 8)

    def forward(self, image: Tensor) -> Tensor:
        left, right = self.norm(self.convolution(image)).chunk(2, dim=1)
        return torch.cat([left.mean((2, 3)), right.amax((2, 3))], dim=1)


class Random(Pooled):
    def forward(self, image: Tensor) -> Tensor:
        features = super().forward(image)
        return features + torch.randn_like(features)


class Looping(Pooled):
    def forward(self, image: Tensor) -> Tensor:
        if float(image.sum()) > 10:
            image = image * 2
        return super().forward(image)


class Bessel(Pooled):
    def forward(self, image: Tensor) -> Tensor:
        return torch.special.i0(super().forward(image))


def record(target: Any) -> Any:
    """The attributes of the record of an encoder or a distribution that a network needs."""
    return SimpleNamespace(
        resolve=lambda: target,
        described=f"{target.__name__} of plugin 'acme'",
        target="acme:Own",
        initial_log_std=False,
    )


def with_encoder(target: type[nn.Module], image: bool = True) -> NetworkSettings:
    name = "vis_encode_type" if image else "vector_encode_type"
    return NetworkSettings(hidden_units=16, num_layers=1, records={name: record(target)}, **{name: "own"})


@pytest.mark.parametrize("profile", ["unity", "generic", "godot"])
def test_an_encoder_of_another_package(make_behavior: Any, export: Any, profile: str) -> None:
    """The exporter compares the file with the policy; both the split and the reductions are rewritten for Unity."""
    policy = untrained_policy(make_behavior("discrete", CAMERA, STATE), with_encoder(Pooled), 1)
    generator = torch.get_rng_state()
    model = onnx.load(export(policy, profile=profile))
    assert torch.equal(torch.get_rng_state(), generator)
    assert {"ReduceMean", "ReduceMax", "Split"} <= {node.op_type for node in model.graph.node}


@pytest.mark.parametrize(
    ("target", "reason"),
    [
        (Looping, "cannot convert it: TracerWarning"),
        (Bessel, "cannot convert it: UnsupportedOperatorError: .*aten::i0"),
        (Random, "random numbers"),
    ],
)
def test_a_module_that_cannot_be_a_part_of_the_graph_is_refused(
    make_behavior: Any, export: Any, tmp_path: Path, capfd: Any, target: type[nn.Module], reason: str
) -> None:
    policy = untrained_policy(make_behavior("discrete", CAMERA), with_encoder(target), 1)
    with pytest.raises(UnsupportedExport, match=reason):
        export(policy)
    assert not list((tmp_path / "exported").iterdir()) and capfd.readouterr().out == ""


class Table(nn.Module):
    """A policy without rlcore_torch: called like a PolicyModule."""

    memory_size = 2
    noise_size = 3

    def __init__(self, layout: ActionLayout) -> None:
        super().__init__()
        self.branches = layout.branches
        self.weight = nn.Parameter(torch.linspace(-1, 1, 60 * 8).reshape(-1, 8)[:60], requires_grad=False)
        self.low, self.high = torch.from_numpy(layout.low), torch.from_numpy(layout.high)

    def forward(self, observations: Any, action_mask: Any = None, memory: Any = None, noise: Any = None) -> Any:
        image = observations["camera"].to(torch.float32).flatten(1)[:, :60] / 255
        x = image @ self.weight + memory.sum(1, keepdim=True)
        raw, logits = x[:, :3], x[:, 3:]
        if noise is not None:
            raw, logits = raw + noise[0], logits + noise[1]
        logits = mask_logits(logits, action_mask)
        choices = torch.stack([part.argmax(1) for part in logits.split(self.branches, dim=1)], dim=1)
        actions = (raw.tanh() + 1) / 2 * (self.high - self.low) + self.low
        return PolicyOutput(actions, choices, (memory + x[:, :2]).tanh())


class TablePolicy:
    def __init__(self, behavior: Any) -> None:
        self.behavior = behavior
        self.memory_size = 2
        self.layout = ActionLayout(behavior)

    def module(self) -> nn.Module:
        return Table(self.layout)

    def act(self, observations: Any, action_mask: Any, deterministic: bool, memory: Any) -> Actions:
        tensors = {name: torch.from_numpy(array) for name, array in observations.items()}
        output = self.module()(tensors, torch.from_numpy(action_mask), torch.from_numpy(memory))
        memory[...] = output.memory.numpy()
        return Actions(output.continuous.numpy(), output.discrete.numpy())


@pytest.mark.parametrize("profile", ["unity", "generic"])
def test_a_policy_that_is_not_computed_by_rlcore(export: Any, load: Any, profile: str) -> None:
    """Memory, masks, noise and an image of bytes; Unity's layout and units."""
    low, high = np.array([-2, 0, -1], np.float32), np.array([1, 5, 1], np.float32)
    behavior = BehaviorSpec("Walker", (CAMERA,), 3, (2, 3), low, high)
    path = export(TablePolicy(behavior), profile=profile)
    names = {value.name for value in onnx.load(path).graph.output}
    assert {"deterministic_continuous", "memory_out"} <= names or "recurrent_out" in names


def test_a_policy_without_a_module_or_sizes_is_refused(make_behavior: Any, export: Any) -> None:
    class Silent:
        def act(self, *_: Any) -> None: ...

    class Bare(Silent):
        def module(self) -> nn.Module:
            return nn.Linear(3, 3)

    with pytest.raises(UnsupportedExport, match="no method module"):
        export(Silent(), make_behavior("discrete"))
    with pytest.raises(UnsupportedExport, match="Linear does not have the sizes memory_size and noise_size"):
        export(Bare(), make_behavior("discrete"))
