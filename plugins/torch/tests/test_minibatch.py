"""How a rollout is divided, what is said about it, and what changes with progress."""

# mypy: allow-untyped-calls
from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.distributions import Normal, kl_divergence

from rlcore_torch import Rollout
from rlcore_torch.on_policy.minibatch import approximate_kl, standardize, standardized_parts


@given(count=st.integers(1, 5000), batch_size=st.integers(1, 3000))
def test_minibatches_of_one_size_near_the_batch_size_cover_every_row(count: int, batch_size: int) -> None:
    rollout: Any = SimpleNamespace(valid_of_all=np.ones((count, 1), np.bool_), table=None)
    drawn, _ = Rollout.draw(rollout, batch_size, np.random.default_rng(0))
    parts, size = (rows := np.stack(drawn)).shape
    times = np.bincount(rows.ravel(), minlength=count)
    assert times.min() == 1 and (times - 1).sum() < parts, "few come twice"
    if count >= batch_size:
        assert 2 / 3 * batch_size <= size <= 3 / 2 * batch_size + 1
    else:
        assert rows.shape == (1, count)


def test_the_kl_estimate_tends_to_the_divergence_of_old_from_new() -> None:
    torch.manual_seed(0)
    old, new = Normal(0.0, 1.0), Normal(0.2, 1.1)
    drawn = old.sample((400_000,))
    estimate = approximate_kl(new.log_prob(drawn) - old.log_prob(drawn))
    assert estimate.item() == pytest.approx(kl_divergence(old, new).item(), rel=0.02)


def test_standardized_advantages_have_mean_zero_and_deviation_one() -> None:
    shown = standardize(torch.tensor([1.0, 2.0, 3.0, 10.0]))
    np.testing.assert_allclose([shown.mean(), shown.std(correction=0)], [0, 1], atol=1e-6)
    assert standardize(torch.tensor([3.0])).tolist() == [0.0], "a single value says nothing"


@pytest.mark.parametrize("sizes", [[2, 2, 2], [1, 2, 3]])
def test_each_part_is_standardized_by_itself(sizes: list[int]) -> None:
    whole = torch.tensor([1.0, 2.0, 3.0, 10.0, -4.0, 5.0])
    for found, part in zip(standardized_parts(whole, sizes), whole.split(sizes), strict=True):
        torch.testing.assert_close(found, standardize(part))
