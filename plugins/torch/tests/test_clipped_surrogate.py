"""The clipped surrogate and its statistic, compared with eq. 7 of Schulman et al. 2017 row by row."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from rlcore_torch import clip_fraction, clipped_surrogate_loss

RATIOS = (0.5, 0.79, 0.81, 1.0, 1.19, 1.21, 2.0)
EPSILON = 0.2


@pytest.mark.parametrize("advantage", [-1.5, 0.0, 2.0])
def test_the_loss_is_the_mean_of_the_pessimistic_surrogates(advantage: float) -> None:
    log_ratio = torch.tensor([math.log(ratio) for ratio in RATIOS], requires_grad=True)
    loss = clipped_surrogate_loss(log_ratio, torch.full((len(RATIOS),), advantage), torch.tensor(EPSILON))
    terms = []
    for ratio in RATIOS:
        clipped = min(max(ratio, 1.0 - EPSILON), 1.0 + EPSILON)
        terms.append(min(ratio * advantage, clipped * advantage))
    assert loss.item() == pytest.approx(-sum(terms) / len(RATIOS), rel=1e-6)

    loss.backward()  # type: ignore[no-untyped-call]
    assert log_ratio.grad is not None
    learns = []
    for ratio in RATIOS:
        is_beyond = ratio > 1.0 + EPSILON if advantage > 0.0 else ratio < 1.0 - EPSILON
        learns.append(advantage != 0.0 and not is_beyond)
    np.testing.assert_array_equal(log_ratio.grad.numpy() != 0.0, learns)


def test_a_huge_ratio_with_a_good_advantage_has_no_gradient() -> None:
    log_ratio = torch.tensor([1000.0, 0.0], requires_grad=True)
    loss = clipped_surrogate_loss(log_ratio, torch.ones(2), torch.tensor(EPSILON))
    loss.backward()  # type: ignore[no-untyped-call]
    assert loss.item() == pytest.approx(-(1.0 + EPSILON + 1.0) / 2)
    assert log_ratio.grad is not None
    np.testing.assert_array_equal(log_ratio.grad.numpy(), [0.0, -0.5])


def test_the_clip_fraction_counts_ratios_beyond_the_clip_range() -> None:
    log_ratio = torch.tensor([math.log(ratio) for ratio in RATIOS])
    assert clip_fraction(log_ratio, torch.tensor(EPSILON)) == pytest.approx(4 / 7)
