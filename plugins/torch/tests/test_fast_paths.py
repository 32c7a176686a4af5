"""Fast paths step aside for networks that are not what they were written for; copies of policies are independent."""

# mypy: allow-untyped-calls
from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from rlcore import BehaviorSpec, ObservationSpec
from rlcore_torch import ActorCritic, ActorPolicy, BatchNorm, MemorySettings, NetworkSettings
from rlcore_torch.acceleration.numpy_actor import numpy_actor
from rlcore_torch.acceleration.piece_threads import PieceThreads, piece_threads
from rlcore_torch.backend import Backend

ONE = np.ones(1, np.float32)
SPEC = BehaviorSpec("Agent", (ObservationSpec("seen", (3,), np.float32),), 1, (2,), -ONE, ONE, env_index=np.arange(4))
FAST = Backend(torch.device("cpu"), numpy_actor=numpy_actor)
SEEN = {"seen": np.random.default_rng(0).standard_normal((4, 3), np.float32)}


def fast_model() -> ActorCritic:
    torch.manual_seed(1)
    model = ActorCritic(SPEC, NetworkSettings(hidden_units=8, activation="tanh"), value_heads=1, shared=False)
    FAST.prepare(model)
    return model


def assert_acts_as_its_modules(policy: ActorPolicy) -> None:
    """The policy's output is that of its layers, called one by one."""
    model = policy.model
    with torch.no_grad():
        x = torch.from_numpy(SEEN["seen"])
        for layer in model.actor.layers:
            x = torch.tanh(layer(x))
        expected = model.policy_head.linear(x)
        columns, logits = policy.parameters(SEEN, None)
        assert columns is not None and logits is not None
        np.testing.assert_allclose(np.concatenate([columns, logits], 1), expected.numpy(), atol=1e-5)
        together = model.policy_head.linear(model.actor((torch.from_numpy(SEEN["seen"]),)))
        torch.testing.assert_close(together, expected)


class Doubling(nn.Linear):
    def forward(self, x: Tensor) -> Tensor:
        return 2.0 * super().forward(x)


def of_another_class(model: ActorCritic) -> None:
    model.actor.layers[1] = Doubling(8, 8)


def with_a_hook(model: ActorCritic) -> None:
    model.policy_head.linear.register_forward_hook(lambda module, inputs, output: output + 1.0)


@pytest.mark.parametrize("change", [of_another_class, with_a_hook])
def test_layers_that_are_not_plain_are_called(change: Any) -> None:
    model = fast_model()
    change(model)
    policy = ActorPolicy(SPEC, model, FAST)
    assert_acts_as_its_modules(policy)
    with torch.no_grad():  # as an update does
        for parameter in model.parameters():
            parameter.mul_(1.5)
    policy.refresh_distribution()
    assert_acts_as_its_modules(policy)
    loss = model.policy((torch.from_numpy(SEEN["seen"]),))[0].sum()  # type: ignore[union-attr]
    loss.backward()
    assert all(parameter.grad is not None for parameter in model.actor.parameters())


# ---------------------------------------------------------------- pieces side by side


def camera_model(shape: tuple[int, ...] = (20, 20, 4), **settings: Any) -> ActorCritic:
    camera = ObservationSpec("seen", shape, np.uint8, "image")
    torch.manual_seed(1)
    return ActorCritic(BehaviorSpec("Agent", (camera,), 0, (3,)), NetworkSettings(hidden_units=8, **settings), 1, True)


def test_the_gradient_of_pieces_is_that_of_the_whole_and_the_same_each_time() -> None:
    """Pieces of different sizes; a layer that no loss depends on gets no gradient."""
    model = camera_model()
    unused = nn.Parameter(torch.ones(3))
    images = torch.from_numpy(np.random.default_rng(0).integers(0, 256, (50, 20, 20, 4), np.uint8))
    parameters = [*model.parameters(), unused]

    def loss(rows: Tensor) -> Tensor:
        _, logits, value = model.policy_and_value((rows,))
        assert logits is not None
        return logits.square().sum() + value.sum()

    loss(images).backward()
    expected = [p.grad for p in parameters]
    threads = PieceThreads(3)
    found = []
    for _ in range(3):
        sizes = threads.gradients(lambda rows: (loss(rows), len(rows)), images.split(20), parameters)
        assert sizes == [20, 20, 10]
        found.append([p.grad for p in parameters])
    assert found[0][-1] is None
    for ours, again, whole in zip(found[0], found[2], expected, strict=True):
        assert (ours is None) == (whole is None)
        if ours is not None and again is not None and whole is not None:
            torch.testing.assert_close(ours, whole, rtol=1e-4, atol=1e-3)
            assert torch.equal(ours, again)
    values = threads.map(lambda rows: model.value((rows,)), images.split(20))
    assert not any(value.requires_grad for value in values)
    torch.testing.assert_close(torch.cat(values), model.value((images,)))


def test_threads_take_pieces_of_images_only() -> None:
    before = torch.get_num_threads()
    try:
        assert piece_threads(fast_model(), 4) is None
        assert piece_threads(camera_model(), 1) is None
        assert piece_threads(camera_model(memory=MemorySettings()), 4) is None
        normalizing = camera_model()
        normalizing.actor.layers.append(BatchNorm(16))
        assert piece_threads(normalizing, 4) is None
        assert torch.get_num_threads() == before
        threads = piece_threads(camera_model(), 4)
        assert threads is not None and threads.count == 4 and torch.get_num_threads() == 1
    finally:
        torch.set_num_threads(before)
