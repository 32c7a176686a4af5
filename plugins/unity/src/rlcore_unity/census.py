"""The first decisions of a player: which behaviors it has, and how many of their agents are there at once.

The places for agents must be known before training. A player says what it has only as its agents ask for decisions, and
not all ask at the same time.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Container, Hashable, Iterable, Mapping
from itertools import zip_longest
from typing import Any, Self

import attrs

from rlcore_unity.actions import neutral
from rlcore_unity.behaviors import Brain
from rlcore_unity.channels import Channels
from rlcore_unity.mlagents_messages import RLInput
from rlcore_unity.player import Player
from rlcore_unity.settings import MAX_AGENTS

log = logging.getLogger("rlcore.plugin.unity")

QUIET_DECISIONS = 10  # without a new agent, after which all are taken to be there
LATEST_DECISIONS = 100  # that are waited for new agents, and for agents of behaviors that are subscribed
LATEST_BEHAVIORS = 1_000  # that are waited for behaviors that the configuration lists
NO_GROUP = 0  # of ``group_id``


@attrs.define
class Counted:
    """Agents of one behavior and team in one player, by group.

    An agent may report before it is in its group: the group of its latest message is the one that counts.
    """

    brain: Brain
    here: dict[int, int] = attrs.field(factory=dict)  # the group of each agent that is there, by id
    joins: bool = False  # whether an agent has joined a group after it first reported
    most_alone: int = 0  # agents that are in no group, at once
    of_groups: list[int] = attrs.field(factory=list)  # the most agents of the largest group, of the second one, ...

    @property
    def total(self) -> int:
        """How many places these agents need."""
        return sum(self.of_groups) + self.most_alone

    @property
    def kind(self) -> Hashable:
        """Team, sensors and actions, which are alike for the behaviors that one agent may have."""
        brain = self.brain
        return brain.team, brain.sensors, brain.spec.continuous, brain.spec.discrete

    def add(self, infos: Iterable[Any]) -> bool:
        """Count agents; return whether there are more than before."""
        has_joined = False
        first: set[int] = set()  # ids of agents that report for the first time
        for info in infos:
            if info.done:
                self.here.pop(info.id, None)
                continue
            if info.id not in self.here:
                first.add(info.id)
            elif self.here[info.id] != info.group_id:
                has_joined = True
            self.here[info.id] = info.group_id
        if has_joined:
            self.joins = True
            self.most_alone = 0  # those who were alone until now were on their way to a group
        return self._note(first if self.joins else ())

    def recount(self, here: dict[int, int]) -> None:
        """Count the agents that are ``here`` in the middle of a training, each with its group."""
        self.here = here
        self._note(here.keys() if self.joins else ())

    def _note(self, on_their_way: Container[int]) -> bool:
        """Note the most agents at once; return whether there are more than before."""
        sizes = Counter(group for group in self.here.values() if group != NO_GROUP)
        alone = sum(group == NO_GROUP and number not in on_their_way for number, group in self.here.items())
        # The largest group is compared with the largest so far: numbers of groups are others in each episode.
        descending = sorted(sizes.values(), reverse=True)
        of_groups = list(map(max, zip_longest(self.of_groups, descending, fillvalue=0)))
        more = alone > self.most_alone or of_groups != self.of_groups
        self.most_alone = max(self.most_alone, alone)
        self.of_groups = of_groups
        return more


@attrs.frozen
class Seats:
    """Places for the agents of one behavior and team in one player.

    Attributes:
        brain: The behavior and team.
        groups: The group of each place, numbered from 0; -1 for one in no group.
        counted: The agents that they are for, which may become more.
    """

    brain: Brain
    groups: tuple[int, ...]
    counted: Counted

    @classmethod
    def of(cls, counted: Counted, agents: int | Mapping[str, int] | None) -> Self:
        """The places for agents, as many as the setting ``agents`` says."""
        wanted = agents.get(counted.brain.name) if isinstance(agents, Mapping) else agents
        return cls(counted.brain, _groups(counted, wanted), counted)

    def enlarged(self) -> Self:
        """Places for all agents that were counted since."""
        places = max(len(self.groups), self.counted.total)
        return attrs.evolve(self, groups=_groups(self.counted, places))


class Census:
    """Counts the agents of one player. Its side channels are served meanwhile."""

    def __init__(self, player: Player, channels: Channels) -> None:
        self._player = player
        self._channels = channels
        self._counted: dict[str, Counted] = {}
        self._subscribed: set[str] = set()  # behaviors and teams that messages list, also without agents
        # The most agents at once of all behaviors of one kind: any of them may have any of these behaviors, because
        # ``SetModel`` gives an agent another one, with the same sensors and actions, for an episode.
        self._alike = Counter[Hashable]()

    def take(self, output: Any, wanted: frozenset[str], agents: int | Mapping[str, int] | None) -> tuple[Seats, ...]:
        """Return the places that the player needs, from its first ``output`` on.

        Further decisions are made with actions of zeros. ``wanted`` are behaviors to wait for, ``agents`` the setting.
        Raises PlayerFailed.
        """
        quiet = 0
        decisions = 0
        while True:
            self._channels.hear(self._player, output.side_channel)
            quiet = 0 if self._add(output) else quiet + 1
            names = {counted.brain.name for counted in self._counted.values()}
            # Also where ``agents`` has the numbers: agents may join their groups later than they first decide.
            calm = quiet >= QUIET_DECISIONS and self._subscribed <= self._counted.keys()
            enough = calm or decisions >= LATEST_DECISIONS
            if names and enough and wanted <= names:
                break
            if decisions >= LATEST_BEHAVIORS:
                if names:
                    break
                raise self._player.failed(f"has no agents that ask for decisions, in {decisions} steps")
            self._player.send(RLInput(agent_actions=self._actions(output), side_channel=self._channels.outgoing()))
            output = self._player.receive()
            decisions += 1
        by_name = [counted for _, counted in sorted(self._counted.items())]
        for counted in by_name:
            if not counted.of_groups:
                counted.most_alone = max(counted.most_alone, self._alike[counted.kind])
        return tuple(Seats.of(counted, agents) for counted in by_name)

    def _add(self, output: Any) -> bool:
        grew = False
        self._subscribed.update(output.agentInfos)
        for name, listed in output.agentInfos.items():
            if len(listed.value) > MAX_AGENTS:
                raise self._player.failed(f"has {len(listed.value)} agents in one message; {MAX_AGENTS} are allowed")
            if not listed.value:  # Unity lists each behavior from the moment on when it is subscribed
                continue
            if name not in self._counted:
                self._counted[name] = Counted(self._player.brain(name, listed.value))
            grew |= self._counted[name].add(listed.value)
        alike = Counter[Hashable]()
        for counted in self._counted.values():
            alike[counted.kind] += len(counted.here)
        self._alike |= alike  # the most of each kind
        return grew

    def _actions(self, output: Any) -> dict[str, Any]:
        """Actions of zeros for the agents that wait for one."""
        actions = {}
        for name, listed in output.agentInfos.items():
            if listed.value:
                waiting = [info for info in listed.value if not info.done]
                actions[name] = neutral(self._counted[name].brain, waiting)
        return actions


def _groups(counted: Counted, places: int | None) -> tuple[int, ...]:
    """The group of each of the ``places``, numbered from 0; -1 for none. Groups share what is left over.

    Without ``places``, there are as many as the agents had at once: for each group, and for those in none.
    """
    numbered = [number for number, size in enumerate(counted.of_groups) for _ in range(size)]
    numbered += [-1] * counted.most_alone
    if places is None:
        return tuple(numbered) or (-1,)
    groups = len(counted.of_groups)
    while len(numbered) < places:  # in turn, so that each group has some of what is left
        numbered.append(len(numbered) % groups if groups else -1)
    return tuple(numbered[:places])
