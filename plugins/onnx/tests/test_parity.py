"""A file does what its policy does: 500 random and 50 extreme observations, in batches of several sizes."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from rlcore.environment import ObservationSpec
from rlcore.settings import NetworkSettings
from rlcore.torch.networks import ACTIVATIONS as KNOWN
from rlcore.torch.policy import ActorPolicy
from rlcore.torch.policy_module import PolicyModule
from rlcore.torch.untrained import untrained_policy
from rlcore_onnx.layers import ACTIVATIONS

Arrays = dict[str, NDArray[Any]]
Make = Callable[..., ActorPolicy]

RANDOM, EXTREME = 500, 50
BATCHES = (1, 2, 7, 64)
STEPS = 200
NETWORKS = ("mlp", "cnn", "lstm")
KINDS = ("continuous", "discrete", "branches", "hybrid")
POLICIES = [(network, actions, None) for network in NETWORKS for actions in KINDS]
POLICIES += [(network, actions, "squashed_gaussian") for network in NETWORKS for actions in ("continuous", "hybrid")]
POLICIES += [("mlp", "continuous", "state_dependent_gaussian")]


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


def require_equal(
    policy: ActorPolicy, module: PolicyModule, found: Arrays, seen: Arrays, mask: Any, memory: Any
) -> None:
    """Compare deterministic actions and memory with the policy's; ``memory`` becomes the policy's next."""
    tensors = {name: torch.from_numpy(array) for name, array in seen.items()}
    given = [None if each is None else torch.from_numpy(each.copy()) for each in (mask, memory)]
    with torch.no_grad():
        logits = module.distribution_parameters(tensors, *given)[1]
    expected = policy.act(seen, mask, True, *(() if memory is None else (memory,)))
    if expected.continuous is not None:
        np.testing.assert_allclose(found["deterministic_continuous"], expected.continuous, rtol=0, atol=1e-5)
    if expected.discrete is not None and logits is not None:
        require_allowed(policy, found["deterministic_discrete"], mask)
        for row, branch in np.argwhere(found["deterministic_discrete"] != expected.discrete):
            pair = policy.layout.offsets[branch] + np.array(
                [found["deterministic_discrete"][row, branch], expected.discrete[row, branch]]
            )
            assert float(logits[row, pair].diff().abs()) < 1e-5, f"row {row}, branch {branch}"


def require_allowed(policy: ActorPolicy, choices: NDArray[np.int64], mask: NDArray[np.bool_]) -> None:
    columns = choices + np.array(policy.layout.offsets)
    assert mask[np.arange(len(mask))[:, None], columns].all(), "an option that is not allowed was chosen"


@pytest.mark.parametrize(("network", "actions", "distribution"), POLICIES, ids=str)
def test_actions_of_550_observations_are_those_of_the_policy(
    make_policy: Make, export: Any, load: Any, network: str, actions: str, distribution: str | None
) -> None:
    generator = np.random.default_rng(7)
    policy = make_policy(network, actions, action_distribution=distribution)
    act, module = load(export(policy)), policy.module()
    everything = observations(policy, generator)
    rows = RANDOM + EXTREME
    mask = masks(policy, rows, generator)
    memory = generator.uniform(-1, 1, (rows, policy.memory_size)).astype(np.float32) if policy.memory_size else None
    size = policy.model.policy_head.noise_size + policy.layout.logits
    epsilon = generator.standard_normal((rows, size), np.float32)
    whole: Arrays = {**everything, "epsilon": epsilon}
    if mask is not None:
        whole["action_mask"] = mask
    if memory is not None:
        whole["memory"] = memory
    for batch in BATCHES:
        parts = [
            act(**{name: array[first : first + batch] for name, array in whole.items()})
            for first in range(0, rows, batch)
        ]
        found = {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}
        after = None if memory is None else memory.copy()
        require_equal(policy, module, found, everything, mask, after)
        if after is not None:
            np.testing.assert_allclose(found["memory_out"], after, rtol=0, atol=1e-5)
        if mask is not None:
            require_allowed(policy, found["discrete"], mask)


@pytest.mark.parametrize("actions", KINDS)
def test_the_memory_stays_that_of_the_policy_for_200_steps(
    make_policy: Make, export: Any, load: Any, actions: str
) -> None:
    generator = np.random.default_rng(9)
    policy, rows = make_policy("lstm", actions), 3
    act, module = load(export(policy)), policy.module()
    memory = np.zeros((rows, policy.memory_size), np.float32)
    expected = memory.copy()
    size = policy.model.policy_head.noise_size + policy.layout.logits
    for _ in range(STEPS):
        seen = {"state": generator.normal(0.5, 2.0, (rows, 5)).astype(np.float32)}
        mask = np.ones((rows, policy.layout.logits), np.bool_) if policy.layout.branches else None
        given = {} if mask is None else {"action_mask": mask}
        found = act(**seen, **given, memory=memory, epsilon=np.zeros((rows, size), np.float32))
        require_equal(policy, module, found, seen, mask, expected)
        memory = found["memory_out"]
        assert np.abs(memory - expected).max() <= 1e-4
    assert np.abs(expected).max() > 0.1, "the memory is used"


@pytest.mark.parametrize("activation", ACTIVATIONS)
@pytest.mark.parametrize("profile", ["generic", "unity"])
def test_every_activation_of_the_settings(make_policy: Make, export: Any, activation: str, profile: str) -> None:
    export(make_policy("mlp", "continuous", activation=activation), profile=profile)


@pytest.mark.parametrize("encoder", ["simple", "nature_cnn", "resnet", "match3", "fully_connected"])
def test_every_encoder_of_images(make_behavior: Any, export: Any, encoder: str) -> None:
    camera = ObservationSpec("camera", (36, 40, 1), np.float32, "image")
    settings = NetworkSettings(hidden_units=16, num_layers=1, vis_encode_type=encoder)
    for profile in ("generic", "unity"):
        export(untrained_policy(make_behavior("hybrid", camera), settings, 1), profile=profile)


def test_activations_are_those_that_the_settings_allow() -> None:
    assert ACTIVATIONS.keys() == KNOWN.keys()


def test_no_hidden_layer_and_several_widths(make_policy: Make, export: Any, tmp_path: Path) -> None:
    for network in ("mlp", "lstm"):
        export(make_policy(network, "hybrid", num_layers=0))
        export(make_policy(network, "hybrid", hidden_layers=(7, 5, 3)))
        export(make_policy(network, "hybrid", normalize=False))
