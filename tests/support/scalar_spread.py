"""The spread of discounted returns in plain Python: all returns are kept, and their variance is computed from them."""

from __future__ import annotations

from collections.abc import Mapping
from math import fsum, sqrt

PRIOR = 1e-4  # weight of a return of 0 with a variance of 1, that VecNormalize starts with


class ScalarSpread:
    """The divisor of rewards after any number of steps of several agents."""

    def __init__(self, slots: int, gamma: float, bound: float | None = None) -> None:
        self.gamma = gamma
        self.bound = bound
        self.open = [0.0] * slots
        self.returns: list[float] = []

    def step(self, rewards: Mapping[int, float]) -> float:
        """Take the reward of each slot that closed a transition; return the deviation after the step."""
        for slot, reward in rewards.items():
            self.open[slot] = self.gamma * self.open[slot] + reward
            self.returns.append(self.open[slot])
        return self.deviation

    def forget(self, slot: int) -> None:
        """The episode of ``slot`` ended or was cut."""
        self.open[slot] = 0.0

    @property
    def deviation(self) -> float:
        weight = PRIOR + len(self.returns)
        mean = fsum(self.returns) / weight
        squares = fsum((each - mean) ** 2 for each in self.returns) + PRIOR * (1.0 + mean**2)
        deviation = sqrt(squares / weight + 1e-8)
        if self.bound is None or not self.returns:
            return deviation
        return max(deviation, max(map(abs, self.returns)) / self.bound)


def clipped(value: float, limit: float | None) -> float:
    return value if limit is None else max(-limit, min(limit, value))
