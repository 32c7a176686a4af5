"""An observation that has what all agents of a game see, for a critic (``options.state``).

A critic that reads it is that of MAPPO (Yu et al. 2022, arXiv:2103.01955). Policies should not:
``network_settings.critic_observations: [state]``.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from rlcore import ConfigError, ObservationSpec
from rlcore_gymnasium.spaces import ObservationPart
from rlcore_pettingzoo.arrays import BehaviorArrays

STATE = "state"
KEY = ("environment", "options", "state")


class CentralState:
    """Shows the state of each game to its agents, with their final observations too."""

    def __init__(self, games: Sequence[Any], arrays: Sequence[BehaviorArrays], game: str) -> None:
        self._games = games
        self._arrays = arrays
        self._game = game
        spec = self._spec()
        for behavior in arrays:
            names = [observation.name for observation in behavior.spec.observations]
            if STATE in names:
                raise ConfigError(f"agents of {game} have an observation {STATE!r} already; leave it out", key=KEY)
        for behavior in arrays:
            behavior.add_observation(spec)

    def show(self, env: int, final: bool) -> None:
        """Write the state of a game after a step, ``final`` for agents whose episode it ended, or after a reset."""
        state = self._state(env)
        for behavior in self._arrays:
            behavior.show_all(env, STATE, state, final)

    def _spec(self) -> ObservationSpec:
        raise NotImplementedError

    def _state(self, env: int) -> NDArray[Any]:
        raise NotImplementedError


class StateOfGame(CentralState):
    """The game's own ``state()``."""

    def _spec(self) -> ObservationSpec:
        space = getattr(self._games[0], "state_space", None)
        if space is None:
            raise ConfigError(f"{self._game} has no state_space; write agents, or leave it out", key=KEY)
        self._part = ObservationPart.of(space, STATE, None, self._game)
        return self._part.spec

    def _state(self, env: int) -> NDArray[Any]:
        state = np.asarray(self._games[env].state())
        row: NDArray[Any] = self._part.convert(state[None])[0]
        return row


class StateOfAgents(CentralState):
    """The observations of all agents side by side; of an agent that is out of the game, its last one."""

    def _spec(self) -> ObservationSpec:
        # Before `add_observation`: the state itself does not belong to it.
        self._parts: list[tuple[BehaviorArrays, str]] = []
        size = 0
        for behavior in self._arrays:
            for observation in behavior.spec.observations:
                if observation.kind == "image":
                    raise ConfigError(
                        f"agents of {self._game} observe an image, {observation.name!r}; write game, or leave it out",
                        key=KEY,
                    )
                self._parts.append((behavior, observation.name))
                size += observation.size * behavior.agents
        return ObservationSpec(STATE, (size,), np.float32)

    def _state(self, env: int) -> NDArray[Any]:
        parts = [behavior.seen(env, name).ravel() for behavior, name in self._parts]
        return np.concatenate(parts)


KINDS: dict[Literal["game", "agents"], type[CentralState]] = {"game": StateOfGame, "agents": StateOfAgents}
