"""Side channels of ML-Agents: the framing of their messages, and the values in a message's payload.

``RLInput.side_channel`` and ``RLOutput.side_channel`` contain messages one after another: 16 bytes of the channel's id
(a UUID, little-endian), an int32 with the length, and the payload. Numbers are little-endian. Payloads of the channels
that every player has:

=========================  =============================================================================================
ENGINE_CONFIGURATION       int32 kind, then: 0 int32 width, int32 height; 1 int32 quality level; 2 float32 time scale;
                           3 int32 target frame rate; 4 int32 capture frame rate. To Unity.
ENVIRONMENT_PARAMETERS     string key, int32 kind, then: 0 float32 value; 1 int32 seed, int32 sampler, and its numbers:
                           0 uniform with float32 minimum and maximum; 1 gaussian with float32 mean and deviation;
                           2 multirange uniform with a float list of minimum and maximum of each range. To Unity.
STATISTICS                 string key, float32 value, int32 aggregation: 0 average, 1 most recent, 2 sum, 3 histogram.
                           From Unity.
TRAINING_ANALYTICS         ``google.protobuf.Any`` with what ML-Agents tells Unity of a training. To Unity.
=========================  =============================================================================================

What is read comes from another process: a length that the data cannot have is a :class:`SideChannelError`, before
anything of that length is made.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Sequence
from typing import Any, Self
from uuid import UUID

ENGINE_CONFIGURATION = UUID("e951342c-4f7e-11ea-b238-784f4387d1f7")
ENVIRONMENT_PARAMETERS = UUID("534c891e-810f-11ea-a9d0-822485860400")
STATISTICS = UUID("a1d8f7b7-cec8-50f9-b78b-d3e165a78520")
TRAINING_ANALYTICS = UUID("b664a4a9-d86f-5a5f-95cb-e8353a7e8356")

_ID = 16  # bytes


class SideChannelError(ValueError):
    """Data of a side channel that cannot be read, or a value that cannot be written; the text says where and why."""


class Reader:
    """Reads the values of a payload one after another. Every method raises SideChannelError where the data ends early.

    Args:
        payload: The data of one message.
    """

    def __init__(self, payload: bytes) -> None:
        self._payload = payload
        self._place = 0

    @property
    def left(self) -> int:
        """How many bytes have not been read."""
        return len(self._payload) - self._place

    def read_int32(self) -> int:
        """Read four bytes as a whole number."""
        return int(self._unpack("<i", "an int32"))

    def read_float32(self) -> float:
        """Read four bytes as a real number, which may be NaN or infinite."""
        return float(self._unpack("<f", "a float32"))

    def read_string(self) -> str:
        """Read an int32 with the length in bytes, and ASCII text."""
        data = self.read_bytes(self._length("a string"), "a string")
        try:
            return data.decode("ascii")
        except UnicodeDecodeError as error:
            place = self._place - len(data) + error.start
            raise SideChannelError(f"a string at byte {place} of a side channel's message is not ASCII") from error

    def read_float32_list(self) -> list[float]:
        """Read an int32 with how many there are, and as many float32."""
        count = self._length("a list of float32")
        return list(struct.unpack(f"<{count}f", self.read_bytes(4 * count, "a list of float32")))

    def read_bytes(self, length: int, what: str = "data") -> bytes:
        """Read ``length`` bytes. ``what`` is their name in an error."""
        if not 0 <= length <= self.left:
            place = f"at byte {self._place} of a side channel's message"
            raise SideChannelError(f"{what} {place} has {length} bytes, but {self.left} are left")
        self._place += length
        return self._payload[self._place - length : self._place]

    def _length(self, what: str) -> int:
        return int(self._unpack("<i", f"the length of {what}"))

    def _unpack(self, form: str, what: str) -> Any:
        (value,) = struct.unpack(form, self.read_bytes(struct.calcsize(form), what))
        return value


class Writer:
    """Collects the values of a payload: ``Writer().write_string("size").write_int32(0).write_float32(2.5).payload``.

    Attributes:
        payload: What was written, as bytes.
    """

    def __init__(self) -> None:
        self._parts: list[bytes] = []

    @property
    def payload(self) -> bytes:
        return b"".join(self._parts)

    def write_int32(self, value: int) -> Self:
        """Add a whole number. Raises SideChannelError for one that has no place in 32 bits."""
        if not -(2**31) <= value < 2**31:
            raise SideChannelError(f"{value} has no place in the 32 bits of a side channel's int32")
        return self.write_bytes(struct.pack("<i", value))

    def write_float32(self, value: float) -> Self:
        """Add a real number, rounded to 32 bits. Raises SideChannelError for one beyond their range."""
        return self.write_bytes(_float32(value))

    def write_string(self, value: str) -> Self:
        """Add the length, and ASCII text. Raises SideChannelError for other text, which Unity cannot read."""
        if not value.isascii():
            raise SideChannelError(f"{value!r} is not ASCII, and Unity's side channels read nothing else")
        return self.write_int32(len(value)).write_bytes(value.encode("ascii"))

    def write_float32_list(self, values: Sequence[float]) -> Self:
        """Add how many there are, and the real numbers."""
        return self.write_int32(len(values)).write_bytes(b"".join(map(_float32, values)))

    def write_bytes(self, data: bytes) -> Self:
        """Add bytes as they are."""
        self._parts.append(data)
        return self


def _float32(value: float) -> bytes:
    try:
        return struct.pack("<f", value)
    except OverflowError as error:
        raise SideChannelError(f"{value} has no place in the 32 bits of a side channel's float32") from error


def encode_messages(messages: Iterable[tuple[UUID, bytes]]) -> bytes:
    """Return what ``side_channel`` of a message contains, of the channel and payload of each."""
    return b"".join(channel.bytes_le + struct.pack("<i", len(payload)) + payload for channel, payload in messages)


def decode_messages(data: bytes) -> list[tuple[UUID, bytes]]:
    """Return channel and payload of each message in ``side_channel``. Raises SideChannelError for damaged data."""
    reader = Reader(data)
    messages = []
    while reader.left:
        channel = UUID(bytes_le=reader.read_bytes(_ID, "a channel's id"))
        messages.append((channel, reader.read_bytes(reader.read_int32(), "a payload")))
    return messages
