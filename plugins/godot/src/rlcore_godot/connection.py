"""Messages of Godot RL Agents: JSON objects, each after its size in four bytes, the lowest first.

What a game sends is checked here as far as every message must be: size, time, JSON, and that one answer follows one
request.
"""

from __future__ import annotations

import json
import reprlib
import socket
import struct
from collections.abc import Callable, Mapping
from time import monotonic
from typing import Any

_SIZE = struct.Struct("<I")
_JSON = json.JSONEncoder(separators=(",", ":"), allow_nan=False)
SHOWN = 120  # characters of a game's text that messages show
PIECE = 65_536  # bytes that are read at once
SLACK = 0.01  # seconds
LOOK_SECONDS = 0.2  # between two looks whether a message is still waited for


class BadGame(Exception):
    """A mistake of a game; the text follows the name of the game."""


class GameGone(BadGame):
    """A game whose connection has ended; its process may say why."""


class Connection:
    """One end of the connection with a game. Methods raise BadGame for what the game does wrong."""

    def __init__(self, end: socket.socket, largest: int, look: Callable[[], None] = lambda: None) -> None:
        """``largest`` is the number of bytes that a message may have.

        ``look`` is called now and then while a message is waited for, and may raise an exception.
        """
        self._look = look
        self._socket = end
        self._largest = largest
        self._seconds = end.gettimeout()
        end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def send(self, message: Mapping[str, Any], seconds: float | None) -> None:
        """Send a message, which the game must take within ``seconds``."""
        data = _JSON.encode(message).encode()
        try:
            self._wait_at_most(seconds)
            self._socket.sendall(_SIZE.pack(len(data)) + data)
        except TimeoutError:
            raise BadGame(f"did not read a message within {seconds:.3g} s") from None
        except OSError as error:
            raise GameGone("has closed its connection") from error

    def _wait_at_most(self, seconds: float | None) -> None:
        """Set the socket's limit, unless it is at most :data:`SLACK` longer: each change is a call of the system."""
        now = self._seconds
        if seconds != now and (seconds is None or now is None or not seconds < now < seconds + SLACK):
            self._socket.settimeout(seconds)
            self._seconds = seconds

    def receive(self, seconds: float | None) -> dict[str, Any]:
        """Wait up to ``seconds`` for a message, and return it."""
        deadline = None if seconds is None else monotonic() + seconds
        data = self._some(_SIZE.size, 0, PIECE, deadline, seconds)
        (size,) = _SIZE.unpack_from(data)
        if size > self._largest:
            raise BadGame(
                f"announces a message of {size:,} bytes, and {self._largest:,} are allowed; it speaks another "
                "protocol, or environment.max_message_mb is too small"
            )
        del data[: _SIZE.size]
        if len(data) < size:
            data += self._some(size - len(data), len(data), size - len(data), deadline, seconds)
        elif len(data) > size:
            raise BadGame("sent more than the answer to one request; it must wait for the next")
        return _read(bytes(data))

    def _some(self, least: int, before: int, most: int, deadline: float | None, seconds: float | None) -> bytearray:
        """Read at least ``least`` bytes and at most ``most``; ``before`` of a message were read already."""
        data = bytearray()
        while len(data) < least:
            try:
                left = LOOK_SECONDS if deadline is None else min(LOOK_SECONDS, deadline - monotonic())
                self._wait_at_most(max(0.001, left))
                piece = self._socket.recv(min(max(most - len(data), 1), 1 << 20))
            except TimeoutError:
                self._look()
                if deadline is None or monotonic() < deadline:
                    continue
                part = f", only {before + len(data)} bytes of one" if before or data else ""
                raise BadGame(f"sent no answer within {seconds:.3g} s{part}") from None
            except OSError as error:
                raise GameGone("has closed its connection") from error
            if not piece:
                raise GameGone("ended its connection in the middle of a message" if data or before else "has ended")
            data += piece
            if deadline is not None and monotonic() > deadline and len(data) < least:
                raise BadGame(f"sent no answer within {seconds:.3g} s, only {before + len(data)} bytes of one")
        return data

    def close(self) -> None:
        """Close the connection."""
        self._socket.close()


def _read(data: bytes) -> dict[str, Any]:
    try:
        message = json.loads(data.decode())
    except (ValueError, RecursionError) as error:
        text = data[:SHOWN].decode("utf-8", "replace")
        hint = ""
        place = getattr(error, "pos", None)
        if isinstance(place, int):
            near = data[max(0, place - 1) : place + 4].lower()
            text = data[max(0, place - 40) : place + 40].decode("utf-8", "replace")
            if b"nan" in near or b"inf" in near:
                hint = "; a number in it is not finite"
        raise BadGame(f"sent a message that is not JSON{hint}: {short(text)}") from None
    if not isinstance(message, dict):
        raise BadGame(f"sent {short(message)} where a JSON object must be")
    return message


def short(value: Any) -> str:
    """Return a short form of what a game sent, of printable characters."""
    limited = reprlib.Repr()
    limited.maxstring = limited.maxother = SHOWN
    return limited.repr(value)
