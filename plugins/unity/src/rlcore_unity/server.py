"""The server that one player calls: it hands over the player's messages, and keeps the player waiting for replies.

Unity is the client and this process the server, because of which a port is needed for each player.

There are no threads. Whoever waits for the message of one player serves the sockets of all players meanwhile, so that
several can start at once, and no interpreter lock passes from thread to thread within a decision.
"""

from __future__ import annotations

import selectors
import socket
from collections.abc import Callable
from contextlib import suppress
from time import monotonic

from rlcore_unity.http2 import BrokenConnection, Connection, Status, TooLarge

STOP_SECONDS = 1.0
MOST_CLIENTS = 16  # connections at once; one is the player's
PIECE = 1 << 18  # bytes that are read at once

Sockets = selectors.BaseSelector
"""The sockets of players that are served together; ``data`` of each is what to call when it is ready."""


class PortTaken(OSError):
    """The port cannot be listened at."""


class PlayerServer:
    """The server of one player. The first process that calls it is its player; others are refused.

    Attributes:
        port: The port that it listens at.
        refused: Called with the address of a process that is refused.
    """

    def __init__(self, address: str, port: int, largest: int, refused: Callable[[str], None], sockets: Sockets) -> None:
        """Listen at ``address`` and ``port``, or at a free port for 0, for messages of ``largest`` bytes.

        ``sockets`` are those that are served together with these. Raises PortTaken.
        """
        self.refused = refused
        self._largest = largest
        self._sockets = sockets
        self._clients: dict[_Client, None] = {}  # in the order in which they came
        self._player: _Client | None = None
        self._message: bytes | None = None
        self._problem: Exception | None = None  # which the player has caused
        family = socket.AF_INET6 if ":" in address else socket.AF_INET
        try:
            self._listener = socket.create_server((address, port), family=family)
        except OSError as error:
            raise PortTaken(f"cannot listen at {address}, port {port} ({error.strerror})") from error
        self._listener.setblocking(False)
        self.port: int = self._listener.getsockname()[1]
        self._sockets.register(self._listener, selectors.EVENT_READ, self._accept)

    def _accept(self) -> None:
        with suppress(OSError):
            end, peer = self._listener.accept()
            if len(self._clients) >= MOST_CLIENTS:  # idle ones must not keep the player out
                others = [client for client in self._clients if client is not self._player]
                others[0].close()  # the oldest
            client = _Client(self, end, f"{peer[0]}:{peer[1]}", self._largest, self._sockets)
            self._clients[client] = None
            client.send()

    def called(self, client: _Client, message: bytes) -> None:
        """Take the message of a call, or refuse it."""
        if self._player is None:
            self._player = client
        if client is not self._player:
            client.connection.refuse(Status.FAILED_PRECONDITION, "a player is connected to this port already")
            self.refused(client.peer)
        else:
            self._message = message

    def lost(self, client: _Client, problem: Exception) -> None:
        """Serve a client no more: its connection is closed."""
        self._clients.pop(client, None)
        if client is self._player or (self._player is None and isinstance(problem, TooLarge)):
            self._problem = problem

    def receive(self, seconds: float) -> bytes:
        """Return the next message of the player.

        Raises TimeoutError, TooLarge, and ConnectionError if the player hung up.
        """
        deadline = monotonic() + seconds
        left = seconds
        while self._message is None:
            if self._problem is not None:
                raise self._problem
            if left < 0.0:
                raise TimeoutError
            for key, _ in self._sockets.select(left):
                key.data()
            left = deadline - monotonic()
        message = self._message
        self._message = None
        return message

    def reply(self, message: bytes) -> None:
        """Answer the message that was received last."""
        if self._player is not None:
            self._player.connection.reply(message)
            self._player.send()

    def end(self, last: bytes) -> bool:
        """Answer the player with a ``last`` message, and let it hang up; listen no more.

        Returns whether the player waited for an answer.
        """
        self._stop_listening()
        player = self._player
        if player is None or not player.connection.waiting:
            return False
        player.connection.reply(last)
        player.connection.leave()
        player.send()
        deadline = monotonic() + STOP_SECONDS
        while not player.gone and (left := deadline - monotonic()) > 0:
            for key, _ in self._sockets.select(left):
                key.data()
        return True

    def close(self) -> None:
        """Close all connections; listen no more."""
        self._stop_listening()
        for client in list(self._clients):
            client.close()

    def _stop_listening(self) -> None:
        if self._listener.fileno() >= 0:
            self._sockets.unregister(self._listener)
            self._listener.close()


class _Client:
    """One connection to a port.

    Attributes:
        peer: The address at its other end.
        connection: What is said on it.
        gone: Whether it is closed.
    """

    def __init__(self, server: PlayerServer, end: socket.socket, peer: str, largest: int, sockets: Sockets) -> None:
        self.peer = peer
        self.connection = Connection(largest)
        self.gone = False
        self._server = server
        self._end = end
        self._sockets = sockets
        end.setblocking(False)
        end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        sockets.register(end, selectors.EVENT_READ, self._read)

    def _read(self) -> None:
        try:
            data = self._end.recv(PIECE)
            if not data:
                raise ConnectionResetError
            message = self.connection.take(data)
        except BlockingIOError:
            return
        except TooLarge as problem:
            self.close(problem)
            return
        except (OSError, BrokenConnection):
            self.close()
            return
        if message is not None:
            self._server.called(self, message)
        elif self.connection.cancelled:
            self.close()
        self.send()

    def send(self) -> None:
        """Send what the other end takes. Until it has taken all, nothing more of it is read."""
        outgoing = self.connection.outgoing
        if not outgoing or self.gone:
            return
        try:
            sent = self._end.send(outgoing)
        except BlockingIOError:
            sent = 0
        except OSError:
            self.close()
            return
        del outgoing[:sent]
        events, call = (selectors.EVENT_WRITE, self.send) if outgoing else (selectors.EVENT_READ, self._read)
        if self._sockets.get_key(self._end).events != events:
            self._sockets.modify(self._end, events, call)

    def close(self, problem: Exception | None = None) -> None:
        """Close the connection."""
        if not self.gone:
            self.gone = True
            self._sockets.unregister(self._end)
            self._end.close()
            self._server.lost(self, problem or ConnectionResetError())
