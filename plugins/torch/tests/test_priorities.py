"""Proportional prioritization, against the formulas of Schaul et al. 2016 worked out the long way."""

from __future__ import annotations

import numpy as np
import pytest

from rlcore_torch.off_policy.priorities import EPSILON, FANOUT, Priorities, SumTree

SIZES = [1, FANOUT, FANOUT + 1, FANOUT**2 + 1]


def filled_tree(size: int, random: np.random.Generator) -> tuple[SumTree, np.ndarray]:
    weights = random.random(size) * (random.random(size) < 0.7)
    weights[0] = 0.0  # which a target of 0 must pass
    weights[random.integers(size // 2, size)] = 1.0
    tree = SumTree(size)
    tree.fill(weights)
    return tree, weights


@pytest.mark.parametrize("size", SIZES)
def test_a_leaf_without_weight_is_never_found(size: int) -> None:
    """Not at the edges either, where a target below the root's sum may pass the sums of the nodes below."""
    random = np.random.default_rng(size)
    tree, weights = filled_tree(size, random)
    edges = np.minimum(np.concatenate([[0.0], np.cumsum(weights)]), tree.total)
    targets = np.concatenate([edges, np.nextafter(edges, 0.0), np.nextafter(edges, np.inf), [2 * tree.total]])
    assert (weights[tree.find(targets)] > 0).all()


def test_rows_are_drawn_in_proportion_to_the_power_of_their_errors() -> None:
    alpha = 0.7
    random = np.random.default_rng(0)
    flags = np.ones(50, np.uint8)
    flags[::7] = 0
    errors = random.normal(size=50) * 4
    errors[3] = 0.0
    priorities = Priorities(50, alpha)
    priorities.set(np.arange(50), errors, flags)
    drawn = np.concatenate([priorities.sample(64, random, 0.5, 1)[0] for _ in range(4000)])
    expected = np.where(flags != 0, (np.abs(errors) + EPSILON) ** alpha, 0.0)
    expected *= len(drawn) / expected.sum()
    counts = np.bincount(drawn, minlength=50)
    assert (counts[expected == 0.0] == 0).all()
    seen = expected > 5
    # Drawing from equal parts of the sum varies less than independent drawing, for which this would be chi-square.
    assert ((counts[seen] - expected[seen]) ** 2 / expected[seen]).sum() < seen.sum() + 4 * np.sqrt(2 * seen.sum())


@pytest.mark.parametrize("beta", [0.0, 0.4, 1.0])
def test_importance_weights_are_those_of_the_paper(beta: float) -> None:
    random = np.random.default_rng(1)
    errors = random.random(30)
    flags = np.ones(30, np.uint8)
    priorities = Priorities(40, 0.6)
    priorities.set(np.arange(30), errors, flags)
    rows, weights = priorities.sample(16, random, beta, count=30)
    powers = [(error + EPSILON) ** 0.6 for error in errors]
    by_hand = [(1 / 30 * 1 / (powers[row] / sum(powers))) ** beta for row in rows]
    np.testing.assert_allclose(weights, [weight / max(by_hand) for weight in by_hand], rtol=1e-6)
    assert weights.dtype == np.float32


def test_a_row_that_was_overwritten_since_it_was_drawn_gets_no_priority() -> None:
    priorities = Priorities(3, 0.5)
    priorities.set(np.array([0, 1]), np.array([0.25, 1e9]), np.array([1, 0, 0], np.uint8))
    assert priorities.tree.leaves[1] == 0.0 and priorities.largest == 1.0, "and new ones get the largest so far"


def test_after_a_reset_a_new_row_gets_the_largest_priority_of_now() -> None:
    flags = np.array([1, 1, 0], np.uint8)
    priorities = Priorities(3, 0.5)
    priorities.set(np.array([0, 1]), np.array([16.0, 9.0]), flags)
    priorities.set(np.array([0]), np.array([4.0]), flags)
    assert priorities.largest == pytest.approx(4.0)
    priorities.reset_largest()
    assert priorities.largest == pytest.approx(3.0)
    flags[2] = 1
    priorities.change(np.array([2]), flags)
    priorities.refresh(flags)
    assert priorities.tree.leaves[2] == priorities.largest == pytest.approx(3.0)


def test_a_reset_without_a_row_changes_nothing() -> None:
    priorities = Priorities(3, 0.5)
    priorities.reset_largest()
    assert priorities.largest == 1.0
