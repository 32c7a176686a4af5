"""Choices of a file whatever the noise and the logits are."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

LARGEST = float(np.finfo(np.float32).max)
MASK = np.array([[True, False, True, False, True]])  # branches of 3 and 2 options
NAMES = {
    "generic": ("state", "action_mask", bool, "discrete", "deterministic_discrete"),
    "unity": ("obs_0", "action_masks", np.float32, "discrete_actions", "deterministic_discrete_actions"),
}


@pytest.mark.parametrize("profile", NAMES)
def test_huge_noise_is_finite_and_chooses_no_forbidden_option(
    make_policy: Any, export: Any, load: Any, profile: str
) -> None:
    observation, mask, kind, drawn, _ = NAMES[profile]
    noise = np.array([[value] * 7 for value in (-1e30, -40.0, -6.0, 6.0, 40.0, 1e30)], np.float32)
    allowed = np.tile(np.array([[False, True, False, True, False]]), (6, 1)).astype(kind)
    act = load(export(make_policy("mlp", "hybrid"), profile=profile))
    found = act(**{observation: np.zeros((6, 5), np.float32), mask: allowed, "epsilon": noise})
    assert all(np.isfinite(array).all() for array in found.values())
    np.testing.assert_array_equal(found[drawn], [[1, 0]] * 6)
    assert profile == "generic" or np.abs(found["continuous_actions"]).max() == 1


@pytest.mark.parametrize("profile", NAMES)
def test_only_allowed_options_are_chosen_whatever_the_logits(
    make_policy: Any, export: Any, load: Any, profile: str
) -> None:
    """The inputs are the logits."""
    policy = make_policy("mlp", "hybrid", num_layers=0, normalize=False)
    with torch.no_grad():
        policy.model.policy_head.linear.weight[2:] = torch.eye(5)
        policy.model.policy_head.linear.bias.zero_()
    policy.refresh()
    random = np.random.default_rng(5)
    sizes = np.repeat([1.0, 1e9, 1e30, LARGEST], 50)[:, None]
    ends = random.choice([-1.0, 1.0], (200, 5))
    fuzz = sizes * np.where(random.random((200, 5)) < 0.3, ends, random.uniform(-1.0, 1.0, (200, 5)))
    unusable = [np.full((20, 5), value) for value in (np.nan, np.inf, -np.inf)]
    mixed = random.choice([np.nan, LARGEST, -np.inf, 1e9], (200, 5))
    seen = np.concatenate([fuzz, np.where(MASK, -sizes, sizes), *unusable, mixed]).astype(np.float32)
    observation, name, kind, drawn, greedy = NAMES[profile]
    mask = np.repeat(MASK, len(seen), axis=0)
    epsilon = random.standard_normal((len(seen), 7), np.float32)
    found = load(export(policy, profile=profile))(**{observation: seen, name: mask.astype(kind), "epsilon": epsilon})
    for chosen in (found[drawn], found[greedy]):
        assert np.take_along_axis(mask, chosen + np.array([0, 3]), axis=1).all()
    np.testing.assert_array_equal(found[greedy], policy.act({"state": seen}, mask, True).discrete)
