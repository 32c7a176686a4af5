"""The learner's end of actors in other processes: who plays where, what they send, and what follows when one is gone.

Each connection has a thread, which answers a fragment when there is room for it in the queue. So actors wait where the
learner is slower, and the queue is bounded. An answer has the newest state of the policy unless the actor has it.
Places, the queue and the state are guarded by one condition.

:mod:`rlcore_actors.program` has the other end.
"""

from __future__ import annotations

import logging
import os
import secrets
import socket
import threading
from collections import deque
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from time import monotonic
from typing import Any

import attrs
import numpy as np
from numpy.typing import NDArray

from rlcore import (
    BehaviorSpec,
    ConfigError,
    EnvironmentEnded,
    EnvironmentFailed,
    KeyPath,
    RlcoreError,
    RunContext,
    UnsupportedSpace,
    dump_config,
    one_line,
    saved_spec,
    spec_mismatch,
)
from rlcore import __version__ as rlcore_version
from rlcore_actors.contract import ActingState
from rlcore_actors.local import LocalActor
from rlcore_actors.messages import Channel, NotTrusted, read_token
from rlcore_actors.playing import Share
from rlcore_actors.settings import ActorSettings
from rlcore_actors.source import Played
from rlcore_torch import encoded
from rlcore_workers import Restarts

__all__ = ["Hub"]

log = logging.getLogger("rlcore.plugin.actors")

LOOK_SECONDS = 0.25  # between two looks at processes and requests to stop
SIGN_SECONDS = 2.0  # between two signs of life to an actor that waits
HELLO_SECONDS = 10.0
END_SECONDS = 2.5  # that actors of this machine have to close their environments
TOKEN_FILE = "actors.token"
# Where a listener at all addresses is reached from this machine.
LOOPBACK = {"0.0.0.0": "127.0.0.1", "::": "::1"}  # nosec B104 # compared with, not bound
KEY: KeyPath = ("environment", "workers")
# Of the configuration, what actors have no use for: packages for it may be absent on their hosts.
LEFT_OUT = ("evaluation", "export", "stats")


@attrs.define(eq=False)
class Place:
    """A place for an actor.

    Attributes:
        number: From 0.
        local: Whether the run starts its actor.
        actor: The process that the run started.
        connection: The connection of the actor that has the place; None: it is free.
        attempts: Actors that had the place.
        host: Name of the host of the latest one; empty for this host.
        playing: Whether the actor has begun to play.
        episodes: [N] numbers of the latest episodes that are known to have begun.
        restarts: When the actors of this place were started again.
    """

    number: int
    local: bool
    episodes: NDArray[np.int64]
    actor: LocalActor | None = None
    connection: Channel | None = None
    attempts: int = 0
    host: str = ""
    playing: bool = False
    restarts: Restarts = attrs.field(factory=Restarts)


class Details(Exception):
    """The traceback and the output of an actor, as the cause of the error of a run; ``--debug`` shows it."""

    def __str__(self) -> str:
        return f"\n{self.args[0]}"


class Hub:
    """Actors in processes; a :class:`rlcore_actors.source.Source`.

    Attributes:
        behavior: The behavior in the environments of one actor.
        restarts: Actors that were started again.
        waited: Seconds that the run waited for fragments.
        address: Host and port that it listens at.
    """

    behavior: BehaviorSpec

    def __init__(self, settings: ActorSettings, run: RunContext) -> None:
        """Start the actors of this machine, and wait for the first actor that has made its environments.

        Raises what making its environments raises, ConfigError for an address or a token that cannot be used, and
        EnvironmentEnded if a stop is requested meanwhile.
        """
        self._settings = settings
        self._run = run
        envs = run.num_envs // settings.count
        self._envs = envs
        self._places = []
        for number in range(settings.count):
            self._places.append(Place(number, number < settings.started, np.full(envs, -1, np.int64)))
        self.restarts = 0
        self.waited = 0.0
        self._config = _config_of_actors(run)
        self._limit = settings.queue or 2 * settings.count
        self._queue: deque[tuple[int, Played]] = deque()  # with the generation of episodes
        self._state: ActingState | None = None
        self._encoded = b""
        self._generation = -1
        self._failures: deque[tuple[int, RlcoreError, bool]] = deque()  # place, error, whether it is final
        self._made: BehaviorSpec | None = None
        self._news = threading.Condition()
        self._closing = False
        self._threads: list[threading.Thread] = []
        self._channels: set[Channel] = set()
        self._looked = 0.0
        self._dropped: set[int] = set()  # places whose actors are not started again
        self._token = self._make_token()
        self._listener = self._listen()
        self.address: tuple[str, int] = self._listener.getsockname()[:2]
        try:
            self._start_thread(self._accept, "actors")
            for place in self._places:
                if place.local:
                    self._start(place)
            if settings.listen is not None:
                self._say_how_to_connect()
            self.behavior = self._first_behavior()
        except BaseException:
            self.close()
            raise

    # ------------------------------------------------------------ the source

    @property
    def connected(self) -> int:
        """Actors that play."""
        return sum(place.playing for place in self._places)

    @property
    def queued(self) -> int:
        """Fragments that wait."""
        return len(self._queue)

    def begin(self, episodes: NDArray[np.int64]) -> None:
        """Have the actors begin these episodes, and forget what they played."""
        with self._news:
            self._generation += 1
            self._queue.clear()
            for place, numbers in zip(self._places, np.split(episodes, len(self._places)), strict=True):
                place.episodes = numbers.copy()
            self._news.notify_all()

    def next(self, state: ActingState) -> Played:
        """Return the oldest fragment that waits, or wait for one."""
        if self._state is not state:
            data = encoded(dict(state.arrays))
            with self._news:
                self._state = state
                self._encoded = data
                self._news.notify_all()
        started = monotonic()
        try:
            while True:
                if monotonic() - self._looked >= LOOK_SECONDS:
                    self._look()
                with self._news:
                    while self._queue:
                        generation, played = self._queue.popleft()
                        self._news.notify_all()
                        if generation == self._generation:
                            return played
                    self._news.wait(LOOK_SECONDS)
                self._stop_if_requested()
        finally:
            self.waited += monotonic() - started

    def close(self) -> None:
        """End the actors; may be called twice."""
        with self._news:
            if self._closing:
                return
            self._closing = True
            self._news.notify_all()
        deadline = monotonic() + END_SECONDS
        for place in self._places:
            if place.actor is not None:
                place.actor.wait(deadline - monotonic())
        for place in self._places:
            if place.actor is not None:
                place.actor.kill()
        self._listener.close()
        for thread in self._threads:
            thread.join(max(0.0, deadline - monotonic()))
        with self._news:
            channels = list(self._channels)
        for channel in channels:
            channel.close()
        for thread in self._threads:
            thread.join(1.0)

    # ------------------------------------------------------------ actors of this machine

    def _start(self, place: Place) -> None:
        try:
            host, port = self.address
            place.actor = LocalActor(place.number, (LOOPBACK.get(host, host), port), self._token.decode())
        except OSError as error:
            raise EnvironmentFailed(f"actor {place.number} cannot be started: {error}") from error

    def _look(self) -> None:
        """Start actors that ended again. Raises what ends the run."""
        self._looked = monotonic()
        while self._failures:
            number, error, is_final = self._failures.popleft()
            if is_final:
                raise error
            self._recover(self._places[number], error)
        for place in self._places:
            actor = place.actor
            how = None if actor is None else actor.ended
            if actor is None or how is None:
                continue
            with self._news:
                taken = place.connection is not None or bool(self._failures)
            if taken:  # its thread is about to report more
                continue
            problem = EnvironmentFailed(f"its process {how}")
            problem.__cause__ = Details(actor.tail)
            self._recover(place, problem)

    def _stop_if_requested(self) -> None:
        if self._run.stop_requested and not self._queue:
            raise EnvironmentEnded("the run was asked to stop while it waited for actors")

    def _recover(self, place: Place, error: RlcoreError) -> None:
        """Start the actor of a place again, or do what ``on_failure`` says."""
        settings = self._settings
        refused = None
        if settings.on_failure == "fail":
            refused = "workers.on_failure is fail"
        elif self._made is None:
            refused = "it has not made its environments yet"
        else:
            refused = place.restarts.refused(self._run.config.env_settings)
        if place.actor is not None:
            place.actor.kill()
            place.actor = None
        where = f" on {place.host}" if place.host else ""
        named = f"actor {place.number}{where} failed: {error}"
        if not place.local:
            log.warning("%s; its place is free for another one", named)
            return
        if refused is None:
            log.warning("%s; it is started again, and its fragment and open episodes are dropped", named)
            place.restarts.add()
            self.restarts += 1
            self._start(place)
            return
        self._dropped.add(place.number)
        left = len(self._places) - len(self._dropped)
        if settings.on_failure == "drop" and left >= settings.min_workers and self._made is not None:
            log.warning("%s; the run continues without it, because %s", named, refused)
            return
        raise EnvironmentFailed(f"{named}; it is not started again, because {refused}") from (error.__cause__ or error)

    def _first_behavior(self) -> BehaviorSpec:
        """Wait until an actor has made its environments."""
        limit = self._run.config.env_settings.timeout_wait or None
        started = monotonic()
        while True:
            self._look()
            with self._news:
                if self._made is not None:
                    return self._made
                self._news.wait(LOOK_SECONDS)
            self._stop_if_requested()
            if limit is not None and self._settings.started and monotonic() - started > limit:
                raise EnvironmentFailed(f"no actor has made its environments within {limit} s")

    # ------------------------------------------------------------ connections

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

    def _say_how_to_connect(self) -> None:
        """Write the token, and say what to run elsewhere."""
        path = self._settings.token_file
        if path is None:
            path = str(self._run.directory / TOKEN_FILE)
            self._run.own_files(TOKEN_FILE)
            _write_token(Path(path), self._token)
        host, port = self.address
        if host in LOOPBACK:  # all addresses of this machine
            host = socket.gethostname()
        free = len(self._places) - self._settings.started
        log.info("%d places for actors: rlcore actor %s:%d --token-file %s", free, host, port, path)

    def _start_thread(self, target: Callable[..., None], name: str, *arguments: Any) -> None:
        thread = threading.Thread(target=target, args=arguments, name=name, daemon=True)
        self._threads.append(thread)
        thread.start()

    def _accept(self) -> None:
        while not self._closing:
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
        with self._news:
            self._channels.add(channel)
        place: Place | None = None
        try:
            channel.prove_to_actor(self._token)
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
        with self._news:
            place = next((each for each in self._places if self._fits(each, wanted)), None)
            if place is not None:
                place.connection = channel
                place.attempts += 1
        if place is None:
            channel.send({"kind": "full", "problem": f"all {len(self._places)} places are taken"})
            return None
        share = Share(
            place=place.number,
            attempt=place.attempts - 1,
            envs=self._envs,
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
        settings = self._settings
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
            message = channel.receive(settings.fragment_timeout)
            if message["kind"] == "failed":
                self._fail(place, message)
                return
            body = message["body"]
            played = Played(place.number, attempt, number, int(message["version"]), body)
            number += 1
            if not self._wait(channel, lambda: len(self._queue) < self._limit):
                return
            with self._news:
                is_current = message["generation"] == self._generation
                if is_current:
                    place.episodes = np.array(body["episodes"])
                    self._queue.append((self._generation, played))
                    self._news.notify_all()
            version = self._answer(channel, version) if is_current else self._send_begin(channel, place)

    def _answer(self, channel: Channel, version: int) -> int:
        """Answer a fragment, with the newest state if it is newer than ``version``; return what the actor has."""
        with self._news:
            state = self._state
            data = self._encoded
        assert state is not None
        is_new = state.version != version
        channel.send({"kind": "go", "version": state.version, "state": is_new})
        if is_new:
            channel.send_encoded(data)
        return state.version

    def _send_begin(self, channel: Channel, place: Place, restarted: bool = False) -> int | None:
        """Have an actor begin episodes, once there is a state to act with; return its version. None: the run ends."""
        if not self._wait(channel, lambda: self._state is not None and self._generation >= 0):
            return None
        with self._news:
            state = self._state
            data = self._encoded
            episodes = place.episodes + int(restarted)
            generation = self._generation
        assert state is not None
        channel.send({"kind": "begin", "episodes": episodes, "generation": generation, "version": state.version})
        channel.send_encoded(data)
        return state.version

    def _wait(self, channel: Channel, ready: Callable[[], bool]) -> bool:
        """Wait until ``ready``, and give the actor signs of life. Tell it of the end of the run, and return False."""
        while True:
            with self._news:
                self._news.wait_for(lambda: self._closing or ready(), SIGN_SECONDS)
                closing = self._closing
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
        with self._news:
            first = self._made
            if first is None:
                self._made = behavior
                self._news.notify_all()
                return None
        problem = spec_mismatch(first, behavior)
        if problem is None and first.slots != behavior.slots:
            problem = f"there are {behavior.slots} agents instead of {first.slots}"
        return None if problem is None else f"it made other environments than the first actor: {problem}"

    # ------------------------------------------------------------ what follows when an actor is gone

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
        with self._news:
            self._failures.append((place.number, error, is_final))
            self._news.notify_all()

    def _lose(self, place: Place | None, error: BaseException) -> None:
        """Note that an actor is gone, or sends what cannot be read."""
        if place is None or self._closing:
            return
        problem = "it did not answer in time" if isinstance(error, TimeoutError) else one_line(error)
        if isinstance(error, EOFError | ConnectionError):
            actor = place.actor
            ended = actor is not None and actor.wait(1.0)
            problem = f"its process {actor.ended}" if actor is not None and ended else "its connection ended"
        failed = EnvironmentFailed(problem)
        if place.actor is not None:
            failed.__cause__ = Details(place.actor.tail)
        with self._news:
            self._failures.append((place.number, failed, False))
            self._news.notify_all()

    def _free(self, channel: Channel, place: Place | None) -> None:
        channel.close()
        with self._news:
            self._channels.discard(channel)
            if place is not None:
                place.connection = None
                place.playing = False


def _config_of_actors(run: RunContext) -> dict[str, Any]:
    """The configuration for actors, which act on a processor. Raises ConfigError for plugins they cannot have."""
    plugins: Any = run.plugins
    for plugin, _ in plugins.registered:
        raise ConfigError(
            f"{plugin.described} was registered by the program, and actors cannot import it; name its file under "
            "plugins.local, or use in_process: true",
            key=KEY,
        )
    config = dump_config(run.config)
    for block in LEFT_OUT:
        config.pop(block, None)
    if isinstance(config.get("torch_settings"), dict):
        config["torch_settings"]["device"] = "cpu"
    return config


def _write_token(path: Path, token: bytes) -> None:
    """Write a file that other users cannot read."""
    path.unlink(missing_ok=True)
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        file.write(token + b"\n")
    with suppress(OSError):
        os.chmod(path, 0o600)
