"""An actor as a program: it connects to a learner, makes what the learner describes, and plays until the learner ends.

:mod:`rlcore_actors.hub` has the other end. ``python -m rlcore_actors.program`` is what a run starts on its own machine;
:mod:`rlcore_actors.command` is for other hosts.
"""

from __future__ import annotations

import json
import logging
import os
import select
import signal
import socket
import sys
import tempfile
import traceback
from contextlib import suppress
from pathlib import Path
from time import monotonic, sleep
from typing import Any

import attrs

from rlcore import (
    ConfigError,
    EnvironmentFailed,
    RlcoreError,
    document_from_mapping,
    hide_overflow_warnings,
    load_config,
    load_plugins_for,
    one_line,
    spec_state,
)
from rlcore import __version__ as rlcore_version
from rlcore_actors.messages import Channel, NotTrusted
from rlcore_actors.playing import Playing, Share

__all__ = ["ActorProgram"]

log = logging.getLogger("rlcore.plugin.actors")

SILENCE_SECONDS = 10.0  # after which a learner is gone: it sends something every 2 s while an actor waits
RETRY_SECONDS = 0.5  # between two attempts to connect
AHEAD = 1  # fragments that an actor plays while the learner has not answered for the one before
FINISH_SECONDS = 10.0  # in which the learner reads why an actor ends
# The run decides when an actor that it started ends: a terminal and a batch system send these to every process.
IGNORED = ("SIGINT", "SIGTERM", "SIGHUP", "SIGQUIT", "SIGUSR1", "SIGUSR2", "SIGXCPU")


class LearnerEnded(Exception):
    """The run is over, in order."""


@attrs.define(eq=False)
class ActorProgram:
    """An actor.

    Attributes:
        address: Host and port of the learner.
        token: What both know.
        place: The place that the run gave to an actor that it started; None for the first that is free.
        wait: Seconds in which the learner must be reached at first.
    """

    address: tuple[str, int]
    token: bytes
    place: int | None = None
    wait: float = 60.0
    _reconnect: float = 0.0  # seconds, as the learner says
    _playing: Playing | None = None
    _task: Any = None  # what the learner wants of this actor

    def run(self) -> None:
        """Play until the learner ends in order.

        Raises EnvironmentFailed if it is gone and does not come back, and what making the environments raises.
        """
        deadline = monotonic() + self.wait
        while True:
            channel = self._connected(deadline)
            try:
                self._serve(channel)
            except LearnerEnded:
                return
            except (OSError, EOFError, NotTrusted) as error:
                log.warning("the learner at %s is gone (%s)", self._named, one_line(error))
            finally:
                channel.close()
                self._close()
            if self.place is not None:
                raise EnvironmentFailed("the run that started this actor is gone")
            deadline = monotonic() + self._reconnect

    @property
    def _named(self) -> str:
        return f"{self.address[0]}:{self.address[1]}"

    def _connected(self, deadline: float) -> Channel:
        """Connect and prove the token; try again until ``deadline`` while the learner is not there or has no place."""
        while True:
            channel: Channel | None = None
            try:
                channel = Channel(socket.create_connection(self.address, timeout=5.0))
                channel.prove_to_learner(self.token)
                hello = {"rlcore": rlcore_version, "host": socket.gethostname(), "pid": os.getpid()}
                channel.send({**hello, "place": self.place})
                answer = channel.receive(SILENCE_SECONDS)
                if answer["kind"] == "task":
                    self._reconnect = float(answer["reconnect"])
                    self._task = answer
                    return channel
                problem = str(answer["problem"])
                if answer["kind"] == "refused":
                    raise ConfigError(f"the learner at {self._named} refused this actor: {problem}")
            except NotTrusted as error:
                raise ConfigError(f"{self._named}: {error}; give the token of this run") from error
            except (OSError, EOFError) as error:
                problem = one_line(error)
            except RlcoreError:
                if channel is not None:
                    channel.close()
                raise
            if channel is not None:
                channel.close()
            if monotonic() >= deadline:
                raise EnvironmentFailed(f"no learner takes this actor at {self._named}: {problem}")
            sleep(RETRY_SECONDS)

    # ------------------------------------------------------------ a connection

    def _serve(self, channel: Channel) -> None:
        """Play for the learner at the other end until it, or the connection, ends."""
        task = self._task
        with tempfile.TemporaryDirectory(prefix="rlcore-actor-") as elsewhere:
            directory = Path(task["directory"] or elsewhere)
            try:
                playing = self._playing = _made(task, directory)
            except BaseException as error:
                raise _reported(channel, error, "create") from error
            channel.send({"kind": "made", "behavior": playing.behavior.name, "spec": spec_state(playing.behavior)})
            generation, version = self._begin(channel, self._answer(channel))
            outstanding = 0
            while True:
                try:
                    body = playing.play()
                except BaseException as error:
                    raise _reported(channel, error, "step") from error
                channel.send({"kind": "fragment", "generation": generation, "version": version, "body": body})
                outstanding += 1
                # The newest weights, if they are there: never within a fragment.
                while outstanding > AHEAD or (outstanding and _is_readable(channel)):
                    answer = self._answer(channel)
                    outstanding -= 1
                    if "episodes" in answer:
                        generation, version = self._begin(channel, answer)
                    elif answer["state"]:
                        version = self._load(channel, answer)

    def _answer(self, channel: Channel) -> Any:
        """The next answer of the learner. Raises LearnerEnded for its end."""
        while True:
            message = channel.receive(SILENCE_SECONDS)
            if message["kind"] == "end":
                raise LearnerEnded
            if message["kind"] == "refused":
                raise ConfigError(f"the learner at {self._named} refused this actor: {message['problem']}")
            if message["kind"] != "wait":
                return message

    def _begin(self, channel: Channel, answer: Any) -> tuple[int, int]:
        """Begin new episodes; return the generation of episodes, and the version of the policy."""
        assert self._playing is not None
        version = self._load(channel, answer)
        self._playing.begin(answer["episodes"])
        return int(answer["generation"]), version

    def _load(self, channel: Channel, answer: Any) -> int:
        """Receive the state that follows an answer, and act with it; return its version."""
        assert self._playing is not None
        self._playing.load(channel.receive(SILENCE_SECONDS))
        return int(answer["version"])

    def _close(self) -> None:
        playing, self._playing = self._playing, None
        if playing is not None:
            with suppress(Exception):
                playing.close()


def _made(task: Any, directory: Path) -> Playing:
    document = document_from_mapping(task["config"])
    plugins = load_plugins_for(document, lenient=True)
    config = load_config(document, plugins, measuring=True)
    working = Path(task["working_directory"] or Path.cwd())
    return Playing(Share(**task["share"]), config, plugins, directory, working)


def _is_readable(channel: Channel) -> bool:
    ready, _, _ = select.select([channel.socket], (), (), 0)
    return bool(ready)


def _reported(channel: Channel, error: BaseException, doing: str) -> RlcoreError:
    """Tell the learner why this actor ends. Returns the error to raise: none that a lost connection could have."""
    message: dict[str, Any] = {
        "kind": "failed",
        "error": type(error).__name__,
        "message": error.message if isinstance(error, ConfigError) else one_line(error),
        "key": [str(each) for each in error.key] if isinstance(error, ConfigError) else [],
        "doing": doing,
        "details": "".join(traceback.format_exception(error)),
    }
    with suppress(OSError):
        channel.send(message)
    channel.finish(FINISH_SECONDS)
    if isinstance(error, RlcoreError):
        return error
    return EnvironmentFailed(f"the environments of this actor failed in {doing}: {one_line(error)}")


def main() -> None:
    """Play for the run that started this process, which writes a line of JSON to its standard input."""
    for name in IGNORED:
        number = getattr(signal, name, None)
        if number is not None:
            signal.signal(number, signal.SIG_IGN)
    given = json.loads(sys.stdin.readline())
    logging.basicConfig(format="%(levelname)s:%(name)s:%(message)s", level=logging.WARNING)
    logging.getLogger("rlcore").setLevel(given["level"])
    hide_overflow_warnings()
    program = ActorProgram((given["host"], given["port"]), given["token"].encode(), given["place"])
    code = 0
    try:
        program.run()
    except RlcoreError:
        code = 1  # the learner has the message
    except BaseException:
        traceback.print_exc()
        code = 1
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)  # threads and exit handlers of environments must not keep the process alive


if __name__ == "__main__":
    main()
