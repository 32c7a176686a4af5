"""What the curricula that adapt to the agent have in common.

K episodes, P parameters of one curriculum.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any, Protocol

import attrs
import numpy as np
from numpy.typing import NDArray

from rlcore.curricula.episodes_in_order import EpisodesInOrder
from rlcore.curriculum import Changes, EndedEpisodes
from rlcore.errors import ConfigError, RunStateError, did_you_mean
from rlcore.seeding import EpisodeUniforms
from rlcore.stats import StatSummary
from rlcore_curriculum.adaptive_settings import AdaptiveSettings, Bounds
from rlcore_curriculum.criterion_settings import GROUP_REWARD, CriterionSettings
from rlcore_curriculum.statistics_seen import StatisticsSeen

Array = NDArray[np.float64]


@attrs.define(eq=False)
class Episodes:
    """K episodes of one behavior that are over."""

    behavior: str
    returns: Array  # [K]
    group_returns: Array  # [K]
    lengths: Array  # [K]
    draw_id: NDArray[np.int64]  # [K, P]


def measures_of(episodes: EndedEpisodes | Episodes, settings: AdaptiveSettings) -> Array | None:
    """What the settings go by of each episode, [K]; None if they go by another behavior's."""
    if settings.behavior is not None and settings.behavior != episodes.behavior:
        return None
    if settings.measure == "length":
        return episodes.lengths.astype(np.float64)
    if settings.measure == GROUP_REWARD:
        return episodes.group_returns
    return episodes.returns


class InOrder:
    """Episodes in the order in which they began, each behavior's by themselves.

    Of many copies that begin together the shortest episodes end first: their mean is not the agent's.
    """

    def __init__(self, blocks: Mapping[str, AdaptiveSettings], num_envs: int) -> None:
        self._followed = {block.behavior for block in blocks.values()}
        self._width = 3 + len(blocks)
        self._num_envs = num_envs
        self._orders: dict[str, EpisodesInOrder] = {}  # with default_settings, the environment says whose there are

    def add(self, ended: EndedEpisodes, rows: NDArray[np.intp] | None = None) -> Episodes | None:
        """Takes those in ``rows`` of what ended, or all; returns those whose turn has come, None if no one's has."""
        if self._followed.isdisjoint((None, ended.behavior)):
            return None
        order = self._order_of(ended.behavior)
        columns: tuple[NDArray[Any], ...] = (ended.returns, ended.group_returns, ended.lengths, ended.draw_id)
        if rows is None:
            order.add(ended.numbers, *columns)
        elif rows.size:
            order.add(ended.numbers[rows], *[column[rows] for column in columns])
        over = order.pop(ended.settled)
        if over is None:
            return None
        return Episodes(ended.behavior, over[:, 0], over[:, 1], over[:, 2], over[:, 3:].astype(np.int64))

    def _order_of(self, behavior: str) -> EpisodesInOrder:
        if behavior not in self._orders:
            self._orders[behavior] = EpisodesInOrder(self._width, self._num_envs)
        return self._orders[behavior]

    def state_dict(self) -> dict[str, Any]:
        return {behavior: order.state_dict() for behavior, order in self._orders.items()}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """That of one with as many copies."""
        for behavior, saved in state.items():
            self._order_of(behavior).load_state_dict(saved)


class Ranges:
    """P ranges to draw from evenly; those of whole numbers hold both their ends."""

    def __init__(self, bounds: Sequence[Bounds], integer: Sequence[bool]) -> None:
        self.integer: NDArray[np.bool_] = np.array(integer, np.bool_)  # [P]
        self._any_integer = any(integer)
        self.set_bounds(bounds)

    def set_bounds(self, bounds: Sequence[Bounds] | Array) -> None:
        """Draws from other ranges, [P, 2]."""
        self.bounds: Array = np.array(bounds, np.float64)  # [P, 2]
        self._low, self._high = self.bounds.T.copy()
        self.spans: Array = self._high - self._low + self.integer  # [P] widths, or how many whole numbers

    def draw(self, uniforms: Array) -> Array:
        """Values [K, P] from numbers in [0, 1), [K, P]."""
        values: Array = uniforms * self.spans
        values += self._low
        if self._any_integer:
            np.floor(values, out=values, where=self.integer)
        # Rounding may reach what a number below 1 does not.
        np.minimum(values, self._high, out=values)
        return values


def streams_of(parameters: Sequence[str]) -> list[str]:
    """The names of the parameters' random streams."""
    return [f"parameters/{name}" for name in parameters]


@attrs.define(eq=False)
class AdaptiveCurriculum:
    """The methods of a curriculum that adaptive ones need not think about."""

    parameters: tuple[str, ...]  # P
    blocks: Mapping[str, AdaptiveSettings]  # by parameter
    uniforms: EpisodeUniforms
    targets: Ranges
    every_step: bool = attrs.field(default=False, init=False)
    _shared: StatisticsSeen | None = attrs.field(default=None, init=False)  # None before the first look

    def draw_target(self, env_index: NDArray[np.int64], episodes: NDArray[np.int64]) -> Array:
        drawn = self.uniforms(env_index, episodes)[:, : len(self.parameters), -1]
        return self.targets.draw(drawn)

    def advance(self, steps: Mapping[str, int]) -> Changes:
        """ConfigError, at the first look, for behaviors that there are not."""
        if self._shared is None:
            self._shared = group_rewards(self.blocks, steps)
        return self.look()

    def look(self) -> Changes:
        """What the episodes that ended since bring about."""
        raise NotImplementedError

    def summarised(self, behavior: str, stats: Mapping[str, StatSummary]) -> None:
        """ConfigError for a block that goes by what groups share where nobody shares; episodes say the rest."""
        if self._shared is not None:
            self._shared.summarised(behavior, stats)


class Part(Protocol):
    """What a curriculum knows of one parameter."""

    def shape(self) -> dict[str, Any]:
        """The settings that say what a state means."""
        ...

    def state_dict(self) -> dict[str, Any]: ...

    def load_state_dict(self, state: Mapping[str, Any]) -> None: ...


@attrs.define(eq=False)
class SeparateCurriculum(AdaptiveCurriculum):
    """One that takes each parameter by itself, and whose knowledge is of this agent alone."""

    def parts(self) -> Mapping[str, Part]:
        """By parameter."""
        raise NotImplementedError

    def load_status(self, sections: Mapping[str, Any]) -> None:
        """What was seen in another run says nothing of this agent."""

    def state_dict(self) -> dict[str, Any]:
        return {name: part.state_dict() for name, part in self.parts().items()}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        for name, part in self.parts().items():
            refuse_other(name, state[name]["shape"], part.shape())
        for name, part in self.parts().items():
            part.load_state_dict(state[name])


def group_rewards(blocks: Mapping[str, AdaptiveSettings], behaviors: Collection[str]) -> StatisticsSeen:
    """What tells whether there are the shared rewards that blocks go by. ``behaviors`` are those that there are.

    ConfigError for a block that goes by another one, or does not say by whose episodes of several: with
    ``default_settings``, only the environment knows.
    """
    there = ", ".join(behaviors)
    criteria = {}
    for name, block in blocks.items():
        called, names = f"environment_parameters.{name}", behaviors if block.behavior is None else (block.behavior,)
        if len(names) > 1:
            raise ConfigError(f"{called}.curriculum.behavior: missing; whose episodes count? One of {there}")
        for behavior in names:
            if behavior not in behaviors:
                raise ConfigError(
                    f"{called} goes by an unknown behavior, {behavior!r}{did_you_mean(behavior, behaviors)} "
                    f"(there is {there})"
                )
            if block.measure == GROUP_REWARD:
                criteria[called] = CriterionSettings(behavior=behavior, measure=GROUP_REWARD)
    return StatisticsSeen(criteria, evaluates=False)


def refuse_other(parameter: str, saved: Mapping[str, Any], ours: Mapping[str, Any]) -> None:
    """RunStateError for a state of settings that shaped it in another way, with the first that differs."""
    for key, value in ours.items():
        if saved.get(key) != value:
            raise RunStateError(
                f"environment_parameters.{parameter}.curriculum.{key}: the checkpoint has {saved.get(key)}, this "
                f"configuration {value}; resume with the configuration of the run"
            )
