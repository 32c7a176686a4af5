# mypy: allow-untyped-calls
"""Sequences of a rollout: each transition in one sequence, whose steps follow one another in one episode."""

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
from rlcore_torch.on_policy.advantages import explained_variances
from rlcore_torch.on_policy.minibatch import approximate_kl, standardize, standardized_parts
from rlcore_torch.on_policy.sequences import SequenceTable, sequence_starts


@given(seed=st.integers(0, 10_000), rows=st.integers(1, 12), slots=st.integers(1, 4), length=st.integers(1, 6))
def test_sequences_hold_each_transition_once_in_order_and_within_an_episode(
    seed: int, rows: int, slots: int, length: int
) -> None:
    generator = np.random.default_rng(seed)
    lengths = generator.integers(0, rows + 1, slots)
    lengths[generator.integers(slots)] = rows
    valid = np.arange(rows)[:, None] < lengths
    ended = (generator.random((rows, slots)) < 0.3) & valid
    table = SequenceTable(sequence_starts(ended, length) & valid, valid)

    # Cut each slot by hand.
    wanted = []
    for s in range(slots):
        part: list[tuple[int, int]] = []
        for t in range(int(lengths[s])):
            part.append((t, s))
            if ended[t, s] or len(part) == length or t + 1 == lengths[s]:
                wanted.append(part)
                part = []
    chosen = generator.permutation(len(table))
    memory = torch.arange(len(table), dtype=torch.float32)[:, None]
    picked = table.places(chosen)
    sequences = table.layout(chosen, memory[chosen], -memory[chosen])
    assert len(table) == len(wanted)
    assert [divmod(place, slots) for place in picked] == [step for k in chosen for step in wanted[k]]
    assert [divmod(place, slots) for place in table.first_places] == [part[0] for part in wanted]
    assert sequences.actor_memory[:, 0].tolist() == chosen.tolist()
    assert sequences.critic_memory[:, 0].tolist() == (-chosen).tolist()

    x = torch.arange(len(picked), dtype=torch.float32)
    padded = sequences.padded(x[:, None])[:, 0]
    first = 0
    columns: list[list[float]] = [[] for _ in sequences.order]
    for steps, count in sequences.segments:
        for step in padded[first : first + steps * count].view(steps, count):
            for column, value in zip(columns, step.tolist(), strict=False):
                column.append(value)
        first += steps * count
    assert first == len(padded)
    sizes = [len(wanted[k]) for k in chosen]
    order = sequences.order.tolist()[: len(sizes)]  # what follows fills the first segment up
    assert sorted(order) == list(range(len(sizes)))
    for k, column in zip(order, columns, strict=False):
        assert column[: sizes[k]] == list(range(sum(sizes[:k]), sum(sizes[: k + 1])))
    assert sequences.unpadded(padded).equal(x)


@pytest.mark.parametrize(("parts", "sizes"), [(1, [10]), (3, [3, 3, 4]), (50, [1] * 10)])
def test_a_pass_takes_every_sequence_once(parts: int, sizes: list[int]) -> None:
    valid = np.ones((20, 1), np.bool_)
    table = SequenceTable(sequence_starts(np.zeros_like(valid), 2), valid)
    generator = np.random.default_rng(0)
    passes = [list(table.shuffled(generator, parts)) for _ in range(2)]
    assert [len(part) for part in passes[0]] == sizes
    taken = [np.concatenate(each).tolist() for each in passes]
    assert sorted(taken[0]) == sorted(taken[1]) == list(range(10)) and taken[0] != taken[1]


# ---------------------------------------------------------------- minibatches


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
    old = Normal(0.0, 1.0)
    new = Normal(0.2, 1.1)
    drawn = old.sample((400_000,))
    estimate = approximate_kl(new.log_prob(drawn) - old.log_prob(drawn))
    assert estimate.item() == pytest.approx(kl_divergence(old, new).item(), rel=0.02)


def test_standardized_advantages_have_mean_zero_and_deviation_one() -> None:
    shown = standardize(torch.tensor([1.0, 2.0, 3.0, 10.0]))
    np.testing.assert_allclose([shown.mean(), shown.std(correction=0)], [0, 1], atol=1e-6)
    assert standardize(torch.tensor([3.0])).tolist() == [0.0], "a single value says nothing"
    for equal in (0.1, 100.0, 1e-20, 0.0):
        assert not standardize(torch.full((2048,), equal)).any(), "equal values but for the rounding of their mean"
    close_by = standardize(torch.tensor([100.0, 100.001]).repeat(100))
    torch.testing.assert_close(close_by.abs(), torch.ones(200), rtol=1e-2, atol=0.0)
    assert standardize(torch.tensor([1.0, float("nan")])).isnan().all()
    assert explained_variances(x := np.ones((2, 1), np.float32), x, [""]) == {"Losses/Explained Variance": 0.0}


@pytest.mark.parametrize("sizes", [[2, 2, 2], [1, 2, 3]])
def test_each_part_is_standardized_by_itself(sizes: list[int]) -> None:
    whole = torch.tensor([1.0, 2.0, 3.0, 10.0, -4.0, 5.0])
    for found, part in zip(standardized_parts(whole, sizes), whole.split(sizes), strict=True):
        torch.testing.assert_close(found, standardize(part))
