"""The framing of side channels, and the values in payloads, compared with bytes that are written out here."""

from __future__ import annotations

import struct
import tracemalloc
from collections.abc import Callable
from typing import Any

import pytest

from rlcore_unity.mlagents_messages import (
    ENGINE_CONFIGURATION,
    STATISTICS,
    Reader,
    SideChannelError,
    Writer,
    decode_messages,
    encode_messages,
)

ENGINE_BYTES = bytes.fromhex("2c3451e97e4fea11b238784f4387d1f7")  # the first three parts of the id are little-endian


def test_messages_are_framed_one_after_another() -> None:
    messages = [(ENGINE_CONFIGURATION, b"abc"), (STATISTICS, b"")]
    data = encode_messages(messages)
    assert data.startswith(ENGINE_BYTES + b"\x03\0\0\0abc") and data.endswith(b"\0\0\0\0")
    assert decode_messages(data) == messages
    assert decode_messages(b"") == []


def test_values_are_little_endian() -> None:
    writer = Writer().write_int32(-2).write_float32(0.5).write_string("key")
    writer.write_float32_list([1.0, 2.0]).write_bytes(b"rest")
    assert writer.payload == (
        struct.pack("<if", -2, 0.5) + b"\x03\0\0\0key" + struct.pack("<iff", 2, 1.0, 2.0) + b"rest"
    )
    reader = Reader(writer.payload)
    assert (reader.read_int32(), reader.read_float32()) == (-2, 0.5)
    assert (reader.read_string(), reader.read_float32_list(), reader.left) == ("key", [1.0, 2.0], 4)
    assert (reader.read_bytes(4), reader.left) == (b"rest", 0)


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"short", "a channel's id at byte 0 of a side channel's message has 16 bytes, but 5 are left"),
        (ENGINE_BYTES, "an int32 at byte 16 .* has 4 bytes, but 0 are left"),
        (ENGINE_BYTES + struct.pack("<i", -1), "a payload at byte 20 .* has -1 bytes"),
        (ENGINE_BYTES + struct.pack("<i", 2**31 - 1) + b"abc", "a payload at byte 20 .* 2147483647 bytes, but 3"),
    ],
    ids=["id", "length", "negative", "huge"],
)
def test_damaged_framing_is_one_error(data: bytes, words: str) -> None:
    with pytest.raises(SideChannelError, match=words):
        decode_messages(data)


@pytest.mark.parametrize(
    "read", [Reader.read_string, Reader.read_float32_list], ids=lambda method: str(method.__name__)
)
@pytest.mark.parametrize("length", [-1, 5, 2**31 - 1])
def test_a_hostile_length_is_an_error_before_memory_is_taken(read: Callable[[Reader], Any], length: int) -> None:
    payload = struct.pack("<i", length) + b"abcd"
    tracemalloc.start()
    try:
        with pytest.raises(SideChannelError, match="at byte 4 of a side channel's message has"):
            read(Reader(payload))
        assert tracemalloc.get_traced_memory()[1] < 1_000_000
    finally:
        tracemalloc.stop()


def test_text_is_ascii() -> None:
    with pytest.raises(SideChannelError, match="'gr\u00f6\u00dfe' is not ASCII"):
        Writer().write_string("gr\u00f6\u00dfe")
    with pytest.raises(SideChannelError, match="a string at byte 5 of a side channel's message is not ASCII"):
        Reader(b"\x02\0\0\0a\xff").read_string()


def test_numbers_that_do_not_fit_are_errors() -> None:
    with pytest.raises(SideChannelError, match="2147483648 has no place in the 32 bits"):
        Writer().write_int32(2**31)
    with pytest.raises(SideChannelError, match=r"1e\+39 has no place in the 32 bits"):
        Writer().write_float32_list([1e39])
