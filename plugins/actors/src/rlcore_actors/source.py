"""The sources of fragments: who has the actors of a run. One plays in the process of the run.

:mod:`rlcore_actors.hub` has the other one.

Shapes: N environments of all actors.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from typing import Any, Protocol

import attrs
import numpy as np
from numpy.typing import NDArray

from rlcore import BehaviorSpec, RunContext
from rlcore_actors.contract import ActingState
from rlcore_actors.playing import Playing, Share
from rlcore_actors.settings import ActorSettings

__all__ = ["InProcess", "Played", "Source"]


@attrs.frozen(eq=False)
class Played:
    """A fragment as an actor sent it.

    Attributes:
        place: Number of the actor.
        attempt: How many actors had the place before.
        number: Fragments of the actor before this one.
        version: The state of the policy that acted.
        body: What :meth:`rlcore_actors.playing.Playing.play` returned.
    """

    place: int
    attempt: int
    number: int
    version: int
    body: Mapping[str, Any]


class Source(Protocol):
    """Has the actors of a run.

    Attributes:
        behavior: The behavior in the environments of one actor.
        restarts: Actors that were started again.
        connected: Actors that play.
        queued: Fragments that wait.
        waited: Seconds that the run waited for fragments.
    """

    behavior: BehaviorSpec
    restarts: int
    waited: float

    @property
    def connected(self) -> int: ...

    @property
    def queued(self) -> int: ...

    def begin(self, episodes: NDArray[np.int64]) -> None:
        """Have the actors begin these episodes [N] once there is a state to act with, and forget what they played."""

    def next(self, state: ActingState) -> Played:
        """Return the oldest fragment that waits, or wait for one. Actors get ``state`` before their next fragment.

        Raises EnvironmentFailed if too many actors failed.
        """

    def close(self) -> None:
        """End the actors; may be called twice."""


class InProcess:
    """Actors that take turns in the process of the run; a :class:`Source`."""

    restarts = 0
    queued = 0
    waited = 0.0

    def __init__(self, settings: ActorSettings, run: RunContext) -> None:
        """Make all actors. Raises what making their environments raises."""
        self._states: deque[ActingState] = deque(maxlen=settings.lag + 1)
        self._actors: list[Playing] = []
        self._played = 0
        envs = run.num_envs // settings.count
        plugins: Any = run.plugins  # whole, and not only what makes objects
        try:
            for place in range(settings.count):
                share = Share(place=place, attempt=0, envs=envs, steps=settings.fragment, seed=run.seed)
                actor = Playing(share, run.config, plugins, run.directory, run.working_directory)
                self._actors.append(actor)
        except BaseException:
            self.close()
            raise
        self.behavior = self._actors[0].behavior
        self.connected = len(self._actors)

    def begin(self, episodes: NDArray[np.int64]) -> None:
        """Begin the episodes."""
        for actor, numbers in zip(self._actors, np.split(episodes, len(self._actors)), strict=True):
            actor.begin(numbers)

    def next(self, state: ActingState) -> Played:
        """Have the next actor play, with the state of as many updates before as ``lag`` says."""
        if not self._states or self._states[-1] is not state:
            self._states.append(state)
        number, place = divmod(self._played, len(self._actors))
        self._played += 1
        actor = self._actors[place]
        acting = self._states[0]
        actor.load(acting.arrays)
        return Played(place, 0, number, acting.version, actor.play())

    def close(self) -> None:
        """Close the environments."""
        for actor in self._actors:
            actor.close()
