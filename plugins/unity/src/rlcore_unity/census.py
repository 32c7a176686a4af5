"""The first decisions of a player: which behaviors it has, and how many of their agents are there at once.

The places for agents must be known before training. A player says what it has only as its agents ask for decisions, and
not all ask at the same time.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from typing import Any

import attrs

from rlcore_mlagents_messages import RLInput
from rlcore_unity.actions import neutral
from rlcore_unity.behaviors import Brain
from rlcore_unity.channels import Channels
from rlcore_unity.player import Player
from rlcore_unity.settings import MAX_AGENTS

log = logging.getLogger("rlcore.plugin.unity")

QUIET_DECISIONS = 10  # without a new agent, after which all are taken to be there
LATEST_DECISIONS = 100  # that are waited for new agents
LATEST_BEHAVIORS = 1_000  # that are waited for behaviors that the configuration lists
NO_GROUP = 0  # of ``group_id``


@attrs.define
class _Counted:
    """Agents of one behavior and team in one player, by group."""

    brain: Brain
    here: dict[int, int] = attrs.field(factory=dict)  # the group of each agent that is there, by id
    most: int = 0
    of_groups: dict[int, int] = attrs.field(factory=dict)  # the most agents of each group

    def add(self, infos: Iterable[Any]) -> bool:
        """Count agents; return whether there are more than before."""
        for info in infos:
            if info.done:
                self.here.pop(info.id, None)
            else:
                self.here[info.id] = info.group_id
        groups: dict[int, int] = {}
        for group in self.here.values():
            groups[group] = groups.get(group, 0) + 1
        grown = {group: count for group, count in groups.items() if count > self.of_groups.get(group, 0)}
        self.of_groups.update(grown)
        more = len(self.here) > self.most
        self.most = max(self.most, len(self.here))
        return bool(grown) or more


@attrs.frozen
class Seats:
    """Places for the agents of one behavior and team in one player.

    Attributes:
        brain: The behavior and team.
        groups: The group of each place, numbered from 0; -1 for one in no group.
    """

    brain: Brain
    groups: tuple[int, ...]


class Census:
    """Counts the agents of one player. Its side channels are served meanwhile."""

    def __init__(self, player: Player, channels: Channels) -> None:
        self._player, self._channels = player, channels
        self._found: dict[str, _Counted] = {}

    def take(self, output: Any, wanted: frozenset[str], agents: int | Mapping[str, int] | None) -> tuple[Seats, ...]:
        """Return the places that the player needs, from its first ``output`` on.

        Further decisions are made with actions of zeros. ``wanted`` are behaviors to wait for, ``agents`` the setting.
        Raises PlayerFailed.
        """
        quiet = decisions = 0
        while True:
            self._channels.hear(self._player, output.side_channel)
            quiet = 0 if self._add(output) else quiet + 1
            names = {each.brain.name for each in self._found.values()}
            missing = wanted - names
            known = names and (isinstance(agents, int) or (agents is not None and names <= agents.keys()))
            enough = known or quiet >= QUIET_DECISIONS or decisions >= LATEST_DECISIONS
            if names and ((enough and not missing) or decisions >= LATEST_BEHAVIORS):
                break
            if decisions >= LATEST_BEHAVIORS:
                raise self._player.failed(f"has no agents that ask for decisions, in {decisions} steps")
            self._player.send(RLInput(agent_actions=self._actions(output), side_channel=self._channels.outgoing()))
            output = self._player.receive()
            decisions += 1
        found = [counted for _, counted in sorted(self._found.items())]
        return tuple(Seats(each.brain, _groups(each, _wanted(each, agents))) for each in found)

    def _add(self, output: Any) -> bool:
        grew = False
        for name, listed in output.agentInfos.items():
            if len(listed.value) > MAX_AGENTS:
                raise self._player.failed(f"has {len(listed.value)} agents in one message; {MAX_AGENTS} are allowed")
            if name not in self._found:
                self._found[name] = _Counted(self._player.brain(name, listed.value))
            grew |= self._found[name].add(listed.value)
        return grew

    def _actions(self, output: Any) -> dict[str, Any]:
        """Actions of zeros for the agents that wait for one."""
        return {
            name: neutral(self._found[name].brain, [info for info in listed.value if not info.done])
            for name, listed in output.agentInfos.items()
        }


def _wanted(counted: _Counted, agents: int | Mapping[str, int] | None) -> int:
    """The number of places for a behavior and team."""
    given = agents.get(counted.brain.name) if isinstance(agents, Mapping) else agents
    return max(1, counted.most if given is None else given)


def _groups(counted: _Counted, places: int) -> tuple[int, ...]:
    """The group of each of the ``places``, numbered from 0; -1 for none. Groups share what is left over."""
    sizes = [(group, count) for group, count in counted.of_groups.items() if count]
    numbered: list[int] = []
    for number, (group, count) in enumerate(sizes):
        numbered += [-1 if group == NO_GROUP else number] * count
    grouped = sorted({number for number in numbered if number >= 0})
    while len(numbered) < places:
        numbered.append(grouped[len(numbered) % len(grouped)] if grouped else -1)
    return tuple(numbered[:places])
