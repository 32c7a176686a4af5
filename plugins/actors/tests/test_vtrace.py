"""V-trace compared with eq. 1 of Espeholt et al. 2018, term by term, and with n-step returns."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from rlcore_actors.vtrace import vtrace

GAMMA = 0.97


def drawn(rows: int, slots: int, seed: int = 0, ratios: bool = True) -> dict[str, Any]:
    """Transitions in which episodes terminate, are truncated, or go on, and trajectories are cut."""
    random = np.random.default_rng(seed)
    ends = random.random((rows, slots))
    terminated = ends < 0.15
    truncated = (ends > 0.85) & ~terminated
    carry = ~(terminated | truncated) & (random.random((rows, slots)) < 0.9)
    carry[-1] = False
    value = random.normal(size=(rows, slots)).astype(np.float32)
    next_value = random.normal(size=(rows, slots)).astype(np.float32)  # of final observations, where an episode ended
    next_value[:-1][carry[:-1]] = value[1:][carry[:-1]]
    ratio = np.exp(random.normal(size=(rows, slots))).astype(np.float32)
    return {
        "reward": random.normal(size=(rows, slots)).astype(np.float32),
        "value": value,
        "next_value": next_value,
        "carry": carry,
        "ratio": ratio if ratios else np.ones_like(ratio),
        "terminated": terminated,
    }


def by_equation(
    t: dict[str, Any], gamma: float, lambd: float, rho_bar: float, c_bar: float
) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    """The sum of eq. 1 for each transition, in float64, and the advantages of section 4.2."""
    rows, slots = t["value"].shape
    target = np.zeros((rows, slots))
    following = np.zeros((rows, slots))
    for slot in range(slots):
        for start in range(rows):
            total = float(t["value"][start, slot])
            traces = 1.0
            for row in range(start, rows):
                after = 0.0 if t["terminated"][row, slot] else float(t["next_value"][row, slot])
                ratio = float(t["ratio"][row, slot])
                error = float(t["reward"][row, slot]) + gamma * after - float(t["value"][row, slot])
                total += gamma ** (row - start) * traces * min(rho_bar, ratio) * error
                traces *= lambd * min(c_bar, ratio)
                if not t["carry"][row, slot]:
                    break
            target[start, slot] = total
        for row in range(rows):
            after = 0.0 if t["terminated"][row, slot] else float(t["next_value"][row, slot])
            following[row, slot] = target[row + 1, slot] if t["carry"][row, slot] else after
    return target, t["reward"] + gamma * following - t["value"]


@pytest.mark.parametrize(("rho_bar", "c_bar", "lambd"), [(1.0, 1.0, 1.0), (2.0, 1.0, 0.9), (1.5, 0.5, 1.0)])
@pytest.mark.parametrize("rows", [1, 2, 7])
def test_targets_are_the_sums_of_equation_1(rows: int, rho_bar: float, c_bar: float, lambd: float) -> None:
    transitions = drawn(rows, 40, seed=rows)
    target, advantage = vtrace(**transitions, gamma=GAMMA, lambd=lambd, rho_bar=rho_bar, c_bar=c_bar)
    expected, expected_advantage = by_equation(transitions, GAMMA, lambd, rho_bar, c_bar)
    np.testing.assert_allclose(target, expected, rtol=2e-5, atol=2e-5)
    np.testing.assert_allclose(advantage, expected_advantage, rtol=2e-5, atol=2e-5)


@pytest.mark.parametrize("rows", [1, 16])
def test_targets_of_the_current_policy_are_n_step_returns_bit_for_bit(rows: int) -> None:
    t = drawn(rows, 30, seed=3, ratios=False)
    target, _ = vtrace(**t, gamma=GAMMA)
    discount = np.float32(GAMMA)
    for slot in range(30):
        following = np.float32(0.0)
        for row in reversed(range(rows)):
            if not t["carry"][row, slot]:
                following = t["next_value"][row, slot] * np.float32(not t["terminated"][row, slot])
            following = t["reward"][row, slot] + discount * following
            assert target[row, slot] == following


def test_a_truncated_episode_bootstraps_from_its_final_observation_and_a_terminated_one_does_not() -> None:
    one = np.ones((1, 2), np.float32)
    ends = np.array([[False, True]])
    target, advantage = vtrace(one, 5 * one, 10 * one, np.zeros((1, 2), np.bool_), one, 0.5, terminated=ends)
    assert target.tolist() == [[6.0, 1.0]] and advantage.tolist() == [[1.0, -4.0]]


def test_an_action_that_the_current_policy_never_takes_leaves_the_value() -> None:
    t = drawn(5, 8, seed=1)
    t["ratio"][2] = 0.0
    target, _ = vtrace(**t, gamma=GAMMA)
    assert (target[2] == t["value"][2]).all()


def test_limits_for_which_vtrace_is_not_defined_are_refused() -> None:
    with pytest.raises(ValueError, match=r"rho_bar 0\.5 is below c_bar 1"):
        vtrace(**drawn(2, 2), gamma=GAMMA, rho_bar=0.5)
