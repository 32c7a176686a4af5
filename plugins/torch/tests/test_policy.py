"""Acting by numpy is acting by the network."""

from __future__ import annotations

from typing import Any

import attrs
import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from rlcore import BehaviorSpec, ObservationSpec
from rlcore_torch import ActorCritic, ActorPolicy, MemorySettings, NetworkSettings
from rlcore_torch.acceleration.numpy_actor import NUMPY_FUNCTIONS, numpy_actor
from rlcore_torch.acceleration.numpy_memory import NumpyMemory
from rlcore_torch.backend import Backend
from rlcore_torch.policy.row_groups import MOST_PADDING, RowGroups

FAST = Backend(torch.device("cpu"), numpy_actor=numpy_actor)
SEEN = (
    ObservationSpec("speed", (2, 2), np.float32),
    ObservationSpec("room", (3,), np.float32, "one_hot"),
    ObservationSpec("wind", (1,), np.float32),
)


def behavior(*observations: ObservationSpec) -> BehaviorSpec:
    limit = np.ones(2, np.float32)
    return BehaviorSpec("Agent", observations or SEEN, 2, (3, 2), -2 * limit, 2 * limit, env_index=np.arange(4))


def observe(rows: int, seed: int = 0) -> dict[str, NDArray[Any]]:
    random = np.random.default_rng(seed)
    return {
        "speed": random.normal(3.0, 5.0, (rows, 2, 2)).astype(np.float32),
        "room": np.eye(3, dtype=np.float32)[random.integers(3, size=rows)],
        "wind": random.normal(-1.0, 0.1, (rows, 1)).astype(np.float32),
    }


def model_and_policy(
    spec: BehaviorSpec, activation: str = "tanh", normalize: bool = False, layers: int = 2
) -> tuple[ActorCritic, ActorPolicy]:
    torch.manual_seed(1)
    network = NetworkSettings(hidden_units=16, num_layers=layers, activation=activation, normalize=normalize)
    model = ActorCritic(spec, network, value_heads=1, shared=False)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.1 * torch.randn_like(parameter))
    return model, ActorPolicy(spec, model, FAST)


@pytest.mark.parametrize("layers", [0, 1, 3])
@pytest.mark.parametrize("normalize", [False, True])
@pytest.mark.parametrize("activation", list(NUMPY_FUNCTIONS))
def test_the_numpy_actor_is_the_network(activation: str, normalize: bool, layers: int) -> None:
    model, policy = model_and_policy(behavior(), activation, normalize, layers)
    assert {parameter.device for parameter in model.parameters()} == {policy.device}
    for seen in (observe(1), observe(8, 1), observe(200, 2)):
        if normalize:
            model.inputs.update_normalizer(model.inputs.raw(seen))
            policy.refresh()
        columns = np.concatenate([seen[o.name].reshape(len(seen["wind"]), -1) for o in SEEN], axis=1)
        forward = numpy_actor(model)
        assert forward is not None
        mean, logits = forward(columns)
        with torch.no_grad():
            torch_mean, torch_logits = model.policy(model.inputs(model.inputs.raw(seen)))
        assert mean is not None and logits is not None and torch_mean is not None and torch_logits is not None
        for ours, theirs in ((mean, torch_mean.numpy()), (logits, torch_logits.numpy())):
            np.testing.assert_allclose(ours, theirs, rtol=0, atol=1e-6 * max(1.0, np.abs(theirs).max()))


@pytest.mark.parametrize("logit", [0.0, 1e9, float(np.finfo(np.float32).max)])
def test_forbidden_options_are_out_of_reach(logit: float) -> None:
    """A policy, a stack of frozen ones and the module that exporters read choose what is allowed."""
    model, policy = model_and_policy(behavior())
    mask = np.ones((4, 5), np.bool_)
    mask[:, [0, 2, 3]] = False
    with torch.no_grad():
        model.policy_head.linear.bias[2:] += torch.from_numpy(np.where(mask[0], -logit, logit).astype(np.float32))
    policy.refresh()
    stack = policy.snapshot().make_stack()
    assert stack is not None and stack.put(0, policy.snapshot())
    stack.assign(np.zeros(4, np.int64))
    for deterministic in (True, False):
        for acting in (policy, stack):
            assert acting.act(observe(4), mask, deterministic).discrete.tolist() == [[1, 1]] * 4  # type: ignore[union-attr]
        noise = None if deterministic else (torch.randn(4, 2), torch.randn(4, 5))
        seen = {name: torch.from_numpy(array) for name, array in observe(4).items()}
        chosen = policy.module()(seen, torch.from_numpy(mask), None, noise).discrete
        assert chosen.tolist() == [[1, 1]] * 4


# ---------------------------------------------------------------- rows of several policies


@pytest.mark.parametrize("places", [1, 3, 9])
@pytest.mark.parametrize("share", [0.0, 0.5, 0.97])  # of rows whose place is the last one
@pytest.mark.parametrize("rows", [1, 7, 64])
def test_every_row_is_computed_once_by_its_place(rows: int, share: float, places: int) -> None:
    generator = np.random.default_rng(rows)
    index = np.where(generator.random(rows) < share, places - 1, generator.integers(-1, places, rows))
    index[0] = places - 1
    groups = RowGroups(index)
    np.testing.assert_array_equal(groups.rows, np.flatnonzero(index >= 0))
    outputs = []
    computed = 0
    for block in groups.blocks:
        at = np.arange(block.places.start, block.places.stop)
        assert block.rows.shape[0] == len(at)
        outputs.append(np.stack([np.broadcast_to(at[:, None], block.rows.shape), block.rows], axis=2))
        computed += block.rows.size
    found = groups.in_order([output.astype(np.float32) for output in outputs])
    np.testing.assert_array_equal(found, np.stack([index, np.arange(rows)], axis=1)[groups.rows])
    assert computed <= MOST_PADDING * len(groups.rows)


# ---------------------------------------------------------------- memory


@pytest.mark.parametrize("kind", ["lstm", "gru"])
@pytest.mark.parametrize("normalize", [False, True])
@pytest.mark.parametrize("activation", list(NUMPY_FUNCTIONS))
@pytest.mark.parametrize("layers", [0, 2])
def test_a_policy_with_memory_acts_in_numpy_as_in_torch(
    kind: str, normalize: bool, activation: str, layers: int
) -> None:
    """For few rows, and by PyTorch for many, with the weights and statistics of now; nothing overflows."""
    torch.manual_seed(1)
    memory = MemorySettings(type=kind, memory_size=8)
    network = NetworkSettings(
        hidden_units=16, num_layers=layers, activation=activation, normalize=normalize, memory=memory
    )
    model = ActorCritic(behavior(), network, value_heads=1, shared=False)
    policy = ActorPolicy(behavior(), model, attrs.evolve(FAST, numpy_memory=NumpyMemory))
    plain = ActorPolicy(behavior(), model, Backend(torch.device("cpu")))
    assert policy.numpy_memory is not None and policy.numpy_memory.acts and len(policy.numpy_memory.steps) == 2
    for seed, rows in enumerate((1, 8, 200)):
        if normalize:
            model.inputs.update_normalizer(model.inputs.raw(observe(rows, seed)))
            policy.refresh()
        with torch.no_grad():
            for parameter in model.parameters():
                parameter.add_(0.3 * torch.randn_like(parameter))
        before = 40 * np.random.default_rng(seed).standard_normal((rows, 8), np.float32)
        ours = before.copy()
        theirs = before.copy()
        found = policy.parameters(observe(rows, seed), None, ours)
        wanted = plain.parameters(observe(rows, seed), None, theirs)
        for one, other in zip((*found, ours), (*wanted, theirs), strict=True):
            assert one is not None and other is not None
            np.testing.assert_allclose(one, other, rtol=1e-5, atol=2e-6 * max(1.0, np.abs(other).max()))
        columns = np.concatenate([observe(rows, seed)[o.name].reshape(rows, -1) for o in SEEN], axis=1)
        _, after = policy.numpy_memory.steps[model.critic](columns, before)
        with torch.no_grad():
            inputs = model.inputs(model.inputs.raw(observe(rows, seed)))
            np.testing.assert_allclose(
                after, model.critic.step(inputs, torch.from_numpy(before))[1], rtol=1e-5, atol=1e-4
            )
        without = policy.parameters(observe(rows, seed), None)
        from_zeros = plain.parameters(observe(rows, seed), None, np.zeros_like(before))
        np.testing.assert_allclose(without[1], from_zeros[1], rtol=1e-4, atol=1e-4)  # type: ignore[arg-type]


@pytest.mark.parametrize("backend", [FAST, attrs.evolve(FAST, numpy_memory=NumpyMemory)], ids=["torch", "numpy"])
def test_a_policy_whose_memory_is_forgotten_in_each_step_is_warned_of_once(
    backend: Backend, caplog: pytest.LogCaptureFixture
) -> None:
    network = NetworkSettings(hidden_units=16, memory=MemorySettings(memory_size=8))
    policy = ActorPolicy(behavior(), ActorCritic(behavior(), network, value_heads=1, shared=False), backend)
    memory = np.zeros((3, policy.memory_size), np.float32)
    for given in (None, memory, memory, None, memory):  # single steps without memory may begin an episode
        policy.act(observe(3), memory=given)
    assert not caplog.records
    for _ in range(4):
        policy.act(observe(3))
    (line,) = [record.getMessage() for record in caplog.records]
    assert "behavior 'Agent': the policy has memory and is called again without it" in line


def test_a_policy_without_memory_needs_none(caplog: pytest.LogCaptureFixture) -> None:
    _, policy = model_and_policy(behavior())
    for _ in range(3):
        policy.act(observe(3))
    assert not caplog.records


def test_a_network_with_memory_that_numpy_cannot_step_acts_in_torch() -> None:
    class Own(ActorCritic):
        def policy_step(self, inputs: Any, memory: Any) -> Any:
            columns, logits, after = super().policy_step(inputs, memory)
            return None if columns is None else columns + 1.0, logits, after

    network = NetworkSettings(hidden_units=16, memory=MemorySettings(memory_size=8))
    gelu = attrs.evolve(network, activation="gelu")
    for made, steps in ((Own(behavior(), network, 1, False), 2), (ActorCritic(behavior(), gelu, 1, False), 0)):
        numpy_memory = NumpyMemory(made)
        assert not numpy_memory.acts and len(numpy_memory.steps) == steps
        policies = [
            ActorPolicy(behavior(), made, each) for each in (attrs.evolve(FAST, numpy_memory=NumpyMemory), FAST)
        ]
        one, other = (each.parameters(observe(3), None, np.zeros((3, 8), np.float32))[0] for each in policies)
        np.testing.assert_array_equal(one, other)
