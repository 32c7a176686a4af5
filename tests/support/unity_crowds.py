"""Worlds of the test player that are drawn, and cannot be learnt: see ``unity_worlds.py``."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import attrs
import numpy as np
from unity_contract import Action, Array, Behavior, Report, Sensor, World

EARLIER = 3  # messages in which a behavior of ``Crowd.later`` is listed without agents


@attrs.frozen
class Crowd:
    """Options of :class:`DrawnWorld`.

    Attributes:
        behaviors: Sensors and actions, by name. The first number of a vector is the agent's, the second its decision.
        agents: How many places for agents, of each behavior.
        shortest: Decisions of the shortest episode, the first not counted; -1 for agents that never decide.
        longest: Decisions of the longest.
        cut: The part of episodes that are interrupted.
        pause: The part of episodes after which the place is empty for some messages; after the others the next
            agent is in the message of the end.
        period: An agent decides in each message, or in each up to the ``period``-th.
        group: Places that are a group, whose episodes end together; 1 for none.
        early: The part of group members that leave earlier.
        masked: Whether options are forbidden.
        later: Behaviors that have no agent before that many messages. They are subscribed :data:`EARLIER` messages
            before that.
        until: Behaviors that have no new agent after that many messages.
        few: Only so many places of each behavior have agents before ``few_until`` messages; 0 for all.
        statistics: Whether messages have statistics.
        keeps: Whether agents keep their numbers over a reset, as Unity's do.
    """

    behaviors: Mapping[str, Behavior] = attrs.field(factory=lambda: {"Crowd": Behavior((Sensor("vector", (4,)),), 1)})
    agents: int = 4
    shortest: int = 1
    longest: int = 12
    cut: float = 0.3
    pause: float = 0.0
    period: int = 1
    group: int = 1
    early: float = 0.0
    masked: bool = False
    later: Mapping[str, int] = attrs.field(factory=dict)
    until: Mapping[str, int] = attrs.field(factory=dict)
    few: int = 0
    few_until: int = 0
    statistics: bool = False
    keeps: bool = True


@attrs.define(eq=False)
class Place:
    """A place for one agent after another."""

    behavior: str
    index: int
    group: int
    agent: int = 0
    length: int = 0  # decisions of the episode, the end not counted
    decisions: int = 0
    waits: int = 0  # messages until its next decision or, if it is empty, until its next agent
    empty: bool = True
    reward: float = 0.0
    leaves: bool = False
    cut: bool = False
    mask: Array | None = None


class DrawnWorld(World):
    """Agents that come, decide and leave when a generator says so."""

    def __init__(self, options: Crowd, seed: int) -> None:
        super().__init__(options.behaviors, seed)
        self.options = options
        self.messages = self.made = 0
        self.places: list[Place] = []
        self.parties: list[list[Place]] = []  # whose episodes end together
        for name in self.behaviors:
            for first in range(0, options.agents, options.group):
                group = 1 + first // options.group if options.group > 1 else 0
                members = range(first, min(first + options.group, options.agents))
                self.parties.append([Place(name, index, group) for index in members])
                self.places += self.parties[-1]

    def reset(self) -> list[Report]:
        kept = [(place, place.agent) for place in self.places if not place.empty and self.options.keeps]
        for party in self.parties:
            if self._open(party[0]):
                self._begin(party)
                for place in party:
                    place.length = max(0, place.length)
        for place, agent in kept:
            place.agent = agent
        self.messages += 1
        return [self._report(place) for place in self.places if not place.empty]

    def step(self, actions: Mapping[int, Action]) -> list[Report]:
        for place in self.places:
            if not place.empty and place.agent in actions:
                place.reward += self._reward(place, actions[place.agent])
        reports: list[Report] = []
        while not reports:
            self.messages += 1
            reports = [report for party in self.parties for report in self._advance(party)]
        if self.options.statistics:
            drawn = self.generator.random(4).astype(np.float32)
            self.statistics += [(f"Crowd/{kind}", float(drawn[kind]), kind) for kind in range(4)]
        return reports

    def subscribed(self) -> Iterable[str]:
        return [name for name in self.behaviors if self.messages + EARLIER >= self.options.later.get(name, 0)]

    def _begin(self, party: list[Place]) -> None:
        options = self.options
        length = int(self.generator.integers(options.shortest, options.longest + 1))
        cut = bool(self.generator.random() < options.cut)
        for place in party:
            self.made += 1
            place.agent = self.made
            place.decisions = place.waits = 0
            place.reward = 0.0
            place.empty = False
            place.leaves = options.group > 1 and place is not party[0] and self.generator.random() < options.early
            place.cut = cut and not place.leaves
            place.length = int(self.generator.integers(0, length)) if place.leaves else length

    def _advance(self, party: list[Place]) -> list[Report]:
        first = party[0]
        if all(place.empty for place in party):
            first.waits -= 1
            if first.waits > 0 or not self._open(first):
                return []
            return self._arrive(party)
        occupied = [place for place in party if not place.empty]
        for place in occupied:
            place.waits -= 1
        deciding = [place for place in occupied if place.waits <= 0]
        for place in deciding:
            place.decisions += 1
        over = any(place.decisions > place.length and not place.leaves for place in deciding)
        reports = []
        for place in occupied:
            ends = over or (place in deciding and place.decisions > place.length)
            if ends or place in deciding:
                reports.append(self._report(place, ends))
                place.empty = ends
        if all(place.empty for place in party):
            if self.generator.random() < self.options.pause or not self._open(first):
                first.waits = int(self.generator.integers(2, 6))
            else:
                reports += self._arrive(party)
        return reports

    def _open(self, first: Place) -> bool:
        """Whether agents of a party may come now; ``first`` is its first place."""
        options = self.options
        behavior = first.behavior
        if options.few and first.index >= options.few and self.messages < options.few_until:
            return False
        return options.later.get(behavior, 0) <= self.messages <= options.until.get(behavior, self.messages)

    def _arrive(self, party: list[Place]) -> list[Report]:
        """Begin the episodes of a party, and return the first reports."""
        self._begin(party)
        reports = [self._report(place, place.length < 0) for place in party]
        for place in party:
            place.empty = place.length < 0
        return reports

    def _reward(self, place: Place, action: Action) -> float:
        """A reward that shows which action came here."""
        self.behaviors[place.behavior].check(action, place.mask, place.agent)
        options = sum(number * option for number, option in enumerate(action.discrete, start=1))
        return float(np.float32(sum(action.continuous) + options))

    def _report(self, place: Place, done: bool = False) -> Report:
        behavior = self.behaviors[place.behavior]
        generator = self.generator
        place.waits = int(generator.integers(1, self.options.period + 1))
        place.mask = None
        if self.options.masked and behavior.branches and not done:
            place.mask = generator.random(sum(behavior.branches)) < 0.5
            for end, options in zip(np.cumsum(behavior.branches), behavior.branches, strict=True):
                place.mask[end - generator.integers(1, options + 1)] = False
        reward = place.reward
        place.reward = 0.0
        sees = tuple(self._look(sensor, place) for sensor in behavior.sensors)
        shared = float(generator.integers(-4, 5)) / 4 if place.group else 0.0
        cut = done and place.cut
        return Report(place.behavior, place.agent, sees, reward, done, cut, place.mask, place.group, shared)

    def _look(self, sensor: Sensor, place: Place) -> Array:
        if sensor.kind == "image":
            return self.generator.integers(0, 256, sensor.shape, np.uint8)
        numbers = self.generator.standard_normal(sensor.shape).astype(np.float32)
        if sensor.kind == "entities":
            numbers[self.generator.integers(0, len(numbers) + 1) :] = 0
        elif len(numbers) > 2 and not sensor.goal:
            numbers[:2] = place.agent, place.decisions
        return numbers


class FastWorld(World):
    """Agents of one behavior whose messages are drawn once; :class:`unity_player.Player` sends them in turn."""

    LENGTH = 64  # messages

    def __init__(self, agents: int, seed: int) -> None:
        super().__init__({"Fast?team=0": Behavior((Sensor("vector", (8,)),), 2)}, seed)
        self.agents = agents
        self.turn = 0

    def reset(self) -> list[Report]:
        self.turn = 0
        return self._drawn()

    def step(self, actions: Mapping[int, Action]) -> list[Report]:
        self.turn += 1
        if self.turn % self.LENGTH:
            return self._drawn()
        return self._drawn(done=True) + self._drawn()

    def _drawn(self, done: bool = False) -> list[Report]:
        first = 1 + (self.turn - done) // self.LENGTH % 2 * self.agents
        drawn = self.generator.standard_normal((self.agents, 8)).astype(np.float32)
        return [Report("Fast?team=0", first + index, (row,), 0.5, done) for index, row in enumerate(drawn)]


def crowd_of(options: Mapping[str, Any]) -> Crowd:
    """Read the options from JSON."""
    behaviors = {}
    for name, each in options.get("behaviors", {}).items():
        sensors = tuple(Sensor(**sensor) for sensor in each.get("sensors", ()))
        behaviors[name] = Behavior(sensors, each.get("continuous", 0), each.get("branches", ()))
    return Crowd(**{**options, **({"behaviors": behaviors} if behaviors else {})})
