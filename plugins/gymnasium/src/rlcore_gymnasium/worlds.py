"""Packages of environments that are known by the form of their ids: the module to import, and what to install.

Gymnasium knows an id of another package only after the module of that package was imported. ``MiniGrid-Empty-5x5-v0``
is therefore found without ``minigrid:`` in front of it. An id with a namespace, such as ``gym_pusht/PushT-v0``, is
looked for in the module of that name, if it is installed.
"""

from __future__ import annotations

import re

import attrs


@attrs.frozen
class World:
    """A package that registers environments when its ``module`` is imported.

    Attributes:
        module: The module to import.
        install: What ``pip install`` installs.
        ids: A regular expression for the beginning of the ids, whatever their case.
    """

    module: str
    install: str
    ids: str


WORLDS = (
    World("ale_py", "'rlcore-gymnasium[atari]'", r"ALE/|\w+NoFrameskip-v[04]$"),
    World("minigrid", "'rlcore-gymnasium[minigrid]'", r"MiniGrid-|BabyAI-"),
    World(
        "gymnasium_robotics",
        "'rlcore-gymnasium[robotics]'",
        r"Fetch(Reach|Push|Slide|PickAndPlace)|Hand(Reach|Manipulate)|AdroitHand|FrankaKitchen|(Point|Ant)Maze",
    ),
    World(
        "highway_env",
        "'rlcore-gymnasium[highway]'",
        r"(highway|merge|roundabout|parking|intersection|exit|racetrack|lane-keeping|two-way|u-turn)(-[a-z]+)*-v\d",
    ),
)


def world_of(name: str) -> World | None:
    """Return the package that has the id ``name``, which has no module in front; None for an unknown package."""
    return next((world for world in WORLDS if re.match(world.ids, name, re.IGNORECASE)), None)


def to_install(module: str) -> str:
    """Return what ``pip install`` installs to have ``module``; empty for an unknown package."""
    top = module.partition(".")[0]
    return next((world.install for world in WORLDS if world.module.partition(".")[0] == top), "")
