"""Worlds of the test player that can be learnt, in which agents walk: see ``unity_worlds.py``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import attrs
import numpy as np
from unity_contract import AVERAGE, Action, Array, Behavior, Report, Sensor, World

STEP = 0.2
LONGEST = 50
VECTOR = (Sensor("goal", (1,)),)
PICTURE = (Sensor("camera", (20, 20, 3), "image", mapping=(0, 1, 2)),)
ENTITIES = (Sensor("buffer", (10, 5), "entities"), Sensor("goal", (1,), goal=True))
REACH = Behavior(VECTOR, 1)
CHOOSE = Behavior(VECTOR, branches=(2,))
WALKS: Mapping[str, tuple[dict[str, Behavior], dict[str, Any]]] = {
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


@attrs.define(eq=False)
class Walker:
    """An agent that walks to an end of its lines.

    Attributes:
        party: The number of those that it is together with.
        place: On each line.
        setting: What Python had set for the parameter when its episode began.
    """

    behavior: str
    party: int
    number: int
    goal: float
    size: float
    place: Array
    entities: int
    setting: tuple[Any, ...]
    decisions: int = 0
    mask: Array | None = None
    gone: bool = False

    @property
    def arrived(self) -> bool:
        return bool((np.abs(self.place) >= self.size - 1e-6).all())

    @property
    def right(self) -> float:
        """How right it is, from -1 to 1."""
        return float(np.mean(np.clip(self.place / self.size, -1, 1)) * self.goal)


class Goals(World):
    """Agents that walk to the goals they see; ``together`` of them are a group, or face each other in two teams.

    Attributes:
        sizes: The parameter of each episode that ended: the value that the agent read when the episode began, as in
            ``OnEpisodeBegin``, and whether Python set another one, or another sampler, before its end.
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
        super().__init__(behaviors, seed)
        self.size = size
        self.duel = duel
        self.masked = masked
        self.agents = agents
        self.together = together
        self.made = 0
        self.sizes: list[tuple[float, bool]] = []
        self.parties: list[list[Walker]] = []

    def reset(self) -> list[Report]:
        names = list(self.behaviors)
        self.parties = []
        for party in range(max(1, self.agents // self.together)):
            members = names if self.duel else [names[party % len(names)]] * self.together
            self.parties.append([self._walker(name, party + 1) for name in members])
        return [self._report(walker) for walker in self._walking()]

    def step(self, actions: Mapping[int, Action]) -> list[Report]:
        for walker in self._walking():
            self._move(walker, actions[walker.number])
        reports = []
        for party in self.parties:
            reports += self._after_duel(party) if self.duel else self._after_walk(party)
            if all(walker.gone for walker in party):
                party[:] = [self._walker(walker.behavior, walker.party) for walker in party]
                reports += [self._report(walker) for walker in party]
        return reports

    def _walking(self) -> list[Walker]:
        return [walker for party in self.parties for walker in party if not walker.gone]

    def _walker(self, name: str, party: int) -> Walker:
        self.made += 1
        behavior = self.behaviors[name]
        lines = behavior.continuous + len(behavior.branches)
        goal = float(self.generator.choice((-1.0, 1.0)))
        size = max(self.parameters.get(self.size, 1.0), STEP)
        entities = int(self.generator.integers(1, 11))
        walker = Walker(name, party, self.made, goal, size, np.zeros(lines), entities, self._setting())
        self._forbid(walker)
        return walker

    def _setting(self) -> tuple[Any, ...]:
        return self.parameters.settings.get(self.size, ())

    def _forbid(self, walker: Walker) -> None:
        if not self.masked:
            return
        mask = walker.mask = np.ones(sum(self.behaviors[walker.behavior].branches), np.bool_)
        allowed = self.generator.choice(len(mask), 2, replace=False)
        mask[allowed[: self.generator.integers(1, 3)]] = False
        mask[0 if walker.decisions % 2 else 1] = False  # a way is never blocked for long

    def _move(self, walker: Walker, action: Action) -> None:
        self.behaviors[walker.behavior].check(action, walker.mask, walker.number)
        ways = [float(np.clip(each, -1, 1)) * STEP for each in action.continuous]
        ways += [{0: -STEP, 1: STEP}.get(option, 0.0) for option in action.discrete]
        walker.place = np.clip(walker.place + ways, -walker.size, walker.size)
        walker.decisions += 1
        self._forbid(walker)

    def _after_duel(self, party: list[Walker]) -> list[Report]:
        one, other = party
        if one.decisions < 5:
            return [self._report(walker) for walker in party]
        won = float(np.sign(round(one.right - other.right, 6)))
        self.statistics.append(("Duel/Draws", float(won == 0), AVERAGE))
        one.gone = other.gone = True
        return [self._report(one, won), self._report(other, -won)]

    def _after_walk(self, party: list[Walker]) -> list[Report]:
        walking = [walker for walker in party if not walker.gone]
        cut = walking[0].decisions >= LONGEST
        for walker in walking:
            walker.gone = cut or walker.arrived
            if walker.gone:
                self.sizes.append((walker.size, self._setting() != walker.setting))
        shared = 0.0
        if all(walker.gone for walker in party):
            right = float(np.mean([walker.right for walker in party]))
            self.statistics.append(("Goals/Right", right, AVERAGE))
            shared = right if self.together > 1 else 0.0
        reports = []
        for walker in walking:
            reward = walker.right if walker.gone and self.together == 1 else -0.01
            reports.append(self._report(walker, reward, shared if walker.gone else 0.0))
        return reports

    def _report(self, walker: Walker, reward: float = 0.0, shared: float = 0.0) -> Report:
        sees = tuple(self._look(sensor, walker) for sensor in self.behaviors[walker.behavior].sensors)
        cut = walker.gone and not self.duel and not walker.arrived
        group = walker.party if self.together > 1 and not self.duel else 0
        mask = None if walker.mask is None else walker.mask.copy()
        return Report(walker.behavior, walker.number, sees, reward, walker.gone, cut, mask, group, shared)

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
