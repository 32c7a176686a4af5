"""Example scenes of ML-Agents as their player sends them, for the test player: ``--world scene:SoccerTwos``.

A scene has the behaviors, sensors, actions, masks, teams and groups of ML-Agents' release (``SCENES`` in
``tools/mlagents_scenes.py``), in as many copies of its field as Unity's scene has: ``--agents N`` gives another number.
It has Unity's order of events, and no physics:

- Agents ask for decisions in every fifth step of the simulation. An episode may end in any step. The agent then reports
  its end in the message of the next step, alone or beside the first decisions of the agents of the next episode.
- Agents have another number in each episode; a reset by Python begins an episode of the same number.
- A group ends as ``EndGroupEpisode`` or ``GroupEpisodeInterrupted`` do: all of its members, in one step. A member that
  dies ends alone, and comes back with the next episode of its field.
- Nothing numbers the fields. Teams of a field end in one step, and so may two fields.
- ``WallJump``: ``SetModel`` gives an agent one of two behaviors for each episode. A behavior is subscribed when an
  agent first has it.
- ``Match3``: agents decide when their board is still, each in its own time. Heuristic behaviors are never sent.
- ``NAME/late``: agents are registered with their group after the first decision of each episode, as agents that a game
  makes for each episode may be.

What can be learnt: the first number that an agent sees, or the first pixel, is its goal. The action that fits gives
0.1, any other -0.1: a real part of the same sign; option 1 for a goal above 0, and option 0 otherwise.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import attrs
import numpy as np
from unity_contract import Action, Array, Behavior, Report, Sensor, World

RIGHT = 0.1  # for an action that fits, of each decision


@attrs.frozen
class Rules:
    """How the episodes of a scene begin and end.

    Attributes:
        fields: Copies of the field in Unity's scene.
        period: Steps of the simulation between two decisions.
        longest: Decisions after which an episode is interrupted.
        goal: Actions that fit, less those that do not, with which agents have reached their goal; with which a team
            scores, if it is that far ahead. None: only the time limit ends an episode.
        falls: Whether as many wrong ones end it too, as a failure.
        own_time: Whether each agent decides when it likes.
    """

    fields: int = 8
    period: int = 5
    longest: int = 30
    goal: float | None = 5.0
    falls: bool = False
    own_time: bool = False


RULES: Mapping[str, Rules] = {
    "3DBall": Rules(12, goal=None, falls=True),
    "WallJump": Rules(24, falls=True),
    "Pyramids": Rules(16),
    "Sorter": Rules(16),
    "FoodCollector": Rules(4, goal=None),
    "Match3": Rules(12, period=1, longest=20, goal=None, own_time=True),
    "PushBlockCollab": Rules(24),
    "DungeonEscape": Rules(24),
    "SoccerTwos": Rules(8, goal=2.0, longest=20),
    "StrikersVsGoalie": Rules(8, goal=2.0, longest=20),
}


@attrs.define(eq=False)
class Member:
    """An agent of a field, over all of its episodes."""

    behavior: str  # with its team
    role: Any
    team: int
    group: int = 0  # its number, also while it is not registered
    agent: int = 0  # its number in this episode
    goal: float = 1.0
    score: float = 0.0  # actions that fitted, less those that did not
    reward: float = 0.0
    shared: float = 0.0
    mask: Array | None = None
    there: bool = True
    registered: bool = True


@attrs.define(eq=False)
class Field:
    """A copy of the field."""

    members: list[Member]
    decisions: int = 0
    ends_at: int | None = None  # the step of the simulation in which it is over
    results: Mapping[int, float] | None = None  # of each team; None for the time limit


class SceneWorld(World):
    """A scene."""

    def __init__(self, name: str, seed: int, fields: int) -> None:
        """As many ``fields``, or 0 for Unity's number."""
        name, _, how = name.partition("/")
        scene = scenes()[name]
        self.rules = RULES[name]
        self.late = how == "late"
        self.roles: dict[str, Any] = {key: role for key, role in scene.roles.items() if "Heuristic" not in key}
        self.switches = name == "WallJump"
        behaviors = {
            f"{key}?team={team}": behavior_of(role)
            for key, role in self.roles.items()
            for team in sorted({*role.teams})
        }
        super().__init__(behaviors, seed)
        self.tick = self.made = 0
        self.pending: list[Report] = []  # ends that the next message has
        self.known: dict[str, None] = {}  # behaviors that are subscribed
        groups = iter(range(1, 10**6))
        self.fields = [self._field(groups, number) for number in range(fields or self.rules.fields)]
        for field in self.fields:
            self._begin(field)

    def _field(self, groups: Iterator[int], number: int) -> Field:
        """The members of a field; agents of a scene with alternatives have one of them in each field."""
        roles = list(self.roles.items())
        if len(roles) > 1 and not any(role.grouped for _, role in roles):
            roles = [roles[number % len(roles)]]
        members = []
        numbers = dict[int, int]()
        for key, role in roles:
            for team in role.teams:
                group = numbers.setdefault(team, next(groups)) if role.grouped else 0
                members.append(Member(f"{key}?team={team}", role, team, group))
        return Field(members)

    def subscribed(self) -> Iterable[str]:
        return self.known

    def reset(self) -> list[Report]:
        """Begin the episodes of all agents; they keep their numbers."""
        self.pending = []
        for field in self.fields:
            numbers = [member.agent for member in field.members if member.there]
            self._begin(field)
            for member, number in zip(field.members, numbers, strict=False):
                member.agent = number
        return self._next()

    def step(self, actions: Mapping[int, Action]) -> list[Report]:
        self._act(actions)
        return self._next()

    def _next(self) -> list[Report]:
        """The reports of the next step of the simulation that has some."""
        while True:
            self.tick += 1
            reports, self.pending = self.pending, []
            if self.tick % self.rules.period == 0:
                reports += [self._decision(member) for member in self._deciding()]
            if reports:
                return reports
            self._act({})

    def _deciding(self) -> list[Member]:
        everyone = [member for field in self.fields for member in field.members if member.there]
        if not self.rules.own_time:
            return everyone
        return [member for member in everyone if self.generator.random() < 0.6]

    # ------------------------------------------------------------ what happens in a field

    def _begin(self, field: Field) -> None:
        field.decisions, field.ends_at, field.results = 0, None, None
        turn = int(self.generator.integers(5))
        for member in field.members:
            self.made += 1
            if self.switches:
                member.behavior = f"{next(key for key, role in self.roles.items() if turn in role.turns)}?team=0"
            self.known.setdefault(member.behavior)
            member.agent, member.there, member.registered = self.made, True, not self.late
            member.goal = float(self.generator.choice((-1.0, 1.0)))
            member.score = member.reward = member.shared = 0.0

    def _act(self, actions: Mapping[int, Action]) -> None:
        for field in self.fields:
            acted = [member for member in field.members if member.there and member.agent in actions]
            for member in acted:
                fits = self._fits(member, actions[member.agent])
                member.score += fits
                member.reward += RIGHT * fits
            field.decisions += bool(acted)
            if acted and field.ends_at is None:
                self._judge(field)
            if self.tick == field.ends_at:
                self._end(field)

    def _fits(self, member: Member, action: Action) -> float:
        """1 for an action that fits the goal, -1 for another one."""
        self.behaviors[member.behavior].check(action, member.mask, member.agent)
        if action.continuous:
            fits = action.continuous[0] * member.goal > 0
        else:
            fits = action.discrete[0] == int(member.goal > 0)
        return 1.0 if fits else -1.0

    def _judge(self, field: Field) -> None:
        """Decide whether the episode of a field ends, in one of the steps until the next decision."""
        rules = self.rules
        scores: dict[int, float] = {}
        for team in {member.team for member in field.members}:
            of_team = [member.score for member in field.members if member.team == team]
            scores[team] = float(np.mean(of_team))
        results = None
        if len(scores) > 1:
            ahead = scores[0] - scores[1]
            if rules.goal is not None and abs(ahead) >= rules.goal:
                results = {0: float(np.sign(ahead)), 1: float(-np.sign(ahead))}
        elif rules.goal is not None and scores[0] >= rules.goal:
            results = {0: 1.0}
        elif rules.falls and scores[0] <= -3.0:
            results = {0: -1.0}
        if results is not None or field.decisions >= rules.longest:
            field.results = results
            field.ends_at = self.tick + int(self.generator.integers(rules.period))
            return
        weakest = min(field.members, key=lambda member: member.score)
        if weakest.role.dies and weakest.there and weakest.score <= -4.0 and self._alive(field) > 1:
            weakest.there = False
            self.pending.append(self._report(weakest, done=True))

    def _alive(self, field: Field) -> int:
        return sum(member.there for member in field.members)

    def _end(self, field: Field) -> None:
        for member in field.members:
            result = 0.0 if field.results is None else field.results[member.team]
            if member.role.grouped:
                member.shared += result
            else:
                member.reward += result
            if member.there:
                self.pending.append(self._report(member, done=True, cut=field.results is None))
        self._begin(field)

    # ------------------------------------------------------------ what agents report

    def _decision(self, member: Member) -> Report:
        report = self._report(member)
        member.registered = True
        return report

    def _report(self, member: Member, done: bool = False, cut: bool = False) -> Report:
        behavior = self.behaviors[member.behavior]
        member.mask = None
        if member.role.masks and not done:
            member.mask = self.generator.random(sum(behavior.branches)) < 0.5
            member.mask[:2] = False  # the two options that goals want
        sees = tuple(self._look(sensor, member) for sensor in behavior.sensors)
        reward = member.reward
        shared = member.shared
        member.reward = member.shared = 0.0
        group = member.group if member.registered else 0
        return Report(member.behavior, member.agent, sees, reward, done, cut, member.mask, group, shared)

    def _look(self, sensor: Sensor, member: Member) -> Array:
        if sensor.kind == "image":
            return np.full(sensor.shape, 255 * (member.goal > 0), np.uint8)
        seen = np.zeros(sensor.shape, np.float32)
        if sensor.kind == "entities":
            tiles = int(self.parameters.get("num_tiles", 2.0))
            seen[: int(self.generator.integers(1, tiles + 1))] = member.goal
        else:
            seen.ravel()[1:2] = self.generator.random()
            seen.ravel()[0] = member.goal
        return seen


def scenes() -> Mapping[str, Any]:
    """The scenes of ``tools/mlagents_scenes.py``, which a player without pytest's path finds too."""
    sys.path.append(str(Path(__file__).parents[2] / "tools"))
    from mlagents_scenes import SCENES

    return SCENES


def behavior_of(role: Any) -> Behavior:
    """The sensors and actions of a role."""
    sensors = []
    for each in role.sees:
        image = each.kind == "image"
        kind = each.kind if image or each.kind == "entities" else "vector"
        mapping = (*range(each.shape[-1]), *(-1,) * (-each.shape[-1] % 3)) if image else None
        sensors.append(Sensor(each.name, each.shape, kind, mapping=mapping, goal=each.goal))
    return Behavior(tuple(sensors), role.continuous, role.discrete)


def make_scene(name: str, seed: int, fields: int) -> SceneWorld:
    """Make a scene by its name, with as many ``fields``, or 0 for Unity's number."""
    if name.partition("/")[0] not in RULES:
        raise SystemExit(f"there is no scene {name!r}; there are {', '.join(RULES)}")
    return SceneWorld(name, seed, fields)
