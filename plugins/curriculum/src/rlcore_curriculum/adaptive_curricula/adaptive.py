"""Common parts of the curricula that adapt to the agent.

K episodes, P parameters of one curriculum.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, Generic, TypeVar

import attrs
import numpy as np
from numpy.typing import NDArray

from rlcore import (
    NO_CHANGES,
    Changes,
    ConfigError,
    EndedEpisodes,
    KeyPath,
    RunStateError,
    StatSummary,
    saved_count,
)
from rlcore_curriculum.adaptive_curricula.adaptive_settings import AdaptiveSettings, Bounds
from rlcore_curriculum.arrays import Bools, Floats, Ints
from rlcore_curriculum.criterion_settings import GROUP_REWARD, CriterionSettings
from rlcore_curriculum.episode_table import EpisodeUniforms
from rlcore_curriculum.episodes_in_order import EpisodesInOrder
from rlcore_curriculum.statistics_seen import StatisticsSeen

if TYPE_CHECKING:
    from rlcore import RunContext

Settings = TypeVar("Settings", bound=AdaptiveSettings)


@attrs.define(eq=False)
class Episodes:
    """K ended episodes of one behavior."""

    behavior: str
    returns: Floats  # [K]
    group_returns: Floats  # [K]
    lengths: Floats  # [K]
    draw_id: Ints  # [K, P]


def measures_of(episodes: EndedEpisodes | Episodes, settings: AdaptiveSettings) -> Floats | None:
    """Return the measure of each episode, [K]; None if the settings use another behavior."""
    if settings.behavior is not None and settings.behavior != episodes.behavior:
        return None
    if settings.measure == "length":
        return episodes.lengths.astype(np.float64)
    if settings.measure == GROUP_REWARD:
        return episodes.group_returns
    return episodes.returns


class InOrder:
    """Returns episodes in the order of their starts, separately for each behavior.

    If many environments start together, the shortest episodes end first: their mean is not the agent's mean.
    """

    def __init__(self, blocks: Mapping[str, AdaptiveSettings], num_envs: int) -> None:
        self._followed = {block.behavior for block in blocks.values()}
        # With default_settings, only the environment knows the behaviors.
        width = 3 + len(blocks)  # returns, group returns, lengths, and a draw_id for each parameter
        new_order = partial(EpisodesInOrder, width, num_envs)
        self._orders = defaultdict[str, EpisodesInOrder](new_order)

    def add(self, ended: EndedEpisodes, rows: Ints | None = None) -> Episodes | None:
        """Add the episodes in ``rows``, or all. Return the episodes whose turn has come, or None."""
        if self._followed.isdisjoint((None, ended.behavior)):
            return None
        order = self._orders[ended.behavior]
        columns: tuple[NDArray[Any], ...] = (
            ended.returns,
            ended.group_returns,
            ended.lengths,
            ended.draw_id,
        )
        if rows is None:
            order.add(ended.numbers, *columns)
        elif rows.size:
            chosen = [column[rows] for column in columns]
            order.add(ended.numbers[rows], *chosen)
        over = order.pop(ended.settled)
        if over is None:
            return None
        returns, group_returns, lengths = over.T[:3]
        draw_id = over[:, 3:].astype(np.int64)
        return Episodes(ended.behavior, returns, group_returns, lengths, draw_id)

    def state_dict(self) -> dict[str, Any]:
        return {behavior: order.state_dict() for behavior, order in self._orders.items()}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore a state with equal num_envs."""
        for behavior, saved in state.items():
            self._orders[behavior].load_state_dict(saved)


class Ranges:
    """P ranges for uniform draws; a range of whole numbers includes both bounds."""

    def __init__(self, bounds: Sequence[Bounds], integer: Sequence[bool]) -> None:
        self.integer: Bools = np.array(integer, np.bool_)  # [P]
        self._any_integer = any(integer)
        self.set_bounds(bounds)

    def set_bounds(self, bounds: Sequence[Bounds] | Floats) -> None:
        """Replace the ranges, [P, 2]."""
        self.bounds: Floats = np.array(bounds, np.float64)  # [P, 2]
        self._low, self._high = self.bounds.T.copy()
        self.spans: Floats = self._high - self._low + self.integer  # [P] widths, or the number of whole numbers

    def draw(self, uniforms: Floats) -> Floats:
        """Convert numbers [K, P] from [0, 1) into values [K, P]."""
        values: Floats = uniforms * self.spans
        values += self._low
        if self._any_integer:
            np.floor(values, out=values, where=self.integer)
        # Rounding can reach the upper bound although the numbers are below 1.
        np.minimum(values, self._high, out=values)
        return values


class AdaptiveCurriculum(Generic[Settings]):
    """The common parts of adaptive curricula, each for all parameters of one kind.

    Attributes:
        parameters: The names of the P parameters.
        blocks: The settings, by parameter.
        uniforms: Random numbers of each episode, a row for each parameter.
        targets: What evaluations play.
    """

    every_step = False

    def __init__(
        self, settings: Mapping[str, Settings], run: RunContext, width: int = 1, others: Sequence[str] = ()
    ) -> None:
        """``width`` numbers are drawn for each parameter, and for each of the streams ``others``."""
        streams = [*(f"parameters/{name}" for name in settings), *others]
        self.parameters = tuple(settings)
        self.blocks = settings
        self.uniforms = EpisodeUniforms(run.seed, streams, run.num_envs, width=width)
        blocks: Any = settings.values()  # all have `integer`, as a setting or a constant
        ranges = [block.target_range for block in blocks]
        integer = [block.integer for block in blocks]
        self.targets = Ranges(ranges, integer)
        self._shared: StatisticsSeen | None = None  # None before the first check

    def draw_target(self, env_index: Ints, episodes: Ints) -> Floats:
        uniforms = self.uniforms(env_index, episodes)
        of_parameters = uniforms[:, : len(self.blocks), -1]  # without other streams
        return self.targets.draw(of_parameters)

    def advance(self, steps: Mapping[str, int]) -> Changes:
        """Return the changes since the last call. The first call raises ConfigError for unknown behaviors."""
        if self._shared is None:
            self._shared = group_rewards(self.blocks, steps)
        return self.changes_due()

    def changes_due(self) -> Changes:
        """Return the changes that the ended episodes cause."""
        raise NotImplementedError

    def summarised(self, behavior: str, stats: Mapping[str, StatSummary]) -> None:
        """Raise ConfigError if a block measures group rewards that the environment does not have."""
        if self._shared is not None:
            self._shared.summarised(behavior, stats)


class Part:
    """The knowledge of a curriculum about one parameter. Its draws follow after ``block.refresh`` more episodes."""

    shaping: ClassVar[tuple[str, ...]]  # the settings that define the meaning of the state

    def __init__(self, block: Any) -> None:
        self.block = block
        self.counted = 0  # episodes since the last refresh

    @property
    def episodes_left(self) -> int:
        """Episodes until the next refresh."""
        refresh: int = self.block.refresh
        return max(refresh - self.counted, 0)

    def refresh(self) -> None:
        """Draw according to all episodes so far."""
        raise NotImplementedError

    def state_dict(self) -> dict[str, Any]:
        return {"shape": shape_of(self.block, self.shaping), "counted": self.counted}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        self.counted = saved_count(state, "counted")


AnyPart = TypeVar("AnyPart", bound=Part)


class SeparateCurriculum(AdaptiveCurriculum[Settings], Generic[Settings, AnyPart]):
    """A curriculum that handles each parameter separately, with a state that is specific to the agent."""

    def __init__(self, settings: Mapping[str, Settings], run: RunContext, part: type[AnyPart]) -> None:
        super().__init__(settings, run, width=2)
        self.parts = {name: part(block) for name, block in settings.items()}

    def changes_due(self) -> Changes:
        redraw = False
        for part in self.parts.values():
            if part.counted >= part.block.refresh:
                part.refresh()
                redraw = True
        return Changes(redraw=True) if redraw else NO_CHANGES

    def load_status(self, sections: Mapping[str, Any]) -> None:
        """Ignore the status of another run: it describes another agent."""

    def state_dict(self) -> dict[str, Any]:
        return {name: part.state_dict() for name, part in self.parts.items()}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        for name, part in self.parts.items():
            ours = shape_of(part.block, part.shaping)
            refuse_other(name, state[name]["shape"], ours)
        for name, part in self.parts.items():
            part.load_state_dict(state[name])


def group_rewards(blocks: Mapping[str, AdaptiveSettings], behaviors: Collection[str]) -> StatisticsSeen:
    """Return the check for the group rewards that blocks measure. ``behaviors`` are the environment's behaviors.

    Raises ConfigError for a block with an unknown behavior, or without a behavior if there are several: with
    ``default_settings``, only the environment knows the behaviors.
    """
    criteria: dict[KeyPath, CriterionSettings] = {}
    for name, block in blocks.items():
        path: KeyPath = ("environment_parameters", name, "curriculum")
        problem = block.behavior_problem(behaviors)
        if problem:
            raise ConfigError(problem, key=(*path, "behavior"))
        measured = behaviors if block.behavior is None else (block.behavior,)
        for behavior in measured:
            if block.measure == GROUP_REWARD:
                criteria[path] = CriterionSettings(behavior=behavior, measure=GROUP_REWARD)
    return StatisticsSeen(criteria, evaluates=False)


def shape_of(block: AdaptiveSettings, names: Sequence[str]) -> dict[str, Any]:
    """Return the settings ``names``, which define the meaning of a saved state."""
    shape = {}
    for name in names:
        value = getattr(block, name)
        shape[name] = list(value) if isinstance(value, tuple) else value  # as JSON returns it
    return shape


def refuse_other(parameter: str, saved: Mapping[str, Any], ours: Mapping[str, Any]) -> None:
    """Raise RunStateError with the first setting that differs from the settings of the saved state."""
    for key, value in ours.items():
        of_checkpoint = saved.get(key)
        if of_checkpoint != value:
            raise RunStateError(
                f"environment_parameters.{parameter}.curriculum.{key}: the checkpoint has {of_checkpoint}, this "
                f"configuration {value}; resume with the configuration of the run"
            )
