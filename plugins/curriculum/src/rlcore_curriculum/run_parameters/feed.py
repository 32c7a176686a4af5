"""Feeds parameters to environments, one episode ahead, and keeps what each agent's open episode began with.

Episodes are numbered in the order in which they begin.

The parameters of an environment's next episode are *staged* before the current one ends, because an environment resets
itself within the step that ends an episode. S slots, N environments, P parameters.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rlcore import (
    DrawsParameters,
    Environment,
    EnvironmentFailed,
    EpisodeDraw,
    Parameters,
    ParameterSampler,
    blamed,
    fill,
    saved_count,
)
from rlcore_curriculum.arrays import Bools, Floats, Ints

# An open episode is not waited for after this many later ones began: for each agent, and in all at least.
WAITS = 64
WAITS_AT_LEAST = 256

# Environments [K] and episode numbers [K] to the draws of all P parameters.
Draw = Callable[[Ints, Ints], EpisodeDraw]


class ParameterFeed:
    """Keeps the parameters of every environment's current and next episode, and sets them."""

    def __init__(
        self,
        environment: Environment,
        names: Sequence[str],
        draw: Draw,
        named: str = "environment",
        samplers: Callable[[], Mapping[str, ParameterSampler]] = dict,
        drawing: DrawsParameters | None = None,
    ) -> None:
        """``names`` [P] are the columns of what ``draw`` gives; ``named`` is what messages call the environment.

        ``drawing`` is the environment if it draws parameters by itself, those that ``samplers`` returns.
        """
        self._samplers = samplers
        self._drawing = drawing
        self.sampled: Mapping[str, ParameterSampler] = {}  # parameters whose values only the environment knows
        self._environment = environment
        self._named = named
        self._draw = draw
        self.names = tuple(names)
        num_envs = environment.num_envs
        shape = (num_envs, len(self.names))
        self._env_index: Ints = _read_only(np.arange(num_envs))
        self._none: Ints = self._env_index[:0]
        self.playing: Ints = np.full(num_envs, -1, np.int64)  # [N] the episode of each environment
        self.values = np.zeros(shape)  # [N, P] of that episode
        self.draw_id: Ints = np.zeros(shape, np.int64)  # [N, P]
        self._next_values = np.zeros(shape)  # [N, P] of the next episode
        self._next_draw_id: Ints = np.zeros(shape, np.int64)
        # Read-only views of what is staged.
        self._staged: Parameters = self._columns(self._next_values)

    def before_reset(self, episodes: Ints) -> None:
        """Every environment is about to start an episode, with the numbers ``episodes`` [N]."""
        self._stage(self._env_index, episodes.copy())

    def after_reset(self, episodes: Ints) -> None:
        """The ``episodes`` [N] of all environments have started."""
        self.playing[:] = episodes
        self.values[:] = self._next_values
        self.draw_id[:] = self._next_draw_id
        self._stage(self._env_index, episodes + 1)

    def after_step(self) -> Ints:
        """Return the environments [K] that started their next episode; :meth:`restage` draws what follows."""
        episodes = self._environment.episodes
        if episodes.tobytes() == self.playing.tobytes():  # as in most steps; a fifth of the time of what follows
            return self._none
        began = np.flatnonzero(episodes != self.playing)
        if began.size:
            self.playing[began] = episodes[began]
            self.values[began] = self._next_values[began]
            self.draw_id[began] = self._next_draw_id[began]
        return began

    def described(self, env: int, latest: bool) -> str:
        """Describe the values of an environment's episode for messages: ``length 0.5, gravity 9.8``.

        Within the step that ends an episode, that is the one which has just started if ``latest``, else the one before.
        """
        began = self._environment.episodes[env] != self.playing[env]
        values = self._next_values if latest and began else self.values
        texts = []
        for name, value in zip(self.names, values[env].tolist(), strict=True):
            if name not in self.sampled:
                texts.append(f"{name} {value:g}")
        return ", ".join(texts)

    def restage(self, env_index: Ints | None = None) -> None:
        """Draw the next episodes of these environments, or of all."""
        env_index = self._env_index if env_index is None else env_index
        if env_index.size:
            self._stage(_read_only(env_index), self.playing[env_index] + 1)

    def _stage(self, env_index: Ints, episodes: Ints) -> None:
        drawn = self._draw(env_index, episodes)
        self._next_values[env_index] = drawn.values
        self._next_draw_id[env_index] = drawn.draw_id
        self._set(self._staged)

    def state_dict(self) -> dict[str, Any]:
        return {
            "playing": self.playing.copy(),
            "values": self.values.copy(),
            "stamp": self.draw_id.copy(),  # the name in checkpoints
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

    def _columns(self, values: Floats) -> Parameters:
        """Read-only columns of ``values`` [N, P], by name."""
        return {name: _read_only(values[:, column]) for column, name in enumerate(self.names)}

    def _set(self, parameters: Parameters) -> None:
        with blamed(self._named, "in set_parameters", EnvironmentFailed):
            samplers = {} if self._drawing is None else dict(self._samplers())
            if self._drawing is not None and samplers != self.sampled:
                self._drawing.set_samplers(samplers)
                self.sampled = samplers
            self._environment.set_parameters(parameters)


# Numbers [K], values [K, P] and draw_id [K, P] of K agents' episodes.
Beginnings = tuple[Ints, Floats, Ints]


class AgentEpisodes:
    """The draw of the open episode of each agent of a behavior, and its number among all of the behavior."""

    def __init__(self, env_index: Ints, feed: ParameterFeed) -> None:
        """``env_index`` [S] says in which environment each agent is."""
        self._feed = feed
        self._env_index = env_index
        slots = len(env_index)
        shape = (slots, len(feed.names))
        self._values = np.zeros(shape)  # [S, P]
        self._draw_id: Ints = np.zeros(shape, np.int64)  # [S, P]
        self._numbers: Ints = np.zeros(slots, np.int64)  # [S]
        self._begun = 0  # episodes, ever
        self.patience = max(WAITS_AT_LEAST, WAITS * slots)  # episodes that may begin while one is waited for

    @property
    def settled(self) -> int:
        """All episodes with smaller numbers are over, or are :attr:`late`."""
        oldest = int(np.minimum.reduce(self._numbers))
        waited_for = self._begun - self.patience
        if oldest >= waited_for:
            return oldest
        awaited = self._numbers[self._numbers >= waited_for]
        return int(awaited.min(initial=self._begun))

    @property
    def late(self) -> int | None:
        """The first agent with an open episode that more than :attr:`patience` later ones have outrun, if any."""
        late = self._numbers < self._begun - self.patience
        if not late.any():
            return None
        return int(late.argmax())

    def beginnings(self, rows: Ints) -> Beginnings:
        """Return the draws of the episodes of agents ``rows`` [K], before :meth:`begin` replaces them."""
        values = self._values.take(rows, 0)
        draw_id = self._draw_id.take(rows, 0)
        return self._numbers.take(rows), values, draw_id

    def begin_all(self) -> None:
        """All agents start an episode."""
        self._begin(np.arange(len(self._numbers)))

    def begin(self, env_index: Ints, ended: Ints, aborted: Bools | None) -> None:
        """Start an episode for every agent whose environment started one, and for those in ``ended`` or ``aborted``."""
        fresh = np.zeros(len(self._feed.playing), np.bool_)
        fresh[env_index] = True
        fresh = fresh[self._env_index]
        fresh[ended] = True
        if aborted is not None:
            fresh |= aborted
        self._begin(np.flatnonzero(fresh))

    def _begin(self, rows: Ints) -> None:
        first = self._begun
        self._begun += len(rows)
        self._numbers[rows] = np.arange(first, self._begun)
        env_index = self._env_index[rows]
        self._values[rows] = self._feed.values[env_index]
        self._draw_id[rows] = self._feed.draw_id[env_index]

    def state_dict(self) -> dict[str, Any]:
        return {
            "values": self._values.copy(),
            "stamp": self._draw_id.copy(),
            "numbers": self._numbers.copy(),
            "begun": self._begun,
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        fill(self._values, state, "values")
        fill(self._draw_id, state, "stamp")
        fill(self._numbers, state, "numbers")
        self._begun = saved_count(state, "begun")


def _read_only(array: NDArray[Any]) -> NDArray[Any]:
    array.flags.writeable = False
    return array
