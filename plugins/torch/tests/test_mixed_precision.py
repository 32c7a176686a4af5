# mypy: allow-untyped-calls
"""Networks whose layers compute in bfloat16: inputs, outputs, weights and gradients stay float32."""

from __future__ import annotations

import copy
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from rlcore import BehaviorSpec, ConfigError, ObservationSpec, Ranks
from rlcore_torch import ActorCritic, ActorPolicy, MemorySettings, NetworkSettings, TorchSettings, choose_backend
from rlcore_torch.backend import Backend
from rlcore_torch.policy.policy_module import PolicyModule

VECTOR = ObservationSpec("seen", (5,), np.float32)
IMAGE = ObservationSpec("camera", (36, 36, 3), np.uint8, "image")
ENTITIES = ObservationSpec("others", (4, 3), np.float32, "entities")
GOAL = ObservationSpec("goal", (2,), np.float32, goal=True)
ONE = np.ones(1, np.float32)
CPU = torch.device("cpu")
ROWS = 16
CASES: dict[str, tuple[tuple[ObservationSpec, ...], dict[str, Any]]] = {
    "vectors": ((VECTOR,), {}),
    "layers": ((VECTOR,), {"layer_norm": True, "dropout": 0.1, "num_layers": 3}),
    "batch normalization": ((VECTOR,), {"batch_norm": "pre", "blocks": "residual", "num_layers": 3}),
    "no layers": ((VECTOR,), {"num_layers": 0}),
    "images": ((VECTOR, IMAGE), {"vis_encode_type": "nature_cnn"}),
    "impala": ((IMAGE,), {"vis_encode_type": "impala"}),
    "entities": ((VECTOR, ENTITIES), {}),
    "goals": ((VECTOR, GOAL), {}),
    "shared": ((VECTOR, IMAGE), {"shared": True}),
}


def spec(observations: tuple[ObservationSpec, ...]) -> BehaviorSpec:
    return BehaviorSpec("Agent", observations, continuous=1, discrete=(2, 3), low=-ONE, high=ONE)


def networks(case: str) -> tuple[ActorCritic, ActorCritic, tuple[Tensor, ...]]:
    """A network in float32, the same one in bfloat16, and rows of inputs."""
    observations, settings = CASES[case]
    torch.manual_seed(0)
    shared = settings.get("shared", False)
    chosen = {key: value for key, value in settings.items() if key != "shared"}
    plain = ActorCritic(spec(observations), NetworkSettings(hidden_units=32, **chosen), 2, shared)
    mixed = copy.deepcopy(plain)
    Backend(CPU, bf16=True).prepare(mixed)
    generator = np.random.default_rng(0)
    rows = {o.name: generator.standard_normal((ROWS, *o.shape), np.float32) for o in observations if o.kind != "image"}
    rows |= {o.name: generator.integers(0, 256, (ROWS, *o.shape), np.uint8) for o in observations if o.kind == "image"}
    return plain, mixed, plain.inputs(plain.inputs.raw(rows))


@pytest.mark.parametrize(
    "case", [*(case for case in CASES if case != "impala"), pytest.param("impala", marks=pytest.mark.learning)]
)
def test_outputs_and_gradients_are_float32_and_rounded(case: str) -> None:
    plain, mixed, inputs = networks(case)
    found: list[Any] = []
    expected: list[Any] = []
    for model, outputs in ((plain, expected), (mixed, found)):
        with torch.no_grad():  # dropout is for gradients alone
            outputs += [*model.policy_and_value(inputs), *model.policy(inputs), model.value(inputs)]
        outcome: Any = model.policy_and_value(inputs)
        torch.cat([part.square().sum()[None] for part in outcome]).sum().backward()
    for one, other in zip(expected, found, strict=True):
        assert other.dtype == torch.float32
        scale = float(one.abs().max())
        assert float((one - other).abs().max()) < 0.06 * scale  # bfloat16 has 8 bits, and there are up to 17 layers
    assert not all(torch.equal(one, other) for one, other in zip(expected, found, strict=True))
    for parameter in mixed.parameters():
        assert parameter.dtype == torch.float32
        assert parameter.grad is None or parameter.grad.dtype == torch.float32


def test_a_network_with_memory_remembers_in_float32() -> None:
    memory = MemorySettings(memory_size=16, sequence_length=8)
    torch.manual_seed(0)
    model = ActorCritic(spec((VECTOR,)), NetworkSettings(hidden_units=32, memory=memory), 1, False)
    Backend(CPU, bf16=True).prepare(model)
    columns, logits, after = model.policy_step((torch.randn(7, 5),), torch.zeros(7, 16))
    assert columns is not None and logits is not None
    assert {columns.dtype, logits.dtype, after.dtype} == {torch.float32}


@pytest.mark.parametrize("case", ["vectors", "images"])
def test_an_exported_policy_computes_in_float32(case: str) -> None:
    plain, mixed, _ = networks(case)
    behavior = spec(CASES[case][0])
    modules = [ActorPolicy(behavior, model, Backend(CPU, bf16=model is mixed)).module() for model in (plain, mixed)]
    generator = np.random.default_rng(1)
    seen = {o.name: torch.from_numpy((9 * generator.random((5, *o.shape))).astype(o.dtype)) for o in CASES[case][0]}

    def parts(module: PolicyModule) -> list[Tensor]:
        columns, logits, _ = module.distribution_parameters(seen)
        assert columns is not None and logits is not None
        return [columns, logits]

    for one, other in zip(*map(parts, modules), strict=True):
        assert torch.equal(one, other)
    assert any(each.bf16 for each in mixed.modules() if hasattr(each, "bf16"))  # and the policy goes on as it was


def run_with(**chosen: Any) -> Any:
    return SimpleNamespace(config=SimpleNamespace(sections={"torch_settings": TorchSettings(**chosen)}), ranks=Ranks())


def test_code_written_for_a_cpu_is_not_used_with_it() -> None:
    assert choose_backend(run_with(bf16=True)) == Backend(CPU, bf16=True)
    assert choose_backend(run_with(compile=True)) == Backend(CPU, compiled=True)
    assert "by_hand" in choose_backend(run_with()).pieces


def test_a_device_without_bfloat16_is_refused() -> None:
    with pytest.raises(ConfigError, match="meta does not compute in bfloat16; leave bf16 out") as caught:
        choose_backend(run_with(device="meta", bf16=True))
    assert caught.value.key == ("torch_settings", "bf16")
