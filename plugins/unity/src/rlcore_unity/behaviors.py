"""Behaviors as a player describes them: name and team, observations and actions of their agents.

Names, sizes and shapes come from another process: each is checked before it is used.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import attrs
import numpy as np

from rlcore import BehaviorSpec, ObservationSpec, name_problem
from rlcore_unity.mlagents_messages import DamagedObservation, Sensor, sensors_of

MAX_SENSORS = 256
MAX_ACTIONS = 65_536  # real parts, branches, and options of one branch
CONTINUOUS = 1  # of ``vector_action_space_type_deprecated``
_FORBIDDEN = re.compile(r"[^A-Za-z0-9._-]")
_TEAM = re.compile(r"team=(\d{1,9})")


class UnusableBehavior(ValueError):
    """A behavior that rlcore cannot have; the message says why."""


@attrs.frozen
class Brain:
    """A behavior as one player describes it, for one team.

    Attributes:
        full_name: The name in messages, such as ``Soccer?team=1``.
        name: The name in rlcore: without the team, and without letters that no behavior's name may have.
        team: The number of the team; 0 where the name has none.
        sensors: What an agent sees.
        spec: What an agent sees and does; without slots.
    """

    full_name: str
    name: str
    team: int
    sensors: tuple[Sensor, ...] = attrs.field(eq=False)
    spec: BehaviorSpec = attrs.field(eq=False)


def split_name(full_name: str) -> tuple[str, int]:
    """Return the name in rlcore and the team of ``Soccer?team=1``. Raises UnusableBehavior."""
    first, _, query = full_name.partition("?")
    name = _FORBIDDEN.sub("", first)
    problem = name_problem("a behavior's name", name)
    if problem:
        raise UnusableBehavior(f"{problem}; rename it in Unity (Behavior Parameters, Behavior Name)")
    team = _TEAM.search(query)
    return name, int(team[1]) if team else 0


def read_brain(parameters: Any, observations: Sequence[Any]) -> Brain:
    """Return the behavior that ``BrainParameters`` and the observations of one agent describe.

    Raises UnusableBehavior.
    """
    name, team = split_name(parameters.brain_name)
    if len(observations) > MAX_SENSORS:
        raise UnusableBehavior(f"behavior {name!r}: has {len(observations)} observations; {MAX_SENSORS} are allowed")
    try:
        sensors = sensors_of(observations)
    except DamagedObservation as error:
        raise UnusableBehavior(f"behavior {name!r}: an observation {error}") from error
    if not sensors:
        raise UnusableBehavior(f"behavior {name!r}: its agents see nothing; give them an observation")
    continuous, discrete = _actions(name, parameters)
    if not continuous and not discrete:
        raise UnusableBehavior(f"behavior {name!r}: its agents have no actions; give them one in Behavior Parameters")
    observed = []
    for sensor in sensors:
        observed.append(ObservationSpec(sensor.name, sensor.shape, np.float32, sensor.kind, goal=sensor.goal))
    spec = BehaviorSpec(
        name,
        tuple(observed),
        continuous,
        discrete,
        np.full(continuous, -1, np.float32),
        np.full(continuous, 1, np.float32),
        env_index=np.zeros(0, np.int64),
    )
    return Brain(parameters.brain_name, name, team, sensors, spec)


def _actions(name: str, parameters: Any) -> tuple[int, tuple[int, ...]]:
    """The real parts and the options of each branch, of packages 2.x and later, or of 1.x."""
    if parameters.HasField("action_spec"):
        actions = parameters.action_spec
        continuous = actions.num_continuous_actions
        discrete = tuple(actions.discrete_branch_sizes)
        if len(discrete) != actions.num_discrete_actions:
            raise UnusableBehavior(
                f"behavior {name!r}: says it has {actions.num_discrete_actions} branches and lists {len(discrete)}"
            )
    else:
        # Packages 1.x have either real parts or branches, and the sizes of both under one name.
        sizes = tuple(parameters.vector_action_size_deprecated)
        continuous = 0
        discrete = sizes
        if parameters.vector_action_space_type_deprecated == CONTINUOUS:
            continuous = sum(sizes)
            discrete = ()
    if not (0 <= continuous <= MAX_ACTIONS and len(discrete) <= MAX_ACTIONS):
        raise UnusableBehavior(f"behavior {name!r}: has {continuous} real actions and {len(discrete)} branches")
    if not all(1 <= options <= MAX_ACTIONS for options in discrete) or sum(discrete) > MAX_ACTIONS:
        raise UnusableBehavior(f"behavior {name!r}: has branches of {', '.join(map(str, discrete[:10]))} options")
    return continuous, discrete
