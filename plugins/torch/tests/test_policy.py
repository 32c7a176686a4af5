"""Acting by numpy is acting by the network."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from rlcore import BehaviorSpec, ObservationSpec
from rlcore_torch import ActorCritic, ActorPolicy, Backend, NetworkSettings
from rlcore_torch.cpu import MOST_ROWS, NUMPY_FUNCTIONS, numpy_actor

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


def test_many_rows_at_once_are_acted_on_like_few() -> None:
    _, policy = model_and_policy(behavior(), normalize=True)
    rows = 2 * MOST_ROWS
    seen = observe(rows)
    many = policy.act(seen)
    few = [policy.act({name: array[i : i + 8] for name, array in seen.items()}) for i in range(0, rows, 8)]
    assert many.continuous is not None and many.discrete is not None
    np.testing.assert_allclose(many.continuous, np.concatenate([a.continuous for a in few]), rtol=1e-4, atol=1e-5)
    np.testing.assert_array_equal(many.discrete, np.concatenate([a.discrete for a in few]))


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
