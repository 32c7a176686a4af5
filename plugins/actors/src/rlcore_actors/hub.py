"""Actors in other processes as one source of fragments: starts them, takes what they play, and replaces those that end.

Each actor has a place. :mod:`rlcore_actors.connections` lets actors in, and fills the queue of fragments.
"""

from __future__ import annotations

import logging
from time import monotonic
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rlcore import (
    BehaviorSpec,
    ConfigError,
    EnvironmentEnded,
    EnvironmentFailed,
    RlcoreError,
    RunContext,
    dump_config,
)
from rlcore_actors.connections import END_SECONDS, KEY, LOOK_SECONDS, Connections
from rlcore_actors.contract import ActingState
from rlcore_actors.exchange import Details, Exchange, Place
from rlcore_actors.local import LocalActor
from rlcore_actors.settings import ActorSettings
from rlcore_actors.source import Played
from rlcore_torch import encoded

__all__ = ["Hub"]

log = logging.getLogger("rlcore.plugin.actors")

# Of the configuration, what actors have no use for: packages for it may be absent on their hosts.
LEFT_OUT = ("evaluation", "export", "stats")


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
        self._places = []
        for number in range(settings.count):
            self._places.append(Place(number, number < settings.started, np.full(envs, -1, np.int64)))
        self.restarts = 0
        self.waited = 0.0
        self._looked = 0.0
        self._dropped: set[int] = set()  # places whose actors are not started again
        self._exchange = Exchange(self._places)
        self._connections = Connections(settings, run, self._exchange, _config_of_actors(run))
        self.address = self._connections.address
        try:
            self._connections.open()
            for place in self._places:
                if place.local:
                    self._start(place)
            if settings.listen is not None:
                self._connections.announce()
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
        return len(self._exchange.queue)

    def begin(self, episodes: NDArray[np.int64]) -> None:
        """Have the actors begin these episodes, and forget what they played."""
        exchange = self._exchange
        with exchange.news:
            exchange.generation += 1
            exchange.queue.clear()
            for place, numbers in zip(self._places, np.split(episodes, len(self._places)), strict=True):
                place.episodes = numbers.copy()
            exchange.news.notify_all()

    def next(self, state: ActingState) -> Played:
        """Return the oldest fragment that waits, or wait for one."""
        exchange = self._exchange
        if exchange.state is not state:
            data = encoded(dict(state.arrays))
            with exchange.news:
                exchange.state = state
                exchange.encoded = data
                exchange.news.notify_all()
        started = monotonic()
        try:
            while True:
                if monotonic() - self._looked >= LOOK_SECONDS:
                    self._look()
                with exchange.news:
                    while exchange.queue:
                        generation, played = exchange.queue.popleft()
                        exchange.news.notify_all()
                        if generation == exchange.generation:
                            return played
                    exchange.news.wait(LOOK_SECONDS)
                self._stop_if_requested()
        finally:
            self.waited += monotonic() - started

    def close(self) -> None:
        """End the actors; may be called twice."""
        exchange = self._exchange
        with exchange.news:
            if exchange.closing:
                return
            exchange.closing = True
            exchange.news.notify_all()
        deadline = monotonic() + END_SECONDS
        for place in self._places:
            if place.actor is not None:
                place.actor.wait(deadline - monotonic())
        for place in self._places:
            if place.actor is not None:
                place.actor.kill()
        self._connections.close(deadline)

    # ------------------------------------------------------------ actors of this machine

    def _start(self, place: Place) -> None:
        try:
            connections = self._connections
            place.actor = LocalActor(place.number, connections.address_here, connections.token.decode())
        except OSError as error:
            raise EnvironmentFailed(f"actor {place.number} cannot be started: {error}") from error

    def _look(self) -> None:
        """Start actors that ended again. Raises what ends the run."""
        self._looked = monotonic()
        exchange = self._exchange
        while exchange.failures:
            number, error, is_final = exchange.failures.popleft()
            if is_final:
                raise error
            self._recover(self._places[number], error)
        for place in self._places:
            actor = place.actor
            how = None if actor is None else actor.ended
            if actor is None or how is None:
                continue
            with exchange.news:
                taken = place.connection is not None or bool(exchange.failures)
            if taken:  # its thread is about to report more
                continue
            problem = EnvironmentFailed(f"its process {how}")
            problem.__cause__ = Details(actor.tail)
            self._recover(place, problem)

    def _stop_if_requested(self) -> None:
        if self._run.stop_requested and not self._exchange.queue:
            raise EnvironmentEnded("the run was asked to stop while it waited for actors")

    def _recover(self, place: Place, error: RlcoreError) -> None:
        """Start the actor of a place again, or do what ``on_failure`` says."""
        settings = self._settings
        refused = None
        if settings.on_failure == "fail":
            refused = "workers.on_failure is fail"
        elif self._exchange.behavior is None:
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
        if settings.on_failure == "drop" and left >= settings.min_workers and self._exchange.behavior is not None:
            log.warning("%s; the run continues without it, because %s", named, refused)
            return
        raise EnvironmentFailed(f"{named}; it is not started again, because {refused}") from (error.__cause__ or error)

    def _first_behavior(self) -> BehaviorSpec:
        """Wait until an actor has made its environments."""
        limit = self._run.config.env_settings.timeout_wait or None
        exchange = self._exchange
        started = monotonic()
        while True:
            self._look()
            with exchange.news:
                if exchange.behavior is not None:
                    return exchange.behavior
                exchange.news.wait(LOOK_SECONDS)
            self._stop_if_requested()
            if limit is not None and self._settings.started and monotonic() - started > limit:
                raise EnvironmentFailed(f"no actor has made its environments within {limit} s")


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
