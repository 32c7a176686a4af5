"""Feeds parameters to environments, one episode ahead.

The parameters of an environment's next episode are *staged* before the current one ends, because an environment resets
itself within the step that ends an episode.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from rlcore.contracts.curriculum import Curriculum, EpisodeDraw
from rlcore.contracts.environment import Environment, Parameters
from rlcore.contracts.saved_values import fill
from rlcore.errors import EnvironmentFailed
from rlcore.plugins.failures import blame

# Environments [K] and episode numbers [K] to the draws of all P parameters.
Draw = Callable[[NDArray[np.int64], NDArray[np.int64]], EpisodeDraw]


class FedEnvironment(Protocol):
    """The part of an environment that a feed uses."""

    @property
    def num_envs(self) -> int: ...

    @property
    def episodes(self) -> NDArray[np.int64]: ...

    def set_parameters(self, parameters: Parameters) -> None: ...


class ParameterFeed:
    """Keeps the parameters of every environment's current and next episode, and sets them."""

    def __init__(
        self, environment: FedEnvironment, names: Sequence[str], draw: Draw, named: str = "environment"
    ) -> None:
        """``names`` [P] are the columns of what ``draw`` gives; ``named`` is what messages call the environment."""
        self._environment = environment
        self._named = named
        self._draw = draw
        self.names = tuple(names)
        num_envs, columns = environment.num_envs, len(self.names)
        self._env_index: NDArray[np.int64] = _read_only(np.arange(num_envs))
        self._none: NDArray[np.int64] = self._env_index[:0]
        self.playing: NDArray[np.int64] = np.full(num_envs, -1, np.int64)  # [N] the episode of each environment
        self.values: NDArray[np.float64] = np.zeros((num_envs, columns))  # [N, P] of that episode
        self.draw_id: NDArray[np.int64] = np.zeros((num_envs, columns), np.int64)  # [N, P]
        self._next_values: NDArray[np.float64] = np.zeros((num_envs, columns))  # [N, P] of the next episode
        self._next_draw_id: NDArray[np.int64] = np.zeros((num_envs, columns), np.int64)
        # Read-only views of what is staged.
        self._staged: Parameters = self._columns(self._next_values)

    def before_reset(self, episodes: NDArray[np.int64]) -> None:
        """Every environment is about to start an episode, with the numbers ``episodes`` [N]."""
        self._stage(self._env_index, episodes.copy())

    def after_reset(self, episodes: NDArray[np.int64]) -> None:
        """The ``episodes`` [N] of all environments have started."""
        self.playing[:] = episodes
        self.values[:] = self._next_values
        self.draw_id[:] = self._next_draw_id
        self._stage(self._env_index, episodes + 1)

    def after_step(self) -> NDArray[np.int64]:
        """Return the environments [K] that started their next episode; :meth:`restage` draws what follows."""
        episodes = self._environment.episodes
        if episodes.tobytes() == self.playing.tobytes():  # as in most steps; a fifth of the time of what follows
            return self._none
        began: NDArray[np.int64] = (episodes != self.playing).nonzero()[0]
        if began.size:
            rows = as_slice(began)
            self.playing[rows] = episodes[rows]
            self.values[rows] = self._next_values[rows]
            self.draw_id[rows] = self._next_draw_id[rows]
        return began

    def episode_of(self, env: int, latest: bool) -> NDArray[np.float64]:
        """Values [P] of an environment's episode; if ``latest``, of one started since the last :meth:`after_step`."""
        began = self._environment.episodes[env] != self.playing[env]
        values: NDArray[np.float64] = (self._next_values if latest and began else self.values)[env]
        return values

    def described(self, env: int, latest: bool) -> str:
        """Describe the values of an episode for messages: ``length 0.5, gravity 9.8``; see :meth:`episode_of`."""
        values = self.episode_of(env, latest).tolist()
        return ", ".join(f"{name} {value:g}" for name, value in zip(self.names, values, strict=True))

    def restage(self, env_index: NDArray[np.int64] | None = None) -> None:
        """Draw the next episodes of these environments, or of all."""
        env_index = self._env_index if env_index is None else env_index
        if env_index.size:
            self._stage(_read_only(env_index), self.playing[as_slice(env_index)] + 1)

    def _stage(self, env_index: NDArray[np.int64], episodes: NDArray[np.int64]) -> None:
        drawn, rows = self._draw(env_index, episodes), as_slice(env_index)
        self._next_values[rows] = drawn.values
        self._next_draw_id[rows] = drawn.draw_id
        self._set(self._staged)

    def state_dict(self) -> dict[str, Any]:
        return {
            "playing": self.playing.copy(),
            "values": self.values.copy(),
            "stamp": self.draw_id.copy(),
            "next_values": self._next_values.copy(),
            "next_stamp": self._next_draw_id.copy(),
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Load the state; :meth:`replay` or :meth:`resume` sets the parameters in the environment."""
        fill(self.playing, state, "playing")
        fill(self.values, state, "values")
        fill(self.draw_id, state, "stamp")
        fill(self._next_values, state, "next_values")
        fill(self._next_draw_id, state, "next_stamp")

    def replay(self) -> None:
        """Every environment is about to start again the episode it is in; :meth:`resume` follows."""
        self._set(self._columns(self.values.copy()))

    def resume(self) -> None:
        """Every environment is in the episode it was in when the state was saved."""
        self._set(self._staged)

    def _columns(self, values: NDArray[np.float64]) -> Parameters:
        """Read-only columns of ``values`` [N, P], by name."""
        return {name: _read_only(values[:, column]) for column, name in enumerate(self.names)}

    def _set(self, parameters: Parameters) -> None:
        try:
            self._environment.set_parameters(parameters)
        except BaseException as error:
            blame(self._named, "in set_parameters", error, EnvironmentFailed)


def target_feed(curricula: Sequence[Curriculum], environment: Environment, named: str) -> ParameterFeed:
    """Feeds an environment to evaluate in, which messages call ``named``, with the task that training is for."""

    def draw(env_index: NDArray[np.int64], episodes: NDArray[np.int64]) -> EpisodeDraw:
        values = np.concatenate([curriculum.draw_target(env_index, episodes) for curriculum in curricula], axis=1)
        return EpisodeDraw(values, np.zeros(values.shape, np.int64))

    return ParameterFeed(environment, [name for each in curricula for name in each.parameters], draw, named)


def as_slice(rows: NDArray[np.intp]) -> NDArray[np.intp] | slice:
    """Return an index for ``rows``: a slice for one row, which takes a third of the time of an array."""
    if len(rows) != 1:
        return rows
    row = int(rows[0])
    return slice(row, row + 1)


def _read_only(array: NDArray[Any]) -> NDArray[Any]:
    array.flags.writeable = False
    return array
