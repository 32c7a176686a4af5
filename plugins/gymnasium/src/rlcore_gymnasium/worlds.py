"""Packages of environments that are known by the form of their ids: the module to import, and what to install.

Gymnasium knows an id of another package only after the module of that package was imported. ``MiniGrid-Empty-5x5-v0``
is therefore found without ``minigrid:`` in front of it. An id with a namespace, such as ``gym_pusht/PushT-v0``, is
looked for in the module of that name, if it is installed.
"""

from __future__ import annotations

import re
from importlib.metadata import PackageNotFoundError, version
from traceback import extract_tb

import attrs


@attrs.frozen
class World:
    """A package that registers environments when its ``module`` is imported.

    Attributes:
        module: The module to import.
        install: What ``pip install`` installs.
        ids: A regular expression for the beginning of the ids, whatever their case.
        register: A function of the module to call after the import; empty if the import is enough.
    """

    module: str
    install: str
    ids: str
    register: str = ""


WORLDS = (
    World("flappy_bird_gymnasium", "flappy-bird-gymnasium", "FlappyBird-"),
    World("gym_anytrading", "gym-anytrading", "(forex|stocks)-v"),
    World("metaworld", "metaworld", "Meta-World/"),
    World("minatar.gym", "minatar", "MinAtar/", register="register_envs"),
    World("miniworld", "miniworld", "MiniWorld-"),
    World("panda_gym", "panda-gym", "Panda[A-Z]"),
    World("shimmy", "'rlcore-gymnasium[dm-control]'", "dm_control/"),
    World("tetris_gymnasium.envs", "tetris-gymnasium", "tetris_gymnasium/"),
    World("vizdoom.gymnasium_wrapper", "vizdoom", "Vizdoom[A-Z]"),
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


def known_problem(error: BaseException) -> str:
    """Return the solution of a known problem of a package, for the end of a message; empty for others.

    gymnasium-robotics 1.4 asserts types of joints that MuJoCo returns in another form since version 3.11.
    """
    frames = extract_tb(error.__traceback__)
    if isinstance(error, AssertionError) and frames and "gymnasium_robotics" in frames[-1].filename:
        try:
            newer = tuple(map(int, version("mujoco").split(".")[:2])) >= (3, 11)
        except (PackageNotFoundError, ValueError):
            newer = False
        if newer:
            return "; this environment of gymnasium-robotics needs an older MuJoCo: run: pip install 'mujoco<3.11'"
    return ""
