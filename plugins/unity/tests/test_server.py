"""The server of a player, called by gRPC's own client (grpcio), and by one that can break each rule of HTTP/2."""

from __future__ import annotations

import selectors
import socket
import struct
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import grpc
import numpy as np
import plain_grpc as wire
import pytest

from rlcore_unity.http2 import TooLarge
from rlcore_unity.mlagents_messages import EXCHANGE
from rlcore_unity.server import MOST_CLIENTS, PlayerServer, PortTaken

LARGEST = 1 << 25
SECONDS = 30.0

# The frames of a call whose message is b"hello".
_BODY = wire.prefixed(b"hello")
_HEADERS = wire.frame(wire.HEADERS, wire.END_HEADERS, 1, wire.CALL)
_LAST = wire.frame(wire.DATA, wire.END_STREAM, 1, _BODY)


class Servers:
    """Servers whose sockets are served together."""

    def __init__(self) -> None:
        self.sockets = selectors.DefaultSelector()
        self.made: list[PlayerServer] = []
        self.refused: list[str] = []
        self.threads = ThreadPoolExecutor()

    def make(self, largest: int = LARGEST) -> PlayerServer:
        self.made.append(PlayerServer("127.0.0.1", 0, largest, self.refused.append, self.sockets))
        return self.made[-1]

    def start(self, call: Callable[..., Any], *arguments: Any) -> Future[Any]:
        """Call in another thread, as a player is another process."""
        return self.threads.submit(call, *arguments)

    def until(self, server: PlayerServer, future: Future[Any]) -> Any:
        """Serve until a call in another thread is over; there is no message of the player meanwhile."""
        deadline = time.monotonic() + SECONDS
        while not future.done() and time.monotonic() < deadline:
            with pytest.raises(TimeoutError):
                server.receive(0.01)
        return future.result(0)


@pytest.fixture
def servers() -> Iterator[Servers]:
    made = Servers()
    yield made
    for server in made.made:
        server.close()
    made.threads.shutdown()


@pytest.fixture
def server(servers: Servers) -> PlayerServer:
    return servers.make()


def client(server: PlayerServer, **options: int) -> grpc.Channel:
    """gRPC's own client. The servers of a test have ports of their own, so clients must not share connections."""
    given = {
        "grpc.max_send_message_length": -1,
        "grpc.max_receive_message_length": -1,
        "grpc.use_local_subchannel_pool": 1,
    }
    return grpc.insecure_channel(f"127.0.0.1:{server.port}", list({**given, **options}.items()))


def caller(channel: grpc.Channel, method: str = EXCHANGE) -> Callable[[bytes], bytes]:
    call = channel.unary_unary(method)
    return lambda message: bytes(call(message, wait_for_ready=True, timeout=SECONDS))


# ------------------------------------------------------------ calls


@pytest.mark.parametrize("size", [0, 1, 16_379, 16_380, 70_000, 9_000_000])
def test_messages_of_any_length_pass_both_ways(servers: Servers, server: PlayerServer, size: int) -> None:
    """16,379 bytes and the five in front of them are the largest frame; a client's first window is 65,535 bytes, and
    the server's has to be filled again after 16 MB."""
    generator = np.random.default_rng(size)
    with client(server) as channel:
        for _ in range(3):
            question = generator.bytes(size)
            answer = generator.bytes(size)
            got = servers.start(caller(channel), question)
            assert server.receive(SECONDS) == question
            server.reply(answer)
            assert servers.until(server, got) == answer


def test_hundreds_of_calls_come_one_after_another(servers: Servers, server: PlayerServer) -> None:
    """gRPC's client keeps headers in a table after the first call, sends PING to measure, and widens its windows."""

    def play(channel: grpc.Channel) -> list[bytes]:
        return [caller(channel)(b"%d" % number * 200) for number in range(400)]

    with client(server) as channel:
        got = servers.start(play, channel)
        for number in range(400):
            assert server.receive(SECONDS) == b"%d" % number * 200
            server.reply(b"answer %d" % number)
        assert servers.until(server, got) == [b"answer %d" % number for number in range(400)]


def test_players_that_start_together_do_not_wait_for_one_another(servers: Servers) -> None:
    """While one player loads for long, the other's client must get its part of the handshake of HTTP/2."""
    slow = servers.make()
    fast = servers.make()
    with client(slow) as first, client(fast) as second:
        ready = servers.start(grpc.channel_ready_future(second).result, SECONDS)
        servers.until(slow, ready)
        calls = [servers.start(caller(second), b"fast"), servers.start(caller(first), b"slow")]
        assert slow.receive(SECONDS) == b"slow"
        assert fast.receive(SECONDS) == b"fast"
        slow.reply(b"to slow")
        fast.reply(b"to fast")
        assert [servers.until(slow, each) for each in calls] == [b"to fast", b"to slow"]


# How a client allows bytes: how it begins, how many bytes that allows, and what it sends for three more.
_WIDER, _WIDER_CALL = (wire.frame(wire.WINDOW_UPDATE, 0, stream, struct.pack(">I", 3)) for stream in (0, 1))
WINDOWS = {
    "of the call": (wire.settings(initial_window_size=10), 10, _WIDER_CALL),
    "of every call": (wire.settings(initial_window_size=10), 10, wire.settings(initial_window_size=13)),
    "of the connection": (wire.settings(initial_window_size=1 << 20), 65_535, _WIDER),
    "of both": (b"", 65_535, _WIDER + _WIDER + _WIDER_CALL),
}


@pytest.mark.parametrize(("opening", "first", "then"), WINDOWS.values(), ids=WINDOWS)
def test_a_reply_waits_for_the_windows_of_the_client(
    servers: Servers, server: PlayerServer, opening: bytes, first: int, then: bytes
) -> None:
    player = wire.PlainClient(server.port, wire.PREFACE + opening)
    answer = np.random.default_rng(0).bytes(100_000)
    got = b""
    frames = player.frames()

    def until_ping() -> bytes:
        """The data that came before the answer to a ping."""
        player.socket.sendall(wire.frame(wire.PING, 0, 0, b"12345678"))
        data = b""
        for kind, flags, _, payload in frames:
            data += payload if kind == wire.DATA else b""
            if kind == wire.PING and flags & wire.ACK:
                break
        return data

    player.socket.sendall(_HEADERS + _LAST)
    assert server.receive(SECONDS) == b"hello"
    server.reply(answer)
    got += servers.until(server, servers.start(until_ping))
    assert got == wire.prefixed(answer)[:first]
    player.socket.sendall(then)
    got += servers.until(server, servers.start(until_ping))
    assert got == wire.prefixed(answer)[: first + 3]
    for stream in (0, 1):
        player.socket.sendall(wire.frame(wire.WINDOW_UPDATE, 0, stream, struct.pack(">I", 200_000)))
    got += servers.until(server, servers.start(until_ping))
    assert got == wire.prefixed(answer)
    player.close()


def test_the_window_of_the_connection_is_filled_again(servers: Servers, server: PlayerServer) -> None:
    """A game may send gigabytes on one connection; its window begins with 65,535 bytes, and must not run out."""
    player = wire.PlainClient(server.port)
    player.socket.sendall(_HEADERS + wire.frame(wire.DATA, 0, 1, struct.pack(">BI", 0, LARGEST)))
    part = wire.frame(wire.DATA, 0, 1, bytes(16_384))

    def send() -> int:
        """Send 31 MB, and return the bytes that may be sent after that."""
        for _ in range(31 << 6):
            player.socket.sendall(part)
        player.socket.sendall(wire.frame(wire.PING, 0, 0, b"12345678"))
        window = 65_535 - 5 - (31 << 20)
        for kind, flags, stream, payload in player.frames():
            if kind == wire.WINDOW_UPDATE and stream == 0:
                window += int.from_bytes(payload)
            if kind == wire.PING and flags & wire.ACK:
                break
        return window

    assert servers.until(server, servers.start(send)) >= 2**31 - (16 << 20)
    player.close()


# Legal ways to send the call of the message b"hello".
LEGAL = {
    "in one piece": _HEADERS + _LAST,
    "headers in three frames": wire.frame(wire.HEADERS, 0, 1, wire.CALL[:20])
    + wire.frame(wire.CONTINUATION, 0, 1, wire.CALL[20:30])
    + wire.frame(wire.CONTINUATION, wire.END_HEADERS, 1, wire.CALL[30:])
    + _LAST,
    "padded, with a priority": wire.frame(wire.HEADERS, 0x2C, 1, b"\3" + b"\0\0\0\0\x10" + wire.CALL + b"\0\0\0")
    + wire.frame(wire.DATA, wire.PADDED | wire.END_STREAM, 1, b"\4" + _BODY + b"\0\0\0\0"),
    "data in two frames and an empty one": _HEADERS
    + wire.frame(wire.DATA, 0, 1, _BODY[:3])
    + wire.frame(wire.DATA, 0, 1, _BODY[3:])
    + wire.frame(wire.DATA, wire.END_STREAM, 1, b""),
    "trailers behind the data": _HEADERS
    + wire.frame(wire.DATA, 0, 1, _BODY)
    + wire.frame(wire.HEADERS, wire.END_STREAM | wire.END_HEADERS, 1, b"\0\1a\1b"),
    "unknown frames and settings between": wire.frame(wire.SETTINGS, 0, 0, struct.pack(">HI", 0xFE03, 1))
    + _HEADERS
    + wire.frame(0x42, 0xFF, 7, b"what")
    + wire.frame(wire.PRIORITY, 0, 1, bytes(5))
    + _LAST,
}


@pytest.mark.parametrize("at_once", [True, False], ids=["at once", "byte by byte"])
@pytest.mark.parametrize("sent", LEGAL.values(), ids=LEGAL)
def test_every_legal_form_of_a_call_is_read(server: PlayerServer, sent: bytes, at_once: bool) -> None:
    player = wire.PlainClient(server.port)
    for part in [sent] if at_once else [bytes([each]) for each in sent[:-1]]:
        player.socket.sendall(part)
        if not at_once:
            with pytest.raises(TimeoutError):
                server.receive(0.0)
    if not at_once:
        player.socket.sendall(sent[-1:])
    assert server.receive(SECONDS) == b"hello"
    player.close()


# ------------------------------------------------------------ what is refused


def test_a_second_process_is_refused_and_the_player_plays_on(servers: Servers, server: PlayerServer) -> None:
    with client(server) as channel, client(server) as other:
        got = servers.start(caller(channel), b"first")
        assert server.receive(SECONDS) == b"first"
        second = servers.start(caller(other), b"second")
        with pytest.raises(grpc.RpcError) as error:
            servers.until(server, second)
        assert error.value.code() is grpc.StatusCode.FAILED_PRECONDITION
        assert error.value.details() == "a player is connected to this port already"
        assert len(servers.refused) == 1 and servers.refused[0].startswith("127.0.0.1:")
        server.reply(b"answer")
        assert servers.until(server, got) == b"answer"


def test_idle_connections_keep_no_player_out(servers: Servers, server: PlayerServer) -> None:
    idle = [socket.create_connection(("127.0.0.1", server.port)) for _ in range(3 * MOST_CLIENTS)]
    try:
        with client(server) as player:
            answer = servers.start(player.unary_unary(EXCHANGE), b"hello")
            assert server.receive(SECONDS) == b"hello"
            more = [socket.create_connection(("127.0.0.1", server.port)) for _ in range(3 * MOST_CLIENTS)]
            idle += more
            with pytest.raises(TimeoutError):
                server.receive(0.05)
            server.reply(b"and the player stays")
            assert servers.until(server, answer) == b"and the player stays"
    finally:
        for each in idle:
            each.close()


def test_compressed_messages_are_refused(servers: Servers, server: PlayerServer) -> None:
    with grpc.insecure_channel(f"127.0.0.1:{server.port}", compression=grpc.Compression.Gzip) as channel:
        got = servers.start(caller(channel), bytes(10_000))
        with pytest.raises(grpc.RpcError, match="messages must not be compressed"):
            servers.until(server, got)


def test_a_message_that_is_too_large_is_refused_before_it_has_come(server: PlayerServer) -> None:
    player = wire.PlainClient(server.port)
    announced = struct.pack(">BI", 0, LARGEST + 1)
    player.socket.sendall(_HEADERS + wire.frame(wire.DATA, 0, 1, announced))
    with pytest.raises(TooLarge, match=str(LARGEST + 1)):
        server.receive(SECONDS)
    assert not [kind for kind, *_ in player.frames() if kind == wire.HEADERS]  # the connection has ended
    player.close()


def test_the_connection_of_a_player_that_hung_up_is_an_error(servers: Servers, server: PlayerServer) -> None:
    channel = client(server)
    got = servers.start(caller(channel), b"hello")
    assert server.receive(SECONDS) == b"hello"
    channel.close()
    with pytest.raises(ConnectionError):
        server.receive(SECONDS)
    server.reply(b"to no player")
    with pytest.raises(ConnectionError):
        server.receive(SECONDS)
    assert got.exception(SECONDS) is not None


def test_a_call_that_the_player_gave_up_is_an_error(servers: Servers, server: PlayerServer) -> None:
    with client(server) as channel:
        call = channel.unary_unary(EXCHANGE).future(b"hello", wait_for_ready=True)
        assert server.receive(SECONDS) == b"hello"
        call.cancel()
        with pytest.raises(ConnectionError):
            server.receive(SECONDS)


# What breaks the rules: the connection is closed, and the player can still come.
_ZEROS = bytes(8)
BROKEN = {
    "not HTTP/2": b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n",
    "a frame of 16 MB": wire.PREFACE + b"\xff\xff\xff\4\0\0\0\0\0",
    "an even stream": wire.OPENING + wire.frame(wire.HEADERS, wire.END_HEADERS, 2, wire.CALL),
    "stream 0": wire.OPENING + wire.frame(wire.HEADERS, wire.END_HEADERS, 0, wire.CALL),
    "headers twice": wire.OPENING + _HEADERS + _LAST + _HEADERS,
    "data without a call": wire.OPENING + wire.frame(wire.DATA, 0, 5, _BODY),
    "data between headers": wire.OPENING
    + wire.frame(wire.HEADERS, 0, 1, wire.CALL)
    + wire.frame(wire.DATA, 0, 1, _BODY),
    "endless headers": wire.OPENING
    + wire.frame(wire.HEADERS, 0, 1, wire.CALL)
    + 5 * wire.frame(wire.CONTINUATION, 0, 1, bytes(16_000)),
    "headers that continue nothing": wire.OPENING + wire.frame(wire.CONTINUATION, 4, 1, wire.CALL),
    "more padding than data": wire.OPENING + _HEADERS + wire.frame(wire.DATA, wire.PADDED, 1, b"\x09abc"),
    "half a setting": wire.OPENING + wire.frame(wire.SETTINGS, 0, 0, b"\0\4\0"),
    "a window of 4 GB": wire.OPENING + wire.settings(initial_window_size=2**32 - 1),
    "windows that grow too large": wire.OPENING
    + 2 * wire.frame(wire.WINDOW_UPDATE, 0, 0, struct.pack(">I", 2**31 - 1)),
    "half a window": wire.OPENING + wire.frame(wire.WINDOW_UPDATE, 0, 0, b"\0"),
    "half a ping": wire.OPENING + wire.frame(wire.PING, 0, 0, b"1234"),
    "a push": wire.OPENING + wire.frame(wire.PUSH_PROMISE, 4, 1, _ZEROS),
}


@pytest.mark.parametrize("sent", BROKEN)
def test_a_connection_that_breaks_the_rules_is_closed(servers: Servers, server: PlayerServer, sent: str) -> None:
    stranger = wire.PlainClient(server.port, BROKEN[sent])
    ended = servers.start(lambda: [kind for kind, *_ in stranger.frames()])
    assert wire.HEADERS not in servers.until(server, ended)
    with client(server) as channel:
        got = servers.start(caller(channel), b"hello")
        assert server.receive(SECONDS) == b"hello"
        server.reply(b"answer")
        assert servers.until(server, got) == b"answer"


INCOMPLETE = {
    "no data": wire.frame(wire.HEADERS, wire.END_HEADERS | wire.END_STREAM, 1, wire.CALL),
    "half a length": _HEADERS + wire.frame(wire.DATA, wire.END_STREAM, 1, _BODY[:4]),
    "half a message": _HEADERS + wire.frame(wire.DATA, wire.END_STREAM, 1, _BODY[:7]),
    "two messages": _HEADERS + wire.frame(wire.DATA, wire.END_STREAM, 1, 2 * _BODY),
    "a long tail": _HEADERS + wire.frame(wire.DATA, 0, 1, _BODY + b"x") + wire.frame(wire.DATA, 0, 1, bytes(9_000)),
}


@pytest.mark.parametrize("sent", INCOMPLETE.values(), ids=INCOMPLETE)
def test_a_call_without_one_whole_message_is_refused(servers: Servers, server: PlayerServer, sent: bytes) -> None:
    """The client may call again: it is not the player yet, and its connection is in order."""
    player = wire.PlainClient(server.port)
    player.socket.sendall(sent)
    frames = (each for each in player.frames() if each[2])
    (*_, block), reset = servers.until(server, servers.start(lambda: [next(frames), next(frames)]))
    assert b"grpc-status" + b"\x02" + b"13" in block
    assert reset == (wire.RST_STREAM, 0, 1, bytes(4))  # the client need not send the rest
    player._stream = 1
    got = servers.start(player.call, b"again")
    assert server.receive(SECONDS) == b"again"
    server.reply(b"answer")
    assert servers.until(server, got) == b"answer"
    player.close()


def test_one_call_at_a_time(servers: Servers, server: PlayerServer) -> None:
    player = wire.PlainClient(server.port)
    player.socket.sendall(_HEADERS + _LAST + wire.frame(wire.HEADERS, wire.END_HEADERS, 3, wire.CALL))
    assert server.receive(SECONDS) == b"hello"
    reset = servers.start(lambda: next(each for each in player.frames() if each[0] == wire.RST_STREAM))
    assert servers.until(server, reset) == (wire.RST_STREAM, 0, 3, struct.pack(">I", 7))  # REFUSED_STREAM
    player.close()


def test_a_client_that_only_sends_is_read_no_more(server: PlayerServer) -> None:
    """Answers to pings that the client never reads must not fill the memory."""
    flood = wire.PlainClient(server.port, wire.OPENING, seconds=0.05)
    pings = 60_000 * wire.frame(wire.PING, 0, 0, _ZEROS)
    for _ in range(100):
        try:
            flood.socket.send(pings)
        except TimeoutError:
            break
        for _ in range(8):  # pieces of 256 KB
            with pytest.raises(TimeoutError):
                server.receive(0.0)
    else:
        pytest.fail("the server reads on")
    flood.close()


# ------------------------------------------------------------ start and end


def test_only_this_host_can_connect(server: PlayerServer) -> None:
    with socket.socket() as other:
        assert other.connect_ex(("127.0.0.2", server.port)) != 0


def test_a_port_that_is_taken_is_an_error(servers: Servers, server: PlayerServer) -> None:
    with pytest.raises(PortTaken, match=rf"127\.0\.0\.1, port {server.port} \(.*[Aa]ddress already in use"):
        PlayerServer("127.0.0.1", server.port, LARGEST, servers.refused.append, servers.sockets)


def test_the_last_message_reaches_the_player(servers: Servers, server: PlayerServer) -> None:
    with client(server) as channel:
        got = servers.start(caller(channel), b"hello")
        assert server.receive(SECONDS) == b"hello"
        server.end(b"goodbye")
        assert got.result(SECONDS) == b"goodbye"
    server.close()
    with socket.socket() as other:
        assert other.connect_ex(("127.0.0.1", server.port)) != 0
