"""Values at which the agent's return changes, for better or worse: absolute learning progress.

A parameter's range is divided into regions of equal width. The progress of a region is the difference between the mean
returns of the newer and the older half of its latest episodes. A share of the episodes uses all regions equally; the
others draw a region in proportion to its progress. The value is uniform within the region.

This is RIAC (Baranes and Oudeyer 2009) with the progress measure and the mixture of Portelas et al. 2019
(arXiv:1910.07224), but with fixed regions: regions are not split, and no episodes are played close to the worst episode
of a region. The shares are computed after several episodes instead of after each, so that parallel environments draw
from equal shares. Episodes count in the order of their starts: in the order of their ends, short episodes come first,
which looks like progress.

K episodes, P parameters, B regions of one parameter.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from statistics import fmean
from typing import TYPE_CHECKING, Any

import numpy as np

from rlcore import (
    Changes,
    EndedEpisodes,
    EpisodeDraw,
    SavedValueError,
    saved_array,
)
from rlcore_curriculum.adaptive_curricula.adaptive import (
    InOrder,
    Part,
    Ranges,
    SeparateCurriculum,
    measures_of,
)
from rlcore_curriculum.adaptive_curricula.learning_progress_settings import LearningProgressSettings
from rlcore_curriculum.arrays import Floats, Ints

if TYPE_CHECKING:
    from rlcore import RunContext

FEWEST = 3  # episodes that a region needs to have a progress, as in RIAC


def progress(measures: deque[float]) -> float:
    """Return the difference between the means of the newer and the older half; the older half has the odd episode."""
    if len(measures) < FEWEST:
        return 0.0
    values = list(measures)
    half = len(values) // 2
    newer = fmean(values[-half:])
    older = fmean(values[:-half])
    return abs(newer - older)


class Regions(Part):
    """The regions of one parameter. The ``draw_id`` of an episode is the number of its region."""

    shaping = ("limits", "integer", "bins")

    def __init__(self, block: LearningProgressSettings) -> None:
        super().__init__(block)
        self.measures = [deque[float](maxlen=block.window) for _ in range(block.bins)]  # [B] the latest of each region
        self._touched: set[int] = set()  # regions of the episodes since the last refresh
        self._use_progress(np.zeros(block.bins, np.float64))

    def refresh(self) -> None:
        of_regions = self.progress.copy()
        for region in self._touched:
            of_regions[region] = progress(self.measures[region])
        self._use_progress(of_regions)
        self._touched.clear()
        self.counted = 0

    def _use_progress(self, of_regions: Floats) -> None:
        self.progress = of_regions  # [B] as of the last refresh
        even = np.full(self.block.bins, 1.0 / self.block.bins)
        total = of_regions.sum()
        by_progress = of_regions / total if total > 0.0 else even
        random_share = self.block.random_share
        self.shares: Floats = random_share * even + (1.0 - random_share) * by_progress

    @property
    def middles(self) -> Floats:
        """Return the middle of each region, [B]."""
        block: LearningProgressSettings = self.block
        low, high = block.limits
        span = high - low + block.integer  # the number of whole numbers, which includes both bounds
        numbers = np.arange(block.bins) + 0.5
        return low + span * numbers / block.bins - block.integer / 2

    def add(self, regions: list[int], measures: list[float]) -> None:
        for region, measure in zip(regions, measures, strict=True):
            self.measures[region].append(measure)
        self._touched.update(regions)
        self.counted += len(regions)

    def state_dict(self) -> dict[str, Any]:
        return {
            **super().state_dict(),
            "measures": [list(measures) for measures in self.measures],
            "progress": self.progress.copy(),
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        window = self.block.window
        self.measures = [deque(map(float, measures), window) for measures in state["measures"]]
        if len(self.measures) != self.block.bins:
            raise SavedValueError(f"the entry 'measures' is of {len(self.measures)} regions, not of {self.block.bins}")
        super().load_state_dict(state)
        self._touched = set(range(len(self.measures)))
        of_regions = saved_array(state, "progress", np.float64, self.progress.shape)
        self._use_progress(of_regions.copy())


class LearningProgress(SeparateCurriculum[LearningProgressSettings, Regions]):
    """Separate regions for P parameters."""

    def __init__(self, settings: Mapping[str, LearningProgressSettings], run: RunContext) -> None:
        super().__init__(settings, run, Regions)
        blocks = settings.values()
        self.order = InOrder(settings, run.num_envs)
        limits = [block.limits for block in blocks]
        integer = [block.integer for block in blocks]
        bins = [block.bins for block in blocks]
        self._limits = Ranges(limits, integer)
        self._bins = np.array(bins, np.int64)  # [P]
        # [P, largest B - 1] cumulative shares, filled with 1
        self._cumulated = np.ones((len(bins), max(bins) - 1))
        self._use_shares()

    def _use_shares(self) -> None:
        """Draw with the current shares of the regions."""
        for row, regions in zip(self._cumulated, self.parts.values(), strict=True):
            ends = np.cumsum(regions.shares)
            row[: len(ends) - 1] = ends[:-1]

    def draw(self, env_index: Ints, episodes: Ints) -> EpisodeDraw:
        uniforms = self.uniforms(env_index, episodes)  # [K, P, 2]
        choice = uniforms[:, :, :1]
        within_region = uniforms[:, :, 1]
        regions = (choice >= self._cumulated).sum(axis=2)  # [K, P]
        within_limits = (regions + within_region) / self._bins
        return EpisodeDraw(self._limits.draw(within_limits), regions)

    def episodes_ended(self, ended: EndedEpisodes) -> None:
        over = self.order.add(ended)
        if over is None:
            return
        for column, regions in enumerate(self.parts.values()):
            measures = measures_of(over, regions.block)
            if measures is not None:
                played = over.draw_id[:, column]
                regions.add(played.tolist(), measures.tolist())

    def changes_due(self) -> Changes:
        changes = super().changes_due()
        if changes.redraw:
            self._use_shares()
        return changes

    def stats(self) -> dict[str, float]:
        """Return the mean progress of all regions, and the mean drawn value."""
        tags: dict[str, float] = {}
        for name, regions in self.parts.items():
            tags[f"Environment/Learning Progress/{name}"] = float(regions.progress.mean())
            tags[f"Environment/Mean Drawn/{name}"] = float(regions.middles @ regions.shares)
        return tags

    def status(self) -> dict[str, dict[str, Any]]:
        sections = {}
        for name, regions in self.parts.items():
            sections[name] = {
                "lesson": _likeliest(regions),
                "measure": f"progress of {regions.block.measure}",
                "value": float(regions.progress.max()),
                "episodes_left": regions.episodes_left,
                "shares": regions.shares.tolist(),
            }
        return sections

    def state_dict(self) -> dict[str, Any]:
        return {"regions": super().state_dict(), "order": self.order.state_dict()}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        super().load_state_dict(state["regions"])
        self.order.load_state_dict(state["order"])
        self._use_shares()


def _likeliest(regions: Regions) -> str:
    """Return the region with the largest share."""
    low, high = regions.block.limits
    width = (high - low) / regions.block.bins
    region = int(regions.shares.argmax())
    begin = low + region * width
    end = low + (region + 1) * width
    return f"[{begin:g}, {end:g}]"
