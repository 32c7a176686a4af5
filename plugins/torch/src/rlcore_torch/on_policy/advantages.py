"""Generalized advantage estimation over a rollout (Schulman et al. 2016, arXiv:1506.02438), and its statistics.

Shapes: T rows, S slots, R reward providers.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import attrs
import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from rlcore import RewardProvider

Values = TypeVar("Values", NDArray[np.float32], Tensor)


def generalized_advantages(
    reward: Values,  # [T, S]
    value: Values,  # [T, S] of the observation acted on
    next_value: Values,  # [T, S] the value of what follows
    carry: Any,  # [T, S] False where the trajectory ends or is cut after this row
    gamma: float,
    lambd: float,
    terminated: Any = None,  # [T, S] where nothing follows; None: nowhere
) -> Values:
    """Return the advantages [T, S] by GAE(gamma, lambda).

    A_t = delta_t + gamma lambda carry_t A_{t+1} and delta_t = r_t + gamma V(next_t) - V_t (Schulman et al. 2016,
    arXiv:1506.02438, eqs. 11, 12 and 16). All are arrays, or all tensors on one device, [T, S]. ``value`` is of the
    observation acted on. ``next_value`` is 0 after a termination, the value of the final observation after a
    truncation, else the value of the next row. ``carry`` is False where the trajectory ends or is cut after the row.
    For a reward that ignores the ends of episodes, ``next_value`` is always the value of the next row, and the
    trajectory goes on there.
    """
    advantage = gamma * next_value
    if terminated is not None:
        advantage[terminated] = 0.0
    advantage += reward
    advantage -= value
    decay = carry * np.float32(gamma * lambd)  # [T, S]
    for t in range(len(advantage) - 2, -1, -1):
        advantage[t] += decay[t] * advantage[t + 1]
    return advantage


@attrs.frozen(eq=False)
class Trajectories:
    """How the transitions of a rollout continue one another; all arrays are [T, S].

    Attributes:
        terminated: The episode ended with the transition, by the task's own rule.
        ended: The episode ended, or was cut off.
        carry: The next row continues the trajectory within the episode.
        across: The episode ended, and the next row belongs to the next one.
    """

    terminated: NDArray[np.bool_]
    ended: NDArray[np.bool_]
    carry: NDArray[np.bool_]
    across: NDArray[np.bool_]

    @classmethod
    def of(
        cls, terminated: NDArray[np.bool_], truncated: NDArray[np.bool_], valid: NDArray[np.bool_], horizon: int
    ) -> Trajectories:
        """Return those of the ``valid`` transitions [T, S], which are the first ones of each slot.

        A trajectory is cut after ``horizon`` rows.
        """
        ended = (terminated | truncated) & valid
        cuts = trajectory_cuts(ended, np.zeros(valid.shape[1], np.int64), horizon) if horizon < len(valid) else ended
        followed = np.ones_like(valid)
        followed[:-1] = valid[1:]  # a slot's last transition ends its trajectory; the last row ends them all
        return cls(terminated, ended, ~ended & ~cuts & followed, ended & followed)

    def advantages(
        self,
        reward: Values,
        value: Values,
        next_value: Values,
        provider: RewardProvider,
        lambd: float,
    ) -> Values:
        """Return the advantages [T, S] of the ``reward`` [T, S] of a provider, all arrays or all tensors [T, S]."""
        if provider.ignore_done:  # one trajectory goes through all episodes
            return generalized_advantages(reward, value, next_value, self.carry | self.across, provider.gamma, lambd)
        # Truncated episodes bootstrap from their final observation, terminated ones have no future.
        return generalized_advantages(reward, value, next_value, self.carry, provider.gamma, lambd, self.terminated)

    def map(self, function: Callable[[Any], Any]) -> Trajectories:
        """Return ``function`` of every array."""
        return Trajectories(*(function(array) for array in attrs.astuple(self, recurse=False)))


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


@attrs.define(eq=False)
class EpisodeRewards:
    """Sums of one provider's rewards over episodes, across rollouts ("Policy/Extrinsic Reward").

    Attributes:
        open: [S] sums of the open episodes. Set it to zero where an episode is cut before its end.
    """

    open: NDArray[np.float64]

    def record(self, reward: NDArray[np.float32], ended: NDArray[np.bool_], cuts: NDArray[np.int64]) -> list[float]:
        """Takes in rewards and ends, both [T, S]; the sum of each episode that ended.

        ``cuts`` [k, 2] names the (row, slot) pairs of ``ended`` at which an episode was only cut.
        """
        was_cut = np.zeros_like(ended)
        was_cut[cuts[:, 0], cuts[:, 1]] = True
        sums = np.cumsum(reward, axis=0, dtype=np.float64)  # [T, S]
        slot, row = np.nonzero(ended.T)  # by slot, then in time
        at_end = sums[row, slot]
        first = np.ones(len(slot), np.bool_)
        first[1:] = slot[1:] != slot[:-1]
        before = np.zeros(len(slot))
        before[~first] = at_end[:-1][~first[1:]]
        before[first] = -self.open[slot[first]]
        last = np.zeros_like(self.open)
        last[slot] = at_end  # the last assignment of a slot wins: its latest end
        has_ended = ended.any(axis=0)
        self.open = np.where(has_ended, sums[-1] - last, self.open + sums[-1])
        finished: list[float] = (at_end - before)[~was_cut[row, slot]].tolist()
        return finished
