"""Scripted sessions with the test player: what both ML-Agents' own Python package and rlcore-unity play.

This module needs numpy only: ``unity_oracle.py`` imports it in the Python of ML-Agents. A session is a reset, then
``exchanges`` decisions with the actions of :func:`actions_of`, with a reset instead of each decision in ``resets``. The
actions depend on nothing but what an agent sees, so that both sides choose alike without knowing of one another.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]


@dataclass(frozen=True)
class Session:
    """One session.

    Attributes:
        name: What it shows.
        crowd: Options of ``unity_worlds.Crowd``, or the ``scene`` and its ``behaviors``.
        package: As which package the player speaks.
        announced: The version of ML-Agents' Python package that the player is told.
        oracle: The version of ML-Agents' Python package to compare with: 0.28.0 reads images with channels last, as
            packages before 3.0 send them, and 1.1.0 those with channels first.
        exchanges: How many decisions are made.
        resets: Decisions instead of which Python resets the player.
        parameters: By decision before which they are sent, the environment parameters; a reset is decision 0.
        engine: Settings of the engine: width, height, quality level, time scale, target and capture frame rate.
        seed: What the player is told.
        num_areas: What the player is told.
    """

    name: str
    crowd: Mapping[str, Any]
    package: str = "4.0.0"
    announced: str = "1.1.0"
    oracle: str = "1.1.0"
    exchanges: int = 60
    resets: tuple[int, ...] = ()
    parameters: Mapping[int, Mapping[str, float]] = field(default_factory=dict)
    engine: tuple[int, int, int, float, int, int] = (84, 84, 5, 20.0, -1, 60)
    seed: int = 7
    num_areas: int = 1

    @property
    def world(self) -> str:
        return f"scene:{self.crowd['scene']}" if "scene" in self.crowd else f"crowd:{json.dumps(self.crowd)}"

    @property
    def agents(self) -> int | None:
        """How many agents of each behavior there are; None where they are counted."""
        return None if "scene" in self.crowd else self.crowd.get("agents", 4) * self.num_areas


def vector(size: int = 5, name: str = "vector", **more: Any) -> dict[str, Any]:
    return {"name": name, "shape": [size], **more}


def image(*shape: int, name: str = "image", **more: Any) -> dict[str, Any]:
    return {"name": name, "shape": list(shape), "kind": "image", **more}


def crowd(*sensors: dict[str, Any], continuous: int = 0, branches: Sequence[int] = (), **more: Any) -> dict[str, Any]:
    """A crowd of one behavior."""
    behavior = {"sensors": list(sensors or [vector()]), "continuous": continuous, "branches": list(branches)}
    return {"behaviors": {"Crowd": behavior}, **more}


PLAIN = crowd(continuous=2)
TWO = {
    "Walkers": {"sensors": [vector(6)], "continuous": 3},
    "Choosers": {"sensors": [vector(4, "a"), vector(3, "b")], "branches": [3, 2]},
}
TEAMS = {f"Soccer?team={team}": {"sensors": [vector()], "branches": [3, 3]} for team in (0, 1)}
OLD = {"announced": "0.25.0", "oracle": "0.28.0"}

SESSIONS = {
    session.name: session
    for session in (
        Session("one agent", {**PLAIN, "agents": 1}),
        Session("end and next episode in one message", {**PLAIN, "shortest": 0, "longest": 3}),
        Session("agents that come and go", {**PLAIN, "agents": 12, "pause": 0.8, "longest": 5}, exchanges=120),
        Session("a thousand agents", {**PLAIN, "agents": 1000, "pause": 0.4, "longest": 6}, exchanges=20),
        Session("agents that never decide", {**PLAIN, "agents": 6, "shortest": -1, "longest": 2}),
        Session("decisions at different times", {**PLAIN, "agents": 8, "period": 4}, exchanges=120),
        Session("interrupted", {**PLAIN, "cut": 1.0}),
        Session("terminal", {**PLAIN, "cut": 0.0}),
        Session("groups", crowd(continuous=2, agents=9, group=3)),
        Session("groups whose agents leave early", crowd(branches=[3], agents=12, group=4, early=0.6), exchanges=120),
        Session("reset in the middle", {**PLAIN, "agents": 6, "longest": 30}, resets=(5, 20, 21, 40)),
        Session(
            "reset in the middle with other agents",
            {**PLAIN, "agents": 6, "longest": 30, "keeps": False}, resets=(5, 20, 21, 40),
        ),
        Session("two behaviors", {"behaviors": TWO, "agents": 3, "period": 2}),
        Session("a behavior that comes later", {"behaviors": TWO, "later": {"Choosers": 12}}),
        Session(
            "all at once",
            {"behaviors": TWO, "agents": 9, "group": 3, "early": 0.4, "period": 3, "pause": 0.5, "masked": True},
            exchanges=200, resets=(50, 51, 120),
        ),
        Session("teams", {"behaviors": TEAMS, "agents": 4, "group": 2}),
        Session("masks", crowd(branches=[4, 2, 3], masked=True, agents=6)),
        Session("hybrid", crowd(continuous=2, branches=[3], masked=True, agents=6)),
        Session("pictures", crowd(image(12, 16, 3, mapping=[0, 1, 2]), vector(), branches=[3])),
        Session(
            "stacked gray pictures",
            crowd(image(10, 14, 4, mapping=[0, 1, 2, 3, -1, -1]), image(8, 8, 1, name="one", mapping=[0, 0, 0]),
                  continuous=1),
        ),
        Session("pictures as numbers", crowd(image(6, 7, 5, png=False), continuous=1)),
        Session(
            "entities and goals",
            crowd(
                {"name": "buffer", "shape": [6, 4], "kind": "entities"}, vector(3, "goal", goal=True), vector(),
                continuous=1,
            ),
        ),
        Session(
            "pictures of package 2.3", crowd(image(12, 16, 3, mapping=[0, 1, 2]), image(9, 7, 6, name="six",
            mapping=[0, 1, 2, 3, 4, 5]), continuous=1), package="2.3.0", announced="0.28.0", oracle="0.28.0",
        ),
        Session("package 1.9", crowd(continuous=1, branches=[3]), package="1.9.0", **OLD),
        Session("continuous actions of package 1.0", PLAIN, package="1.0.8", **OLD),
        Session(
            "discrete actions of package 1.0",
            crowd(image(12, 16, 3), image(9, 7, 1, name="gray"), branches=[3, 2], masked=True), package="1.0.8", **OLD,
        ),
        Session(
            "parameters and statistics", {**PLAIN, "statistics": True}, resets=(30,),
            parameters={0: {"mass": 1.5, "gravity": -9.81}, 12: {"mass": 0.1}, 30: {"gravity": 3.0}},
            engine=(640, 480, 1, 5.0, 30, 0), seed=123, num_areas=3,
        ),
    )
}  # fmt: skip


# The example scenes of ML-Agents (``unity_scenes.py``), with their behaviors.
SCENES = {
    "3DBall": ("3DBall",),
    "WallJump": ("BigWallJump", "SmallWallJump"),
    "StrikersVsGoalie": ("Striker", "Goalie"),
    "SoccerTwos": ("SoccerTwos",),
    "Sorter": ("Sorter",),
    "DungeonEscape": ("DungeonEscape",),
    "PushBlockCollab": ("PushBlockCollab",),
    "Pyramids": ("Pyramids",),
    "FoodCollector": ("GridFoodCollector",),
    "Match3": ("Match3VectorObs", "Match3VisualObs"),
}
SESSIONS |= {
    f"scene {name}": Session(
        f"scene {name}", {"scene": name, "behaviors": dict.fromkeys(behaviors)}, exchanges=60, resets=(40,)
    )
    for name, behaviors in SCENES.items()
}


def canonical(seen: Sequence[Array], channels_last: bool) -> bytes:
    """The bytes of all that an agent sees: images as whole numbers with their channels first, the rest as float32."""
    parts = []
    for array in seen:
        if array.ndim == 3:
            pixels = np.rint(np.moveaxis(array, -1, 0) * 255 if channels_last else array * 255)
            parts.append(pixels.astype(np.uint8).tobytes())
        else:
            parts.append(np.ascontiguousarray(array, np.float32).tobytes())
    return b"".join(parts)


def actions_of(
    seen: Sequence[bytes], continuous: int, branches: Sequence[int], allowed: Array | None
) -> tuple[Array, Array]:
    """The actions of agents by what they see: [agents, continuous] float32, and [agents, branches] int32.

    ``allowed`` [agents, sum of branches] has the options that they may choose; nothing allows all.
    """
    reals = np.zeros((len(seen), continuous), np.float32)
    options = np.zeros((len(seen), len(branches)), np.int32)
    for row, content in enumerate(seen):
        generator = np.random.RandomState(zlib.crc32(content))
        reals[row] = generator.uniform(-1, 1, continuous)
        start = 0
        for branch, count in enumerate(branches):
            free = range(count) if allowed is None else np.flatnonzero(allowed[row, start : start + count])
            options[row, branch] = free[generator.randint(len(free))]
            start += count
    return reals, options
