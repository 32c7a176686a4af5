"""Folded batch normalization, compared with the same layers calculated one by one in float64."""

# mypy: allow-untyped-calls
from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from torch import nn

from rlcore import BehaviorSpec, ObservationSpec
from rlcore_torch import (
    Actor,
    ActorPolicy,
    BatchNorm,
    Body,
    Gaussian,
    NetworkSettings,
    ObservationInputs,
    SquashedGaussian,
    folded_actor,
    folded_layers,
)
from rlcore_torch.acceleration.numpy_actor import numpy_actor
from rlcore_torch.backend import Backend

Array = NDArray[np.float64]

STATE = ObservationSpec("state", (3,), np.float32)
LIMIT = np.ones(2, np.float32)
SPEC = BehaviorSpec("Agent", (STATE,), 2, (), -LIMIT, LIMIT)
FAST = Backend(torch.device("cpu"), numpy_actor=numpy_actor)
PLACES = ["pre", "post"]
RENORM = [None, 0]  # of batch_renorm_after: BatchNorm, and BatchRenorm that corrects
FUNCTIONS: dict[str, Callable[[Array], Array]] = {"relu": lambda x: np.maximum(x, 0.0), "tanh": np.tanh}


def scattered(network: nn.Module) -> None:
    """Give every layer weights, biases and statistics of its own."""
    with torch.no_grad():
        for layer in network.modules():
            if isinstance(layer, BatchNorm):
                layer.weight.uniform_(0.5, 2.0)
                layer.bias.uniform_(-1.0, 1.0)
                layer.running_mean.uniform_(-2.0, 2.0)
                layer.running_var.uniform_(0.1, 4.0)
            elif isinstance(layer, nn.Linear) and layer.bias is not None:
                layer.bias.uniform_(-1.0, 1.0)


def actor(**settings: Any) -> Actor:
    torch.manual_seed(0)
    network = {"hidden_layers": (8, 6), "activation": "relu", "init": "uniform", **settings}
    model = Actor(SPEC, NetworkSettings(**network), SquashedGaussian(SPEC))
    scattered(model)
    return model


def double(tensor: Any) -> Array:
    return np.asarray(tensor.detach().numpy(), np.float64)


def normalized(x: Array, norm: Any) -> Array:
    deviation = np.sqrt(double(norm.running_var) + norm.epsilon)
    y: Array = (x - double(norm.running_mean)) / deviation * double(norm.weight) + double(norm.bias)
    return y


def output_of(model: Actor, x: NDArray[Any]) -> Array:
    """The output [B, columns] of the head, layer by layer, for observations x [B, 3]."""
    activate = FUNCTIONS[model.actor.activation]
    y = np.asarray(x, np.float64)
    for layer in model.actor.layers:
        if isinstance(layer, BatchNorm):
            y = normalized(y, layer)
            continue
        hidden: Any = layer
        if isinstance(layer, nn.Linear):
            y = activate(y @ double(layer.weight).T + double(layer.bias))
            continue
        y = y @ double(hidden.linear.weight).T
        if hidden.before:
            y = activate(normalized(y, hidden.norm))
        else:
            y = normalized(activate(y + double(hidden.linear.bias)), hidden.norm)
    head = model.policy_head.linear
    return y @ double(head.weight).T + double(head.bias)


def of_folded(layers: Sequence[Any], activation: str, x: NDArray[Any]) -> Array:
    """Return what folded layers make of ``x``: products and biases, with the activation between them."""
    y = np.asarray(x, np.float64)
    for index, (weight, bias) in enumerate(layers):
        if index:
            y = FUNCTIONS[activation](y)
        y = y @ double(weight).T + double(bias)
    return y


def observed(rows: int, mean: float = 1.0) -> NDArray[np.float32]:
    return np.random.default_rng(rows).normal(mean, 2.0, (rows, 3)).astype(np.float32)


def assert_equal_to_rounding(found: NDArray[Any], expected: Array) -> None:
    """In float32 a number has 24 bits, and a few sums and products lose two or three of them."""
    largest = max(1.0, np.abs(expected).max())
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-6 * largest)


# ---------------------------------------------------------------- folded layers


@pytest.mark.parametrize("activation", list(FUNCTIONS))
@pytest.mark.parametrize("renorm", RENORM)
@pytest.mark.parametrize("place", PLACES)
def test_folded_layers_are_those_with_running_statistics(place: str, renorm: int | None, activation: str) -> None:
    model = actor(batch_norm=place, batch_renorm_after=renorm, activation=activation)
    layers = folded_actor(model)
    assert layers is not None
    assert [tuple(layer.weight.shape) for layer in layers] == [(8, 3), (6, 8), (4, 6)]
    assert not any(tensor.requires_grad for layer in layers for tensor in layer)
    x = observed(64)
    expected = output_of(model, x)
    assert_equal_to_rounding(of_folded(layers, activation, x), expected)
    with torch.no_grad():
        columns, _ = model.policy((torch.from_numpy(x),))
    assert columns is not None
    assert_equal_to_rounding(columns.numpy(), expected)


def test_what_normalizes_inputs_alone_enters_the_first_layer() -> None:
    """A policy without hidden layers: batch normalization, and the layer of the head."""
    model = actor(hidden_layers=(), batch_norm="post")
    layers = folded_actor(model)
    assert layers is not None and len(layers) == 1
    x = observed(16)
    assert_equal_to_rounding(of_folded(layers, "relu", x), output_of(model, x))


def test_a_normalization_between_linear_layers_follows_the_activation() -> None:
    """As :func:`rlcore_torch.dense` applies a list of layers."""
    torch.manual_seed(0)
    layers = [nn.Linear(3, 5), BatchNorm(5), nn.Linear(5, 2)]
    scattered(nn.Sequential(*layers))
    folded = folded_layers(layers)
    first, norm, last = layers
    x = observed(16)
    hidden = np.maximum(x @ double(first.weight).T + double(first.bias), 0.0)
    expected = normalized(hidden, norm) @ double(last.weight).T + double(last.bias)
    assert folded is not None
    assert_equal_to_rounding(of_folded(folded, "relu", x), expected)


def test_layers_without_normalization_share_their_weights() -> None:
    model = actor()
    layers = folded_actor(model)
    assert layers is not None
    for layer, linear in zip(layers, [*model.actor.layers, model.policy_head.linear], strict=True):
        assert layer.weight.data_ptr() == linear.weight.data_ptr()
        assert layer.bias.data_ptr() == linear.bias.data_ptr()


class Shifted(BatchNorm):
    """A normalization of a plugin."""


def hooked(layer: nn.Module) -> nn.Module:
    layer.register_forward_hook(lambda module, inputs, output: 2.0 * output)
    return layer


def hidden(**settings: Any) -> list[nn.Module]:
    inputs = ObservationInputs((STATE,), normalize=False)
    return list(Body(inputs, NetworkSettings(hidden_units=3, num_layers=2, activation="relu", **settings)).layers)


UNKNOWN: dict[str, Callable[[], list[nn.Module]]] = {
    "nothing": list,
    "no linear layer after a normalization": lambda: [nn.Linear(3, 3), BatchNorm(3)],
    "an activation at the end": lambda: hidden(batch_norm="pre"),
    "two normalizations": lambda: [BatchNorm(3), BatchNorm(3), nn.Linear(3, 3)],
    "a class of a plugin": lambda: [Shifted(3), nn.Linear(3, 3)],
    "a normalization with a hook": lambda: [hooked(BatchNorm(3)), nn.Linear(3, 3)],
    "a layer with a hook": lambda: [hooked(nn.Linear(3, 3)), nn.Linear(3, 3)],
    "a hidden layer with a hook": lambda: [*map(hooked, hidden(batch_norm="post")), nn.Linear(3, 3)],
    "residual blocks": lambda: [*hidden(batch_norm="post", blocks="residual"), nn.Linear(3, 3)],
    "LayerNorm": lambda: [*hidden(layer_norm=True), nn.Linear(3, 3)],
}


@pytest.mark.parametrize("case", UNKNOWN)
def test_other_layers_are_not_folded(case: str) -> None:
    assert folded_layers(UNKNOWN[case]()) is None


class OtherPolicy(Actor):
    def policy(self, inputs: Any, batch_statistics: bool = False) -> Any:
        return super().policy(inputs, batch_statistics)


def test_actors_that_do_more_are_not_folded() -> None:
    settings = NetworkSettings(hidden_units=8, batch_norm="post")
    assert folded_actor(Actor(SPEC, settings)) is not None
    assert folded_actor(OtherPolicy(SPEC, settings)) is None
    reads_features = Actor(SPEC, settings)
    reads_features.policy_head.reads_features = True  # as with gsde
    assert folded_actor(reads_features) is None


# ---------------------------------------------------------------- acting


def columns_of(policy: ActorPolicy, x: NDArray[np.float32]) -> NDArray[np.float32]:
    columns, _ = policy.parameters({"state": x}, None)
    assert columns is not None
    return columns


@pytest.mark.parametrize("place", PLACES)
def test_a_policy_acts_with_folded_layers_row_by_row_and_in_a_batch(place: str) -> None:
    model = actor(batch_norm=place)
    policy = ActorPolicy(SPEC, model, FAST)
    assert policy._numpy_actor is not None
    for rows in (1, 7, 128):
        x = observed(rows)
        together = columns_of(policy, x)
        assert_equal_to_rounding(together, output_of(model, x))
        alone = np.concatenate([columns_of(policy, row[None]) for row in x])
        np.testing.assert_allclose(alone, together, rtol=1e-6, atol=1e-6)


def test_observations_far_from_zero_lose_no_more_than_their_own_rounding() -> None:
    """Their mean is subtracted after a product, not before it."""
    model = actor(batch_norm="post")
    norm: Any = model.actor.layers[0]
    x = observed(128, mean=1000.0)
    norm.running_mean.copy_(torch.from_numpy(x).mean(0))
    norm.running_var.fill_(4.0)
    expected = output_of(model, x)
    next_numbers = np.nextafter(x, np.float32(np.inf))
    rounding = np.abs(output_of(model, next_numbers) - expected).max()
    error = np.abs(columns_of(ActorPolicy(SPEC, model, FAST), x) - expected).max()
    assert error < 8 * rounding < 1e-2


@pytest.mark.parametrize("place", PLACES)
def test_what_was_learned_is_folded_again(place: str) -> None:
    model = actor(batch_norm=place)
    policy = ActorPolicy(SPEC, model, FAST)
    x = observed(16)
    optimizer = torch.optim.Adam(model.parameters(), 0.05)
    for _ in range(3):
        columns, _ = model.policy((torch.from_numpy(x),), batch_statistics=True)
        assert columns is not None
        loss = columns.square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    expected = output_of(model, x)
    assert np.abs(columns_of(policy, x) - expected).max() > 1e-2, "nothing was learned"
    policy.refresh_distribution()
    assert_equal_to_rounding(columns_of(policy, x), expected)


def test_frozen_policies_act_together() -> None:
    torch.manual_seed(0)
    model = Actor(SPEC, NetworkSettings(hidden_units=8, activation="relu", batch_norm="post"))
    assert isinstance(model.policy_head.distribution, Gaussian)
    policy = ActorPolicy(SPEC, model, FAST)
    snapshots = []
    for _ in range(2):
        scattered(model)
        policy.refresh()
        snapshots.append(policy.snapshot())
    stack = snapshots[0].make_stack()
    assert stack is not None
    assert all(stack.put(place, snapshot) for place, snapshot in enumerate(snapshots))
    x = {"state": observed(6)}
    stack.assign(np.array([0, 0, 0, 1, 1, 1]))
    found = stack.act(x).continuous
    first, second = (snapshot.act(x).continuous for snapshot in snapshots)
    assert found is not None and first is not None and second is not None
    np.testing.assert_allclose(found, np.concatenate([first[:3], second[3:]]), rtol=1e-6, atol=1e-6)
