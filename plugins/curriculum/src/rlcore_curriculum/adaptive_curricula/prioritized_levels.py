"""Prioritized level replay (Jiang et al. 2021, arXiv:2010.03934) for a parameter that works like a seed.

An episode plays a new level or repeats a level. The probability of a repeated level falls with its rank by score, mixed
with a probability that grows with the time since the level was played. Levels with equal scores share the mean of their
ranks.

Differences from the paper: its scores are value errors of single steps, which curricula do not receive. Here, the score
of a level is the mean distance between the returns of successive episodes (``change``), or p (1 - p) for the share p of
successes (``learnability``: Rutherford et al. 2024, arXiv:2408.15099). A level that was played once has no change yet
and ranks first. A level counts as played when its episode ends, and the shares are computed after several episodes
instead of after each.

The authors' experiments use a temperature of 0.1: nine of ten repeats then play the level with the highest rank, until
an episode replaces its score, which shrinks as the value function learns the level. Scores of returns are averages,
because a single return says little, and they do not shrink if success stays random. With 64 parallel environments and
200 levels, this means 8 levels at a time, with most environments on one level. With the default of 1 it is about 40.

K episodes, P parameters, L levels of one parameter.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from rlcore import (
    EndedEpisodes,
    EpisodeDraw,
    fill,
    saved_array,
    saved_count,
    saved_mapping,
)
from rlcore_curriculum.adaptive_curricula.adaptive import (
    Part,
    SeparateCurriculum,
    measures_of,
)
from rlcore_curriculum.adaptive_curricula.prioritized_levels_settings import PrioritizedLevelsSettings
from rlcore_curriculum.arrays import Bools, Floats, Ints

if TYPE_CHECKING:
    from rlcore import RunContext

ROUNDING = 1e-9  # relative difference of scores that are equal except for rounding
PRIOR = 2  # episodes, one of them a success, that a level's share of successes starts with (Laplace's rule)


class LevelScores:
    """Results of L levels. ``means`` are means of changes, or of successes."""

    def __init__(self, block: PrioritizedLevelsSettings) -> None:
        self.block = block
        self.plays: Ints = np.zeros(block.levels, np.int64)  # [L] ended episodes
        # [L] the number of ended episodes of all levels after the latest episode of this level
        self.played: Ints = np.zeros(block.levels, np.int64)
        self.latest: Floats = np.zeros(block.levels)  # [L] the latest measure
        first_mean = 0.5 if block.score == "learnability" else 0.0  # of the prior, one success in two episodes
        self.means: Floats = np.full(block.levels, first_mean)  # [L]
        self.total = 0  # ended episodes of all levels

    def add(self, levels: Ints, measures: Floats) -> None:
        """Add K ended episodes in this order."""
        order = self.total + 1 + np.arange(len(levels))
        self.total += len(levels)
        while levels.size:
            if len(set(levels.tolist())) == len(levels):
                self._add_once_each(levels, measures, order)
                return
            # If a level ended in several environments at once, add its episodes one after another.
            _, first = np.unique(levels, return_index=True)
            self._add_once_each(levels[first], measures[first], order[first])
            levels = np.delete(levels, first)
            measures = np.delete(measures, first)
            order = np.delete(order, first)

    def _add_once_each(self, levels: Ints, measures: Floats, order: Ints) -> None:
        before = self.plays[levels]
        memory = self.block.memory
        means = self.means[levels]
        if self.block.success is not None:
            results = (measures >= self.block.success).astype(np.float64)
            over = np.minimum(before + 1, memory) + PRIOR
        else:
            results = np.abs(measures - self.latest[levels])
            over = np.clip(before, 1, memory)  # the first change replaces the value of the first episode
        means += (results - means) / over
        self.means[levels] = means
        self.latest[levels] = measures
        self.plays[levels] += 1
        self.played[levels] = order

    def scores(self) -> Floats:
        """Return the scores, [L]; a score is undefined for a level that was not played."""
        if self.block.score == "learnability":
            return self.means * (1.0 - self.means)
        return np.where(self.plays == 1, np.inf, self.means)

    def shares(self) -> Floats:
        """Return the probabilities of levels in repeats, [L]; 0 for levels that were not played."""
        seen = np.flatnonzero(self.plays > 0)
        shares = np.zeros(self.block.levels)
        if not seen.size:
            return shares
        # Rank prioritization with temperature beta: weights rank^(-1 / beta).
        ranks = mean_ranks(self.scores()[seen])
        by_score = ranks ** (-1.0 / self.block.temperature)
        age = (self.total - self.played[seen]).astype(np.float64)
        by_age = age if age.sum() > 0.0 else np.ones(len(seen))
        staleness = self.block.staleness
        of_score = (1.0 - staleness) * by_score / by_score.sum()
        of_age = staleness * by_age / by_age.sum()
        shares[seen] = of_score + of_age
        return shares

    def state_dict(self) -> dict[str, Any]:
        return {
            "plays": self.plays.copy(),
            "played": self.played.copy(),
            "latest": self.latest.copy(),
            "means": self.means.copy(),
            "total": self.total,
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        for name in ("plays", "played", "latest", "means"):
            fill(getattr(self, name), state, name)
        self.total = saved_count(state, "total")


def mean_ranks(scores: Floats) -> Floats:
    """Return the ranks of scores, [L] of [L]; 1 is the highest score, and equal scores share the mean of their ranks.

    Ties are common: levels that were played once, that never succeed, or whose successes are as frequent as another
    level's failures. Scores that differ by rounding only are equal.
    """
    order = np.argsort(-scores)
    falling = scores[order]
    finite = np.abs(scores[np.isfinite(scores)])
    rounding = ROUNDING * finite.max(initial=0.0)
    lower = falling[1:] < falling[:-1] - rounding
    begins = np.concatenate([[True], lower])  # a group of equal scores
    group = np.cumsum(begins) - 1
    sizes = np.bincount(group)
    last_ranks = np.cumsum(sizes)
    middle_ranks = last_ranks - (sizes - 1) / 2.0
    ranks = np.empty(len(scores))
    ranks[order] = np.repeat(middle_ranks, sizes)
    return ranks


class LevelReplay(Part):
    """Draws the levels of one parameter with the shares of the last refresh."""

    shaping = ("levels", "first_level", "score", "success")

    def __init__(self, block: PrioritizedLevelsSettings) -> None:
        super().__init__(block)
        self.known = LevelScores(block)
        self.refresh()

    def refresh(self) -> None:
        played = self.known.plays > 0
        self._use_shares(self.known.shares(), played)
        self.counted = 0

    def _use_shares(self, shares: Floats, played: Bools) -> None:
        # [L] probabilities in repeats; whether the level had been played
        self.shares = shares
        self.played = played
        self._cumulated = np.cumsum(shares)
        self._new = np.flatnonzero(~played)  # levels that had not been played
        self.replay = float(played.mean())  # share of episodes that repeat a level
        if self.block.replay_probability is not None and 0.0 < self.replay < 1.0:
            self.replay = self.block.replay_probability

    def draw(self, uniforms: Floats) -> Ints:
        """Convert numbers [K, 2] from [0, 1) into levels [K]."""
        levels = np.empty(len(uniforms), np.int64)
        replayed = uniforms[:, 0] < self.replay
        again = uniforms[replayed, 1]
        fresh = uniforms[~replayed, 1]
        if again.size:
            # The last sum is 1 except for rounding; numbers beyond the previous sum belong to the last played level.
            sums = again * self._cumulated[-1]
            levels[replayed] = self._cumulated.searchsorted(sums, side="right")
        if fresh.size:
            places = (fresh * len(self._new)).astype(np.int64)
            levels[~replayed] = self._new[places]
        return levels

    def state_dict(self) -> dict[str, Any]:
        return {
            **super().state_dict(),
            "known": self.known.state_dict(),
            "shares": self.shares.copy(),
            "played": self.played.copy(),
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        super().load_state_dict(state)
        self.known.load_state_dict(saved_mapping(state, "known"))
        shares = saved_array(state, "shares", np.float64, self.shares.shape)
        played = saved_array(state, "played", np.bool_, self.played.shape)
        self._use_shares(shares.copy(), played.copy())


class PrioritizedLevels(SeparateCurriculum[PrioritizedLevelsSettings, LevelReplay]):
    """Separate levels for P parameters. The ``draw_id`` of an episode is its level, counted from 0.

    Evaluations play all levels equally.
    """

    def __init__(self, settings: Mapping[str, PrioritizedLevelsSettings], run: RunContext) -> None:
        super().__init__(settings, run, LevelReplay)
        first_levels = [block.first_level for block in settings.values()]
        self._first = np.array(first_levels, np.float64)  # [P]

    def draw(self, env_index: Ints, episodes: Ints) -> EpisodeDraw:
        uniforms = self.uniforms(env_index, episodes)  # [K, P, 2]
        levels = np.empty(uniforms.shape[:2], np.int64)
        for column, replay in enumerate(self.parts.values()):
            of_parameter = uniforms[:, column]
            levels[:, column] = replay.draw(of_parameter)
        return EpisodeDraw(levels + self._first, levels)

    def episodes_ended(self, ended: EndedEpisodes) -> None:
        for column, replay in enumerate(self.parts.values()):
            measures = measures_of(ended, replay.block)
            if measures is not None:
                replay.known.add(ended.draw_id[:, column], measures)
                replay.counted += len(measures)

    def stats(self) -> dict[str, float]:
        """Return the number of played levels, the share of repeats, and the effective number of repeated levels.

        The effective number is the perplexity of the levels' shares, exp(-sum p log p): so many levels with
        equal shares have this perplexity.
        """
        tags: dict[str, float] = {}
        for name, replay in self.parts.items():
            shares = replay.shares[replay.shares > 0.0]
            played = replay.known.plays > 0
            tags[f"Environment/Levels Played/{name}"] = float(played.sum())
            tags[f"Environment/Replay Share/{name}"] = replay.replay
            if shares.size:
                entropy = -shares @ np.log(shares)
                tags[f"Environment/Effective Levels/{name}"] = float(np.exp(entropy))
        return tags

    def status(self) -> dict[str, dict[str, Any]]:
        sections = {}
        for name, replay in self.parts.items():
            played = int((replay.known.plays > 0).sum())
            sections[name] = {
                "lesson": f"{played} of {replay.block.levels} levels",
                "measure": replay.block.score,
                "episodes_left": replay.episodes_left,
                "replay_share": replay.replay,
            }
        return sections
