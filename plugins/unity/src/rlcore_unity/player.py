"""A session with one player: its start, the first two messages, then one message for each decision.

``receive`` and ``send`` take turns. Whatever a player does wrong is a :class:`~rlcore_workers.PlayerFailed`, whose text
has the last lines of the player's log.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from contextlib import suppress
from math import inf
from pathlib import Path
from time import monotonic
from typing import Any

import attrs
from google.protobuf.message import DecodeError

from rlcore_unity.behaviors import Brain, UnusableBehavior, read_brain
from rlcore_unity.http2 import TooLarge
from rlcore_unity.mlagents_messages import (
    Capabilities,
    Header,
    InitializationInput,
    UnityInput,
    UnityMessage,
)
from rlcore_unity.server import PlayerServer, Sockets
from rlcore_workers import PlayerEnded, PlayerFailed, PlayerProcess

log = logging.getLogger("rlcore.plugin.unity")

COMMUNICATION_VERSION = "1.5.0"
# of a header's status
OK = 200
CLOSING = 400
LOOK_SECONDS = 0.2  # between two looks whether the process still runs
END_SECONDS = 2.0  # that a player has to end which did not hear the goodbye, because it was within a step
TEXT = 200  # characters of a player's texts that are shown
MAX_BEHAVIORS = 256


@attrs.frozen
class Launch:
    """How the players of an environment are started.

    Attributes:
        command: The command of a player for its number, port and log; None for the editor.
        folder: The directory that players start in.
        logs: The file of the log of each player, by its number.
        address: Where to listen.
        port: The port of each player, by its number; 0 for a free one.
        seed: The seed of each player, by its number.
        announced_version: The version of ML-Agents' Python package that players are told.
        num_areas: Training areas in the scene of a player.
        largest: Bytes that a message may have.
        start_seconds: How long the start may take; infinite for no limit.
        step_seconds: How long a decision may take; infinite for no limit.
        end_seconds: How long a player may take to end after the goodbye: a recorder may have a file to close.
        stop_requested: Returns whether the run is to stop, so that a player is waited for no longer.
    """

    command: Callable[[int, int, Path], list[str]] | None
    folder: Path
    logs: Callable[[int], Path]
    address: str
    port: Callable[[int], int]
    seed: Callable[[int], int]
    announced_version: str
    num_areas: int
    largest: int
    start_seconds: float
    step_seconds: float
    end_seconds: float = 60.0
    stop_requested: Callable[[], bool] = bool


class Player:
    """One player, from its start to its end.

    Attributes:
        number: Its number among those of the environment.
        package_version: The version of Unity's ML-Agents package.
        described: What the player said about each behavior and team, by its name.
        capabilities: What the player can do, as it says.
    """

    def __init__(self, number: int, launch: Launch, sockets: Sockets) -> None:
        """Start the player. ``sockets`` are those of all players of the environment.

        Raises PlayerFailed, and PortTaken.
        """
        self.number = number
        self._launch = launch
        self.package_version = ""
        self.capabilities: Any = Capabilities()
        self.described: dict[str, Any] = {}
        self._process: PlayerProcess | None = None
        self._warned = False
        self._said_goodbye = False
        self._server = PlayerServer(launch.address, launch.port(number), launch.largest, self._refused, sockets)
        try:
            if launch.command is None:
                log.info("waits for Unity's editor at port %d: press Play in the editor", self._server.port)
            else:
                path = launch.logs(number)
                command = launch.command(number, self._server.port, path)
                output = path.with_name(f"{path.stem}-output{path.suffix}")  # what comes before Unity's own log
                try:
                    self._process = PlayerProcess(command, launch.folder, output, path)
                except OSError as error:
                    raise PlayerFailed(f"cannot be started: {error.strerror or error}", []) from error
        except BaseException:
            self._server.close()
            raise

    def _refused(self, peer: str) -> None:
        if not self._warned:
            self._warned = True
            log.warning(
                "player %d: a second player, at %s, called port %d and was refused; start each with a port of its own",
                self.number,
                peer,
                self._server.port,
            )

    def greet(self, deadline: float) -> None:
        """Exchange the first two messages, so that the player waits for its first command. Raises PlayerFailed."""
        output = self._message(deadline, "its start")
        first = output.rl_initialization_output
        if not output.HasField("rl_initialization_output"):
            raise self.failed("began with another message than that of a player which starts")
        theirs = first.communication_version
        if theirs.partition(".")[0] != COMMUNICATION_VERSION.partition(".")[0] or theirs.startswith("0."):
            raise self.failed(
                f"speaks version {_printable(theirs) or 'none'} of ML-Agents' protocol, and rlcore speaks "
                f"{COMMUNICATION_VERSION}; build the player with com.unity.ml-agents 1.0 or later"
            )
        if theirs != COMMUNICATION_VERSION:
            log.debug("player %d speaks version %s of the protocol", self.number, _printable(theirs))
        self.package_version = first.package_version
        self.capabilities = first.capabilities
        launch = self._launch
        answer = InitializationInput(
            seed=launch.seed(self.number),
            communication_version=COMMUNICATION_VERSION,
            package_version=launch.announced_version,
            capabilities=Capabilities(**{field.name: field.name != "trainingAnalytics" for field in _CAPABILITIES}),
            num_areas=launch.num_areas,
        )
        self._reply(UnityInput(rl_initialization_input=answer))
        self._message(deadline, "its start")

    def send(self, rl_input: Any) -> None:
        """Answer the player with an RLInput."""
        self._reply(UnityInput(rl_input=rl_input))

    def receive(self) -> Any:
        """Return the next RLOutput. Raises PlayerFailed."""
        output = self._message(monotonic() + self._launch.step_seconds, "a step")
        if not output.HasField("rl_output"):
            raise self.failed("sent a message without agents")
        for parameters in output.rl_initialization_output.brain_parameters:
            if len(self.described) < MAX_BEHAVIORS:
                self.described.setdefault(parameters.brain_name, parameters)
        return output.rl_output

    def brain(self, name: str, agents: Sequence[Any]) -> Brain:
        """Return the behavior and team ``name``, of which these are ``agents``. Raises PlayerFailed."""
        if name not in self.described or not agents:
            raise self.failed(f"has agents of a behavior {_printable(name)!r} that it did not describe")
        try:
            return read_brain(self.described[name], agents[0].observations)
        except UnusableBehavior as error:
            raise self.failed(str(error)) from error

    def _reply(self, unity_input: Any) -> None:
        self._server.reply(UnityMessage(header=Header(status=OK), unity_input=unity_input).SerializeToString())

    def _message(self, deadline: float, doing: str) -> Any:
        """Return ``unity_output`` of the next message."""
        try:
            data = self._wait(deadline, doing)
        except TooLarge as error:
            allowed = self._launch.largest >> 20
            raise self.failed(
                f"sent a message of {error.args[0] >> 20} MB in {doing}; environment.max_message_mb allows {allowed}"
            ) from None
        try:
            message = UnityMessage.FromString(data)
        except DecodeError:
            raise self.failed(f"sent {len(data)} bytes that are no message of ML-Agents") from None
        reason = f" ({_printable(message.header.message)})" if message.header.message else ""
        if message.header.status == CLOSING:
            raise PlayerEnded(f"ended the session{reason}")
        if message.header.status != OK:
            raise self.failed(f"sent a message with the status {message.header.status}{reason}")
        return message.unity_output

    def _wait(self, deadline: float, doing: str) -> bytes:
        started = monotonic()
        while True:
            left = deadline - monotonic()
            try:
                return self._server.receive(max(0.0, min(LOOK_SECONDS, left)))
            except TimeoutError:
                pass
            except ConnectionError:
                if self._process is None:
                    raise PlayerEnded("was stopped") from None
                if not self._process.wait(1.0):
                    raise self.failed("closed the connection") from None
            if self._process is not None and self._process.ended_in_order and doing != "its start":
                raise PlayerEnded(f"was closed in {doing}")
            ended = None if self._process is None else self._process.ended
            if ended is not None:
                raise self.failed(f"{ended} in {doing}")
            if self._launch.stop_requested():
                raise PlayerEnded(f"was not waited for in {doing}, because the run is to stop")
            if monotonic() >= deadline:
                key = "env_settings.timeout_wait" if doing == "its start" else "environment.timeout"
                raise self.failed(f"did not finish {doing} within {monotonic() - started:.0f} s ({key})")

    def failed(self, problem: str) -> PlayerFailed:
        """Return the error of this player, with the last lines of its log."""
        return PlayerFailed(problem, [] if self._process is None else self._process.last_lines())

    def quit(self) -> None:
        """Ask the player to end; :meth:`close` waits for it."""
        with suppress(Exception):
            goodbye = UnityMessage(header=Header(status=CLOSING)).SerializeToString()
            self._said_goodbye = self._server.end(goodbye)

    def close(self, deadline: float = -inf) -> None:
        """Wait for the end of the player until ``deadline``, and kill it if it does not end.

        A player that did not hear the goodbye is not waited for so long.
        """
        if self._process is not None:
            left = deadline - monotonic()
            self._process.wait(max(0.0, left if self._said_goodbye else min(left, END_SECONDS)))
            self._process.kill()
        self._server.close()


_CAPABILITIES = Capabilities.DESCRIPTOR.fields


def _printable(text: str) -> str:
    """A text of a player for a message of ours."""
    text = "".join(letter if letter.isprintable() else "?" for letter in text)
    return text if len(text) <= TEXT else f"{text[:TEXT]}..."
