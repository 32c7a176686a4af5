"""Values of discrete actions against an enumeration of every combination."""

from __future__ import annotations

import itertools
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import Tensor

from rlcore_torch import DiscreteOptions
from rlcore_torch.networks import actions

B, R = 6, 2


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
    options, generator = options_of(branches), torch.Generator().manual_seed(len(branches))
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
