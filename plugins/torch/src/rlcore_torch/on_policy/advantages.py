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
from rlcore_torch.arrays import BoolArray, FloatArray, IntArray

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
    advantage = gamma * next_value  # first delta, the error of each step (eq. 11), in place
    if terminated is not None:
        advantage[terminated] = 0.0
    advantage += reward
    advantage -= value
    decay = carry * np.float32(gamma * lambd)  # [T, S]
    for t in range(len(advantage) - 2, -1, -1):
        following = advantage[t + 1]
        advantage[t] += decay[t] * following
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
    def of(cls, terminated: BoolArray, truncated: BoolArray, valid: BoolArray, horizon: int) -> Trajectories:
        """Return those of the ``valid`` transitions [T, S], which are the first ones of each slot.

        A trajectory is cut after ``horizon`` rows.
        """
        ended = (terminated | truncated) & valid
        stops = ended
        if horizon < len(valid):
            age = np.zeros(valid.shape[1], np.int64)
            stops = ended | trajectory_cuts(ended, age, horizon)
        followed = np.ones_like(valid)
        followed[:-1] = valid[1:]  # a slot's last transition ends its trajectory; the last row ends them all
        carry = ~stops & followed
        across = ended & followed
        return cls(terminated, ended, carry, across)

    def advantages(
        self, reward: Values, value: Values, next_value: Values, provider: RewardProvider, lambd: float
    ) -> Values:
        """Return the advantages [T, S] of the ``reward`` [T, S] of a provider, all arrays or all tensors [T, S]."""
        gamma = provider.gamma
        if provider.ignore_done:  # one trajectory goes through all episodes
            carry = self.carry | self.across
            return generalized_advantages(reward, value, next_value, carry, gamma, lambd)
        # Truncated episodes bootstrap from their final observation, terminated ones have no future.
        return generalized_advantages(reward, value, next_value, self.carry, gamma, lambd, self.terminated)

    def map(self, function: Callable[[Any], Any]) -> Trajectories:
        """Return ``function`` of every array."""
        arrays = attrs.astuple(self, recurse=False)
        return Trajectories(*map(function, arrays))


def trajectory_cuts(ended: BoolArray, age: IntArray, horizon: int) -> BoolArray:
    """Mark where a trajectory reaches ``horizon`` rows without having ended: [T, S].

    ``age`` [S] is the length of each slot's trajectory before the first row, and is left at its length after the
    last.
    """
    cuts = np.zeros_like(ended)
    for t in range(len(ended)):
        age += 1
        is_full = age >= horizon
        cuts[t] = is_full & ~ended[t]
        age[is_full | ended[t]] = 0
    return cuts


def explained_variances(values: FloatArray, returns: FloatArray, names: Sequence[str]) -> dict[str, float]:
    """The share of the variance of ``returns`` [..., R] that ``values`` [..., R] explain, by tag.

    It is that of the sums over the R heads ``names``, as the policy learns from the sum of their advantages; with
    several heads also that of each, whose means and scales differ.
    """
    of_sums = _explained_variance(values.sum(-1), returns.sum(-1))
    shares = {"Losses/Explained Variance": of_sums}
    if len(names) == 1:
        return shares
    for k, name in enumerate(names):
        tag = f"Losses/{name.capitalize()} Explained Variance"
        shares[tag] = _explained_variance(values[..., k], returns[..., k])
    return shares


def _explained_variance(values: FloatArray, returns: FloatArray) -> float:
    """1 - Var(returns - values) / Var(returns); 0 where the returns do not vary."""
    variance = float(np.var(returns))
    if variance <= 0:
        return 0.0
    unexplained = float(np.var(returns - values))
    return 1.0 - unexplained / variance


@attrs.define(eq=False)
class EpisodeRewards:
    """Sums of one provider's rewards over episodes, across rollouts ("Policy/Extrinsic Reward").

    Attributes:
        open: [S] sums of the open episodes. Set it to zero where an episode is cut before its end.
    """

    open: NDArray[np.float64]

    def record(self, reward: FloatArray, ended: BoolArray, cuts: IntArray) -> list[float]:
        """Add rewards and ends, both [T, S]; return the sum of each episode that ended.

        ``cuts`` [k, 2] names the (row, slot) pairs of ``ended`` at which an episode was only cut.
        """
        was_cut = np.zeros_like(ended)
        was_cut[cuts[:, 0], cuts[:, 1]] = True
        sums = np.cumsum(reward, axis=0, dtype=np.float64)  # [T, S]
        total = sums[-1]
        # An episode earned the running sum at its end, less that at the end before it in the same slot. The first one
        # of a slot began in an earlier rollout: what it earned there is added.
        slot, row = np.nonzero(ended.T)  # by slot, then in time
        at_end = sums[row, slot]
        is_first = np.ones(len(slot), np.bool_)
        is_first[1:] = slot[1:] != slot[:-1]
        before = np.roll(at_end, 1)
        before[is_first] = -self.open[slot[is_first]]
        earned = at_end - before
        last = np.zeros_like(self.open)
        last[slot] = at_end  # the last assignment of a slot wins: its latest end
        has_ended = ended.any(axis=0)
        self.open = np.where(has_ended, total - last, self.open + total)
        is_end = ~was_cut[row, slot]
        finished: list[float] = earned[is_end].tolist()
        return finished
