"""Misbehaviors of the test player (``unity_player.py``), by name: ``--fault hangs@5`` hangs instead of exchange 5.

Exchange 0 is the handshake, 1 asks for the first command, later ones describe agents. ``@N`` is 5 by default.

At the start:

=====================  =================================================================================================
``exits``              writes to its log and to stderr that a file is missing, and exits with code 3
``exits-silently``     exits with code 0 and writes nothing
``crashes-at-start``   writes a crash report to its log, and dies by SIGABRT
``never-connects``     runs and never connects
``half-handshake``     opens the connection, and says nothing on it
``hangs-handshake``    shakes hands, and then waits
``wrong-version``      announces communication version 2.0.0
``no-version``         announces empty versions
``wrong-order``        begins with agents, without a handshake
``shakes-twice``       shakes hands twice
``second-player``      starts a second player on the same port, and plays on
``not-http``           speaks another protocol on the port
=====================  =================================================================================================

In the exchange:

=====================  =================================================================================================
``hangs``              waits forever, and ignores SIGTERM
``stops``              stops as a debugger stops it (SIGSTOP)
``dies``               is killed (SIGKILL)
``crashes``            writes a crash report to its log, and dies by SIGABRT
``leaves``             closes the connection, and exits with code 0
``quits``              sends status 400
``garbage``            sends random bytes instead of a message
``half``               sends half of the message
``empty``              sends a message without agents and without a status
``large``              sends a message of 17 MB
``gigabytes``          announces a message of 2 GB, and sends zeros
``slow``               lets every exchange from this one on take a second more
``children``           starts a process that outlives it, and dies by SIGKILL
``floods``             writes 20 MB to its log and 20 MB to stdout, and plays on
=====================  =================================================================================================

Messages that do not fit; all are sent in this exchange and play goes on:

=====================  =================================================================================================
``nan``                an observation that is not a number
``infinite``           a reward that is infinite
``huge-image``         an image of 100,000 x 100,000, whose PNG is one of 4 x 4
``png-bomb``           a PNG that says that it is of 30,000 x 30,000
``bad-png``            an image that is not a PNG
``wrong-size``         a vector with more numbers than its shape
``negative-shape``     a shape of -1
``other-shape``        a vector that is longer than in the messages before
``missing-sensor``     an agent without observations
``wrong-mask``         a mask of another length
``same-ids``           two agents with one number
``stranger``           an agent of a behavior that was never described
``huge-actions``       describes a behavior of 2,147,483,647 options
``negative-actions``   describes a behavior of -1 real actions
``no-actions``         describes a behavior without actions
``path-names``         describes a behavior called ``../../../escaped``
``absolute-names``     describes a behavior called ``/tmp/escaped``
``odd-names``          describes a behavior whose name has a line break and a zero
``long-names``         describes a behavior with a name of 100,000 letters
``many-behaviors``     describes 10,000 behaviors
``many-agents``        200,000 agents in one message
``bad-channel``        a side channel that announces 2,147,483,647 bytes
``unknown-channel``    a message of a side channel that does not exist, and of statistics with half a key
``path-statistics``    statistics called ``../../../escaped`` and ``/tmp/escaped``, one with a line break, one that is
                       not a number
``many-statistics``    100,000 statistics
``steering``           ends the session with a text that moves the cursor and clears the screen
=====================  =================================================================================================

When Python ends the session:

=====================  =================================================================================================
``stays``              neither exits nor answers SIGTERM
``lingers``            takes 6 seconds to close its files
=====================  =================================================================================================
"""

from __future__ import annotations

import os
import random
import signal
import socket
import struct
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from typing import Any, NoReturn, TextIO
from uuid import UUID

import numpy as np
import plain_grpc as wire

from rlcore_unity.mlagents_messages import STATISTICS, UnityMessage, Writer, encode_messages

CRASH = """\
Caught fatal signal - signo:6 code:-6 errno:0 addr:0x3e8000bca5d
Obtained 3 stack frames.
#0  0x007f3a5c6b2e0c in pthread_kill
#1  0x007f3a5c65afb2 in raise
#2  0x000055d0c0ffee in Game::Explode()
"""


Change = Callable[[Any, Any], Any]  # gets the player, and the message, its bytes or the log


class Fault:
    """A misbehavior of a player: what it does at its start, in an exchange and at the end; by default, nothing wrong.

    Attributes:
        at_start: Called with the options and the log before the player connects.
        change: Called with the player and the message of an ``exchange`` before it is sent; may change it.
        replace: Called with the player and the bytes of the message; returns those that are sent.
        lasts: Whether the exchanges after that one are changed too.
        at_end: Called with the player when Python has ended the session.
    """

    def __init__(
        self,
        exchange: int = -1,
        at_start: Change | None = None,
        change: Change | None = None,
        replace: Change | None = None,
        lasts: bool = False,
        at_end: Callable[[Any], None] | None = None,
    ) -> None:
        self.exchange, self.lasts = exchange, lasts
        self.at_start, self.change, self.replace, self.at_end = at_start, change, replace, at_end

    def _now(self, player: Any) -> bool:
        return player.exchanges == self.exchange or (self.lasts and player.exchanges > self.exchange)

    def start(self, options: Any, log: TextIO) -> None:
        if self.at_start is not None:
            self.at_start(options, log)

    def message(self, player: Any, message: Any) -> None:
        if self.change is not None and self._now(player):
            self.change(player, message)

    def data(self, player: Any, data: bytes) -> bytes:
        return self.replace(player, data) if self.replace is not None and self._now(player) else data

    def quit(self, player: Any) -> None:
        if self.at_end is not None:
            self.at_end(player)


def wait(*_: Any) -> NoReturn:
    """Do nothing forever, whoever asks."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    while True:
        time.sleep(3600)


def lingers(player: Any) -> None:
    time.sleep(6)
    write(player.log, "closed its files\n")


def write(place: TextIO, text: str) -> None:
    place.write(text)
    place.flush()


# ------------------------------------------------------------ at the start


def exits(options: Any, log: TextIO) -> NoReturn:
    for place in (log, sys.stderr):
        write(place, "Failed to load Player_Data/globalgamemanagers: No such file\n")
    os._exit(3)


def half_handshake(options: Any, log: TextIO) -> NoReturn:
    with connected(options.port):
        wait()


def not_http(options: Any, log: TextIO) -> NoReturn:
    with connected(options.port) as connection:
        connection.sendall(b"USER player\r\nPASS word\r\n" * 100)
        wait()


def second_player(options: Any, log: TextIO) -> None:
    command = [sys.executable, os.path.join(os.path.dirname(__file__), "unity_player.py")]
    subprocess.Popen([*command, "--mlagents-port", str(options.port), "--world", options.world], stdout=log)


def connected(port: int) -> socket.socket:
    """A connection, for which the server may take its time."""
    for _ in range(300):
        try:
            return socket.create_connection(("127.0.0.1", port), 5)
        except OSError:
            time.sleep(0.1)
    sys.exit(1)


# ------------------------------------------------------------ in an exchange


def crash(log: TextIO) -> NoReturn:
    write(log, CRASH)
    os.abort()


def end_by(number: int) -> Change:
    return lambda player, message: os.kill(os.getpid(), number)


def leaves_a_child(player: Any, message: Any) -> None:
    subprocess.Popen(["sleep", "600"])
    os.kill(os.getpid(), signal.SIGKILL)


def floods(player: Any, message: Any) -> None:
    line = "Assertion failed on expression: 'transform != null'\n"
    for place in (player.log, sys.stdout):
        write(place, line * (20_000_000 // len(line)))


def gigabytes(player: Any, data: bytes) -> bytes:
    """Announce 2 GB over a connection of its own, without the memory that a client of gRPC would need."""
    with connected(player.options.port) as connection:
        connection.sendall(wire.OPENING + wire.frame(wire.HEADERS, wire.END_HEADERS, 1, wire.CALL))
        zeros = wire.frame(wire.DATA, 0, 1, bytes(16_000))
        try:
            connection.sendall(wire.frame(wire.DATA, 0, 1, struct.pack(">BI", 0, 2**31 - 1)))
            connection.settimeout(60)
            for _ in range(2**31 // 16_000):
                connection.sendall(zeros)
        except OSError:
            write(player.log, "The server has closed the connection with the message of 2 GB\n")
    os._exit(1)


# ------------------------------------------------------------ messages that do not fit


def infos(message: Any) -> Any:
    """The agents of the first behavior."""
    agents = message.unity_output.rl_output.agentInfos
    return agents[sorted(agents)[0]].value


def seen(message: Any) -> Any:
    return infos(message)[0].observations[0]


def nan(player: Any, message: Any) -> None:
    seen(message).float_data.data[0] = float("nan")


def infinite(player: Any, message: Any) -> None:
    infos(message)[0].reward = float("inf")


def image(message: Any, shape: tuple[int, ...], content: bytes) -> None:
    observation = seen(message)
    observation.Clear()
    observation.shape.extend(shape)
    observation.dimension_properties.extend([1, 2, 2])
    observation.compression_type, observation.compressed_data = 1, content


def png(size: int) -> bytes:
    import cv2

    return bytes(cv2.imencode(".png", np.zeros((size, size, 3), np.uint8))[1].tobytes())


def huge_image(player: Any, message: Any) -> None:
    image(message, (3, 100_000, 100_000), png(4))


def png_bomb(player: Any, message: Any) -> None:
    from zlib import crc32

    small = png(4)
    header = b"IHDR" + struct.pack(">II", 30_000, 30_000) + small[24:29]
    image(message, (3, 30_000, 30_000), small[:12] + header + struct.pack(">I", crc32(header)) + small[33:])


def bad_png(player: Any, message: Any) -> None:
    image(message, (3, 4, 4), b"\x89PNG\r\n\x1a\n" + bytes(40))


def wrong_size(player: Any, message: Any) -> None:
    seen(message).float_data.data.extend([0.0] * 3)


def negative_shape(player: Any, message: Any) -> None:
    seen(message).shape[:] = [-1]


def other_shape(player: Any, message: Any) -> None:
    wrong_size(player, message)
    seen(message).shape[:] = [len(seen(message).float_data.data)]


def missing_sensor(player: Any, message: Any) -> None:
    del infos(message)[0].observations[:]


def wrong_mask(player: Any, message: Any) -> None:
    infos(message)[0].action_mask[:] = [True] * 7


def same_ids(player: Any, message: Any) -> None:
    infos(message)[1].id = infos(message)[0].id


def add_behavior(
    message: Any, name: str, continuous: int = 1, branches: tuple[int, ...] = (), described: bool = True
) -> None:
    """Add an agent of a new behavior."""
    output = message.unity_output
    if described:
        brain = output.rl_initialization_output.brain_parameters.add(brain_name=name, is_training=True)
        brain.action_spec.num_continuous_actions = continuous
        brain.action_spec.num_discrete_actions = len(branches)
        brain.action_spec.discrete_branch_sizes.extend(branches)
    info = output.rl_output.agentInfos[name].value.add(id=1_000_000)
    info.observations.add(shape=[1]).float_data.data.append(0.0)


def with_behavior(name: str, *actions: Any, described: bool = True) -> Change:
    return lambda player, message: add_behavior(message, name, *actions, described=described)


def many_behaviors(player: Any, message: Any) -> None:
    for number in range(10_000):
        add_behavior(message, f"Behavior{number}")


def many_agents(player: Any, message: Any) -> None:
    agents = infos(message)
    for number in range(200_000):
        agents.add().CopyFrom(agents[0])
        agents[-1].id = 1_000_000 + number


def with_channel(data: bytes) -> Change:
    def change(player: Any, message: Any) -> None:
        message.unity_output.rl_output.side_channel = data

    return change


def add_statistics(message: Any, named: Mapping[str, float]) -> None:
    values = [(STATISTICS, Writer().write_string(n).write_float32(v).write_int32(0).payload) for n, v in named.items()]
    message.unity_output.rl_output.side_channel = encode_messages(values)


def quits(player: Any, message: Any) -> None:
    message.header.status = 400


def steering(player: Any, message: Any) -> None:
    message.header.status = 400
    message.header.message = "\x1b[2J\x1b[1;1Hdone: 1000000 steps\r\n\x9b31m" + "a" * 10_000
    write(player.log, "\x1b[2J\x1b]0;owned\x07 the last words\n")


# ------------------------------------------------------------ handshakes


def with_versions(communication: str, package: str) -> Change:
    def change(player: Any, message: Any) -> None:
        started = message.unity_output.rl_initialization_output
        started.communication_version, started.package_version = communication, package

    return change


def wrong_order(player: Any, message: Any) -> None:
    message.Clear()
    message.header.status = 200
    add_behavior(message, "Early")


def shakes_twice(player: Any, data: bytes) -> bytes:
    message = UnityMessage()
    message.header.status = 200
    message.unity_output.rl_initialization_output.name = "Academy"
    with_versions("1.5.0", "4.0.0")(player, message)
    return bytes(message.SerializeToString())


UNKNOWN = UUID("00000000-0000-0000-0000-000000000001")
STARTS: Mapping[str, Change] = {
    "exits": exits,
    "exits-silently": lambda options, log: os._exit(0),
    "crashes-at-start": lambda options, log: crash(log),
    "never-connects": wait,
    "half-handshake": half_handshake,
    "second-player": second_player,
    "not-http": not_http,
}
MESSAGES: Mapping[str, Change] = {
    "hangs": wait,
    "hangs-handshake": wait,
    "stops": end_by(signal.SIGSTOP),
    "dies": end_by(signal.SIGKILL),
    "crashes": lambda player, message: crash(player.log),
    "leaves": lambda player, message: os._exit(0),
    "quits": quits,
    "slow": lambda player, message: time.sleep(1),
    "children": leaves_a_child,
    "floods": floods,
    "empty": lambda player, message: message.Clear(),
    "nan": nan,
    "infinite": infinite,
    "huge-image": huge_image,
    "png-bomb": png_bomb,
    "bad-png": bad_png,
    "wrong-size": wrong_size,
    "negative-shape": negative_shape,
    "other-shape": other_shape,
    "missing-sensor": missing_sensor,
    "wrong-mask": wrong_mask,
    "same-ids": same_ids,
    "stranger": with_behavior("Stranger", described=False),
    "huge-actions": with_behavior("Huge", 0, (2**31 - 1,)),
    "negative-actions": with_behavior("Negative", -1),
    "no-actions": with_behavior("Idle", 0),
    "path-names": with_behavior("../../../escaped"),
    "absolute-names": with_behavior("/tmp/escaped"),
    "odd-names": with_behavior("line\nbreak\0zero"),
    "long-names": with_behavior("a" * 100_000),
    "many-behaviors": many_behaviors,
    "many-agents": many_agents,
    "bad-channel": with_channel(STATISTICS.bytes_le + struct.pack("<i", 2**31 - 1) + b"abc"),
    "unknown-channel": with_channel(
        encode_messages([(UNKNOWN, b"hello"), (STATISTICS, struct.pack("<i", 100) + b"half a key")])
    ),
    "path-statistics": lambda player, message: add_statistics(
        message, {"../../../escaped": 1.0, "/tmp/escaped": 1.0, "line\nbreak": 1.0, "odd": float("nan")}
    ),
    "many-statistics": lambda player, message: add_statistics(message, {f"Number{n}": 1.0 for n in range(100_000)}),
    "steering": steering,
    "wrong-version": with_versions("2.0.0", "4.0.0"),
    "no-version": with_versions("", ""),
    "wrong-order": wrong_order,
}
DATA: Mapping[str, Change] = {
    "garbage": lambda player, data: b"\xff" + random.Random(0).randbytes(500),
    "half": lambda player, data: data[: max(1, len(data) // 2)],
    "large": lambda player, data: data + b"\x7a" + b"\x80\x80\xc0\x08" + bytes(17 << 20),  # a field that is skipped
    "gigabytes": gigabytes,
    "shakes-twice": shakes_twice,
}
ENDS: Mapping[str, Callable[[Any], None]] = {"stays": wait, "lingers": lingers}
EXCHANGES = {"wrong-version": 0, "no-version": 0, "wrong-order": 0, "shakes-twice": 1, "hangs-handshake": 1}
FAULTS = (*STARTS, *MESSAGES, *DATA, *ENDS)


def fault_of(text: str) -> Fault:
    """Return the misbehavior of ``NAME`` or ``NAME@N``; of nothing, one that does nothing wrong."""
    name, _, number = text.partition("@")
    if name and name not in FAULTS:
        raise SystemExit(f"there is no misbehavior {name!r}; known are {', '.join(FAULTS)}")
    exchange = int(number) if number else EXCHANGES.get(name, 5)
    return Fault(exchange, STARTS.get(name), MESSAGES.get(name), DATA.get(name), name == "slow", ENDS.get(name))
