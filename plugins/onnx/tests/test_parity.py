"""A file does what its policy does: 500 random and 50 extreme observations, in batches of several sizes.

The exporter compares each file with its policy too, drawn actions included, so an export alone is a test of the parts
of a network.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from rlcore import Actions, ObservationSpec
from rlcore_onnx.runtime import load as load_policy
from rlcore_torch import ActorPolicy, DeterministicTanh, NetworkSettings
from rlcore_torch.networks.distributions import BUILT_IN
from rlcore_torch.networks.networks import ACTIVATIONS as KNOWN
from rlcore_torch.policy.untrained import untrained_policy

Arrays = dict[str, NDArray[Any]]
Make = Callable[..., ActorPolicy]

RANDOM, EXTREME = 500, 50
BATCHES = (1, 2, 7, 64)
# Policies with both kinds of actions go through every rule of a profile.
POLICIES = [(network, "hybrid", None) for network in ("mlp", "cnn", "lstm")]
POLICIES += [("lstm", "hybrid", "squashed_gaussian"), ("mlp", "continuous", "state_dependent_gaussian")]


def observations(policy: ActorPolicy, generator: np.random.Generator) -> Arrays:
    """500 random rows, and 50 of zeros, of huge values, and of the ends of the range of images."""
    made: Arrays = {}
    for o in policy.behavior.observations:
        shape = (RANDOM, *o.shape)
        if o.kind == "image":
            extreme = np.concatenate([np.full((25, *o.shape), value) for value in (0, 255)])
            made[o.name] = np.concatenate([generator.integers(0, 256, shape), extreme]).astype(o.dtype)
        else:
            signs = generator.choice([-1.0, 1.0], (20, *o.shape))
            extreme = [np.zeros((10, *o.shape)), 1e6 * signs, 5.0 * signs]
            made[o.name] = np.concatenate([generator.normal(0.5, 2.0, shape), *extreme]).astype(o.dtype)
    return made


def masks(policy: ActorPolicy, rows: int, generator: np.random.Generator) -> NDArray[np.bool_] | None:
    """Random masks; the last 100 rows allow a single option of each branch."""
    layout = policy.layout
    if not layout.branches:
        return None
    mask = generator.random((rows, layout.logits)) < 0.6
    mask[-100:] = False
    for first, options in zip(layout.offsets, layout.branches, strict=True):
        mask[np.arange(rows), first + generator.integers(options, size=rows)] = True
    return mask


def require_equal(found: Actions, expected: Actions) -> None:
    for name in ("continuous", "discrete"):
        ours, theirs = getattr(found, name), getattr(expected, name)
        assert (ours is None) == (theirs is None)
        if ours is not None:
            np.testing.assert_allclose(ours, theirs, rtol=0, atol=1e-5)


@pytest.mark.parametrize("profile", ["generic", "unity"])
@pytest.mark.parametrize(("network", "actions", "distribution"), POLICIES, ids=str)
def test_actions_of_550_observations_are_those_of_the_policy(
    make_policy: Make, export: Any, profile: str, network: str, actions: str, distribution: str | None
) -> None:
    """The exporter has compared drawn actions too."""
    generator = np.random.default_rng(7)
    policy = make_policy(network, actions, action_distribution=distribution)
    rows = RANDOM + EXTREME
    seen, mask = observations(policy, generator), masks(policy, rows, generator)
    memory = generator.uniform(-1, 1, (rows, policy.memory_size)).astype(np.float32)
    after, file = memory.copy(), load_policy(export(policy, profile=profile))
    acted = policy.act(seen, mask, True, *((after,) if policy.memory_size else ()))
    expected = acted.continuous, acted.discrete
    for batch in BATCHES:
        for first in range(0, rows, batch):
            part = slice(first, first + batch)
            kept = memory[part].copy()
            some = {name: array[part] for name, array in seen.items()}
            found = file.act(some, None if mask is None else mask[part], True, kept)
            require_equal(found, Actions(*(None if each is None else each[part] for each in expected)))
            np.testing.assert_allclose(kept, after[part], rtol=0, atol=1e-5)


@pytest.mark.parametrize("activation", KNOWN)
def test_every_activation_of_the_settings(make_policy: Make, export: Any, activation: str) -> None:
    export(make_policy("mlp", "continuous", activation=activation), profile="unity")


SIZES = {"simple": (20, 22), "nature_cnn": (36, 40), "resnet": (20, 22), "match3": (7, 9), "fully_connected": (7, 9)}


@pytest.mark.parametrize("encoder", SIZES)
def test_every_encoder_of_images(make_behavior: Any, export: Any, encoder: str) -> None:
    camera = ObservationSpec("camera", (*SIZES[encoder], 1), np.float32, "image")
    settings = NetworkSettings(hidden_units=16, num_layers=1, vis_encode_type=encoder)
    export(untrained_policy(make_behavior("hybrid", camera), settings, 1), profile="unity")


@pytest.mark.parametrize("settings", [{"num_layers": 0}, {"hidden_layers": (7, 5, 3)}, {"normalize": False}])
def test_other_networks(make_policy: Make, export: Any, settings: dict[str, Any]) -> None:
    export(make_policy("lstm", "hybrid", **settings))


def test_a_deterministic_actor(make_policy: Make, export: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(BUILT_IN, "gaussian", lambda behavior, **_: DeterministicTanh(behavior))
    export(make_policy("mlp", "continuous", action_distribution="gaussian"))
