"""Generalized advantage estimation over a rollout (Schulman et al. 2016, arXiv:1506.02438)."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

__all__ = ["generalized_advantages"]


def generalized_advantages(
    reward: NDArray[np.float32],  # [T, S]
    value: NDArray[np.float32],  # [T, S] of the observation acted on
    next_value: NDArray[np.float32],  # [T, S] the value of what follows
    carry: NDArray[np.bool_],  # [T, S] False where the trajectory ends or is cut after this row
    gamma: float,
    lambd: float,
) -> NDArray[np.float32]:
    """Return the advantages [T, S] by GAE(gamma, lambda).

    A_t = delta_t + gamma lambda carry_t A_{t+1} and delta_t = r_t + gamma V(next_t) - V_t (Schulman et al. 2016,
    arXiv:1506.02438, eqs. 11, 12 and 16). All arrays are [T, S]. ``value`` is of the observation acted on.
    ``next_value`` is 0 after a termination, the value of the final observation after a truncation, else the value of
    the next row. ``carry`` is False where the trajectory ends or is cut after the row. For a reward that ignores the
    ends of episodes, ``next_value`` is always the value of the next row, and the trajectory goes on there.
    """
    advantage = reward + gamma * next_value
    advantage -= value
    decay = carry * np.float32(gamma * lambd)  # [T, S]
    for t in range(len(advantage) - 2, -1, -1):
        advantage[t] += decay[t] * advantage[t + 1]
    return advantage


def trajectory_cuts(ended: NDArray[np.bool_], age: NDArray[np.int64], horizon: int) -> NDArray[np.bool_]:
    """Mark where a trajectory reaches ``horizon`` rows without having ended: [T, S].

    ``age`` [S] is the length of each slot's trajectory before the first row, and is left at its length after the
    last.
    """
    cuts = np.zeros_like(ended)
    for t in range(len(ended)):
        age += 1
        np.greater_equal(age, horizon, out=cuts[t])
        cuts[t] &= ~ended[t]
        age[cuts[t] | ended[t]] = 0
    return cuts


def explained_variances(
    values: NDArray[np.float32], returns: NDArray[np.float32], names: Sequence[str]
) -> dict[str, float]:
    """The share of the variance of ``returns`` [..., R] that ``values`` [..., R] explain, by tag.

    It is that of the sums over the R heads ``names``, as the policy learns from the sum of their advantages; with
    several heads also that of each, whose means and scales differ.
    """
    shares = {"Losses/Explained Variance": _explained_variance(values.sum(-1), returns.sum(-1))}
    if len(names) > 1:
        for k, name in enumerate(names):
            tag = f"Losses/{name.capitalize()} Explained Variance"
            shares[tag] = _explained_variance(values[..., k], returns[..., k])
    return shares


def _explained_variance(values: NDArray[np.float32], returns: NDArray[np.float32]) -> float:
    """1 - Var(returns - values) / Var(returns); 0 where the returns do not vary."""
    variance = float(np.var(returns))
    return 1.0 - float(np.var(returns - values)) / variance if variance > 0 else 0.0
