"""Joint distributions against torch.distributions, sampling against the softmax, bounds against the environment's."""

# mypy: allow-untyped-calls
from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from torch import nn
from torch.distributions import Categorical, Independent, Normal

from rlcore.environment import BehaviorSpec, ObservationSpec
from rlcore.torch.actions import (
    MASKED_LOGIT,
    ActionLayout,
    gumbel_noise,
    joint_log_prob_entropy,
    mask_logits,
)
from rlcore.torch.distributions import Gaussian

SEEN = (ObservationSpec("seen", (2,), np.float32),)
INFINITY = float("inf")


def behavior(continuous: int = 0, discrete: tuple[int, ...] = (), low: Any = -1.0, high: Any = 1.0) -> BehaviorSpec:
    lowest, highest = (np.full(continuous, bound, np.float32) for bound in (low, high))
    return BehaviorSpec("Agent", SEEN, continuous, discrete, lowest, highest)


def layout(*args: Any, **options: Any) -> ActionLayout:
    return ActionLayout(behavior(*args, **options))


# ---------------------------------------------------------------- distributions


@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize(
    ("continuous", "discrete"), [(3, ()), (0, (4,)), (0, (3, 2, 5)), (2, (3,)), (2, (3, 4)), (0, (2, 2, 2, 2))]
)
def test_log_probabilities_entropies_and_gradients_are_those_of_independent_parts(
    continuous: int, discrete: tuple[int, ...], masked: bool
) -> None:
    generator = torch.Generator().manual_seed(5)
    rows, options = 7, sum(discrete)
    mean = torch.randn(rows, continuous, generator=generator).requires_grad_()
    gaussian = Gaussian(behavior(continuous))
    log_std = gaussian.log_std
    nn.init.normal_(log_std, generator=generator)
    raw = torch.randn(rows, continuous, generator=generator)
    logits = (torch.randn(rows, options, generator=generator) * 3).requires_grad_()
    choices = (
        torch.stack([torch.randint(size, (rows,), generator=generator) for size in discrete], 1) if discrete else None
    )
    allowed = torch.ones(rows, options, dtype=torch.bool)
    offsets = np.cumsum([0, *discrete])[:-1].tolist()
    if masked and choices is not None:
        allowed = torch.rand(rows, options, generator=generator) < 0.5
        allowed.scatter_(1, choices + torch.tensor(offsets), True)

    log_prob, entropy = torch.zeros(rows), torch.zeros(rows)
    if continuous:
        normal = Independent(Normal(mean, log_std.exp()), 1)
        log_prob, entropy = log_prob + normal.log_prob(raw), entropy + normal.entropy()
    for k, (offset, size) in enumerate(zip(offsets, discrete, strict=True)):
        assert choices is not None
        part = slice(offset, offset + size)
        branch_log_prob, branch_entropy = [], []
        for row in range(rows):  # a distribution over the allowed options only, without any mask
            open_options = allowed[row, part].nonzero()[:, 0]
            categorical = Categorical(logits=logits[row, part][open_options])
            branch_log_prob.append(categorical.log_prob((open_options == choices[row, k]).nonzero()[0, 0]))
            branch_entropy.append(categorical.entropy())
        log_prob, entropy = log_prob + torch.stack(branch_log_prob), entropy + torch.stack(branch_entropy)

    found_log_prob, found_entropy = joint_log_prob_entropy(
        layout(continuous, discrete),
        gaussian if continuous else None,
        mean if continuous else None,
        mask_logits(logits, allowed) if discrete else None,
        raw if continuous else None,
        choices,
    )
    torch.testing.assert_close(found_log_prob, log_prob, rtol=1e-4, atol=1e-4)
    torch.testing.assert_close(found_entropy.expand(rows), entropy, rtol=1e-4, atol=1e-4)

    parameters = [p for p in (mean, log_std, logits) if p.numel()]
    weight = torch.randn(2, rows, generator=generator)
    for of_log_prob, of_entropy in ((1.0, 1.0), (1.0, 0.0), (0.0, 1.0)):
        ours = of_log_prob * (found_log_prob * weight[0]).sum() + of_entropy * (found_entropy * weight[1]).sum()
        theirs = of_log_prob * (log_prob * weight[0]).sum() + of_entropy * (entropy * weight[1]).sum()
        for mine, other in zip(*(gradients(total, parameters) for total in (ours, theirs)), strict=True):
            torch.testing.assert_close(mine, other, rtol=1e-4, atol=1e-4)


def gradients(total: torch.Tensor, parameters: list[torch.Tensor]) -> list[torch.Tensor]:
    return list(torch.autograd.grad(total, parameters, retain_graph=True, materialize_grads=True))


def test_a_single_allowed_option_is_certain_and_its_gradient_finite() -> None:
    logits = torch.tensor([[3.0, -2.0, 0.5]], requires_grad=True)
    masked = mask_logits(logits, torch.tensor([[False, True, False]]))
    log_prob, entropy = joint_log_prob_entropy(layout(discrete=(3,)), None, None, masked, None, torch.tensor([[1]]))
    (log_prob + entropy).sum().backward()
    assert log_prob.item() == 0.0 and entropy.item() == 0.0
    assert logits.grad is not None and logits.grad.isfinite().all()


def test_an_action_without_parts_is_refused() -> None:
    with pytest.raises(ValueError, match="at least one"):
        joint_log_prob_entropy(layout(), None, None, None, None, None)


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


def test_a_masked_option_is_never_drawn() -> None:
    random = np.random.default_rng(2)
    logits = random.standard_normal((10_000, 7)).astype(np.float32) * 10
    mask = random.random((10_000, 7)) < 0.4
    mask[:, 0] = mask[:, 3] = True  # each of the two branches has an option left
    shown = np.where(mask, logits, np.float32(MASKED_LOGIT))
    choices = layout(discrete=(3, 4)).greedy_choices(shown + gumbel_noise(random, shown.shape))
    assert np.take_along_axis(mask, choices + np.array([0, 3]), axis=1).all()
    assert (mask.sum() < mask.size) and len(np.unique(choices[:, 1])) == 4


def test_greedy_choices_are_the_largest_logit_of_each_branch() -> None:
    logits = np.array([[0, 3, 1, 5, 4], [2, 1, 0, 4, 5]], np.float32)
    assert layout(discrete=(3, 2)).greedy_choices(logits).tolist() == [[1, 0], [0, 1]]
    assert layout(discrete=(5,)).greedy_choices(logits).tolist() == [[3], [4]]


# ---------------------------------------------------------------- bounds


def test_raw_actions_from_minus_one_to_one_cover_the_bounds_and_never_leave_them() -> None:
    low, high = np.array([-2.0, 0.1, 5.0], np.float32), np.array([2.0, 0.3, 5.7], np.float32)
    stretch = layout(3, low=low, high=high)
    for raw, expected in ((-1.0, low), (0.0, (low + high) / 2), (1.0, high), (-9.0, low), (9.0, high)):
        np.testing.assert_allclose(stretch.to_environment(np.full((1, 3), raw, np.float32))[0], expected, rtol=1e-6)
    many = stretch.to_environment(np.random.default_rng(0).standard_normal((10_000, 3)).astype(np.float32) * 3)
    assert (many >= low).all() and (many <= high).all() and many.dtype == np.float32


def test_unit_bounds_only_clip() -> None:
    raw = np.array([[-1.5, 0.25]], np.float32)
    assert layout(2).to_environment(raw).tolist() == [[-1.0, 0.25]]
    assert raw[0, 0] == -1.5, "the raw action is what the loss needs"


def test_an_unbounded_part_passes_unchanged() -> None:
    raw = np.array([[-150.0, 3.5]], np.float32)
    assert layout(2, low=-INFINITY, high=INFINITY).to_environment(raw).tolist() == raw.tolist()


def test_a_part_bounded_on_one_side_keeps_to_it() -> None:
    raw = np.array([[-150.0, 150.0]], np.float32)
    half_open = layout(2, low=[0.0, -INFINITY], high=[INFINITY, 3.0])
    assert half_open.to_environment(raw).tolist() == [[0.0, 3.0]]


def test_the_widest_bounds_of_float32_do_not_overflow() -> None:
    limit = float(np.finfo(np.float32).max)
    raw = np.array([[-1.0, 0.0, 1.0]], np.float32)
    assert layout(3, low=-limit, high=limit).to_environment(raw).tolist() == [[-limit, 0.0, limit]]
