"""Joint distributions against torch.distributions, sampling against the softmax, bounds against the environment's."""

# mypy: allow-untyped-calls
from __future__ import annotations

import itertools
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from rlcore import BehaviorSpec, ObservationSpec
from rlcore_torch import ActionLayout, DiscreteOptions, Gaussian, joint_log_prob_entropy, mask_logits
from rlcore_torch.networks import actions
from rlcore_torch.networks.actions import gumbel_noise

SEEN = (ObservationSpec("seen", (2,), np.float32),)
INFINITY = float("inf")


def behavior(continuous: int = 0, discrete: tuple[int, ...] = (), low: Any = -1.0, high: Any = 1.0) -> BehaviorSpec:
    lowest, highest = (np.full(continuous, bound, np.float32) for bound in (low, high))
    return BehaviorSpec("Agent", SEEN, continuous, discrete, lowest, highest)


def layout(*args: Any, **options: Any) -> ActionLayout:
    return ActionLayout(behavior(*args, **options))


# ---------------------------------------------------------------- distributions


@pytest.mark.parametrize("differentiable", [True, False])
def test_the_entropy_of_all_parts_has_a_gradient_if_it_is_asked_for(differentiable: bool) -> None:
    gaussian = Gaussian(behavior(2))
    logits = torch.tensor([[3.0, -2.0, 0.5]], requires_grad=True)
    parts = gaussian, torch.zeros(1, 2), logits, torch.zeros(1, 2), torch.zeros(1, 1, dtype=torch.int64)
    _, entropy = joint_log_prob_entropy(layout(2, (3,)), *parts, differentiable)
    assert entropy.requires_grad == differentiable
    if differentiable:
        assert all(grad.any() for grad in torch.autograd.grad(entropy.sum(), [gaussian.log_std, logits]))


def test_a_single_allowed_option_is_certain_and_its_gradient_finite() -> None:
    logits = torch.tensor([[3.0, 3e38, 0.5]], requires_grad=True)
    masked = mask_logits(logits, torch.tensor([[False, True, False]]))
    log_prob, entropy = joint_log_prob_entropy(layout(discrete=(3,)), None, None, masked, None, torch.tensor([[1]]))
    (log_prob + entropy).sum().backward()
    assert log_prob.item() == 0.0 and entropy.item() == 0.0
    assert logits.grad is not None and logits.grad.isfinite().all()


# ---------------------------------------------------------------- sampling


def test_the_argmax_of_logits_and_gumbel_noise_is_a_draw_from_the_softmax() -> None:
    logits = np.array([1.0, -0.5, 0.0, 2.0], np.float32)
    draws = 200_000
    noise = gumbel_noise(np.random.default_rng(1), (draws, 4))
    counts = np.bincount(layout(discrete=(4,)).greedy_choices(logits + noise)[:, 0], minlength=4)
    probability = np.exp(logits) / np.exp(logits).sum()
    deviation = np.sqrt(draws * probability * (1 - probability))
    assert (np.abs(counts - draws * probability) < 5 * deviation).all()


def test_noise_is_finite_and_within_what_its_resolution_allows() -> None:
    class Extremes:
        def random(self, shape: tuple[int, ...], dtype: object) -> np.ndarray[tuple[int, ...], np.dtype[np.float32]]:
            return np.array([0.0, 1.0 - 2.0**-24, 0.5], np.float32)

    noise = gumbel_noise(Extremes(), (3,))  # type: ignore[arg-type]
    # A number of 24 bits that comes out 0 stands for all below 2^-24: Gumbel noise there is about -log(2^-25) = 17.3.
    np.testing.assert_allclose(noise, [25 * np.log(2), -np.log(24 * np.log(2)), -np.log(np.log(2))], rtol=1e-5)


# ---------------------------------------------------------------- bounds


def test_raw_actions_from_minus_one_to_one_cover_the_bounds_and_never_leave_them() -> None:
    low = np.array([-2.0, 0.1, 5.0], np.float32)
    high = np.array([2.0, 0.3, 5.7], np.float32)
    stretch = layout(3, low=low, high=high)
    for raw, expected in ((-1.0, low), (0.0, (low + high) / 2), (1.0, high), (-9.0, low), (9.0, high)):
        np.testing.assert_allclose(stretch.to_environment(np.full((1, 3), raw, np.float32))[0], expected, rtol=1e-6)
    many = stretch.to_environment(np.random.default_rng(0).standard_normal((10_000, 3)).astype(np.float32) * 3)
    assert (many >= low).all() and (many <= high).all() and many.dtype == np.float32


LIMIT = float(np.finfo(np.float32).max)


@pytest.mark.parametrize(
    ("low", "high", "raw", "expected"),
    [
        (-1.0, 1.0, [-1.5, 0.25], [-1.0, 0.25]),  # clipped only
        (-INFINITY, INFINITY, [-150.0, 3.5], [-150.0, 3.5]),
        ([0.0, -INFINITY], [INFINITY, 3.0], [-150.0, 150.0], [0.0, 3.0]),
        (-LIMIT, LIMIT, [-1.0, 0.0, 1.0], [-LIMIT, 0.0, LIMIT]),
    ],
)
def test_special_bounds(low: Any, high: Any, raw: list[float], expected: list[float]) -> None:
    given = np.array([raw], np.float32)
    assert layout(len(raw), low=low, high=high).to_environment(given).tolist() == [expected]
    assert given.tolist() == [raw], "the raw action is what the loss needs"


# ---------------------------------------------------------------- values of discrete actions

B = 6
R = 2


def options_of(branches: tuple[int, ...]) -> DiscreteOptions:
    offsets = [sum(branches[:k]) for k in range(len(branches))]
    layout: Any = SimpleNamespace(branches=branches, logits=sum(branches), offsets=offsets)
    return DiscreteOptions(layout)


def value_of(options: DiscreteOptions, values: Tensor, combination: tuple[int, ...]) -> Tensor:
    """[R] of one row's ``values`` [R, columns]."""
    branches = options.layout.branches
    if options.joint:
        return values[:, list(itertools.product(*map(range, branches))).index(combination)]
    columns = [sum(branches[:k]) + option for k, option in enumerate(combination)]
    return sum((values[:, column] for column in columns), torch.zeros(R)) / len(branches)


@pytest.mark.parametrize("most", [256, 1])
@pytest.mark.parametrize("branches", [(2,), (5,), (2, 3), (3, 2, 4), (1, 3), (2, 2, 2, 2)])
def test_expected_and_chosen_values_are_those_of_an_enumeration(
    monkeypatch: pytest.MonkeyPatch, branches: tuple[int, ...], most: int
) -> None:
    monkeypatch.setattr(actions, "MAX_JOINT_OPTIONS", most)
    options = options_of(branches)
    generator = torch.Generator().manual_seed(len(branches))
    combinations = list(itertools.product(*map(range, branches)))
    assert options.joint == (len(combinations) <= most)
    assert options.columns == (len(combinations) if options.joint else sum(branches))
    values = torch.randn(B, R, options.columns, generator=generator)
    parts = [torch.rand(B, size, generator=generator).softmax(1) for size in branches]
    probabilities = torch.cat(parts, dim=1)
    expected = options.expected(values, probabilities)  # [B, R]
    torch.testing.assert_close(options.expected(torch.ones(B, options.columns), probabilities), torch.ones(B))
    for b in range(B):
        total = torch.zeros(R)
        for combination in combinations:
            chance = 1.0
            for part, option in zip(parts, combination, strict=True):
                chance *= part[b, option].item()
            total = total + chance * value_of(options, values[b], combination)
        torch.testing.assert_close(expected[b], total)
    for combination in combinations:
        choices = torch.tensor([combination] * B)
        chosen = options.chosen(values, choices)
        for b in range(B):
            torch.testing.assert_close(chosen[b], value_of(options, values[b], combination))


def test_up_to_256_combinations_are_told_apart() -> None:
    assert options_of((16, 16)).columns == 256
    assert options_of((16, 17)).columns == 33
