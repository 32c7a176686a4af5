"""The contract of worlds of the test player: sensors and actions of behaviors, reports of agents, and parameters."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Literal

import attrs
import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]
Kind = Literal["vector", "image", "entities"]
AVERAGE, MOST_RECENT, SUM, HISTOGRAM = range(4)  # of statistics


@attrs.frozen
class Sensor:
    """One observation of an agent.

    Attributes:
        name: Its name in Unity.
        shape: (size,), (height, width, channels) or (entities, size).
        kind: What it is.
        png: Whether images are PNG files; else they are float32 from 0 to 1.
        mapping: For each channel of the PNG files, three in each, the channel of the image or -1. Nothing sends none,
            as packages before 1.3 do.
        goal: Whether it is a goal signal.
    """

    name: str
    shape: tuple[int, ...] = attrs.field(converter=tuple)
    kind: Kind = "vector"
    png: bool = True
    mapping: tuple[int, ...] | None = attrs.field(default=None, converter=attrs.converters.optional(tuple))
    goal: bool = False


@attrs.frozen
class Behavior:
    """Sensors and actions of the agents of one behavior."""

    sensors: tuple[Sensor, ...]
    continuous: int = 0
    branches: tuple[int, ...] = attrs.field(converter=tuple, default=())

    def check(self, action: Action, mask: Array | None, agent: int) -> None:
        """Raise ForbiddenAction for an option that the mask of the agent forbids."""
        start = 0
        for option, options in zip(action.discrete, self.branches, strict=True):
            if mask is not None and mask[start + option]:
                raise ForbiddenAction(f"option {option} is forbidden for agent {agent}")
            start += options


@attrs.define
class Report:
    """One agent in one message: what it sees, and what it got since its last decision.

    Attributes:
        behavior: Its behavior.
        agent: Its number.
        sees: An array for each sensor; images uint8.
        done: Whether its episode ends; then it gets no action.
        cut: Whether that is an interruption.
        mask: Options that are forbidden, of all branches one after another.
        group: The number of its group, 0 for none.
    """

    behavior: str
    agent: int
    sees: tuple[Array, ...]
    reward: float = 0.0
    done: bool = False
    cut: bool = False
    mask: Array | None = None
    group: int = 0
    group_reward: float = 0.0


@attrs.frozen
class Action:
    """The action of an agent as Unity gets it."""

    continuous: tuple[float, ...] = ()
    discrete: tuple[int, ...] = ()


class ForbiddenAction(Exception):
    """An action that the agent's mask forbids."""


class Parameters:
    """Environment parameters: numbers, and samplers that Unity draws from.

    Attributes:
        settings: What Python set, by key: ("value", 1.0), or ("uniform", seed, 0.0, 1.0).
    """

    def __init__(self) -> None:
        self.settings: dict[str, tuple[Any, ...]] = {}
        self._generators: dict[str, np.random.Generator] = {}

    def set(self, key: str, *parts: Any) -> None:
        self.settings[key] = parts
        if parts[0] != "value":
            self._generators[key] = np.random.default_rng(parts[1] & 0xFFFFFFFF)

    def get(self, key: str, default: float) -> float:
        kind, *numbers = self.settings.get(key, ("value", default))
        if kind == "value":
            return float(numbers[0])
        generator = self._generators[key]
        bounds = numbers[1:]
        if kind == "gaussian":
            return float(generator.normal(*bounds))
        ranges = [bounds] if kind == "uniform" else np.reshape(bounds[0], (-1, 2))
        return float(generator.uniform(*ranges[generator.integers(len(ranges))]))


class World:
    """The game of a player.

    Attributes:
        behaviors: By their full names, such as ``Duel?team=0``.
        parameters: Set by the player before a reset and before each step.
        statistics: What the next message tells: name, value, aggregation. The player empties it.
        generator: Draws what happens.
    """

    def __init__(self, behaviors: Mapping[str, Behavior], seed: int) -> None:
        self.behaviors = behaviors
        self.parameters = Parameters()
        self.statistics: list[tuple[str, float, int]] = []
        self.generator = np.random.default_rng(seed)

    def reset(self) -> list[Report]:
        """Begin all episodes."""
        raise NotImplementedError

    def step(self, actions: Mapping[int, Action]) -> list[Report]:
        """Let the agents act, of which each had a report that was not done."""
        raise NotImplementedError

    def subscribed(self) -> Iterable[str]:
        """The behaviors that agents have, or had: each message lists them, whether one of their agents reports or not.

        Unity subscribes a behavior where an agent is enabled with it, or gets it by ``SetModel``, before the agent
        asks for a decision. It never takes one back.
        """
        return self.behaviors
