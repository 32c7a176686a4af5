"""A client of HTTP/2 and gRPC on a plain socket, for tests: one connection, calls one after another.

It costs a tenth of grpcio's client, so a measurement with it measures the server. :func:`frame` writes single frames,
also such as no real client sends.
"""

from __future__ import annotations

import socket
import struct
from collections.abc import Iterator

from rlcore_unity.mlagents_messages import EXCHANGE

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
DATA, HEADERS, PRIORITY, RST_STREAM, SETTINGS, PUSH_PROMISE, PING, GOAWAY, WINDOW_UPDATE, CONTINUATION = range(10)
# flags
END_STREAM = 1
ACK = 1
END_HEADERS = 4
PADDED = 8
PRIORITIZED = 32
LARGEST_WINDOW = 2**31 - 1


def frame(kind: int, flags: int, stream: int, payload: bytes) -> bytes:
    """One frame of HTTP/2."""
    return struct.pack(">I", len(payload))[1:] + bytes([kind, flags]) + struct.pack(">I", stream) + payload


def prefixed(message: bytes) -> bytes:
    """A message as gRPC sends it."""
    return struct.pack(">BI", 0, len(message)) + message


def settings(**numbers: int) -> bytes:
    """A frame of settings: ``settings(initial_window_size=10)``."""
    known = {"header_table_size": 1, "enable_push": 2, "max_concurrent_streams": 3, "initial_window_size": 4}
    return frame(SETTINGS, 0, 0, b"".join(struct.pack(">HI", known[name], value) for name, value in numbers.items()))


def _header_block() -> bytes:
    """The headers of a call; every name and value is literal, with a length of seven bits."""
    pairs = [(b":method", b"POST"), (b":scheme", b"http"), (b":path", EXCHANGE.encode()), (b":authority", b"localhost"),
             (b"te", b"trailers"), (b"content-type", b"application/grpc")]  # fmt: skip
    return b"".join(b"\0" + bytes([len(name)]) + name + bytes([len(value)]) + value for name, value in pairs)


CALL = _header_block()
OPENING = PREFACE + settings(enable_push=0, initial_window_size=LARGEST_WINDOW)
WIDE = frame(WINDOW_UPDATE, 0, 0, struct.pack(">I", LARGEST_WINDOW - 65_535))


class PlainClient:
    """A connection.

    Attributes:
        socket: Its socket.
    """

    def __init__(self, port: int, opening: bytes = OPENING + WIDE, seconds: float | None = 60.0) -> None:
        """Connect to 127.0.0.1, and begin with ``opening``."""
        self.socket = socket.create_connection(("127.0.0.1", port), seconds)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.socket.sendall(opening)
        self._data = bytearray()
        self._stream = -1

    def frames(self) -> Iterator[tuple[int, int, int, bytes]]:
        """Read frames: kind, flags, stream, payload. Ends with the connection."""
        data = self._data
        while True:
            while len(data) >= 9:
                head, flags, stream = struct.unpack_from(">IBI", data)
                end = 9 + (head >> 8)
                if len(data) < end:
                    break
                payload = bytes(data[9:end])
                del data[:end]
                yield head & 0xFF, flags, stream, payload
            try:
                more = self.socket.recv(1 << 18)
            except ConnectionError:
                more = b""
            if not more:
                return
            data += more

    def call(self, message: bytes, timeout: float | None = None, wait_for_ready: bool = False) -> bytes:
        """Send a message, and return the answer. Raises ConnectionError. The other arguments are those of grpcio."""
        self._stream += 2
        body = prefixed(message)
        parts = [body[at : at + 16_384] for at in range(0, len(body), 16_384)]
        self.socket.sendall(
            frame(HEADERS, END_HEADERS, self._stream, CALL)
            + b"".join(frame(DATA, 0, self._stream, part) for part in parts[:-1])
            + frame(DATA, END_STREAM, self._stream, parts[-1])
        )
        return self.answer()

    def answer(self) -> bytes:
        """Return the answer to the call that was sent last. Raises ConnectionError."""
        body = bytearray()
        for kind, flags, stream, payload in self.frames():
            if stream == self._stream and kind == DATA:
                body += payload
            elif stream == self._stream and kind == HEADERS and flags & END_STREAM:
                if len(body) < 5 or len(body) != 5 + struct.unpack_from(">I", body, 1)[0]:
                    raise ConnectionError(f"the call was refused: {payload!r}")
                return bytes(body[5:])
            elif kind == PING and not flags & ACK:
                self.socket.sendall(frame(PING, ACK, 0, payload))
            elif kind == SETTINGS and not flags & ACK:
                self.socket.sendall(frame(SETTINGS, ACK, 0, b""))
        raise ConnectionError("the connection has ended")

    def close(self) -> None:
        """Hang up."""
        self.socket.close()
