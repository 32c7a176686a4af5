"""The messages as their bytes: what Unity writes is read, and what Unity reads is written, by the numbers of fields."""

from __future__ import annotations

import struct

import pytest
from google.protobuf.message import DecodeError

from rlcore_unity.mlagents_messages import AgentInfo, BrainParameters, Command, UnityMessage


def field(number: int, content: bytes | int | float) -> bytes:
    """One field on the wire, of a number below 16 and at most 127 bytes."""
    if isinstance(content, float):
        return bytes([number << 3 | 5]) + struct.pack("<f", content)
    if isinstance(content, int):
        return bytes([number << 3, content])
    return bytes([number << 3 | 2, len(content)]) + content


def test_the_first_message_of_a_player_is_read() -> None:
    capabilities = b"".join(field(number, 1) for number in range(1, 8))
    started = field(1, b"Walker") + field(2, b"1.5.0") + field(7, b"4.0.0") + field(8, capabilities)
    message = UnityMessage.FromString(field(1, field(1, 100)) + field(2, field(2, started)))
    assert message.header.status == 100
    told = message.unity_output.rl_initialization_output
    assert (told.name, told.communication_version, told.package_version) == ("Walker", "1.5.0", "4.0.0")
    assert [flag.name for flag, value in told.capabilities.ListFields() if value] == [
        "baseRLCapabilities",
        "concatenatedPngObservations",
        "compressedChannelMapping",
        "hybridActions",
        "trainingAnalytics",
        "variableLengthObservation",
        "multiAgentGroups",
    ]


def test_agents_are_read_by_behavior() -> None:
    numbers = struct.pack("<2f", 0.5, -1.0)
    observation = field(1, bytes([2])) + field(4, field(1, numbers)) + field(6, bytes([1])) + field(8, b"sensor")
    info = field(7, 0.25) + field(8, 1) + field(9, 1) + field(10, 7) + field(11, bytes([0, 1])) + field(13, observation)
    info += field(14, 3) + field(15, 2.0)
    agents = field(1, b"Walker?team=1") + field(2, field(1, info) + field(1, field(10, 8)))
    message = UnityMessage.FromString(field(2, field(1, field(2, agents) + field(3, b"side"))))
    output = message.unity_output.rl_output
    first, second = output.agentInfos["Walker?team=1"].value
    assert (first.reward, first.done, first.max_step_reached, first.id) == (0.25, True, True, 7)
    assert (list(first.action_mask), first.group_id, first.group_reward) == ([False, True], 3, 2.0)
    (seen,) = first.observations
    assert (list(seen.shape), list(seen.float_data.data), list(seen.dimension_properties)) == ([2], [0.5, -1.0], [1])
    assert (seen.name, second.id, second.done, output.side_channel) == ("sensor", 8, False, b"side")


def test_actions_are_written_by_behavior() -> None:
    message = UnityMessage()
    message.header.status = 100
    reply = message.unity_input.rl_input
    reply.command = Command.RESET
    reply.agent_actions["Walker"].value.add(continuous_actions=[0.5], discrete_actions=[2, 0])
    action = field(6, struct.pack("<f", 0.5)) + field(7, bytes([2, 0]))
    agents = field(1, b"Walker") + field(2, field(1, action))
    assert message.SerializeToString() == field(1, field(1, 100)) + field(3, field(1, field(1, agents) + field(4, 1)))


def test_the_answer_to_the_first_message_is_written() -> None:
    message = UnityMessage()
    told = message.unity_input.rl_initialization_input
    told.seed, told.communication_version, told.package_version, told.num_areas = 5, "1.5.0", "1.1.0", 2
    told.capabilities.multiAgentGroups = True
    expected = field(1, 5) + field(2, b"1.5.0") + field(3, b"1.1.0") + field(4, field(7, 1)) + field(5, 2)
    assert message.SerializeToString() == field(3, field(2, expected))


def test_a_behavior_is_read() -> None:
    actions = field(1, 2) + field(2, 1) + field(3, bytes([3])) + field(4, b"turn")
    brain = BrainParameters.FromString(field(7, b"Walker") + field(8, 1) + field(9, actions))
    spec = brain.action_spec
    assert (brain.brain_name, brain.is_training, spec.num_continuous_actions) == ("Walker", True, 2)
    assert (spec.num_discrete_actions, list(spec.discrete_branch_sizes)) == (1, [3])
    assert list(spec.action_descriptions) == ["turn"]


def test_fields_that_are_not_listed_are_skipped() -> None:
    assert AgentInfo.FromString(field(1, b"of the year 2018") + field(10, 4) + field(12, b"")).id == 4


@pytest.mark.parametrize("length", [1, 5, 20])
def test_half_a_message_is_an_error(length: int) -> None:
    message = UnityMessage()
    message.unity_output.rl_initialization_output.name = "a name of some length"
    with pytest.raises(DecodeError):
        UnityMessage.FromString(message.SerializeToString()[:length])
