"""The behavior and team of each agent of a game, from its name and its spaces."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Any

import attrs
from gymnasium import spaces

from rlcore import ConfigError, KeyPath, did_you_mean
from rlcore_pettingzoo.settings import EACH, BehaviorAgents

BEHAVIORS = ("environment", "options", "behaviors")


@attrs.frozen
class Agent:
    """An agent of a game, with what it sees and does."""

    name: str
    place: int  # in the game's list of agents
    observation_space: spaces.Space[Any]
    action_space: spaces.Space[Any]

    @property
    def description(self) -> str:
        return f"{self.name!r} sees {self.observation_space} and does {self.action_space}"

    def alike(self, other: Agent) -> bool:
        return self.observation_space == other.observation_space and self.action_space == other.action_space


@attrs.frozen
class Cast:
    """The agents of one behavior in one environment, in the game's order, and the team of each."""

    behavior: str
    agents: tuple[Agent, ...]
    teams: tuple[int, ...]


def assign(
    agents: Sequence[Agent],
    mapping: Mapping[str, BehaviorAgents] | None,
    in_turns: bool,
    game: str,
    file_names: Sequence[str],
) -> tuple[Cast, ...]:
    """Return the agents and teams of every behavior.

    Without ``mapping``, agents with equal spaces are one behavior; a single one has the only name in ``file_names``.
    Otherwise it is named after what the agents' names have in common, or after the ``game``. The default teams are
    described by :class:`~rlcore_pettingzoo.settings.BehaviorAgents`; ``in_turns`` says whether one agent acts at a
    time. Raises ConfigError for a mapping that does not fit the agents.
    """
    if mapping is None:
        groups = _by_spaces(agents, game, file_names)
        blocks = {}
    else:
        blocks = dict(mapping)
        groups = {}
        for name, block in blocks.items():
            groups[name] = _matching(agents, block.agents, (*BEHAVIORS, name, "agents"))
    behavior_of: dict[str, str] = {}
    for name, group in groups.items():
        for agent in group:
            other = behavior_of.setdefault(agent.name, name)
            if other != name:
                raise ConfigError(
                    f"{agent.name!r} also belongs to behavior {other!r}; an agent has one behavior",
                    key=(*BEHAVIORS, name, "agents"),
                )
            if not group[0].alike(agent):
                raise ConfigError(
                    f"{group[0].description}, but {agent.description}; agents of one behavior have equal spaces: give "
                    "them different behaviors, or a wrapper that makes their spaces equal",
                    key=(*BEHAVIORS, name),
                )
    unassigned = [agent.name for agent in agents if agent.name not in behavior_of]
    if unassigned:
        raise ConfigError(
            f"no behavior has the agents {_listed(unassigned)} of {game}; every agent needs a behavior", key=BEHAVIORS
        )
    casts = []
    for number, (name, group) in enumerate(groups.items()):
        key = (*BEHAVIORS, name, "team")
        teams = _teams(group, blocks.get(name), in_turns, number, key)
        casts.append(Cast(name, tuple(group), teams))
    return tuple(casts)


def _matching(agents: Sequence[Agent], patterns: Sequence[str], key: KeyPath) -> list[Agent]:
    names = [agent.name for agent in agents]
    for pattern in patterns:
        if not any(fnmatchcase(name, pattern) for name in names):
            raise ConfigError(
                f"no agent is called {pattern!r}; there are {_listed(names)}{did_you_mean(pattern, names)}",
                key=key,
            )
    group = []
    for agent in agents:
        if any(fnmatchcase(agent.name, pattern) for pattern in patterns):
            group.append(agent)
    if not group:
        raise ConfigError(f"is empty; there are the agents {_listed(names)}", key=key)
    return group


def _teams(
    group: Sequence[Agent], block: BehaviorAgents | None, in_turns: bool, number: int, key: KeyPath
) -> tuple[int, ...]:
    team = None if block is None else block.team
    if team == EACH or (team is None and in_turns):
        return tuple(agent.place for agent in group)
    if not isinstance(team, Mapping):
        of_all = number if team is None else int(team)
        return (of_all,) * len(group)
    for pattern in team:
        _matching(group, [pattern], key)
    teams = []
    for agent in group:
        patterns = [pattern for pattern in team if fnmatchcase(agent.name, pattern)]
        numbers = {team[pattern] for pattern in patterns}
        if len(numbers) != 1:
            problem = f"has the teams of {_listed(patterns)}" if patterns else "has no team"
            raise ConfigError(f"{agent.name!r} {problem}; an agent has one team", key=key)
        teams.append(numbers.pop())
    return tuple(teams)


def _by_spaces(agents: Sequence[Agent], game: str, file_names: Sequence[str]) -> dict[str, list[Agent]]:
    """The agents with equal spaces, by what their names have in common."""
    groups: list[list[Agent]] = []
    for agent in agents:
        for group in groups:
            if group[0].alike(agent):
                group.append(agent)
                break
        else:
            groups.append([agent])
    if len(groups) == len(file_names) == 1:
        return {file_names[0]: groups[0]}
    named: dict[str, list[Agent]] = {}
    for group in groups:
        name = _common([agent.name for agent in group]) or game
        if name in named:
            name = group[0].name
        named[name] = group
    return named


def _common(names: Sequence[str]) -> str:
    """Return how all names begin, without a number at its end."""
    common = names[0]
    for name in names[1:]:
        while not name.startswith(common):
            common = common[:-1]
    return common.rstrip("0123456789").rstrip("_- ")


def _listed(names: Sequence[str]) -> str:
    first = ", ".join(map(repr, names[:8]))
    if len(names) > 8:
        return f"{first} and {len(names) - 8} more"
    return first
