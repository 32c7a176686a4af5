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

from rlcore import ObservationSpec, UnsupportedExport
from rlcore_torch import (
    NetworkSettings,
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
