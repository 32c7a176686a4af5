"""The connections of actors to the learner: a token lets them in, each gets a place and a task, and sends fragments.

Each connection has a thread, which answers a fragment when there is room for it in the queue. So actors wait where the
learner is slower, and the queue is bounded. An answer has the newest state of the policy unless the actor has it.

:mod:`rlcore_actors.hub` takes the fragments. :mod:`rlcore_actors.program` has the other end of a connection.
"""

from __future__ import annotations

import logging
import os
import secrets
import socket
import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from time import monotonic
from typing import Any

import attrs
import numpy as np

from rlcore import (
    BehaviorSpec,
    ConfigError,
    EnvironmentEnded,
    EnvironmentFailed,
    KeyPath,
    RlcoreError,
    RunContext,
    UnsupportedSpace,
    one_line,
    saved_spec,
    spec_mismatch,
)
from rlcore import __version__ as rlcore_version
from rlcore_actors.exchange import Details, Exchange, Place
from rlcore_actors.messages import Channel, NotTrusted, read_token
from rlcore_actors.playing import Share
from rlcore_actors.settings import ActorSettings
from rlcore_actors.source import Played

__all__ = ["END_SECONDS", "KEY", "LOOK_SECONDS", "Connections"]

log = logging.getLogger("rlcore.plugin.actors")

LOOK_SECONDS = 0.25  # between two looks at what may have changed
SIGN_SECONDS = 2.0  # between two signs of life to an actor that waits
HELLO_SECONDS = 10.0
END_SECONDS = 2.5  # that actors have to close their environments
TOKEN_FILE = "actors.token"
# Where a listener at all addresses is reached from this machine.
LOOPBACK = {"0.0.0.0": "127.0.0.1", "::": "::1"}  # nosec B104 # compared with, not bound
KEY: KeyPath = ("environment", "workers")


class Connections:
    """Lets actors in, and puts what they play into the queue of the :class:`~rlcore_actors.exchange.Exchange`.

    Attributes:
        address: Host and port that it listens at.
        token: What actors have to know.
    """

    def __init__(self, settings: ActorSettings, run: RunContext, exchange: Exchange, config: Mapping[str, Any]) -> None:
        """Listen; ``config`` is the configuration that actors get. :meth:`open` lets them in.

        Raises ConfigError for an address or a token that cannot be used.
        """
        self._settings = settings
        self._run = run
        self._exchange = exchange
        self._config = config
        self._limit = settings.queue or 2 * settings.count
        self._threads: list[threading.Thread] = []
        self._channels: set[Channel] = set()
        self.token = self._make_token()
        self._listener = self._listen()
        self.address: tuple[str, int] = self._listener.getsockname()[:2]

    def open(self) -> None:
        """Let actors in from now on."""
        self._start_thread(self._accept, "actors")

    def close(self, deadline: float) -> None:
        """Close all connections; threads have until ``deadline`` (of ``monotonic``) to end by themselves."""
        self._listener.close()
        for thread in self._threads:
            thread.join(max(0.0, deadline - monotonic()))
        with self._exchange.news:
            channels = list(self._channels)
        for channel in channels:
            channel.close()
        for thread in self._threads:
            thread.join(1.0)

    @property
    def address_here(self) -> tuple[str, int]:
        """Where this machine reaches the listener."""
        host, port = self.address
        return LOOPBACK.get(host, host), port

    # ------------------------------------------------------------ listening

    def _make_token(self) -> bytes:
        settings = self._settings
        if settings.token_file is not None:
            return read_token(self._run.absolute(settings.token_file))
        return secrets.token_urlsafe(32).encode()

    def _listen(self) -> socket.socket:
        host, port = "127.0.0.1", 0
        if self._settings.listen is not None:
            host, _, number = self._settings.listen.rpartition(":")
            host = host.strip("[]")
            port = int(number)
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        listener = socket.socket(family, socket.SOCK_STREAM)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listener.bind((host, port))
            listener.listen(128)
        except OSError as error:
            listener.close()
            raise ConfigError(f"cannot listen at {host}:{port}: {error}", key=(*KEY, "listen")) from error
        listener.settimeout(LOOK_SECONDS)
        return listener

    def announce(self) -> None:
        """Write the token, and say what to run elsewhere."""
        path = self._settings.token_file
        if path is None:
            path = str(self._run.directory / TOKEN_FILE)
            self._run.own_files(TOKEN_FILE)
            _write_token(Path(path), self.token)
        host, port = self.address
        if host in LOOPBACK:  # all addresses of this machine
            host = socket.gethostname()
        free = len(self._exchange.places) - self._settings.started
        log.info("%d places for actors: rlcore actor %s:%d --token-file %s", free, host, port, path)

    # ------------------------------------------------------------ a thread for each connection

    def _start_thread(self, target: Callable[..., None], name: str, *arguments: Any) -> None:
        thread = threading.Thread(target=target, args=arguments, name=name, daemon=True)
        self._threads.append(thread)
        thread.start()

    def _accept(self) -> None:
        while not self._exchange.closing:
            try:
                connection, _ = self._listener.accept()
            except TimeoutError:
                continue
            except OSError:
                return
            self._threads = [thread for thread in self._threads if thread.is_alive()]
            self._start_thread(self._serve, "actor", Channel(connection))

    def _serve(self, channel: Channel) -> None:
        """Let an actor in, and take what it sends until it is gone."""
        with self._exchange.news:
            self._channels.add(channel)
        place: Place | None = None
        try:
            channel.prove_to_actor(self.token)
            place = self._place_for(channel, channel.receive(HELLO_SECONDS))
            if place is not None:
                self._play(channel, place)
        except NotTrusted as error:
            log.warning("a connection was refused: %s", error)
        except (OSError, EOFError, KeyError, TypeError, ValueError, RlcoreError) as error:
            self._lose(place, error)
        finally:
            self._free(channel, place)

    def _place_for(self, channel: Channel, hello: Mapping[str, Any]) -> Place | None:
        """Give an actor a place and its task; None if there is no place for it."""
        version = hello["rlcore"]
        if version != rlcore_version:
            problem = f"it has rlcore {version}, and the run {rlcore_version}; install the same"
            channel.send({"kind": "refused", "problem": problem})
            return None
        wanted = hello["place"]
        with self._exchange.news:
            place = next((each for each in self._exchange.places if self._fits(each, wanted)), None)
            if place is not None:
                place.connection = channel
                place.attempts += 1
        if place is None:
            channel.send({"kind": "full", "problem": f"all {len(self._exchange.places)} places are taken"})
            return None
        share = Share(
            place=place.number,
            attempt=place.attempts - 1,
            envs=self._run.num_envs // self._settings.count,
            steps=self._settings.fragment,
            seed=self._run.seed,
        )
        here = place.local
        channel.send(
            {
                "kind": "task",
                "share": attrs.asdict(share),
                "config": self._config,
                "directory": str(self._run.directory) if here else None,
                "working_directory": str(self._run.working_directory) if here else None,
                "reconnect": self._settings.reconnect,
            }
        )
        if not here:
            place.host = str(hello["host"])
            log.info("actor %d is at %s, process %s", place.number, place.host, hello["pid"])
        return place

    def _fits(self, place: Place, wanted: int | None) -> bool:
        if place.connection is not None:
            return False
        return place.number == wanted if place.local else wanted is None

    def _play(self, channel: Channel, place: Place) -> None:
        """Take the fragments of an actor that got its task."""
        exchange = self._exchange
        made = channel.receive(float(self._run.config.env_settings.timeout_wait) or None)
        if made["kind"] == "failed":
            self._fail(place, made)
            return
        problem = self._difference(saved_spec(made["behavior"], made["spec"]))
        if problem is not None:
            channel.send({"kind": "refused", "problem": problem})
            raise EnvironmentFailed(problem)
        place.playing = True
        attempt = place.attempts - 1
        number = 0
        version = self._send_begin(channel, place, restarted=attempt > 0)
        while version is not None:
            message = channel.receive(self._settings.fragment_timeout)
            if message["kind"] == "failed":
                self._fail(place, message)
                return
            body = message["body"]
            played = Played(place.number, attempt, number, int(message["version"]), body)
            number += 1
            if not self._wait(channel, lambda: len(exchange.queue) < self._limit):
                return
            with exchange.news:
                is_current = message["generation"] == exchange.generation
                if is_current:
                    place.episodes = np.array(body["episodes"])
                    exchange.queue.append((exchange.generation, played))
                    exchange.news.notify_all()
            version = self._answer(channel, version) if is_current else self._send_begin(channel, place)

    def _answer(self, channel: Channel, version: int) -> int:
        """Answer a fragment, with the newest state if it is newer than ``version``; return what the actor has."""
        with self._exchange.news:
            state = self._exchange.state
            data = self._exchange.encoded
        assert state is not None
        is_new = state.version != version
        channel.send({"kind": "go", "version": state.version, "state": is_new})
        if is_new:
            channel.send_encoded(data)
        return state.version

    def _send_begin(self, channel: Channel, place: Place, restarted: bool = False) -> int | None:
        """Have an actor begin episodes, once there is a state to act with; return its version. None: the run ends."""
        exchange = self._exchange
        if not self._wait(channel, lambda: exchange.state is not None and exchange.generation >= 0):
            return None
        with exchange.news:
            state = exchange.state
            data = exchange.encoded
            episodes = place.episodes + int(restarted)
            generation = exchange.generation
        assert state is not None
        channel.send({"kind": "begin", "episodes": episodes, "generation": generation, "version": state.version})
        channel.send_encoded(data)
        return state.version

    def _wait(self, channel: Channel, ready: Callable[[], bool]) -> bool:
        """Wait until ``ready``, and give the actor signs of life. Tell it of the end of the run, and return False."""
        exchange = self._exchange
        while True:
            with exchange.news:
                exchange.news.wait_for(lambda: exchange.closing or ready(), SIGN_SECONDS)
                closing = exchange.closing
                done = ready()
            if closing:
                channel.send({"kind": "end"})
                channel.finish(END_SECONDS)  # the actor may be sending a fragment
                return False
            if done:
                return True
            channel.send({"kind": "wait"})

    def _difference(self, behavior: BehaviorSpec) -> str | None:
        """Return how the agents of an actor differ from those of the first one; None if they do not."""
        exchange = self._exchange
        with exchange.news:
            first = exchange.behavior
            if first is None:
                exchange.behavior = behavior
                exchange.news.notify_all()
                return None
        problem = spec_mismatch(first, behavior)
        if problem is None and first.slots != behavior.slots:
            problem = f"there are {behavior.slots} agents instead of {first.slots}"
        return None if problem is None else f"it made other environments than the first actor: {problem}"

    # ------------------------------------------------------------ how a connection ends

    def _fail(self, place: Place, message: Mapping[str, Any]) -> None:
        """Note the error that an actor has sent."""
        text = str(message["message"])
        kinds: dict[str, type[RlcoreError]] = {
            "UnsupportedSpace": UnsupportedSpace,
            "EnvironmentEnded": EnvironmentEnded,
        }
        error: RlcoreError
        # Actors of other hosts come and go: a host that lacks a package must not end the run.
        is_final = place.local and (message["error"] == "ConfigError" or message["error"] in kinds)
        if message["error"] == "ConfigError":
            error = ConfigError(text, key=tuple(message["key"]))
        else:
            error = kinds.get(message["error"], EnvironmentFailed)(f"in {message['doing']}: {text}")
        error.__cause__ = Details(str(message["details"]))
        self._exchange.report(place, error, is_final)

    def _lose(self, place: Place | None, error: BaseException) -> None:
        """Note that an actor is gone, or sends what cannot be read."""
        if place is None or self._exchange.closing:
            return
        problem = "it did not answer in time" if isinstance(error, TimeoutError) else one_line(error)
        if isinstance(error, EOFError | ConnectionError):
            actor = place.actor
            ended = actor is not None and actor.wait(1.0)
            problem = f"its process {actor.ended}" if actor is not None and ended else "its connection ended"
        failed = EnvironmentFailed(problem)
        if place.actor is not None:
            failed.__cause__ = Details(place.actor.tail)
        self._exchange.report(place, failed)

    def _free(self, channel: Channel, place: Place | None) -> None:
        channel.close()
        with self._exchange.news:
            self._channels.discard(channel)
            if place is not None:
                place.connection = None
                place.playing = False


def _write_token(path: Path, token: bytes) -> None:
    """Write a file that other users cannot read."""
    path.unlink(missing_ok=True)
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        file.write(token + b"\n")
    with suppress(OSError):
        os.chmod(path, 0o600)
