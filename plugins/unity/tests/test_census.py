"""The places that are counted before a training: messages as Unity sends them, made by hand."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rlcore_unity.behaviors import Brain, read_brain
from rlcore_unity.census import Census, Seats
from rlcore_unity.mlagents_messages import ActionSpec, BrainParameters, RLOutput
from rlcore_workers import PlayerFailed

Message = Mapping[str, Sequence[tuple[int, int]]]  # by behavior: number and group of each agent


class Scripted:
    """A player whose messages are given; it repeats the last one."""

    def __init__(self, *messages: Message) -> None:
        self.messages, self.sent = list(messages), list[Any]()

    def receive(self) -> Any:
        message = self.messages.pop(0) if len(self.messages) > 1 else self.messages[0]
        output = RLOutput()
        for name, agents in message.items():
            listed = output.agentInfos[name]
            listed.SetInParent()
            for number, group in agents:
                info = listed.value.add(id=number, group_id=group)
                info.observations.add(shape=[1], name="vector").float_data.data.append(0.0)
        return output

    def send(self, message: Any) -> None:
        self.sent.append(message)

    def brain(self, name: str, agents: Sequence[Any]) -> Brain:
        assert agents
        actions = ActionSpec(num_continuous_actions=1)
        return read_brain(BrainParameters(brain_name=name, action_spec=actions), agents[0].observations)

    def failed(self, problem: str) -> PlayerFailed:
        return PlayerFailed(problem, [])


class NoChannels:
    def hear(self, player: Any, data: bytes) -> None:
        pass

    def outgoing(self) -> bytes:
        return b""


def counted(*messages: Message, wanted: Sequence[str] = (), agents: int | None = None) -> tuple[Seats, ...]:
    player = Scripted(*messages)
    census = Census(player, NoChannels())  # type: ignore[arg-type]
    seats = census.take(player.receive(), frozenset(wanted), agents)
    assert all(each.value for sent in player.sent for each in sent.agent_actions.values())
    return seats


def groups(*messages: Message, agents: int | None = None) -> tuple[int, ...]:
    (seats,) = counted(*messages, agents=agents)
    return seats.groups


def test_a_behavior_that_is_subscribed_is_known_when_it_has_agents() -> None:
    """Unity lists it from the moment on when an agent gets it, and describes it with its first agents."""
    before: Message = {"Small?team=0": [(1, 0)], "Big?team=0": []}
    after: Message = {"Small?team=0": [], "Big?team=0": [(2, 0), (3, 0)]}
    for messages, wanted in ((30, []), (300, ["Big"])):  # waited for longer if the configuration lists it
        found = counted(*[before] * messages, after, wanted=wanted)
        assert {each.brain.name for each in found} == {"Small", "Big"}


def test_a_behavior_without_agents_has_no_places() -> None:
    assert [each.brain.name for each in counted({"Small?team=0": [(1, 0)], "Big?team=0": []})] == ["Small"]


def test_agents_that_join_a_group_after_their_first_decision_are_counted_there() -> None:
    first: Message = {"Push": [(number, 0) for number in range(6)]}
    then: Message = {"Push": [(number, 7 + number // 3) for number in range(6)]}
    assert groups(first, then) == (0, 0, 0, 1, 1, 1)
    assert groups(first, then, agents=8) == (0, 0, 0, 1, 1, 1, 0, 1)


def test_groups_that_replace_others_have_their_places() -> None:
    def at(first: int) -> Message:
        return {"Push": [(number, first + number // 2) for number in range(4)]}

    ends: Message = {"Push": []}
    assert groups(at(1), ends, at(1)) == (0, 0, 1, 1)


def test_agents_in_no_group_have_places_beside_groups() -> None:
    assert groups({"Push": [(1, 0), (2, 5), (3, 5)]}) == (0, 0, -1)


def test_behaviors_that_one_agent_may_have_in_turn_have_places_for_all_agents() -> None:
    """SetModel gives an agent another behavior for an episode: which of them have it at first is chance."""
    found = counted({"Small?team=0": [(1, 0)], "Big?team=0": [(2, 0), (3, 0)], "Other?team=1": [(4, 0)]})
    assert {each.brain.name: len(each.groups) for each in found} == {"Big": 3, "Other": 1, "Small": 3}
    assert [len(each.groups) for each in counted({"Small": [(1, 0)], "Big": [(2, 0), (3, 0)]}, agents=2)] == [2, 2]
