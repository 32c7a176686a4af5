"""Acting by numpy is acting by the network."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from rlcore import BehaviorSpec, ObservationSpec
from rlcore_torch import ActorCritic, ActorPolicy, Backend, NetworkSettings
from rlcore_torch.cpu import NUMPY_FUNCTIONS, numpy_actor
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
    outputs, computed = [], 0
    for block in groups.blocks:
        at = np.arange(block.places.start, block.places.stop)
        assert block.rows.shape[0] == len(at)
        outputs.append(np.stack([np.broadcast_to(at[:, None], block.rows.shape), block.rows], axis=2))
        computed += block.rows.size
    found = groups.in_order([output.astype(np.float32) for output in outputs])
    np.testing.assert_array_equal(found, np.stack([index, np.arange(rows)], axis=1)[groups.rows])
    assert computed <= MOST_PADDING * len(groups.rows)
