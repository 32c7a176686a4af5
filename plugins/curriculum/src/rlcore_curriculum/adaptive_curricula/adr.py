"""Automatic domain randomization (OpenAI et al. 2019, arXiv:1910.07113, algorithms 1 and 2).

A parameter is drawn uniformly from a range that starts small. In a share of the episodes, one parameter has one of
its bounds as value instead. After enough episodes at a bound, their mean moves the bound: outward by a step if it is
at least the upper threshold, inward if it is at most the lower threshold. Then the count restarts. Episodes count in
the order of their starts: in the order of their ends, short episodes come first, and if successes are shorter than
failures, any range would widen.

Rules that the paper leaves open: a range stays within its limits and never becomes smaller than at the start; a bound
that cannot move is not played; an episode that started before its bound moved does not count.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from statistics import fmean
from typing import TYPE_CHECKING, Any

import attrs
import numpy as np

from rlcore import (
    NO_CHANGES,
    Changes,
    EndedEpisodes,
    EpisodeDraw,
    RunStateError,
    fill,
    saved_array,
    saved_bool,
    saved_count,
    saved_entry,
    saved_float,
    saved_mapping,
)
from rlcore_curriculum.adaptive_curricula.adaptive import (
    AdaptiveCurriculum,
    InOrder,
    Ranges,
    measures_of,
    refuse_other,
    shape_of,
)
from rlcore_curriculum.adaptive_curricula.adaptive_settings import shown
from rlcore_curriculum.adaptive_curricula.adr_settings import AdrSettings
from rlcore_curriculum.arrays import Ints

if TYPE_CHECKING:
    from rlcore import RunContext

LOW = 0
HIGH = 1
# Bounds are compared with this tolerance, as a share of a step: sums of steps are not exact.
TOLERANCE = 1e-6


@attrs.define
class Bound:
    """One end of a parameter's range: ``steps`` steps outside its start, at most ``most``."""

    block: AdrSettings
    side: int  # LOW or HIGH
    steps: int = 0
    moves: int = 0  # since training started; shows which episodes started at the current bound
    measures: list[float] = attrs.field(factory=list)  # of the episodes at this bound since it was last judged
    judged: float | None = None  # the mean when it was last judged

    @property
    def start(self) -> float:
        return self.block.initial_range[self.side]

    @property
    def limit(self) -> float:
        return self.block.limits[self.side]

    @property
    def most(self) -> int:
        distance = abs(self.limit - self.start)
        return math.ceil(distance / self.block.step - TOLERANCE)

    @property
    def value(self) -> float:
        if self.steps == self.most:
            return self.limit
        distance = self.steps * self.block.step
        return self.start + math.copysign(distance, self.limit - self.start)

    def add(self, measure: float) -> bool:
        """Add an episode at this bound. Return whether the bound has moved."""
        self.measures.append(measure)
        if len(self.measures) < self.block.episodes:
            return False
        mean = fmean(self.measures)
        self.judged = mean
        self.measures.clear()
        steps = self.steps
        # Algorithm 1 of the paper, with steps counted outward at both ends.
        if mean >= self.block.upper_threshold:
            steps += 1
        if mean <= self.block.lower_threshold:
            steps -= 1
        if steps == self.steps or not 0 <= steps <= self.most:
            return False
        self.steps = steps
        self.moves += 1
        return True

    def state_dict(self) -> dict[str, Any]:
        return {
            "steps": self.steps,
            "moves": self.moves,
            "measures": list(self.measures),
            "judged": self.judged,
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        self.steps = saved_count(state, "steps")
        self.moves = saved_count(state, "moves")
        self.measures = [float(measure) for measure in saved_entry(state, "measures")]
        was_judged = saved_entry(state, "judged") is not None
        self.judged = saved_float(state, "judged") if was_judged else None


class AutomaticDomainRandomization(AdaptiveCurriculum[AdrSettings]):
    """Ranges of P parameters that widen with the abilities of the agent.

    The ``draw_id`` of an episode is 0 for a parameter that was not at a bound. Otherwise it is one more than
    the number of moves of the bound so far, and negative at the lower bound.
    """

    def __init__(self, settings: Mapping[str, AdrSettings], run: RunContext) -> None:
        super().__init__(settings, run, others=["curriculum/adr"])
        blocks = list(settings.values())
        self.pairs = {name: (Bound(block, LOW), Bound(block, HIGH)) for name, block in settings.items()}
        self.bounds = list(self.pairs.values())  # [P]
        self.order = InOrder(settings, run.num_envs)  # of the episodes at a bound
        ranges = [block.initial_range for block in blocks]
        integer = [block.integer for block in blocks]
        self.ranges = Ranges(ranges, integer)
        self._share = blocks[0].boundary_probability
        self._moved = False
        # Of the B bounds that can move: the column of the parameter, and the value and draw_id of episodes there.
        columns = []
        for column, pair in enumerate(self.bounds):
            columns += [column for bound in pair if bound.most > 0]
        self._columns = np.array(columns)
        movable = len(columns)
        self._values = np.zeros(movable)
        self._draw_ids: Ints = np.zeros(movable, np.int64)
        self._use_bounds()

    def draw(self, env_index: Ints, episodes: Ints) -> EpisodeDraw:
        uniforms = self.uniforms(env_index, episodes)[:, :, 0]  # [K, P + 1]
        values = self.ranges.draw(uniforms[:, :-1])
        draw_id = np.zeros(values.shape, np.int64)
        choice = uniforms[:, -1]
        rows = np.flatnonzero(choice < self._share)
        if rows.size:
            # A uniform number below the share is uniform within the share; rounding can reach the share.
            count = len(self._columns)
            within_share = choice[rows] * (count / self._share)
            bounds = within_share.astype(np.int64)
            np.minimum(bounds, count - 1, out=bounds)
            columns = self._columns[bounds]
            values[rows, columns] = self._values[bounds]
            draw_id[rows, columns] = self._draw_ids[bounds]
        return EpisodeDraw(values, draw_id)

    def episodes_ended(self, ended: EndedEpisodes) -> None:
        at_bounds, _ = ended.draw_id.nonzero()
        over = self.order.add(ended, at_bounds)
        if over is None:
            return
        rows, columns = over.draw_id.nonzero()
        measures_of_blocks = [measures_of(over, block) for block in self.blocks.values()]
        draw_ids = over.draw_id[rows, columns]
        for row, column, draw_id in zip(rows.tolist(), columns.tolist(), draw_ids.tolist(), strict=True):
            measures = measures_of_blocks[column]
            bound = self.bounds[column][HIGH if draw_id > 0 else LOW]
            started_here = abs(draw_id) == bound.moves + 1  # the bound has not moved since
            if measures is not None and started_here:
                self._moved |= bound.add(float(measures[row]))

    def changes_due(self) -> Changes:
        if not self._moved:
            return NO_CHANGES
        self._moved = False
        self._use_bounds()
        return Changes(redraw=True)

    def _use_bounds(self) -> None:
        """Draw from the current bounds."""
        ranges = [(low.value, high.value) for low, high in self.bounds]
        self.ranges.set_bounds(ranges)
        values = []
        draw_ids = []
        for pair in self.bounds:
            for bound, sign in zip(pair, (-1, 1), strict=True):
                if bound.most > 0:
                    values.append(bound.value)
                    draw_ids.append(sign * (bound.moves + 1))
        self._values[:] = values
        self._draw_ids[:] = draw_ids

    # ------------------------------------------------------------ statistics and status

    def stats(self) -> dict[str, float]:
        """Return the bounds, and the paper's entropy in nats per parameter if every range has a width."""
        tags: dict[str, float] = {}
        for name, (low, high) in zip(self.blocks, self.ranges.bounds.tolist(), strict=True):
            tags[f"Environment/ADR Low/{name}"] = low
            tags[f"Environment/ADR High/{name}"] = high
        if (self.ranges.spans > 0.0).all():
            entropies = np.log(self.ranges.spans)
            tags["Environment/ADR Entropy"] = float(entropies.mean())
        return tags

    def status(self) -> dict[str, dict[str, Any]]:
        sections = {}
        for name, (low, high) in self.pairs.items():
            sections[name] = self._section(self.blocks[name], low, high)
        return sections

    def _section(self, block: AdrSettings, low: Bound, high: Bound) -> dict[str, Any]:
        """Return the status of a parameter; ``value`` and ``episodes_left`` describe the bound that is judged next."""
        movable = [bound for bound in (low, high) if bound.most > 0]
        next_one = max(movable, key=lambda bound: len(bound.measures))
        return {
            "lesson": f"[{low.value:g}, {high.value:g}]",
            "low": low.value,
            "high": high.value,
            "measure": block.measure,
            "value": fmean(next_one.measures) if next_one.measures else next_one.judged,
            "threshold": block.upper_threshold,
            "episodes_left": block.episodes - len(next_one.measures),
        }

    def load_status(self, sections: Mapping[str, Any]) -> None:
        steps_of: list[tuple[Bound, int]] = []
        for name, pair in self.pairs.items():
            section = sections.get(name)
            if not isinstance(section, Mapping) or "low" not in section or "high" not in section:
                continue
            low = float(section["low"])
            high = float(section["high"])
            limits = self.blocks[name].limits
            if not limits[LOW] <= low <= high <= limits[HIGH]:
                raise RunStateError(
                    f"environment_parameters.{name}: the training status has the range {shown((low, high))}, the "
                    f"limits of this configuration are {shown(limits)}"
                )
            for bound, value in zip(pair, (low, high), strict=True):
                steps_of.append((bound, _steps_to(bound, value)))
        # All sections are checked before the first bound moves.
        for bound, steps in steps_of:
            bound.steps = steps
        self._use_bounds()

    # ------------------------------------------------------------ state

    def state_dict(self) -> dict[str, Any]:
        parameters = {}
        for name, (low, high) in self.pairs.items():
            parameters[name] = {
                "shape": _shape(self.blocks[name]),
                "low": low.state_dict(),
                "high": high.state_dict(),
            }
        return {
            "parameters": parameters,
            "order": self.order.state_dict(),
            "moved": self._moved,
            "drawn_from": {
                "bounds": self.ranges.bounds.copy(),
                "values": self._values.copy(),
                "draw_ids": self._draw_ids.copy(),
            },
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        saved = state["parameters"]
        for name, block in self.blocks.items():
            refuse_other(name, saved[name]["shape"], _shape(block))
        for name, (low, high) in self.pairs.items():
            low.load_state_dict(saved[name]["low"])
            high.load_state_dict(saved[name]["high"])
        self.order.load_state_dict(state["order"])
        self._moved = saved_bool(state, "moved")
        drawn_from = saved_mapping(state, "drawn_from")
        bounds = saved_array(drawn_from, "bounds", np.float64, self.ranges.bounds.shape)
        self.ranges.set_bounds(bounds)
        fill(self._values, drawn_from, "values")
        fill(self._draw_ids, drawn_from, "draw_ids")


def _steps_to(bound: Bound, value: float) -> int:
    """Return the smallest number of steps after which the bound reaches ``value``."""
    direction = math.copysign(1.0, bound.limit - bound.start)
    outward = direction * (value - bound.start)
    steps = math.ceil(outward / bound.block.step - TOLERANCE)
    return min(max(steps, 0), bound.most)


def _shape(block: AdrSettings) -> dict[str, Any]:
    """Return the settings that define the meaning of a saved number of steps."""
    shape = shape_of(block, ("limits", "step", "integer"))
    return {"initial": list(block.initial_range), **shape}
