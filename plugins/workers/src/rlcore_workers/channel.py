"""Messages between a run and a worker process: five bytes, and pickled data behind them if there are some."""

from __future__ import annotations

import pickle
import socket
import struct
from typing import Any

_HEADER = struct.Struct("<cI")  # the kind, and how many bytes of data follow
STEP = b"s"
CALL = b"c"
ATTACH = b"a"
ANSWER = b"r"
FAILED = b"e"
_STEP_MESSAGE = _HEADER.pack(STEP, 0)
_ANSWER_MESSAGE = _HEADER.pack(ANSWER, 0)


class Channel:
    """One end of a pair of connected sockets. Every method raises OSError or EOFError if the other end is gone."""

    def __init__(self, end: socket.socket) -> None:
        self.socket = end
        self.descriptor = end.fileno()

    def send_step(self) -> None:
        """Send what most messages are: a step with the actions in shared memory."""
        self.socket.sendall(_STEP_MESSAGE)

    def send_done(self) -> None:
        """Answer a call that returned None."""
        self.socket.sendall(_ANSWER_MESSAGE)

    def send(self, kind: bytes, value: Any) -> None:
        """Send ``value``. Raises what pickling raises before anything is sent."""
        data = pickle.dumps(value)
        self.socket.sendall(_HEADER.pack(kind, len(data)) + data)

    def receive(self) -> tuple[bytes, Any]:
        """Wait for a message; return its kind and value, which is None for one without data."""
        header = self._some(_HEADER.size)
        while len(header) < _HEADER.size:
            header += self._some(_HEADER.size - len(header))
        kind, size = _HEADER.unpack(header)
        if not size:
            return kind, None
        data = bytearray()
        while len(data) < size:
            data += self._some(size - len(data))
        return kind, pickle.loads(data)  # nosec B301 # the sockets connect a run with a process that it started

    def _some(self, size: int) -> bytes:
        data = self.socket.recv(size)
        if not data:
            raise EOFError("the other process is gone")
        return data

    def close(self) -> None:
        """Close this end."""
        self.socket.close()
