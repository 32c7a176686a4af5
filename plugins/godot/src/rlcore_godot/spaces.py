"""The agents of a game as it describes them, and their observations and actions in arrays.

A game has a list of agents. Each has the name of a policy, observations by key and actions by key; agents of one policy
are alike. All of it comes from another process: sizes, types and names are checked before they are used.

* ``{"size": [n], "space": "box"}`` is a vector; under a key with ``2d`` and with three sizes it is an image, sent as
  the hexadecimal text of its bytes: rows, columns, channels.
* ``{"size": n, "space": "discrete"}`` is one of n numbers, here an indicator vector.
* ``{"size": n, "action_type": "continuous"}`` is n real numbers within -1 and 1, ``"discrete"`` one of n options.

Several keys become one action: the real numbers of all keys in the order in which the game lists the keys, and a branch
for each discrete key in that order.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, TypeGuard

import attrs
import numpy as np
from numpy.typing import NDArray

from rlcore import Actions, BehaviorSpec, ObservationSpec, name_problem
from rlcore_godot.connection import BadGame, short

MAX_AGENTS = 65_536
MAX_KEYS = 256
MAX_SIZE = 1 << 26  # numbers of one observation
MAX_ACTIONS = 65_536  # real numbers, or options of one key
MAX_DIMENSIONS = 8
LARGEST_FLOAT = float(np.finfo(np.float32).max)
ONE_POLICY = "shared_policy"  # of games that send no names
IMAGE = "2d"  # in the keys of images


@attrs.frozen
class Seen:
    """One observation of an agent.

    Attributes:
        spec: What rlcore knows of it; its name is the key in messages.
        options: Options of a discrete observation, or 0.
        hexadecimal: Whether it is sent as the text of its bytes.
    """

    spec: ObservationSpec
    options: int = 0
    hexadecimal: bool = False


@attrs.frozen
class Done:
    """One key of an action.

    Attributes:
        key: The key in messages.
        size: Number of real numbers, or of options.
        discrete: Whether it is one of ``size`` options.
        first: Its first column in the continuous or discrete part of an action.
    """

    key: str
    size: int
    discrete: bool
    first: int


@attrs.frozen
class Policy:
    """The agents of one policy.

    Attributes:
        name: The name in the game.
        agents: Places of its agents in the game's list, ascending.
        seen: The observations of an agent.
        done: The keys of an action.
    """

    name: str
    agents: tuple[int, ...]
    seen: tuple[Seen, ...]
    done: tuple[Done, ...]

    def behavior(self, name: str, copies: int) -> BehaviorSpec:
        """Return the behavior for ``copies`` of the game, slots game by game."""
        continuous = sum(action.size for action in self.done if not action.discrete)
        branches = tuple(action.size for action in self.done if action.discrete)
        games = np.arange(copies, dtype=np.int64)
        return BehaviorSpec(
            name,
            tuple(observation.spec for observation in self.seen),
            continuous,
            branches,
            np.full(continuous, -1, np.float32),
            np.full(continuous, 1, np.float32),
            env_index=np.repeat(games, len(self.agents)),
        )

    def read(self, observations: Sequence[Any] | Mapping[int, Any], place: str) -> dict[str, NDArray[Any]]:
        """Return the observations [agents, *shape] by name from the game's list, one entry for each of its agents.

        Raises BadGame; ``place`` is where the list is in the message.
        """
        entries = [observations[agent] for agent in self.agents]
        return {seen.spec.name: _values(seen, entries, self.agents, place) for seen in self.seen}

    def write(self, actions: Actions, rows: slice, message: list[dict[str, Any]]) -> None:
        """Write the actions of slots, one for each agent, into the game's list of actions."""
        continuous = None if actions.continuous is None else actions.continuous[rows].tolist()
        discrete = None if actions.discrete is None else actions.discrete[rows].tolist()
        for row, agent in enumerate(self.agents):
            entry = message[agent]
            for action in self.done:
                if action.discrete:
                    assert discrete is not None
                    entry[action.key] = discrete[row][action.first]
                else:
                    assert continuous is not None
                    entry[action.key] = continuous[row][action.first : action.first + action.size]


@attrs.frozen
class Cast:
    """All agents of a game.

    Attributes:
        agents: Their number.
        policies: Their policies, in the order of their first agents.
    """

    agents: int
    policies: tuple[Policy, ...]


# ---------------------------------------------------------------- env_info


def read_cast(info: Mapping[str, Any]) -> Cast:
    """Return the agents that the message ``env_info`` describes. Raises BadGame.

    Older games send one description for all agents, and no names of policies.
    """
    agents = info.get("n_agents")
    if not _is_whole(agents) or not 1 <= agents <= MAX_AGENTS:
        raise BadGame(
            f"says it has {short(agents)} agents, and 1 to {MAX_AGENTS} are allowed; add its AIControllers to the "
            "group AGENT"
        )
    agents = int(agents)
    observing = _per_agent(info, "observation_space", agents)
    acting = _per_agent(info, "action_space", agents)
    names = info.get("agent_policy_names") or [ONE_POLICY] * agents
    if not isinstance(names, list) or len(names) != agents or not all(isinstance(name, str) for name in names):
        raise BadGame(f"has the agent_policy_names {short(names)}, which must be a list of {agents} names")
    groups: dict[str, list[int]] = {}
    for agent, name in enumerate(names):
        problem = name_problem("a behavior's name", name)
        if problem:
            raise BadGame(f"agent {agent}: {problem}; change policy_name of its AIController")
        groups.setdefault(name, []).append(agent)
    policies = []
    for name, places in groups.items():
        first, *others = places
        for agent in others:
            for what, spaces in (("observation_space", observing), ("action_space", acting)):
                if spaces[agent] != spaces[first]:
                    raise BadGame(
                        f"agents {first} and {agent} of policy {name!r} differ in {what}: {short(spaces[first])} "
                        f"and {short(spaces[agent])}; give them different policy names"
                    )
        seen = _observations(name, observing[first])
        done = _actions(name, acting[first])
        policies.append(Policy(name, tuple(places), seen, done))
    return Cast(agents, tuple(policies))


def _per_agent(info: Mapping[str, Any], key: str, agents: int) -> list[Any]:
    spaces = info.get(key)
    if isinstance(spaces, dict):
        return [spaces] * agents
    if not isinstance(spaces, list) or len(spaces) != agents:
        raise BadGame(f"has the {key} {short(spaces)}, which must be a list with one entry for each of {agents} agents")
    return spaces


def _observations(policy: str, space: Any) -> tuple[Seen, ...]:
    seen = []
    for key, entry in _entries(policy, "observation_space", space):
        size = entry.get("size")
        kind = entry.get("space")
        where = f"policy {policy!r}: observation {key!r}"
        if kind == "discrete":
            if not _is_whole(size) or not 1 <= size <= MAX_ACTIONS:
                raise BadGame(f"{where} has the size {short(size)}, which must be its number of options")
            options = int(size)
            spec = ObservationSpec(key, (options,), np.float32, "one_hot")
            seen.append(Seen(spec, options=options))
            continue
        if kind != "box":
            raise BadGame(f"{where} is of space {short(kind)}; box and discrete are known")
        sizes: list[Any] = size if isinstance(size, list) else [size]
        if not 1 <= len(sizes) <= MAX_DIMENSIONS or not all(_is_whole(each) and each >= 1 for each in sizes):
            raise BadGame(f"{where} has the size {short(size)}, which must be a list of numbers of at least 1")
        shape = tuple(int(each) for each in sizes)
        if math.prod(shape) > MAX_SIZE:
            raise BadGame(f"{where} has the size {short(size)}; {MAX_SIZE:,} numbers are allowed")
        if IMAGE in key and len(shape) == 3:
            seen.append(Seen(ObservationSpec(key, shape, np.uint8, "image"), hexadecimal=True))
        else:
            seen.append(Seen(ObservationSpec(key, shape, np.float32)))
    return tuple(seen)


def _actions(policy: str, space: Any) -> tuple[Done, ...]:
    done = []
    firsts = {True: 0, False: 0}
    for key, entry in _entries(policy, "action_space", space):
        size = entry.get("size")
        kind = entry.get("action_type")
        where = f"policy {policy!r}: action {key!r}"
        if kind not in ("continuous", "discrete"):
            raise BadGame(f"{where} has the action_type {short(kind)}; continuous and discrete are known")
        if not _is_whole(size) or not 1 <= size <= MAX_ACTIONS:
            raise BadGame(f"{where} has the size {short(size)}, which must be from 1 to {MAX_ACTIONS}")
        discrete = kind == "discrete"
        done.append(Done(key, int(size), discrete, firsts[discrete]))
        firsts[discrete] += 1 if discrete else int(size)
    if firsts[False] > MAX_ACTIONS:
        raise BadGame(f"policy {policy!r}: has {firsts[False]} continuous actions; {MAX_ACTIONS} are allowed")
    return tuple(done)


def _entries(policy: str, what: str, space: Any) -> list[tuple[str, dict[str, Any]]]:
    if not isinstance(space, dict) or not 1 <= len(space) <= MAX_KEYS:
        raise BadGame(f"policy {policy!r}: the {what} {short(space)} must have 1 to {MAX_KEYS} keys")
    for key, entry in space.items():
        if not isinstance(entry, dict):
            raise BadGame(f"policy {policy!r}: the {what} has {short(entry)} under {key!r}, which must be an object")
        if not key or len(key) > 200 or not key.isprintable():
            raise BadGame(f"policy {policy!r}: the {what} has the key {short(key)}, which is not a name")
    return list(space.items())


def _is_whole(value: Any) -> TypeGuard[float]:
    """Whether a number of JSON is whole; Godot writes 3 as 3 or 3.0."""
    return type(value) is int or (type(value) is float and value.is_integer())


# ---------------------------------------------------------------- values


def _values(seen: Seen, agents: Sequence[Any], places: Sequence[int], place: str) -> NDArray[Any]:
    """The observation [agents, *shape] of some agents."""
    name = seen.spec.name
    shape = seen.spec.shape
    try:
        values = [agent[name] for agent in agents]
    except (KeyError, TypeError, IndexError):
        for agent, number in zip(agents, places, strict=True):
            if not isinstance(agent, dict):
                raise BadGame(f"{place}: agent {number} is {short(agent)}, which must be an object") from None
            if name not in agent:
                raise BadGame(f"{place}: agent {number} has no {name!r}, which is in its observation_space") from None
        raise
    if seen.hexadecimal:
        images = []
        for number, value in zip(places, values, strict=True):
            images.append(_pixels(value, seen.spec, f"{place}: agent {number}"))
        return np.stack(images)
    if seen.options:
        return _indicators(values, seen, places, place)
    try:
        numbers = np.array(values)
    except ValueError:  # lists of several lengths
        numbers = np.empty(0, object)
    # All agents at once. Where something does not fit, each is looked at, to say which one it is.
    if numbers.dtype.kind in "iuf" and numbers.size == len(values) * seen.spec.size:
        if np.abs(numbers).max(initial=0) <= LARGEST_FLOAT:
            return numbers.reshape(len(values), *shape).astype(np.float32)
        with np.errstate(over="ignore"):  # numbers beyond float32 become infinite, which the problem names
            values = numbers.reshape(len(values), -1).astype(np.float32).tolist()
    for number, value in zip(places, values, strict=True):
        problem = _problem(value, seen.spec)
        if problem:
            raise BadGame(f"{place}: {name!r} of agent {number} {problem}")
    raise BadGame(f"{place}: {name!r} is not {list(shape)} numbers for each agent")


def _problem(value: Any, spec: ObservationSpec) -> str | None:
    """What is wrong with one vector."""
    try:
        numbers = np.array(value)
    except ValueError:
        numbers = np.empty(0, object)
    if numbers.dtype.kind not in "iuf":
        return f"is {short(value)}, which must be {spec.size} numbers"
    if numbers.size != spec.size:
        return f"has {numbers.size} numbers, and its observation_space says {list(spec.shape)}"
    flat = numbers.reshape(-1)
    wrong = np.flatnonzero(~np.isfinite(flat.astype(np.float32)))
    if not wrong.size:
        return None
    first = wrong[0]
    return f"is not finite: number {first} is {flat[first]}"


def _pixels(value: Any, spec: ObservationSpec, place: str) -> NDArray[np.uint8]:
    if not isinstance(value, str):
        raise BadGame(f"{place}: {spec.name!r} is {short(value)}, which must be the hexadecimal text of an image")
    try:
        data = bytes.fromhex(value)
    except ValueError:
        raise BadGame(f"{place}: {spec.name!r} is {short(value)}, which is not hexadecimal text") from None
    if len(data) != spec.size:
        raise BadGame(
            f"{place}: image {spec.name!r} has {len(data)} bytes, and its observation_space says {list(spec.shape)}"
        )
    return np.frombuffer(data, np.uint8).reshape(spec.shape)


def _indicators(values: Sequence[Any], seen: Seen, places: Sequence[int], place: str) -> NDArray[np.float32]:
    array = np.zeros((len(values), seen.options), np.float32)
    for row, (number, value) in enumerate(zip(places, values, strict=True)):
        # Games send an option alone, or as a list of one.
        chosen = value[0] if isinstance(value, list) and len(value) == 1 else value
        if not _is_whole(chosen) or not 0 <= chosen < seen.options:
            raise BadGame(
                f"{place}: {seen.spec.name!r} of agent {number} is {short(value)}, which must be from 0 to "
                f"{seen.options - 1}"
            )
        array[row, int(chosen)] = 1.0
    return array
