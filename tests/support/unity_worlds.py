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

Worlds that cannot be learnt: what agents see, their rewards, and when they come and go, is drawn (``unity_crowds.py``).

===============  =======================================================================================================
``crowd``        the options of ``Crowd`` as JSON: ``--world 'crowd:{"agents": 1000, "pause": 0.3}'``
``scene:NAME``   an example scene of ML-Agents, with the messages that Unity sends of it (``unity_scenes.py``)
``fast``         behavior Fast: a vector of eight numbers, two real actions. Messages are made once and sent in turn, so
                 that a measurement of a server's speed does not measure this player
===============  =======================================================================================================

``--behavior NAME`` gives the first behavior of a world another name (``NAME,NAME`` the first two), and ``--size NAME``
the parameter ``size``.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import attrs
from unity_contract import World
from unity_crowds import DrawnWorld, FastWorld, crowd_of
from unity_scenes import make_scene
from unity_walks import WALKS, Goals


def _renamed(behaviors: Mapping[str, Any], names: str | None) -> dict[str, Any]:
    """Give the first behaviors other names. Their teams stay; Unity writes the team 0 too."""
    bases = list(dict.fromkeys(key.partition("?")[0] for key in behaviors))
    others = dict(zip(bases, (names or "").split(","), strict=False))
    found = {}
    for key, value in behaviors.items():
        base, _, team = key.partition("?")
        found[f"{others.get(base) or base}?{team or 'team=0'}"] = value
    return found


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
        return make_scene(rest, seed, (agents or 0) * areas)
    if kind == "crowd":
        options = crowd_of(json.loads(rest or "{}"))
        named = {key: _renamed(getattr(options, key), behavior) for key in ("behaviors", "later", "until")}
        return DrawnWorld(attrs.evolve(options, agents=(agents or options.agents) * areas, **named), seed)
    behaviors, how = WALKS[name]
    return Goals(_renamed(behaviors, behavior), (agents or 16) * areas, seed, size=size, **how)
