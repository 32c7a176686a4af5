"""The places of actors and the queue of fragments, which the learner shares with the threads of its connections.

:mod:`rlcore_actors.hub` supervises the places and empties the queue; :mod:`rlcore_actors.connections` fills both.
"""

from __future__ import annotations

import threading
from collections import deque

import attrs
import numpy as np
from numpy.typing import NDArray

from rlcore import BehaviorSpec, RlcoreError
from rlcore_actors.contract import ActingState
from rlcore_actors.local import LocalActor
from rlcore_actors.messages import Channel
from rlcore_actors.source import Played
from rlcore_workers import Restarts

__all__ = ["Details", "Exchange", "Place"]


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


@attrs.define(eq=False)
class Exchange:
    """Places, fragments and the acting state, which the learner shares with the threads of its connections.

    Attributes:
        places: All places.
        news: Guards the places and all that follows; notified of each change.
        queue: Fragments that wait, each with the generation of its episodes.
        state: What actors act with; None before the first one.
        encoded: The arrays of ``state`` as a message.
        generation: How often episodes were begun in all environments, from 0; -1 before the first time.
        behavior: The behavior in the environments of the first actor that has made its own; None before.
        failures: Places whose actors are gone, with the error and whether it ends the run.
        closing: Whether the run ends.
    """

    places: list[Place]
    news: threading.Condition = attrs.field(factory=threading.Condition)
    queue: deque[tuple[int, Played]] = attrs.field(factory=deque)
    state: ActingState | None = None
    encoded: bytes = b""
    generation: int = -1
    behavior: BehaviorSpec | None = None
    failures: deque[tuple[int, RlcoreError, bool]] = attrs.field(factory=deque)
    closing: bool = False

    def report(self, place: Place, error: RlcoreError, is_final: bool = False) -> None:
        """Note that the actor of a place is gone."""
        with self.news:
            self.failures.append((place.number, error, is_final))
            self.news.notify_all()
