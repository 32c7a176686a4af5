"""Sequences of a rollout: each transition in one sequence, whose steps follow one another in one episode."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

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

    x = torch.arange(len(picked), dtype=torch.float32)[:, None]
    padded = sequences.padded(x)
    first = 0
    for column, k in enumerate(chosen):
        size = len(wanted[k])
        assert padded[:size, column, 0].tolist() == list(range(first, first + size))
        first += size
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
