"""Worlds of the test player (``unity_player.py``), by name: what its agents see, and what becomes of their actions.

Worlds that can be learnt. An agent walks from 0 to -1 or to 1 in steps of at most 0.2, along one line for each part of
its action, and sees in all its sensors which end is its goal. Its reward is -0.01 for each decision, and at the end how
right it was, from -1 to 1 (mean over lines). After 50 decisions its episode is cut off.

===============  ==============  =======================================================================================
name             behaviors       what is there
===============  ==============  =======================================================================================
``continuous``   Reach           a vector; one real action
``discrete``     Choose          a vector; one branch of two options
``hybrid``       Mixed           a vector; one real action and one branch
``masked``       Masked          a vector; one branch of five options of which one or two are allowed. A forbidden
                                 option ends the player with an error
``visual``       Look            an image of 20 x 20 x 3 (PNG), one branch
``entities``     Sort            up to ten entities of five numbers, and a goal signal; one branch
``lessons``      Lessons         as ``continuous``; the ends are at -size and size, an environment parameter. Default 1
``teams``        Duel?team=0, 1  two agents face each other for five decisions; who is more right wins: 1, -1 or 0
``groups``       Rescue          groups of three. Who arrives leaves; the last one ends the group's episode, whose
                                 reward is the mean of the three
``two``          Reach, Choose   both behaviors of these worlds at once
===============  ==============  =======================================================================================

Worlds that cannot be learnt: what agents see, their rewards, and when they come and go, is drawn (:class:`Crowd`).

===============  =======================================================================================================
``crowd``        the options of Crowd as JSON: ``--world 'crowd:{"agents": 1000, "pause": 0.3}'``
``scene:NAME``   an example scene of ML-Agents, with the messages that Unity sends of it (``unity_scenes.py``)
``fast``         behavior Fast: a vector of eight numbers, two real actions. Messages are made once and sent in turn, so
                 that a measurement of a server's speed does not measure this player
===============  =======================================================================================================

``--behavior NAME`` gives the first behavior of a world another name (``NAME,NAME`` the first two), and ``--size NAME``
the parameter ``size``.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any, Literal, Protocol

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
    """Environment parameters: numbers, and samplers that Unity draws from."""

    def __init__(self) -> None:
        self.given: dict[str, tuple[Any, ...]] = {}  # ("value", 1.0), or ("uniform", seed, 0.0, 1.0)
        self._generators: dict[str, np.random.Generator] = {}

    def set(self, key: str, *parts: Any) -> None:
        self.given[key] = parts
        if parts[0] != "value":
            self._generators[key] = np.random.default_rng(parts[1] & 0xFFFFFFFF)

    def get(self, key: str, default: float) -> float:
        kind, *numbers = self.given.get(key, ("value", default))
        if kind == "value":
            return float(numbers[0])
        generator, (_, *bounds) = self._generators[key], numbers
        if kind == "gaussian":
            return float(generator.normal(*bounds))
        ranges = [bounds] if kind == "uniform" else [bounds[0][at : at + 2] for at in range(0, len(bounds[0]), 2)]
        return float(generator.uniform(*ranges[generator.integers(len(ranges))]))


class World(Protocol):
    """The game of a player.

    Attributes:
        behaviors: By their full names, such as ``Duel?team=0``.
        parameters: Set by the player before a reset and before each step.
        statistics: What the next message tells: name, value, aggregation. The player empties it.
    """

    behaviors: Mapping[str, Behavior]
    parameters: Parameters
    statistics: list[tuple[str, float, int]]

    def reset(self) -> list[Report]:
        """Begin all episodes."""

    def step(self, actions: Mapping[int, Action]) -> list[Report]:
        """Let the agents act, of which each had a report that was not done."""

    def subscribed(self) -> Iterable[str]:
        """The behaviors that agents have, or had: each message lists them, whether one of their agents reports or not.

        Unity subscribes a behavior where an agent is enabled with it, or gets it by ``SetModel``, before the agent
        asks for a decision. It never takes one back.
        """


# ------------------------------------------------------------ worlds that can be learnt

STEP, LONGEST = 0.2, 50
VECTOR = (Sensor("goal", (1,)),)
PICTURE = (Sensor("camera", (20, 20, 3), "image", mapping=(0, 1, 2)),)
ENTITIES = (Sensor("buffer", (10, 5), "entities"), Sensor("goal", (1,), goal=True))


@attrs.define(eq=False)
class Walker:
    """An agent that walks to an end of its lines.

    Attributes:
        given: What Python had given for the parameter when its episode began.
    """

    number: int
    goal: float
    size: float
    place: Array  # of each line
    decisions: int = 0
    mask: Array | None = None
    entities: int = 1
    gone: bool = False
    given: tuple[Any, ...] = ()

    @property
    def arrived(self) -> bool:
        return bool((np.abs(self.place) >= self.size - 1e-6).all())

    @property
    def right(self) -> float:
        """How right it is, from -1 to 1."""
        return float(np.mean(np.clip(self.place / self.size, -1, 1)) * self.goal)


class Goals:
    """Agents that walk to the goals they see; ``together`` of them are a group, or face each other in two teams.

    Attributes:
        sizes: The parameter of each episode that ended: the value that the agent read when the episode began, as in
            ``OnEpisodeBegin``, and whether Python gave another one, or another sampler, before its end.
    """

    def __init__(
        self,
        behaviors: Mapping[str, Behavior],
        agents: int,
        seed: int,
        *,
        together: int = 1,
        duel: bool = False,
        masked: bool = False,
        size: str = "size",
    ) -> None:
        self.behaviors, self.parameters, self.size = behaviors, Parameters(), size
        self.statistics: list[tuple[str, float, int]] = []
        self.duel, self.masked = duel, masked
        self.generator = np.random.default_rng(seed)
        self.agents, self.together = agents, together
        self.made = 0
        self.sizes: list[tuple[float, bool]] = []
        self.parties: list[list[tuple[str, Walker]]] = []

    def reset(self) -> list[Report]:
        names = list(self.behaviors)
        self.parties = []
        for party in range(max(1, self.agents // self.together)):
            members = names if self.duel else [names[party % len(names)]] * self.together
            self.parties.append([(name, self._walker(name)) for name in members])
        return [self._report(name, walker, group) for group, name, walker in self._there()]

    def step(self, actions: Mapping[int, Action]) -> list[Report]:
        reports = []
        for _, name, walker in self._there():
            self._move(name, walker, actions[walker.number])
        for group, party in enumerate(self.parties, 1):
            told, over = self._ends(party, group)
            reports += told
            if over:
                party[:] = [(name, self._walker(name)) for name, _ in party]
                reports += [self._report(name, walker, group) for name, walker in party]
        return reports

    def subscribed(self) -> Iterable[str]:
        return self.behaviors

    def _there(self) -> list[tuple[int, str, Walker]]:
        return [
            (group, name, walker)
            for group, party in enumerate(self.parties, 1)
            for name, walker in party
            if not walker.gone
        ]

    def _walker(self, name: str) -> Walker:
        self.made += 1
        behavior = self.behaviors[name]
        lines = behavior.continuous + len(behavior.branches)
        goal, size = float(self.generator.choice((-1.0, 1.0))), max(self.parameters.get(self.size, 1.0), STEP)
        entities, given = int(self.generator.integers(1, 11)), self.parameters.given.get(self.size, ())
        walker = Walker(self.made, goal, size, np.zeros(lines), entities=entities, given=given)
        self._forbid(walker, behavior)
        return walker

    def _forbid(self, walker: Walker, behavior: Behavior) -> None:
        if self.masked:
            walker.mask = np.ones(sum(behavior.branches), np.bool_)
            allowed = self.generator.choice(len(walker.mask), 2, replace=False)
            walker.mask[allowed[: self.generator.integers(1, 3)]] = False
            walker.mask[0 if walker.decisions % 2 else 1] = False  # a way is never blocked for long

    def _move(self, name: str, walker: Walker, action: Action) -> None:
        behavior = self.behaviors[name]
        ways = [float(np.clip(each, -1, 1)) * STEP for each in action.continuous]
        for branch, option in enumerate(action.discrete):
            if walker.mask is not None and walker.mask[sum(behavior.branches[:branch]) + option]:
                raise ForbiddenAction(f"option {option} of branch {branch} is forbidden for agent {walker.number}")
            ways.append((-STEP, STEP)[option] if option < 2 else 0.0)
        walker.place = np.clip(walker.place + ways, -walker.size, walker.size)
        walker.decisions += 1
        self._forbid(walker, behavior)

    def _ends(self, party: list[tuple[str, Walker]], group: int) -> tuple[list[Report], bool]:
        """The reports after a move, and whether the episode of all is over."""
        there = [(name, walker) for name, walker in party if not walker.gone]
        if self.duel:
            (_, one), (_, other) = party
            if one.decisions < 5:
                return [self._report(name, walker, group) for name, walker in there], False
            won = float(np.sign(round(one.right - other.right, 6)))
            self.statistics.append(("Duel/Draws", float(won == 0), AVERAGE))
            return [
                self._report(name, walker, group, reward=sign * won, done=True)
                for (name, walker), sign in zip(there, (1, -1), strict=True)
            ], True
        cut = there[0][1].decisions >= LONGEST
        for _, walker in there:
            walker.gone = cut or walker.arrived
            if walker.gone:
                self.sizes.append((walker.size, self.parameters.given.get(self.size, ()) != walker.given))
        over = all(walker.gone for _, walker in party)
        shared = float(np.mean([walker.right for _, walker in party])) if over and self.together > 1 else 0.0
        reports = []
        for name, walker in there:
            own = walker.right if walker.gone and self.together == 1 else -0.01
            interrupted = walker.gone and not walker.arrived
            reports.append(
                self._report(name, walker, group, own, walker.gone, interrupted, shared if walker.gone else 0.0)
            )
        if over:
            self.statistics.append(("Goals/Right", float(np.mean([walker.right for _, walker in party])), AVERAGE))
        return reports, over

    def _report(
        self, name: str, walker: Walker, group: int, reward: float = 0.0, done: bool = False, cut: bool = False,
        shared: float = 0.0,
    ) -> Report:  # fmt: skip
        sees = tuple(self._look(sensor, walker) for sensor in self.behaviors[name].sensors)
        number = group if self.together > 1 and not self.duel else 0
        mask = None if walker.mask is None else walker.mask.copy()
        return Report(name, walker.number, sees, reward, done, cut, mask, number, shared)

    def _look(self, sensor: Sensor, walker: Walker) -> Array:
        if sensor.kind == "image":
            picture = np.zeros(sensor.shape, np.uint8)
            half = sensor.shape[1] // 2
            picture[:, half:] = 255 * (walker.goal > 0)
            picture[:, :half] = 255 * (walker.goal < 0)
            return picture
        numbers = np.full(sensor.shape, walker.goal, np.float32)
        if sensor.kind == "entities":
            numbers[walker.entities :] = 0
        return numbers


# ------------------------------------------------------------ worlds that are drawn

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
    mask: Array | None = None


class DrawnWorld:
    """Agents that come, decide and leave when a generator says so."""

    def __init__(self, options: Crowd, seed: int) -> None:
        self.options, self.behaviors, self.parameters = options, options.behaviors, Parameters()
        self.statistics: list[tuple[str, float, int]] = []
        self.generator = np.random.default_rng(seed)
        self.messages = self.made = 0
        self.cut: dict[tuple[str, int], bool] = {}  # of a group's episode, or of a place's
        self.places = [
            Place(name, index, 1 + index // options.group if options.group > 1 else 0)
            for name in self.behaviors
            for index in range(options.agents)
        ]

    def reset(self) -> list[Report]:
        kept = {id(place): place.agent for place in self.places if not place.empty and self.options.keeps}
        for party in self._parties():
            if self._open(party[0]):
                self._begin(party)
                for place in party:
                    place.length = max(0, place.length)
        for place in self.places:
            place.agent = kept.get(id(place), place.agent)
        self.messages += 1
        return [self._report(place) for place in self.places if not place.empty]

    def step(self, actions: Mapping[int, Action]) -> list[Report]:
        for place in self.places:
            if not place.empty and place.agent in actions:
                place.reward += self._reward(place, actions[place.agent])
        reports: list[Report] = []
        while not reports:
            self.messages += 1
            reports = [report for party in self._parties() for report in self._advance(party)]
        if self.options.statistics:
            drawn = self.generator.random(4).astype(np.float32)
            self.statistics += [(f"Crowd/{kind}", float(drawn[kind]), kind) for kind in range(4)]
        return reports

    def subscribed(self) -> Iterable[str]:
        return [name for name in self.behaviors if self.messages + EARLIER >= self.options.later.get(name, 0)]

    def _parties(self) -> list[list[Place]]:
        found: dict[tuple[str, int], list[Place]] = {}
        for place in self.places:
            found.setdefault((place.behavior, place.group or -1 - place.index), []).append(place)
        return list(found.values())

    def _begin(self, party: list[Place]) -> None:
        options = self.options
        length = int(self.generator.integers(options.shortest, options.longest + 1))
        self.cut[party[0].behavior, party[0].index] = bool(self.generator.random() < options.cut)
        for place in party:
            self.made += 1
            place.agent, place.decisions, place.reward, place.empty = self.made, 0, 0.0, False
            place.leaves = options.group > 1 and place is not party[0] and self.generator.random() < options.early
            place.length = int(self.generator.integers(0, length)) if place.leaves else length
            place.waits = 0

    def _advance(self, party: list[Place]) -> list[Report]:
        first = party[0]
        if all(place.empty for place in party):
            first.waits -= 1
            if first.waits > 0 or not self._open(first):
                return []
            return self._arrive(party)
        there = [place for place in party if not place.empty]
        for place in there:
            place.waits -= 1
        deciding = [place for place in there if place.waits <= 0]
        for place in deciding:
            place.decisions += 1
        over = any(place.decisions > place.length and not place.leaves for place in deciding)
        reports = []
        for place in there:
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
        options, behavior = self.options, first.behavior
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
        if place.mask is not None:
            start = 0
            for option, options in zip(action.discrete, self.behaviors[place.behavior].branches, strict=True):
                if place.mask[start + option]:
                    raise ForbiddenAction(f"option {option} is forbidden for agent {place.agent}")
                start += options
        return float(np.float32(sum(action.continuous) + sum((n + 1) * o for n, o in enumerate(action.discrete))))

    def _report(self, place: Place, done: bool = False) -> Report:
        behavior, generator = self.behaviors[place.behavior], self.generator
        place.waits = int(generator.integers(1, self.options.period + 1))
        place.mask = None
        if self.options.masked and behavior.branches and not done:
            place.mask = generator.random(sum(behavior.branches)) < 0.5
            for end, options in zip(np.cumsum(behavior.branches), behavior.branches, strict=True):
                place.mask[end - generator.integers(1, options + 1)] = False
        reward, place.reward = place.reward, 0.0
        grouped = place.group > 0
        return Report(
            place.behavior, place.agent, tuple(self._look(sensor, place) for sensor in behavior.sensors), reward, done,
            done and not place.leaves and self.cut[place.behavior, self._first(place)], place.mask, place.group,
            float(generator.integers(-4, 5)) / 4 if grouped else 0.0,
        )  # fmt: skip

    def _first(self, place: Place) -> int:
        return place.index // self.options.group * self.options.group

    def _look(self, sensor: Sensor, place: Place) -> Array:
        if sensor.kind == "image":
            return self.generator.integers(0, 256, sensor.shape, np.uint8)
        numbers = self.generator.standard_normal(sensor.shape).astype(np.float32)
        if sensor.kind == "entities":
            numbers[self.generator.integers(0, len(numbers) + 1) :] = 0
        elif len(numbers) > 2 and not sensor.goal:
            numbers[:2] = place.agent, place.decisions
        return numbers


class FastWorld:
    """Agents of one behavior whose messages are drawn once; :class:`unity_player.Player` sends them in turn."""

    LENGTH = 64  # messages

    def __init__(self, agents: int, seed: int) -> None:
        self.behaviors: Mapping[str, Behavior] = {"Fast?team=0": Behavior((Sensor("vector", (8,)),), 2)}
        self.parameters, self.agents = Parameters(), agents
        self.statistics: list[tuple[str, float, int]] = []
        self.generator = np.random.default_rng(seed)
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

    def subscribed(self) -> Iterable[str]:
        return self.behaviors


# ------------------------------------------------------------ by name


def _renamed(behaviors: Mapping[str, Any], names: str | None) -> dict[str, Any]:
    """Give the first behaviors other names. Their teams stay; Unity writes the team 0 too."""
    bases = dict.fromkeys(key.partition("?")[0] for key in behaviors)
    given = dict(zip(bases, (names or "").split(","), strict=False))
    return {
        (given.get(base) or base) + (key.removeprefix(base) or "?team=0"): value
        for key, value in behaviors.items()
        for base in [key.partition("?")[0]]
    }


REACH, CHOOSE = Behavior(VECTOR, 1), Behavior(VECTOR, branches=(2,))
LEARNT: Mapping[str, tuple[dict[str, Behavior], dict[str, Any]]] = {
    "continuous": ({"Reach": REACH}, {}),
    "discrete": ({"Choose": CHOOSE}, {}),
    "hybrid": ({"Mixed": Behavior(VECTOR, 1, (2,))}, {}),
    "masked": ({"Masked": Behavior(VECTOR, branches=(5,))}, {"masked": True}),
    "visual": ({"Look": Behavior(PICTURE, branches=(2,))}, {}),
    "entities": ({"Sort": Behavior(ENTITIES, branches=(2,))}, {}),
    "lessons": ({"Lessons": REACH}, {}),
    "teams": ({"Duel?team=0": CHOOSE, "Duel?team=1": CHOOSE}, {"together": 2, "duel": True}),
    "groups": ({"Rescue": CHOOSE}, {"together": 3}),
    "two": ({"Reach": REACH, "Choose": CHOOSE}, {}),
}


def crowd_of(options: Mapping[str, Any]) -> Crowd:
    """Read the options from JSON."""
    behaviors = {
        name: Behavior(
            tuple(Sensor(**sensor) for sensor in each.get("sensors", ())), each.get("continuous", 0),
            each.get("branches", ()),
        )
        for name, each in options.get("behaviors", {}).items()
    }  # fmt: skip
    return Crowd(**{**options, **({"behaviors": behaviors} if behaviors else {})})


def make_world(
    name: str,
    seed: int,
    agents: int | None = None,
    behavior: str | None = None,
    size: str = "size",
    areas: int = 1,
) -> World:
    """Make the world of a name, in so many areas; ``agents`` is how many are in an area."""
    kind, _, rest = name.partition(":")
    if kind == "fast":
        return FastWorld((agents or 16) * areas, seed)
    if kind == "scene":
        from unity_scenes import make_scene  # which needs this module

        return make_scene(rest, seed, (agents or 0) * areas)
    if kind == "crowd":
        options = crowd_of(json.loads(rest or "{}"))
        named = {key: _renamed(getattr(options, key), behavior) for key in ("behaviors", "later", "until")}
        return DrawnWorld(attrs.evolve(options, agents=(agents or options.agents) * areas, **named), seed)
    behaviors, how = LEARNT[name]
    return Goals(_renamed(behaviors, behavior), (agents or 16) * areas, seed, size=size, **how)
