"""The choice of the stored policies that a team plays against: the samplers that ``self_play.opponents`` names.

A sampler chooses among K candidates, the snapshots in the window and the fixed opponents, whenever opponents are
swapped. ``play_against_latest_model_ratio`` is applied before: a sampler is asked only for the rest.

Source of prioritized fictitious self-play: Vinyals et al. 2019, Grandmaster level in StarCraft II using multi-agent
reinforcement learning, "Methods", section "Prioritized fictitious self-play".
"""

from __future__ import annotations

from typing import Any, Protocol, runtime_checkable

import attrs
import numpy as np
from numpy.typing import NDArray

from rlcore_ghost.arrays import Floats
from rlcore_ghost.settings import NoParameters, PrioritizedParameters

__all__ = [
    "Candidates",
    "FixedSampler",
    "LatestSampler",
    "OpponentSampler",
    "PrioritizedSampler",
    "UniformSampler",
]


@attrs.frozen(eq=False)
class Candidates:
    """The K policies to choose from.

    Attributes:
        names: Name of each candidate: ``BEHAVIOR@STEP`` for a snapshot, the key of ``fixed_opponents`` for a fixed one,
            or ``BEHAVIOR/KEY`` if several behaviors have the key.
        steps: [K] agent steps of the trainer at the snapshot; -1 for a fixed opponent.
        fixed: [K] whether the candidate is a fixed opponent.
        games: [K] number of rated games of the learning policy against the candidate; older ones count less.
        score: [K] mean result of the learning policy in those games, from 0 (all lost) to 1; 0.5 without games.
        rating: [K] Elo rating of the candidate.
        learner_rating: Elo rating of the learning policy.
    """

    names: tuple[str, ...]
    steps: NDArray[np.int64]
    fixed: NDArray[np.bool_]
    games: NDArray[np.float64]
    score: NDArray[np.float64]
    rating: NDArray[np.float64]
    learner_rating: float


@runtime_checkable
class OpponentSampler(Protocol):
    """Chooses opponents. It must not keep state: a resumed run draws the same opponents."""

    def sample(self, candidates: Candidates, count: int, generator: np.random.Generator) -> NDArray[np.int64]:
        """Return ``count`` indices [count] into the K candidates, at least one; -1 is the latest policy."""


class WithoutParameters:
    """The base class of samplers of which nothing can be set."""

    def __init__(self, settings: NoParameters) -> None:
        """``settings`` are of no use."""


class UniformSampler(WithoutParameters):
    """Every candidate with the same probability, as in ML-Agents."""

    def sample(self, candidates: Candidates, count: int, generator: np.random.Generator) -> NDArray[np.int64]:
        return generator.integers(len(candidates.names), size=count)


class LatestSampler(WithoutParameters):
    """Always the latest policy, as with ``play_against_latest_model_ratio: 1``."""

    def sample(self, candidates: Candidates, count: int, generator: np.random.Generator) -> NDArray[np.int64]:
        return np.full(count, -1)


class FixedSampler(WithoutParameters):
    """Every fixed opponent with the same probability, and no snapshots."""

    def sample(self, candidates: Candidates, count: int, generator: np.random.Generator) -> NDArray[np.int64]:
        fixed = np.flatnonzero(candidates.fixed)
        return generator.choice(fixed, size=count)


class PrioritizedSampler:
    """Prioritized fictitious self-play: candidates that the learning policy does not beat yet come more often."""

    def __init__(self, settings: PrioritizedParameters) -> None:
        self.settings = settings

    def probabilities(self, candidates: Candidates) -> NDArray[np.float64]:
        """Probability of each candidate [K]: proportional to (1 - x)^p or x (1 - x), where x is its ``score``.

        Candidates that are all beaten always have equal probabilities.
        """
        # A candidate with few games keeps half of a prior game won, so that one result does not decide.
        wins = candidates.score * candidates.games
        x = (wins + 0.5) / (candidates.games + 1.0)
        if self.settings.weighting == "variance":
            return _normalized(x * (1.0 - x))
        return _normalized((1.0 - x) ** self.settings.power)

    def sample(self, candidates: Candidates, count: int, generator: np.random.Generator) -> NDArray[np.int64]:
        probabilities = self.probabilities(candidates)
        return generator.choice(len(probabilities), size=count, p=probabilities)


def _normalized(weight: Floats) -> Floats:
    """Probabilities [K] in proportion to the ``weight`` [K], equal ones if nothing has weight."""
    total = float(weight.sum())
    if total > 0:
        return weight / total
    return np.full(len(weight), 1.0 / len(weight))


def as_indices(chosen: Any, count: int, candidates: int, sampler: str) -> NDArray[np.int64]:
    """The answer of a sampler, checked. Raises ValueError if it is not ``count`` indices from -1 to below K."""
    indices = np.asarray(chosen)
    if indices.shape != (count,) or indices.dtype.kind not in "iu":
        raise ValueError(f"{sampler}.sample returned {indices.dtype} of shape {indices.shape}, not {count} indices")
    if count and (indices.min() < -1 or indices.max() >= candidates):
        raise ValueError(f"{sampler}.sample returned an index outside -1 to {candidates - 1}")
    return indices.astype(np.int64)
