"""Snapshots of one shape act together: each row as its own snapshot does alone, in one forward pass."""

# mypy: allow-untyped-calls
from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any

import attrs
import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from torch import Tensor

from rlcore import Actions, BehaviorSpec, ObservationSpec, Policy, Snapshot
from rlcore_devkit.playing import random_observations
from rlcore_ghost import PolicyMix
from rlcore_torch import Actor, ActorCritic, ActorPolicy, Gaussian, MemorySettings, NetworkSettings
from rlcore_torch.acceleration.numpy_actor import numpy_actor
from rlcore_torch.backend import Backend
from rlcore_torch.policy.policy import ActorSnapshot

FAST = Backend(torch.device("cpu"), numpy_actor=numpy_actor)
PLAIN = Backend(torch.device("cpu"))
SPEED = ObservationSpec("speed", (2, 2), np.float32)
ROOM = ObservationSpec("room", (3,), np.float32, "one_hot")
CAMERA = ObservationSpec("camera", (20, 21, 3), np.uint8, "image")
ROWS = 17

Memory = NDArray[np.float32] | None


class Alone:
    """A policy without the method that lets it act with others."""

    def __init__(self, policy: ActorPolicy) -> None:
        self.policy = policy
        self.memory_size = policy.memory_size

    def act(self, *given: Any) -> Actions:
        return self.policy.act(*given)

    def seed(self, seed: int) -> None:
        self.policy.seed(seed)

    def seed_rows(self, seed: int, numbers: NDArray[np.int64], total: int) -> None:
        self.policy.seed_rows(seed, numbers, total)


def behavior(*observations: ObservationSpec, continuous: int = 2, discrete: tuple[int, ...] = (3, 2)) -> BehaviorSpec:
    limit = np.ones(continuous, np.float32)
    return BehaviorSpec("Agent", observations or (SPEED, ROOM), continuous, discrete, -2 * limit, 2 * limit)


def policy_of(spec: BehaviorSpec, number: int, backend: Backend, network: NetworkSettings) -> ActorPolicy:
    """A policy whose weights and statistics are those of ``number``, all of them far from zero."""
    torch.manual_seed(number)
    model = ActorCritic(spec, network, value_heads=1, shared=False)
    with torch.no_grad():
        for parameter in (*model.actor.layers.parameters(), *model.policy_head.parameters()):
            parameter.add_(0.3 * torch.randn_like(parameter))
    if model.inputs.normalizer is not None:
        model.inputs.update_normalizer((number + torch.randn(9, model.inputs.vector_size),))
    backend.prepare(model)
    return ActorPolicy(spec, model, backend)


def snapshots(
    count: int, spec: BehaviorSpec | None = None, backend: Backend = FAST, first: int = 0, **settings: Any
) -> list[ActorSnapshot]:
    network = NetworkSettings(**{"hidden_units": 16, "num_layers": 2, "activation": "tanh", **settings})
    spec = spec or behavior()
    return [policy_of(spec, first + number, backend, network).snapshot() for number in range(count)]


def observe(spec: BehaviorSpec, rows: int = ROWS, seed: int = 0) -> tuple[dict[str, Any], NDArray[np.bool_] | None]:
    generator = np.random.default_rng(seed)
    seen = random_observations(spec, rows, generator)
    if not spec.discrete:
        return seen, None
    mask = generator.random((rows, spec.mask_size)) < 0.7
    mask[:, np.cumsum((0, *spec.discrete))[:-1]] = True
    return seen, mask


def assert_same(ours: Actions, theirs: Actions) -> None:
    for name in ("continuous", "discrete"):
        one = getattr(ours, name)
        other = getattr(theirs, name)
        assert (one is None) == (other is None)
        if one is not None:
            assert one.dtype == other.dtype
            np.testing.assert_allclose(one, other, rtol=0, atol=1e-5)


def forbid_acting_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    def act(*given: Any, **named: Any) -> Actions:
        raise AssertionError("a snapshot acted by itself")

    monkeypatch.setattr(ActorSnapshot, "act", act)


LSTM = MemorySettings(memory_size=8, sequence_length=4)
KINDS: dict[str, tuple[BehaviorSpec, Backend, dict[str, Any]]] = {
    "hybrid": (behavior(), FAST, {"normalize": True, "normalize_clip": 1.5}),
    "discrete": (behavior(continuous=0), FAST, {}),
    "continuous": (behavior(discrete=()), FAST, {"normalize": True, "activation": "swish"}),
    "state dependent": (behavior(discrete=()), FAST, {"action_distribution": "state_dependent_gaussian"}),
    "squashed": (behavior(), FAST, {"action_distribution": "squashed_gaussian"}),
    "no layer": (behavior(), FAST, {"num_layers": 0}),
    "plain": (behavior(), PLAIN, {"normalize": True}),
    "gelu": (behavior(), FAST, {"activation": "gelu"}),
    "memory": (behavior(), FAST, {"memory": LSTM, "normalize": True}),
    "flat image": (behavior(SPEED, CAMERA), FAST, {"vis_encode_type": "fully_connected", "normalize": True}),
}
ALONE = ("plain", "gelu", "memory", "flat image")  # kinds that NumPy does not compute: each snapshot acts by itself
every_kind = pytest.mark.parametrize("kind", KINDS)


@every_kind
@pytest.mark.parametrize("spread", ["even", "one has most", "one only", "one each"])
def test_each_row_acts_as_its_own_snapshot(monkeypatch: pytest.MonkeyPatch, kind: str, spread: str) -> None:
    spec, backend, settings = KINDS[kind]
    policies = snapshots(5, spec, backend, **settings)
    seen, mask = observe(spec)
    index = {
        "even": np.random.default_rng(1).integers(0, 5, ROWS),
        "one has most": np.array([3] * 13 + [0, 1, 2, 4]),
        "one only": np.full(ROWS, 2),
        "one each": np.array([4, 2, 0] + [1] * (ROWS - 3)),
    }[spread]
    size = policies[0].memory_size
    remembered = np.random.default_rng(2).standard_normal((ROWS, size)).astype(np.float32) if size else None
    expected_memory = copy.copy(remembered)
    expected = PolicyMix([Alone(policy) for policy in policies], index).act(seen, mask, True, expected_memory)
    alone = [policy.act(seen, mask) for policy in policies[:2]]
    assert any(not np.array_equal(one, other) for one, other in zip(*map(attrs.astuple, alone), strict=True))
    mix = PolicyMix(policies, index)
    assert (policies[0].make_stack() is None) == (kind in ALONE)
    if kind not in ALONE:
        forbid_acting_alone(monkeypatch)
    assert_same(mix.act(seen, mask, True, remembered), expected)
    if remembered is not None and expected_memory is not None:
        np.testing.assert_allclose(remembered, expected_memory, atol=1e-5)
        assert_same(mix.act(seen, mask, True), mix.act(seen, mask, True, np.zeros_like(remembered)))


class Learned(Gaussian):
    """A distribution of a plugin: its draws depend on a parameter, and NumPy does not know them."""

    def sample(self, columns: Tensor, noise: Tensor) -> Tensor:
        return columns + self.log_std.exp() * noise**3


class Renamed(Gaussian):
    """A distribution of a plugin whose draws NumPy knows, with the parameters of one policy."""


@pytest.mark.parametrize("distribution", [Gaussian, Learned, Renamed])
def test_rows_draw_from_the_distribution_of_their_own_snapshot(distribution: type[Gaussian]) -> None:
    spec = behavior(discrete=())
    policies: list[Policy] = []
    for log_std in (-3.0, 0.0):
        made = distribution(spec, initial_log_std=log_std)
        torch.manual_seed(0)
        network = NetworkSettings(hidden_units=8, num_layers=1)
        policies.append(ActorPolicy(spec, Actor(spec, network, made), FAST).snapshot())
    seen, _ = observe(spec, 1)
    seen = {name: np.repeat(array, 8000, axis=0) for name, array in seen.items()}
    index = np.arange(8000) % 2
    mix = PolicyMix(policies, index)
    mix.seed(1)
    mean = mix.act(seen).continuous
    drawn = mix.act(seen, deterministic=False).continuous
    assert mean is not None and drawn is not None
    spread = [np.abs(drawn - mean)[index == place].mean() for place in (0, 1)]
    normal = np.abs(np.random.default_rng(0).standard_normal(100_000))
    for found, log_std in zip(spread, (-3.0, 0.0), strict=True):
        raw = np.exp(log_std) * normal ** (3 if distribution is Learned else 1)
        expected = np.minimum(raw, 1.0).mean() * 2.0  # clipped to [-1, 1], then stretched to [-2, 2]
        assert found == pytest.approx(expected, rel=0.05)


def test_a_ring_that_was_replaced_acts_bit_for_bit_as_a_new_mix() -> None:
    """A resumed run makes a new mix."""
    spec, backend, settings = KINDS["hybrid"]
    policies: Sequence[Snapshot] = snapshots(9, spec, backend, **settings)
    seen, mask = observe(spec)
    index = np.random.default_rng(1).integers(0, 4, ROWS)
    ring = PolicyMix(policies[:1], np.zeros(ROWS, np.int64))
    for number, policy in enumerate(policies):
        ring.policies[number % 4 : number % 4 + 1] = [policy]
        ring.act(seen, mask)
    ring.policy_index = index
    new = PolicyMix(ring.policies, index.copy())
    ring.seed(4)
    new.seed(4)
    for _ in range(2):
        ours = ring.act(seen, mask, False)
        theirs = new.act(seen, mask, False)
        np.testing.assert_array_equal(ours.continuous, theirs.continuous)  # type: ignore[arg-type]
        np.testing.assert_array_equal(ours.discrete, theirs.discrete)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ({}, {"activation": "relu"}),
        ({}, {"normalize": True}),
        ({}, {"num_layers": 1}),
        ({}, {"hidden_units": 24}),
        ({}, {"action_distribution": "squashed_gaussian"}),
        ({}, {"backend": PLAIN}),
    ],
)
def test_networks_that_compute_otherwise_are_not_in_one_stack(one: dict[str, Any], other: dict[str, Any]) -> None:
    [ours], [theirs] = snapshots(1, **one), snapshots(1, **other)
    stack = ours.make_stack()
    assert stack is not None
    assert stack.put(0, ours) and not stack.put(1, theirs)


@pytest.mark.parametrize("numbered", [True, False])
@pytest.mark.parametrize("together", [True, False], ids=["stacked", "one by one"])
def test_a_row_draws_the_same_whichever_rows_are_there_and_whatever_others_play(together: bool, numbered: bool) -> None:
    spec = behavior()
    policies: list[Policy] = [policy if together else Alone(policy) for policy in snapshots(3, spec)]
    seen, mask = observe(spec)
    assert mask is not None
    index = np.random.default_rng(1).integers(0, 3, ROWS)

    def drawn(rows: NDArray[np.int64], seed: int = 7, index: NDArray[np.int64] = index) -> Actions:
        mix = PolicyMix(policies, index[rows])
        if numbered:
            mix.seed_rows(seed, rows, ROWS)
        else:
            mix.seed(seed)
        return mix.act({name: array[rows] for name, array in seen.items()}, mask[rows], False)

    whole = drawn(np.arange(ROWS))
    some = np.array([1, 2, 5, ROWS - 1]) if numbered else np.arange(5)
    if together or numbered:
        assert_same(drawn(some), whole.take(some))
    other = drawn(some, seed=8).continuous
    assert other is not None and whole.continuous is not None
    assert np.abs(other - whole.continuous[some]).min(0).max() > 1e-3
    if together and not numbered:
        others = np.where(np.arange(ROWS) == 6, index, (index + 1) % 3)
        assert_same(whole.take(np.array([6])), drawn(np.arange(ROWS), index=others).take(np.array([6])))


def test_options_are_drawn_with_the_probabilities_of_the_rows_own_snapshot() -> None:
    spec = behavior(continuous=0, discrete=(4,))
    draws = 4000
    policies = snapshots(3, spec)
    seen, _ = observe(spec, 1)
    mask = np.array([[True, True, False, True]])
    index = np.arange(3 * draws) % 3
    mix = PolicyMix(policies, index)
    mix.seed(5)
    many = {name: np.repeat(array, 3 * draws, axis=0) for name, array in seen.items()}
    drawn = mix.act(many, np.repeat(mask, 3 * draws, axis=0), deterministic=False).discrete
    assert drawn is not None
    for place, policy in enumerate(policies):
        logits = policy.parameters(seen, mask)[1]
        assert logits is not None
        p = np.exp(logits[0] - logits[0].max())
        p /= p.sum()
        found = np.bincount(drawn[index == place, 0], minlength=4) / draws
        assert found[2] == 0
        np.testing.assert_array_less(np.abs(found - p), 3 * np.sqrt(p * (1 - p) / draws) + 1e-9)


def test_policies_of_two_shapes_and_others_act_together_and_draw_apart() -> None:
    small, [large] = snapshots(3), snapshots(1, first=5, hidden_units=24)
    policies: list[Policy] = [small[0], large, Alone(small[1]), small[2]]
    seen, mask = observe(behavior())
    index = np.arange(ROWS) % 4
    mix = PolicyMix(policies, index)
    together = [small[0], large, small[1], small[2]]
    assert_same(mix.act(seen, mask), PolicyMix([Alone(policy) for policy in together], index).act(seen, mask))
    twins: list[Policy] = [Alone(each) for _ in range(2) for each in snapshots(1)]  # of equal weights
    mix = PolicyMix(twins, np.arange(2 * ROWS) % 2)
    mix.seed(1)
    actions = mix.act({name: np.repeat(array, 2, axis=0) for name, array in seen.items()}, None, False).continuous
    assert actions is not None and np.abs(actions[::2] - actions[1::2]).max() > 1e-3
    for wrong in ([0, 2], [0, -1], [0]):
        mix.policy_index = np.array(wrong)
        with pytest.raises(ValueError, match="; set it to 2 indices from 0 to 1"):
            mix.act({name: array[:2] for name, array in seen.items()})
