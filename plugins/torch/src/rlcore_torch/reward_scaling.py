"""How the environment's reward is learned from: clipped, and divided by the spread of its discounted returns.

Both templates keep the rewards as they were given, so that what is reported stays in the environment's unit.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rlcore import Ranks, RewardProvider, SavedValueError, SlotShare, fill, saved_array, saved_float, saved_mapping
from rlcore_torch.arrays import BoolArray, FloatArray
from rlcore_torch.ranks.torch_ranks import gather_slots
from rlcore_torch.settings import is_extrinsic

__all__ = ["RewardScaling"]

ENTRY = "reward_scaling"  # of a trainer's state

# OpenAI Baselines' and Stable-Baselines3's VecNormalize start from a variance of 1, seen this many times, and add this
# to the variance.
PRIOR_COUNT = 1e-4
EPSILON = 1e-8


class RewardScaling:
    """Clips the environment's reward, and divides it by the standard deviation of discounted returns so far.

    This is the part of VecNormalize (OpenAI Baselines; Engstrom et al. 2020, arXiv:2005.12729, section 3) that concerns
    rewards. Each slot has a running return R = gamma R + r, which begins at 0 with each episode. Its variance is that
    over the returns of all slots in all steps so far, each step joined exactly (Chan, Golub and LeVeque 1979, eq. 2.1).
    The mean is not subtracted.

    With a bound, the divisor is at least max |R| / bound, the largest return of all slots in all steps so far, so that
    no normalized return leaves the values that a categorical critic has (SimbaV2; Lee et al. 2025, arXiv:2502.15280).

    With several ranks, the returns of all ranks are joined step by step, as one process joins them.

    Attributes:
        place: Index of the environment's reward among the reward providers.
        limit: Largest absolute value of a reward; None: rewards are not clipped before they are normalized.
        normalizes: Whether rewards are divided by the standard deviation.
        clip: Largest absolute value of a normalized reward; None: any.
        bound: Largest absolute value of a normalized return; None: any.
        returns: [S] running return of the open episode of each slot.
        mean: Mean of the returns so far.
        m2: Sum of their squared distances from the mean.
        count: Number of the returns, and PRIOR_COUNT.
        largest: Largest absolute value of the returns.
    """

    def __init__(self, hyperparameters: Any, place: int, gamma: float, share: SlotShare, ranks: Ranks) -> None:
        self.place = place
        self.limit = hyperparameters.clip_rewards
        self.normalizes = hyperparameters.normalize_rewards
        self.clip = hyperparameters.normalize_rewards_clip
        self.bound = hyperparameters.normalize_rewards_bound
        self.returns = np.zeros(len(share.numbers))
        self.mean = 0.0
        self.m2 = self.count = PRIOR_COUNT
        self.largest = 0.0
        self._gamma = gamma
        self._share = share
        self._ranks = ranks
        # Steps that are not joined yet: [K, S] returns, and whether each is one.
        self._pending: list[tuple[NDArray[np.float64], BoolArray]] = []

    @classmethod
    def of(
        cls,
        hyperparameters: Any,
        names: Sequence[str],
        providers: Sequence[RewardProvider],
        share: SlotShare,
        ranks: Ranks,
    ) -> RewardScaling | None:
        """Return what ``hyperparameters`` ask for; None without the environment's reward.

        ``names`` are the keys of the ``providers`` under ``reward_signals``.
        """
        for place, name in enumerate(names):
            if is_extrinsic(name):
                return cls(hyperparameters, place, providers[place].gamma, share, ranks)
        return None

    # ------------------------------------------------------------ what is learned from

    @property
    def deviation(self) -> float:
        """The divisor of rewards now: the standard deviation of discounted returns, or more with a bound."""
        divisor = float(np.sqrt(self.m2 / self.count + EPSILON))
        return divisor if self.bound is None else max(divisor, self.largest / self.bound)

    def scaled(self, reward: FloatArray, deviation: float | NDArray[np.float64] | None = None) -> FloatArray:
        """Return the rewards to learn from instead of ``reward``, both [...].

        ``deviation`` [...] replaces the current one.
        """
        if self.limit is not None:
            reward = reward.clip(-self.limit, self.limit)
        if not self.normalizes:
            return reward
        divisor = np.float64(self.deviation) if deviation is None else deviation
        normalized = reward / divisor
        if self.clip is not None:
            normalized = normalized.clip(-self.clip, self.clip)
        return normalized.astype(np.float32)

    def scaled_rollout(self, reward: FloatArray, ended: BoolArray, valid: BoolArray) -> FloatArray:
        """Return the rewards to learn from instead of ``reward``, each with the deviation right after its step.

        Arrays are [T, S]: ``valid`` says where there is a transition, and ``ended`` where its episode ended or was cut.
        All ranks call it together.
        """
        if not self.normalizes:
            return self.scaled(reward)
        self.add(reward, ended, valid)
        deviations = self.join()[: len(reward)]  # other ranks may have had more steps
        return self.scaled(reward, deviations[:, None])

    # ------------------------------------------------------------ statistics

    def add(self, reward: FloatArray, ended: BoolArray, valid: BoolArray) -> None:
        """Continue the returns with ``reward`` [T, S], to be joined by :meth:`join`; the other arrays are also [T, S].

        Rewards are those of the environment; they are clipped here.
        """
        if not self.normalizes or not len(reward):
            return
        if self.limit is not None:
            reward = reward.clip(-self.limit, self.limit)
        history = np.empty(reward.shape)
        goes_on = ~ended
        is_full = valid.all()
        returns = self.returns
        for t, row in enumerate(history):
            np.multiply(returns, self._gamma, out=row)
            row += reward[t]
            next_returns = row * goes_on[t]
            # A slot without a transition keeps its return: its agent has not acted in this row.
            returns = next_returns if is_full else np.where(valid[t], next_returns, returns)
        self.returns = returns
        self._pending.append((history, valid))

    def forget(self, slots: BoolArray) -> None:
        """Begin new returns in ``slots`` [S], whose episodes are cut."""
        self.returns = np.where(slots, 0.0, self.returns)

    def join(self) -> NDArray[np.float64]:
        """Add the pending steps of all ranks to the statistics; all ranks call it together.

        Returns the deviation after each step, [K] for the longest of the ranks.
        """
        returns, valid = self._pending_steps()
        self._pending = []
        if self._ranks.size > 1:
            returns, valid = gather_slots(self._ranks, self._share, returns, valid)
        counts = valid.sum(1)  # [K]
        means = np.where(valid, returns, 0.0).sum(1) / np.maximum(counts, 1)
        distances = returns - means[:, None]
        squares = np.where(valid, distances**2, 0.0).sum(1)
        sizes = np.where(valid, np.abs(returns), 0.0).max(1, initial=self.largest)
        largest = np.maximum.accumulate(sizes)  # [K]
        variances = []
        # In numbers of Python, which are the same float64 and, one at a time, faster than NumPy's.
        steps = zip(counts.tolist(), means.tolist(), squares.tolist(), strict=True)
        for count, mean, m2 in steps:
            if count:
                total = self.count + count
                delta = mean - self.mean
                self.m2 += m2 + delta * delta * self.count * count / total
                self.mean += delta * count / total
                self.count = total
            variances.append(self.m2 / self.count)
        self.largest = float(largest.max(initial=self.largest))
        deviations: NDArray[np.float64] = np.sqrt(np.array(variances) + EPSILON)
        return deviations if self.bound is None else np.maximum(deviations, largest / self.bound)

    def _pending_steps(self) -> tuple[NDArray[np.float64], BoolArray]:
        """Return the returns [K, S] of the pending steps, and whether each is one."""
        slots = len(self.returns)
        returns = [np.empty((0, slots))]
        valid = [np.empty((0, slots), np.bool_)]
        for returns_of_steps, valid_of_steps in self._pending:
            returns.append(returns_of_steps)
            valid.append(valid_of_steps)
        return np.concatenate(returns), np.concatenate(valid)

    # ------------------------------------------------------------ state

    def state_dict(self) -> dict[str, Any]:
        """Return arrays and numbers to continue from. Pending steps are joined first in one process."""
        if self._ranks.size == 1:
            self.join()
        pending, valid = self._pending_steps()
        return {
            "mean": self.mean,
            "m2": self.m2,
            "count": self.count,
            "largest": self.largest,
            "returns": self.returns.copy(),
            "pending": pending,
            "valid": valid,
        }

    def require_fit(self, state: Mapping[str, Any]) -> None:
        """Raise SavedValueError unless ``state``, of a trainer, could be loaded. Older checkpoints have no entry."""
        if ENTRY not in state:
            return
        saved = saved_mapping(state, ENTRY)
        self._require_statistics(saved)
        slots = len(self.returns)
        saved_array(saved, "returns", np.float64, (slots,))
        steps = len(saved_array(saved, "pending", np.float64, (None, slots)))
        saved_array(saved, "valid", np.bool_, (steps, slots))

    def _require_statistics(self, saved: Mapping[str, Any]) -> None:
        saved_float(saved, "mean")
        for name in ("m2", "count"):
            if saved_float(saved, name) <= 0:
                raise SavedValueError(f"the entry {name!r} of {ENTRY!r} is not above 0")
        if "largest" in saved and saved_float(saved, "largest") < 0:  # which older checkpoints do not have
            raise SavedValueError(f"the entry 'largest' of {ENTRY!r} is below 0")

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue from the entry of ``state``, of a trainer, which :meth:`require_fit` has passed.

        Without the entry, the statistics begin.
        """
        if ENTRY not in state:
            return
        self.load_statistics(state)
        saved = state[ENTRY]
        fill(self.returns, saved, "returns")
        self._pending = [(np.array(saved["pending"]), np.array(saved["valid"]))]

    def load_statistics(self, state: Mapping[str, Any]) -> None:
        """Continue with the statistics in ``state``, of a trainer, and with new episodes in all slots."""
        if ENTRY not in state:
            return
        saved = saved_mapping(state, ENTRY)
        self._require_statistics(saved)
        self.mean = float(saved["mean"])
        self.m2 = float(saved["m2"])
        self.count = float(saved["count"])
        self.largest = float(saved.get("largest", 0.0))
        self._pending = []
        self.returns = np.zeros(len(self.returns))
