"""The gRPC server that one player calls: it hands over the player's messages, and keeps the player waiting for replies.

Unity is the client and this process the server, because of which a port is needed for each player.
"""

from __future__ import annotations

import socket
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from queue import Empty, SimpleQueue
from threading import Lock
from typing import Any

import grpc

from rlcore_mlagents_messages import EXCHANGE

THREADS = 3  # one for the player's call, others to refuse a second player at once
STOP_SECONDS = 1.0


class PortTaken(OSError):
    """The port cannot be listened at."""


class PlayerServer:
    """The server of one player. The first process that calls it is its player; others are refused.

    Attributes:
        port: The port that it listens at.
        refused: Called with the address of a process that is refused, in a thread of the server.
    """

    def __init__(self, address: str, port: int, largest: int, refused: Callable[[str], None]) -> None:
        """Listen at ``address`` and ``port``, or at a free port for 0, for messages of ``largest`` bytes.

        Raises PortTaken.
        """
        self.refused = refused
        self._incoming: SimpleQueue[bytes | None] = SimpleQueue()
        self._outgoing: SimpleQueue[bytes | None] = SimpleQueue()
        self._lock = Lock()
        self._peer: str | None = None
        self._calling = False  # whether the player's call waits for a reply
        self._closed = False
        _require_free(address, port)
        self._threads = ThreadPoolExecutor(THREADS, "unity-player")
        self._server = grpc.server(
            self._threads,
            handlers=[_Handler(self._exchange)],
            options=[
                ("grpc.so_reuseport", 0),
                ("grpc.max_receive_message_length", largest),
                ("grpc.max_send_message_length", -1),
            ],
        )
        host = f"[{address}]" if ":" in address else address
        try:
            self.port = self._server.add_insecure_port(f"{host}:{port}")
        except RuntimeError as error:
            raise PortTaken(f"cannot listen at {address}, port {port}") from error
        self._server.start()

    def _exchange(self, request: bytes, context: grpc.ServicerContext) -> bytes:
        """Answer one call, in a thread of the server."""
        peer = context.peer()
        with self._lock:
            if self._peer is None and not self._closed:
                self._peer = peer
            accepted = self._peer == peer and not self._calling and not self._closed
            if accepted:
                self._calling = True
        if not accepted:
            if not self._closed:
                self.refused(peer)
            context.abort(grpc.StatusCode.FAILED_PRECONDITION, "a player is connected to this port already")
        context.add_callback(self._hung_up)
        self._incoming.put(request)
        reply = self._outgoing.get()
        with self._lock:
            self._calling = False
        if reply is None:
            context.abort(grpc.StatusCode.CANCELLED, "the training has ended")
            raise AssertionError
        return reply

    def _hung_up(self) -> None:
        """A call of the player is over, because it got its reply, or because the connection is lost."""
        with self._lock:
            if self._calling:
                self._incoming.put(None)

    def receive(self, seconds: float) -> bytes:
        """Return the next message of the player. Raises TimeoutError, and ConnectionError if the player hung up."""
        try:
            message = self._incoming.get(timeout=seconds)
        except Empty:
            raise TimeoutError from None
        if message is None:
            raise ConnectionError
        return message

    def reply(self, message: bytes) -> None:
        """Answer the message that was received last."""
        self._outgoing.put(message)

    def close(self, last: bytes | None = None) -> None:
        """Answer the player, if it waits, with a ``last`` message; stop listening."""
        with self._lock:
            self._closed = True
            calling = self._calling
        if calling and last is not None:
            self._outgoing.put(last)
        stopped = self._server.stop(STOP_SECONDS if calling and last is not None else 0)
        stopped.wait(STOP_SECONDS * 2)
        self._outgoing.put(None)  # of a thread whose player is gone
        self._threads.shutdown(wait=False)


class _Handler(grpc.GenericRpcHandler):  # type: ignore[misc]
    """Finds the one method there is; the bytes of messages are passed as they are."""

    def __init__(self, exchange: Callable[[bytes, Any], bytes]) -> None:
        self._method = grpc.unary_unary_rpc_method_handler(exchange)

    def service(self, handler_call_details: Any) -> Any:
        return self._method if handler_call_details.method == EXCHANGE else None


def _require_free(address: str, port: int) -> None:
    """Raise PortTaken with the system's reason; gRPC's own error has none."""
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    with suppress(socket.gaierror), socket.socket(family, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((address, port))
        except OSError as error:
            raise PortTaken(f"cannot listen at {address}, port {port} ({error.strerror})") from error
