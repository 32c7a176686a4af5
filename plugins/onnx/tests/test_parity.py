"""A file does what its policy does: 500 random and 50 extreme observations, in batches of several sizes."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import attrs
import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from rlcore import ObservationSpec
from rlcore_onnx.layers import ACTIVATIONS
from rlcore_torch import ActorPolicy, NetworkSettings
from rlcore_torch.networks.networks import ACTIVATIONS as KNOWN
from rlcore_torch.policy.untrained import untrained_policy

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
# Policies with both kinds of actions go through every rule of a profile; the others are the rest of a deep run.
FILES = [
    pytest.param(profile, *policy, marks=[pytest.mark.deep] if profile == "unity" and policy[1] != "hybrid" else [])
    for profile in ("generic", "unity")
    for policy in POLICIES
]
ROLL_OUTS = [
    pytest.param(profile, actions, marks=[] if actions == "hybrid" else [pytest.mark.deep])
    for profile in ("generic", "unity")
    for actions in KINDS
]


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


def noise(policy: ActorPolicy, rows: int, generator: np.random.Generator) -> NDArray[np.float32]:
    """Standard normal numbers for the input ``epsilon``."""
    return generator.standard_normal((rows, policy.model.policy_head.noise_size + policy.layout.logits), np.float32)


@attrs.define
class File:
    """The file of a policy, whose profile is read from tables of its names, layouts and units.

    Attributes:
        actions: Largest difference of continuous actions so far, deterministic or drawn.
        memory: Largest difference of memory so far.
    """

    policy: ActorPolicy
    profile: str
    act: Callable[..., Arrays]
    actions: float = 0.0
    memory: float = 0.0

    def run(self, seen: Arrays, mask: Any, memory: Any, epsilon: NDArray[np.float32]) -> Arrays:
        """Return the outputs by their names in the profile generic, in its units; ``memory`` is [R, M]."""
        if self.profile == "generic":
            optional = {"action_mask": mask, "memory": memory}
        else:
            optional = {
                "action_masks": None if mask is None else mask.astype(np.float32),
                "recurrent_in": None if memory is None else memory[:, None],
            }
            seen = {
                f"obs_{k}": np.moveaxis(seen[o.name] / np.float32(255), -1, 1) if o.kind == "image" else seen[o.name]
                for k, o in enumerate(self.policy.behavior.observations)
            }
        given = {name: array for name, array in optional.items() if array is not None}
        found = self.act(**seen, epsilon=epsilon, **given)
        if self.profile == "generic":
            return found
        low, high = self.policy.behavior.low, self.policy.behavior.high
        renamed = {name.replace("_actions", ""): array for name, array in found.items()}
        for name in ("continuous", "deterministic_continuous"):
            if name in renamed:
                assert np.abs(renamed[name]).max() <= 1
                renamed[name] = low + (renamed[name] + 1) / 2 * (high - low)
        if memory is not None:
            renamed["memory_out"] = found["recurrent_out"][:, 0]
        return renamed

    def require_equal(self, found: Arrays, expected: Expected, mask: Any) -> None:
        for name in ("continuous", "deterministic_continuous"):
            if name in found:
                self.actions = max(self.actions, float(np.abs(found[name] - getattr(expected, name)).max()))
        if expected.memory is not None:
            self.memory = max(self.memory, float(np.abs(found["memory_out"] - expected.memory).max()))
        if expected.discrete is None:
            return
        for name in ("discrete", "deterministic_discrete"):
            columns = found[name] + np.array(self.policy.layout.offsets)
            assert mask[np.arange(len(mask))[:, None], columns].all(), "an option that is not allowed was chosen"
        chosen = found["deterministic_discrete"]
        for row, branch in np.argwhere(chosen != expected.discrete):
            options = np.array([chosen[row, branch], expected.discrete[row, branch]])
            logits = expected.logits[row, self.policy.layout.offsets[branch] + options]
            assert abs(logits[0] - logits[1]) < 1e-5, f"row {row}, branch {branch}"


@attrs.frozen
class Expected:
    """Results of the policy; continuous actions for the noise of ``epsilon`` and without noise."""

    continuous: Any
    deterministic_continuous: Any
    discrete: Any
    logits: Any
    memory: Any

    @classmethod
    def of(cls, policy: ActorPolicy, seen: Arrays, mask: Any, memory: Any, epsilon: NDArray[np.float32]) -> Expected:
        tensors = {name: torch.from_numpy(array) for name, array in seen.items()}
        given = [None if each is None else torch.from_numpy(each.copy()) for each in (mask, memory)]
        module, noise_size = policy.module(), policy.model.policy_head.noise_size
        noise = torch.from_numpy(epsilon[:, :noise_size]), torch.zeros(len(epsilon), policy.layout.logits)
        with torch.no_grad():
            logits = module.distribution_parameters(tensors, *given)[1]
            drawn = module(tensors, *given, noise).continuous
        after = None if memory is None else memory.copy()
        acted = policy.act(seen, mask, True, *(() if after is None else (after,)))
        return cls(
            None if drawn is None else drawn.numpy(),
            acted.continuous,
            acted.discrete,
            None if logits is None else logits.numpy(),
            after,
        )


@pytest.mark.parametrize(("profile", "network", "actions", "distribution"), FILES, ids=str)
def test_actions_of_550_observations_are_those_of_the_policy(
    make_policy: Make, export: Any, load: Any, profile: str, network: str, actions: str, distribution: str | None
) -> None:
    generator = np.random.default_rng(7)
    policy = make_policy(network, actions, action_distribution=distribution)
    rows = RANDOM + EXTREME
    seen, mask = observations(policy, generator), masks(policy, rows, generator)
    memory = generator.uniform(-1, 1, (rows, policy.memory_size)).astype(np.float32) if policy.memory_size else None
    epsilon = noise(policy, rows, generator)
    expected = Expected.of(policy, seen, mask, memory, epsilon)
    file = File(policy, profile, load(export(policy, profile=profile)))
    for batch in BATCHES:
        parts = []
        for first in range(0, rows, batch):
            part = slice(first, first + batch)
            some = {name: array[part] for name, array in seen.items()}
            optional = (None if each is None else each[part] for each in (mask, memory))
            parts.append(file.run(some, *optional, epsilon[part]))
        found = {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}
        file.require_equal(found, expected, mask)
    print(f"actions differ by {file.actions:.1e}, memory by {file.memory:.1e}")
    assert file.actions <= 1e-5 and file.memory <= 1e-5


@pytest.mark.parametrize(("profile", "actions"), ROLL_OUTS)
def test_the_memory_stays_that_of_the_policy_for_200_steps(
    make_policy: Make, export: Any, load: Any, profile: str, actions: str
) -> None:
    generator = np.random.default_rng(9)
    policy, rows = make_policy("lstm", actions), 3
    file = File(policy, profile, load(export(policy, profile=profile)))
    remembered = memory = np.zeros((rows, policy.memory_size), np.float32)
    for _ in range(STEPS):
        seen = {"state": generator.normal(0.5, 2.0, (rows, 5)).astype(np.float32)}
        mask = np.ones((rows, policy.layout.logits), np.bool_) if policy.layout.branches else None
        epsilon = noise(policy, rows, generator)
        expected = Expected.of(policy, seen, mask, memory, epsilon)
        found = file.run(seen, mask, remembered, epsilon)
        file.require_equal(found, expected, mask)
        memory, remembered = expected.memory, found["memory_out"]
    print(f"actions differ by {file.actions:.1e}, memory by {file.memory:.1e}")
    assert file.actions <= 1e-5 and file.memory <= 1e-4
    assert np.abs(memory).max() > 0.1, "the memory is used"


@pytest.mark.parametrize("activation", ACTIVATIONS)
@pytest.mark.parametrize("profile", ["generic", "unity"])
def test_every_activation_of_the_settings(make_policy: Make, export: Any, activation: str, profile: str) -> None:
    export(make_policy("mlp", "continuous", activation=activation), profile=profile)


@pytest.mark.parametrize(
    ("encoder", "size"),
    [
        ("simple", (20, 22)),
        ("nature_cnn", (36, 40)),
        ("resnet", (20, 22)),
        ("match3", (7, 9)),
        ("fully_connected", (7, 9)),
    ],
)
def test_every_encoder_of_images(make_behavior: Any, export: Any, encoder: str, size: tuple[int, int]) -> None:
    camera = ObservationSpec("camera", (*size, 1), np.float32, "image")
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
