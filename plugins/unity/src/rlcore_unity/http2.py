"""The server's end of an HTTP/2 connection on which gRPC's unary calls of one method come, without its socket.

It follows RFC 9113 (frames, flow control) and gRPC's own page of its protocol over HTTP/2
(https://github.com/grpc/grpc/blob/master/doc/PROTOCOL-HTTP2.md). Only what a player needs is here: calls come one after
another, and each is one message.

Headers of calls are not decoded. There is one method, and the five bytes in front of a message say how long it is and
whether it is compressed. The headers of replies are the same each time, and are written without HPACK's table.
"""

from __future__ import annotations

import struct
from enum import IntEnum
from typing import Final

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
DATA, HEADERS, PRIORITY, RST_STREAM, SETTINGS, PUSH_PROMISE, PING, GOAWAY, WINDOW_UPDATE, CONTINUATION = range(10)
# flags
END_STREAM = 0x1
ACK = 0x1
END_HEADERS = 0x4
PADDED = 0x8
# numbers of settings
MAX_CONCURRENT_STREAMS = 3
INITIAL_WINDOW_SIZE = 4
NO_ERROR = 0
REFUSED_STREAM = 7
MAX_FRAME = 16_384  # bytes; the size that every end must take
MAX_HEADERS = 65_536  # bytes of one call
MAX_WINDOW = 2**31 - 1
FIRST_WINDOW = 65_535
REFILL = 1 << 24  # bytes that are received until the client may send as many more
PREFIX = struct.Struct(">BI")  # in front of a message: whether it is compressed, and its length
_HEAD = struct.Struct(">IBI")  # of a frame: length (24 bits) and kind, flags, stream
_SETTING = struct.Struct(">HI")
_NUMBER = struct.Struct(">I")


class Status(IntEnum):
    """gRPC's codes for the end of a call."""

    FAILED_PRECONDITION = 9
    UNIMPLEMENTED = 12
    INTERNAL = 13


class BrokenConnection(Exception):
    """The other end does not speak HTTP/2, or breaks its rules: the connection must be closed."""


class TooLarge(BrokenConnection):
    """The other end announces a message of more bytes than allowed, ``args[0]``."""


def _frame(kind: int, flags: int, stream: int, payload: bytes | memoryview) -> bytes:
    return _HEAD.pack(len(payload) << 8 | kind, flags, stream) + payload


def _header(name: bytes, value: bytes) -> bytes:
    """A header for HPACK's decoder: not to be kept in its table, and without Huffman's code."""
    return b"\0" + bytes([len(name)]) + name + bytes([len(value)]) + value


_OPENING: Final = (
    _frame(SETTINGS, 0, 0, _SETTING.pack(MAX_CONCURRENT_STREAMS, 1) + _SETTING.pack(INITIAL_WINDOW_SIZE, MAX_WINDOW))
    + _frame(WINDOW_UPDATE, 0, 0, _NUMBER.pack(MAX_WINDOW - FIRST_WINDOW))
)  # fmt: skip
_REPLY: Final = b"\x88" + _header(b"content-type", b"application/grpc")  # 0x88 is ":status: 200"
_SUCCESS: Final = _header(b"grpc-status", b"0")


class Connection:
    """One connection.

    Attributes:
        outgoing: Bytes for the client; whoever sends them removes them.
        cancelled: Whether the client gave up a call that waits for its reply.
    """

    def __init__(self, largest: int) -> None:
        """``largest`` is the number of bytes that a message may have."""
        self.outgoing = bytearray(_OPENING)
        self.cancelled = False
        self._largest = largest
        self._incoming = bytearray()
        self._began = False
        self._continued = 0  # the stream whose headers go on in the next frame
        self._header_bytes = 0
        self._received = 0  # bytes since the connection's window was refilled
        self._stream = 0  # of the call that is open
        self._latest = 0  # the highest stream so far
        self._body = bytearray()
        self._complete: bytes | None = None
        self._waiting = False  # whether the call waits for its reply
        self._unsent: memoryview | None = None  # of the reply: what the client's windows do not allow yet
        self._window = FIRST_WINDOW  # bytes that may be sent on the connection
        self._stream_window = 0  # bytes that may be sent in the call
        self._client_window = FIRST_WINDOW  # which each call begins with

    # ------------------------------------------------------------ what comes in

    def take(self, data: bytes) -> bytes | None:
        """Take bytes of the client; return the message of a call that is complete with them.

        The call waits for :meth:`reply` or :meth:`refuse`. Raises BrokenConnection, and TooLarge.
        """
        incoming = self._incoming
        incoming += data
        at = 0
        size = len(incoming)
        if not self._began:
            if not PREFACE.startswith(incoming[: len(PREFACE)]):
                raise BrokenConnection("does not speak HTTP/2")
            if size < len(PREFACE):
                return None
            self._began = True
            at = len(PREFACE)
        while size - at >= _HEAD.size:
            head, flags, stream = _HEAD.unpack_from(incoming, at)
            begin = at + _HEAD.size
            end = begin + (head >> 8)
            if end - begin > MAX_FRAME:
                raise BrokenConnection("sent a frame that is too long")
            if end > size:
                break
            self._frame(head & 0xFF, flags, stream & MAX_WINDOW, bytes(incoming[begin:end]))
            at = end
        del incoming[:at]
        message = self._complete
        self._complete = None
        return message

    def _frame(self, kind: int, flags: int, stream: int, payload: bytes) -> None:
        if self._continued and (kind != CONTINUATION or stream != self._continued):
            raise BrokenConnection("sent another frame between headers")
        if kind == DATA:
            self._data(flags, stream, payload)
        elif kind == HEADERS:
            self._headers(flags, stream, payload)
        elif kind == CONTINUATION:
            if not self._continued:
                raise BrokenConnection("continued headers that it did not begin")
            self._more_headers(flags, payload)
        elif kind == WINDOW_UPDATE:
            self._widen(stream, payload)
        elif kind == SETTINGS:
            self._settings(flags, payload)
        elif kind == PING:
            if len(payload) != 8:
                raise BrokenConnection("sent a damaged frame")
            if not flags & ACK:
                self.outgoing += _frame(PING, ACK, 0, payload)
        elif kind == RST_STREAM:
            if stream == self._stream and stream:
                self.cancelled |= self._waiting
                self._end()
        elif kind == PUSH_PROMISE:
            raise BrokenConnection("promised a push")
        # GOAWAY is followed by the end of the connection; PRIORITY and unknown kinds mean nothing here.

    def _headers(self, flags: int, stream: int, payload: bytes) -> None:
        if stream == self._stream and stream and not self._waiting:  # behind the message
            self._header_bytes = 0
            self._continued = 0 if flags & END_HEADERS else stream
            self._finish()
            return
        if stream % 2 == 0 or stream <= self._latest:
            raise BrokenConnection("began a call with a number that it may not have")
        self._latest = stream
        self._header_bytes = len(payload)
        self._continued = 0 if flags & END_HEADERS else stream
        if self._stream:
            self.outgoing += _frame(RST_STREAM, 0, stream, _NUMBER.pack(REFUSED_STREAM))
            return
        self._stream = stream
        self._stream_window = self._client_window
        if flags & END_STREAM:
            self.refuse(Status.INTERNAL, "the call has no message")

    def _more_headers(self, flags: int, payload: bytes) -> None:
        self._header_bytes += len(payload)
        if self._header_bytes > MAX_HEADERS:
            raise BrokenConnection("sent headers that are too long")
        if flags & END_HEADERS:
            self._continued = 0

    def _data(self, flags: int, stream: int, payload: bytes) -> None:
        self._received += len(payload)
        if self._received >= REFILL:
            self.outgoing += _frame(WINDOW_UPDATE, 0, 0, _NUMBER.pack(self._received))
            self._received = 0
        if stream == 0 or stream > self._latest:
            raise BrokenConnection("sent data outside of a call")
        if stream != self._stream or self._waiting:  # of a call that is over
            return
        if flags & PADDED:
            if not payload or payload[0] >= len(payload):
                raise BrokenConnection("sent a damaged frame")
            payload = payload[1 : len(payload) - payload[0]]
        body = self._body
        body += payload
        if len(body) >= PREFIX.size:
            compressed, length = PREFIX.unpack_from(body)
            if compressed:
                self.refuse(Status.UNIMPLEMENTED, "messages must not be compressed")
                return
            if length > self._largest:
                raise TooLarge(length)
            if len(body) > PREFIX.size + length:
                self.refuse(Status.INTERNAL, "more than one message in a call")
                return
        if flags & END_STREAM:
            self._finish()

    def _finish(self) -> None:
        """The client has sent the whole call."""
        body = self._body
        if len(body) < PREFIX.size or len(body) < PREFIX.size + PREFIX.unpack_from(body)[1]:
            self.refuse(Status.INTERNAL, "a call without a whole message")
            return
        self._complete = bytes(memoryview(body)[PREFIX.size :])
        self._waiting = True
        self._body = bytearray()

    def _settings(self, flags: int, payload: bytes) -> None:
        if len(payload) % _SETTING.size:
            raise BrokenConnection("sent a damaged frame")
        if flags & ACK:
            return
        for number, value in _SETTING.iter_unpack(payload):
            if number == INITIAL_WINDOW_SIZE:
                if value > MAX_WINDOW:
                    raise BrokenConnection("has a window that is too large")
                self._stream_window += value - self._client_window
                self._client_window = value
        self.outgoing += _frame(SETTINGS, ACK, 0, b"")
        self._send()

    def _widen(self, stream: int, payload: bytes) -> None:
        """The client allows more bytes."""
        if len(payload) != _NUMBER.size:
            raise BrokenConnection("sent a damaged frame")
        more = _NUMBER.unpack(payload)[0] & MAX_WINDOW
        if stream == 0:
            self._window += more
        elif stream == self._stream:
            self._stream_window += more
        if max(self._window, self._stream_window) > MAX_WINDOW:
            raise BrokenConnection("has a window that is too large")
        self._send()

    # ------------------------------------------------------------ what goes out

    def reply(self, message: bytes) -> None:
        """Answer the call that waits."""
        if not self._waiting or self._unsent is not None:
            return  # the client gave it up
        self.outgoing += _frame(HEADERS, END_HEADERS, self._stream, _REPLY)
        self._unsent = memoryview(PREFIX.pack(0, len(message)) + message)
        self._send()

    def _send(self) -> None:
        """Send as much of the reply as the client's windows allow."""
        unsent = self._unsent
        if unsent is None:
            return
        while unsent:
            size = min(len(unsent), MAX_FRAME, self._window, self._stream_window)
            if size <= 0:
                self._unsent = unsent
                return
            self.outgoing += _frame(DATA, 0, self._stream, unsent[:size])
            self._window -= size
            self._stream_window -= size
            unsent = unsent[size:]
        self.outgoing += _frame(HEADERS, END_HEADERS | END_STREAM, self._stream, _SUCCESS)
        self._end()

    def refuse(self, status: Status, text: str) -> None:
        """End the open call with an error; ``text`` is a short one of ASCII letters."""
        if self._stream:
            block = _REPLY + _header(b"grpc-status", b"%d" % status) + _header(b"grpc-message", text.encode())
            self.outgoing += _frame(HEADERS, END_HEADERS | END_STREAM, self._stream, block)
            if not self._waiting:  # the client may have more to send
                self.outgoing += _frame(RST_STREAM, 0, self._stream, _NUMBER.pack(NO_ERROR))
            self._end()

    def leave(self) -> None:
        """Tell the client that there will be no more calls."""
        self.outgoing += _frame(GOAWAY, 0, 0, _NUMBER.pack(self._latest) + _NUMBER.pack(NO_ERROR))

    def _end(self) -> None:
        """The open call is over."""
        self._stream = 0
        self._waiting = False
        self._unsent = None
        self._complete = None
        self._body = bytearray()

    @property
    def waiting(self) -> bool:
        """Whether a call waits for its reply, or for the rest of it."""
        return self._waiting
