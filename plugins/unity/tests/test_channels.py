"""Side channels and statistics of players."""

from __future__ import annotations

from uuid import UUID

import numpy as np
import pytest

from rlcore import ParameterSampler
from rlcore_unity.channels import Channels
from rlcore_unity.mlagents_messages import (
    ENGINE_CONFIGURATION,
    ENVIRONMENT_PARAMETERS,
    STATISTICS,
    Reader,
    SideChannelError,
    Writer,
    decode_messages,
    encode_messages,
)
from rlcore_unity.settings import UnitySettings
from rlcore_unity.statistics import Statistics


def channels(env: int = 0, **own: object) -> Channels:
    statistics = Statistics()
    statistics.begin(["Ball"])
    return Channels(env, UnitySettings(time_scale=3.0, width=100, height=50), statistics, own)  # type: ignore[arg-type]


def test_the_first_message_configures_the_engine_and_the_next_has_nothing() -> None:
    made = channels()
    made.begin()
    sent = decode_messages(made.outgoing())
    assert [channel for channel, _ in sent] == [ENGINE_CONFIGURATION] * 5
    readers = [Reader(payload) for _, payload in sent]
    assert [reader.read_int32() for reader in readers] == [0, 1, 2, 3, 4]
    assert (readers[0].read_int32(), readers[0].read_int32()) == (100, 50)
    assert readers[2].read_float32() == 3.0
    assert made.outgoing() == b""


def test_parameters_of_a_player_are_sent_when_they_change() -> None:
    made = channels(env=1)
    made.set_parameters({"size": np.array([1.0, 2.0])})
    made.set_parameters({"size": np.array([5.0, 2.0])})  # of another player
    ((channel, payload),) = decode_messages(made.outgoing())
    reader = Reader(payload)
    assert channel == ENVIRONMENT_PARAMETERS
    assert (reader.read_string(), reader.read_int32(), reader.read_float32()) == ("size", 0, 2.0)
    made.set_parameters({"size": np.array([5.0, 3.0])})
    assert len(decode_messages(made.outgoing())) == 1
    made.begin()  # another player, which knows nothing
    made.set_parameters({"size": np.array([5.0, 3.0])})
    assert len(decode_messages(made.outgoing())) == 6


def test_samplers_are_sent_as_samplers_once() -> None:
    made = channels(env=1)
    samplers = {
        "size": ParameterSampler("uniform", (0.5, 2.0), 10),
        "wind": ParameterSampler("multirange", (0.0, 1.0, 4.0, 5.0), 20),
    }
    for value in (1.0, 2.0):  # what rlcore draws is not used
        made.set_parameters(dict.fromkeys(samplers, np.array([0.0, value])), samplers, seed=3)
    (_, first), (_, second) = decode_messages(made.outgoing())
    uniform = Reader(first)
    ranges = Reader(second)
    assert [uniform.read_string(), *(uniform.read_int32() for _ in range(3))] == ["size", 1, 13, 0]
    assert [uniform.read_float32(), uniform.read_float32()] == [0.5, 2.0]
    assert [ranges.read_string(), *(ranges.read_int32() for _ in range(3))] == ["wind", 1, 23, 2]
    assert list(ranges.read_float32_list()) == [0.0, 1.0, 4.0, 5.0]


def test_a_channel_of_a_plugin_is_told_of_each_player_that_starts() -> None:
    class Told:
        channel_id = UUID(int=7)

        def __init__(self) -> None:
            self.starts: list[int] = []

        def started(self, env: int) -> None:
            self.starts.append(env)

        def received(self, env: int, message: bytes) -> None: ...

        def outgoing(self, env: int) -> list[bytes]:
            return []

    told = Told()
    made = Channels(2, UnitySettings(), Statistics(), {told.channel_id: told})
    made.begin()
    made.begin()
    assert told.starts == [2, 2]


def test_statistics_are_aggregated_as_the_player_says() -> None:
    made = channels()
    for value in (1.0, 2.0, 6.0):
        made.receive(encode_messages([
            (STATISTICS, Writer().write_string(name).write_float32(value).write_int32(kind).payload)
            for kind, name in enumerate(("average", "latest", "sum", "histogram"))
        ]))  # fmt: skip
    found = made.statistics.summaries("Ball")
    assert {name: (each.mean, each.count, each.values) for name, each in found.items()} == {
        "average": (3.0, 3, ()),
        "latest": (6.0, 1, ()),
        "sum": (9.0, 1, ()),
        "histogram": (3.0, 3, (1.0, 2.0, 6.0)),
    }
    assert made.statistics.summaries("Ball") == {}


def test_every_behavior_has_its_own_window() -> None:
    statistics = Statistics()
    statistics.begin(["A", "B"])
    statistics.add("x", 1.0, 0)
    assert statistics.summaries("A")["x"].mean == 1.0
    statistics.add("x", 3.0, 0)
    assert statistics.summaries("A")["x"].mean == 3.0
    assert statistics.summaries("B")["x"].mean == 2.0


def test_statistics_that_are_no_numbers_or_have_no_name_are_left_out(caplog: pytest.LogCaptureFixture) -> None:
    statistics = Statistics()
    statistics.begin(["A"])
    for name, value, kind in (("x", float("nan"), 0), ("", 1.0, 0), ("a\nb", 1.0, 0), ("y", 1.0, 9)):
        statistics.add(name, value, kind)
    assert statistics.summaries("A") == {}
    assert len(caplog.records) == 1


def test_plugins_send_and_receive_messages_of_their_own_channel(caplog: pytest.LogCaptureFixture) -> None:
    class Echo:
        channel_id = UUID("00000000-0000-0000-0000-000000000001")

        def __init__(self) -> None:
            self.heard: list[tuple[int, bytes]] = []

        def received(self, env: int, message: bytes) -> None:
            self.heard.append((env, message))

        def outgoing(self, env: int) -> list[bytes]:
            return [b"to %d" % env]

    echo = Echo()
    made = Channels(2, UnitySettings(), Statistics(), {echo.channel_id: echo})
    assert decode_messages(made.outgoing()) == [(echo.channel_id, b"to 2")]
    unknown = UUID("00000000-0000-0000-0000-000000000002")
    made.receive(encode_messages([(echo.channel_id, b"hello"), (unknown, b"x"), (unknown, b"y")]))
    assert echo.heard == [(2, b"hello")]
    assert len(caplog.records) == 1 and str(unknown) in caplog.text


def test_a_damaged_message_is_an_error() -> None:
    with pytest.raises(SideChannelError):
        channels().receive(STATISTICS.bytes_le + b"\xff\xff\xff\x7f")
