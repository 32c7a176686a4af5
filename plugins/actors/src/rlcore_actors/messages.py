"""Messages between a learner and its actors: arrays and JSON over TCP, after both have proven that they know a token.

Nothing is pickled: a message cannot run code. What is sent is neither encrypted nor signed after the first messages, so
actors of other hosts belong into a network that you trust, or behind SSH.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
import socket
from contextlib import suppress
from pathlib import Path
from typing import Any

from rlcore import ConfigError
from rlcore_torch import decoded, encoded

__all__ = ["Channel", "NotTrusted", "read_token"]

NONCE = 32  # bytes
DIGEST = 32
LONGEST = 1 << 31  # bytes of a message
LEAST_TOKEN = 16  # characters
HANDSHAKE_SECONDS = 10.0
MAGIC = b"rlcore-actors/1\n"


class NotTrusted(Exception):
    """The other end does not know the token, or does not speak this protocol."""


class Channel:
    """One end of a connection. Methods raise OSError, which a timeout is, or EOFError if the other end is gone."""

    def __init__(self, connection: socket.socket) -> None:
        self.socket = connection
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    # ------------------------------------------------------------ who is at the other end

    def prove_to_actor(self, token: bytes) -> None:
        """Let an actor in that knows the token, and prove that this learner does. Raises NotTrusted."""
        self.socket.settimeout(HANDSHAKE_SECONDS)
        challenge = secrets.token_bytes(NONCE)
        self.socket.sendall(MAGIC + challenge)
        answer = bytes(self._read(NONCE + DIGEST))
        nonce, digest = answer[:NONCE], answer[NONCE:]
        if not hmac.compare_digest(digest, _digest(token, b"actor", challenge + nonce)):
            raise NotTrusted("an actor has another token")
        self.socket.sendall(_digest(token, b"learner", nonce + challenge))

    def prove_to_learner(self, token: bytes) -> None:
        """Prove to a learner that this actor knows the token, and require the same. Raises NotTrusted."""
        self.socket.settimeout(HANDSHAKE_SECONDS)
        greeting = bytes(self._read(len(MAGIC) + NONCE))
        if not greeting.startswith(MAGIC):
            raise NotTrusted("it is not a learner of this version of rlcore-actors")
        challenge = greeting[len(MAGIC) :]
        nonce = secrets.token_bytes(NONCE)
        self.socket.sendall(nonce + _digest(token, b"actor", challenge + nonce))
        try:
            proof = bytes(self._read(DIGEST))
        except EOFError:
            raise NotTrusted("the learner has another token") from None
        if not hmac.compare_digest(proof, _digest(token, b"learner", nonce + challenge)):
            raise NotTrusted("the learner has another token")

    # ------------------------------------------------------------ messages

    def send(self, message: Any) -> None:
        """Send a tree of arrays and JSON values."""
        self.send_encoded(encoded(message))

    def send_encoded(self, data: bytes) -> None:
        """Send what :func:`rlcore_torch.encoded` returned."""
        self.socket.sendall(len(data).to_bytes(8, "little"))
        self.socket.sendall(data)

    def receive(self, seconds: float | None) -> Any:
        """Return the next message. ``seconds`` is the longest silence; None waits without end.

        Raises NotTrusted for anything but a message.
        """
        self.socket.settimeout(seconds)
        size = int.from_bytes(self._read(8), "little")
        if size > LONGEST:
            raise NotTrusted(f"a message has {size} bytes")
        data = self._read(size)
        try:
            return decoded(memoryview(data))
        except (ValueError, TypeError, KeyError) as error:
            raise NotTrusted(f"a message cannot be read: {error}") from error

    def _read(self, size: int) -> bytearray:
        data = bytearray(size)
        view = memoryview(data)
        done = 0
        while done < size:
            count = self.socket.recv_into(view[done:])
            if not count:
                raise EOFError("the other end is gone")
            done += count
        return data

    def finish(self, seconds: float) -> None:
        """Send nothing more, and wait until the other end has read everything and closed, at most ``seconds``.

        To close with unread data in between would discard what was sent.
        """
        with suppress(OSError):
            self.socket.shutdown(socket.SHUT_WR)
            self.socket.settimeout(seconds)
            while self.socket.recv(1 << 16):
                pass

    def close(self) -> None:
        """Close the connection; a call that waits in another thread ends."""
        with suppress(OSError):  # it is closed already
            self.socket.shutdown(socket.SHUT_RDWR)
        self.socket.close()


def _digest(token: bytes, role: bytes, nonces: bytes) -> bytes:
    return hmac.new(token, role + nonces, hashlib.sha256).digest()


def read_token(path: Path) -> bytes:
    """Return the token in a file. Raises ConfigError if the file cannot be read or the token is short."""
    try:
        token = path.read_text("utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"the token cannot be read from {path}: {error}") from error
    if len(token) < LEAST_TOKEN:
        raise ConfigError(f"{path}: a token has {LEAST_TOKEN} characters or more, and this one {len(token)}")
    return token.encode()
