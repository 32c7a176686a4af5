"""A session with one game: its start, what it says about its agents, then one message for each decision."""

from __future__ import annotations

import logging
import socket
from collections.abc import Mapping
from contextlib import suppress
from math import inf
from time import monotonic
from typing import Any

from rlcore import ConfigError
from rlcore_godot.connection import BadGame, Connection, GameGone, short
from rlcore_godot.launch import Launch
from rlcore_godot.settings import EDITOR_PORT
from rlcore_godot.spaces import Cast, read_cast
from rlcore_workers import PlayerEnded, PlayerFailed, PlayerProcess

log = logging.getLogger("rlcore.plugin.godot")

# of Godot RL Agents, whose messages these are
MAJOR = "0"
MINOR = "7"
HOST = "127.0.0.1"
LOOK_SECONDS = 0.05  # between two looks whether a game that starts still runs
END_SECONDS = 2.0  # that a game has to end which did not hear that it should
DEATH_SECONDS = 0.5  # from the end of a connection to that of its process


class Player:
    """One game, from its start to its end. Methods raise PlayerFailed.

    Attributes:
        number: Its number among those of the run.
        seed: The number that it was started with.
        fresh: Whether it has not played since its start.
    """

    def __init__(self, number: int, launch: Launch, seed: int) -> None:
        """Start the game, or wait for that of the editor. Raises ConfigError for a port that is taken."""
        self.number = number
        self.seed = seed
        self.fresh = True
        self._launch = launch
        self._waited_for = False  # an answer of the game is missing
        self._said_goodbye = False
        self._process: PlayerProcess | None = None
        self._connection: Connection | None = None
        self._listener = _listener(launch.port(number))
        port = self._listener.getsockname()[1]
        if launch.command is None:
            log.info("waits for a game on port %d: press Play in Godot's editor", port)
            return
        command = [*launch.command, f"--port={port}", f"--env_seed={seed}"]
        try:
            self._process = PlayerProcess(command, launch.folder, launch.log(number))
        except OSError as error:
            self._listener.close()
            reason = f"{command[0]} cannot be started: {error.strerror or error}"
            raise PlayerFailed(f"{reason}; is it a program for this system?") from error

    def greet(self) -> Cast:
        """Wait for the connection of the game, and return what it says about its agents."""
        seconds = self._launch.start_seconds
        deadline = inf if seconds is None else monotonic() + seconds
        self._connection = Connection(self._accepted(deadline), self._launch.largest, self._look)
        left = None if seconds is None else max(1.0, deadline - monotonic())
        try:
            self._send({"type": "handshake", "major_version": MAJOR, "minor_version": MINOR}, left)
            info = self._ask({"type": "env_info"}, "env_info", left)
            cast = read_cast(info)
            ticks = info.get("physics_ticks_per_second")
            if self._launch.command is not None and ticks not in (None, self._launch.ticks):
                raise BadGame(
                    f"runs {short(ticks)} physics ticks in a second, and was started with --fixed-fps "
                    f"{self._launch.ticks}; set environment.physics_ticks to that of the project"
                )
        except BadGame as error:
            raise self._failed(error) from error
        return cast

    def _accepted(self, deadline: float) -> socket.socket:
        """Wait for the connection, as long as the process runs. A second one is refused."""
        self._listener.settimeout(LOOK_SECONDS)
        with self._listener:
            while True:
                with suppress(TimeoutError):
                    return self._listener.accept()[0]
                self._look()
                if self._process is not None and self._process.ended:
                    raise self._failed(BadGame(f"{self._process.ended} before it connected"))
                if monotonic() > deadline:
                    raise self._failed(BadGame(self._never()))

    def _look(self) -> None:
        """Raise PlayerEnded if the run is to stop, so that the game is waited for no longer."""
        if self._launch.stop_requested():
            raise PlayerEnded("was not waited for, because the run is to stop")

    def _never(self) -> str:
        port = self._listener.getsockname()[1]
        waited = f"did not connect to port {port} within {self._launch.start_seconds:g} s"
        if self._process is None:
            return f"{waited}; press Play in Godot's editor, or set executable or project"
        return f"{waited}; does its scene have a Sync node in control mode Training, and does it read --port?"

    # ------------------------------------------------------------ messages

    def send_reset(self) -> None:
        """Have the game start an episode of every agent; :meth:`first` waits for it."""
        self._post({"type": "reset"})

    def send_actions(self, actions: list[dict[str, Any]]) -> None:
        """Send the action of each agent; :meth:`next` waits for what follows."""
        self.fresh = False
        self._post({"type": "action", "action": actions})

    def first(self) -> dict[str, Any]:
        """Return the message with the first observations."""
        return self._answer("reset")

    def next(self) -> dict[str, Any]:
        """Return the message with what followed the actions."""
        return self._answer("step")

    def _post(self, message: Mapping[str, Any]) -> None:
        try:
            self._send(message, self._launch.step_seconds)
        except BadGame as error:
            raise self._failed(error) from error

    def _answer(self, kind: str) -> dict[str, Any]:
        try:
            return self._take(kind, self._launch.step_seconds)
        except BadGame as error:
            raise self._failed(error) from error

    def _send(self, message: Mapping[str, Any], seconds: float | None) -> None:
        assert self._connection is not None
        self._waited_for = True
        self._connection.send(message, seconds)

    def _take(self, kind: str, seconds: float | None) -> dict[str, Any]:
        assert self._connection is not None
        message = self._connection.receive(seconds)
        self._waited_for = False
        answered = message.get("type")
        if answered != kind:
            raise BadGame(
                f"answered with a message of type {short(answered)} where {kind!r} must be; its plugin must be Godot "
                f"RL Agents {MAJOR}.{MINOR} or later"
            )
        return message

    def _ask(self, message: Mapping[str, Any], kind: str, seconds: float | None) -> dict[str, Any]:
        self._send(message, seconds)
        return self._take(kind, seconds)

    def failed(self, problem: str) -> PlayerFailed:
        """Return the error for a problem, with the last lines that the game wrote."""
        return self._failed(BadGame(problem))

    def _failed(self, error: BadGame) -> PlayerFailed:
        process = self._process
        problem = str(error)
        gone = isinstance(error, GameGone)
        played = not self.fresh
        if process is None:
            return PlayerEnded("was stopped") if gone and played else PlayerFailed(problem)
        if gone and process.wait(DEATH_SECONDS):
            if process.ended_in_order and played:
                return PlayerEnded("was closed")
            problem = str(process.ended)
        return PlayerFailed(problem, process.last_lines())

    # ------------------------------------------------------------ the end

    def quit(self) -> None:
        """Ask the game to end."""
        if self._connection is not None:
            with suppress(BadGame):
                self._connection.send({"type": "close"}, 1.0)
                self._said_goodbye = not self._waited_for

    def close(self, seconds: float = 0.0) -> None:
        """Wait up to ``seconds`` for the end of the game, and kill it then; less for one that is within a step."""
        self._listener.close()
        if not self._said_goodbye:
            seconds = min(seconds, END_SECONDS)
        if self._process is not None and not self._process.wait(seconds):
            self._process.kill()
        if self._connection is not None:
            self._connection.close()


def _listener(port: int) -> socket.socket:
    listener = socket.socket()
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((HOST, port))
        listener.listen(1)
    except OSError as error:
        listener.close()
        advice = (
            "end the other training that waits for the editor, or set another port here and in the Sync node"
            if port == EDITOR_PORT
            else "leave port out to have free ones"
        )
        raise ConfigError(
            f"{port} is not free ({error.strerror}): another program listens there; {advice}",
            key=("environment", "port"),
        ) from error
    return listener
