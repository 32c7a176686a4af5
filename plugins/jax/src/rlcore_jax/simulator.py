"""The contract of a simulator: pure functions of one environment, which JAX traces and vectorizes.

Shapes: P players of one environment, each of which is a slot. An array without an axis is written [].
"""

from __future__ import annotations

from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from rlcore import ObservationSpec

Array = Any
"""An array of JAX, or one that stands for it while a program is traced."""


class View(NamedTuple):
    """The observations and the allowed actions of the players of one environment.

    Attributes:
        observations: Observations by name, each [P, *shape], of any type that becomes the observation's own.
        mask: [P, options] whether each option is allowed; all are in the rows of players who wait. None: all are.
        acts: [P] whether the player acts next; None: every player does.
    """

    observations: dict[str, Array]
    mask: Array | None = None
    acts: Array | None = None


class Result(NamedTuple):
    """Rewards and flags of the last step of one environment.

    Attributes:
        reward: [P] rewards of this step alone.
        terminated: [] whether the episode ended by the task's rule.
        truncated: [] whether the simulator itself cut the episode off; None: it never does.
    """

    reward: Array
    terminated: Array
    truncated: Array | None = None


class Simulator(Protocol):
    """One environment of a simulator, without vectorization, time limit or autoreset.

    Attributes:
        name: What messages call the simulator.
        players: P, the number of players.
        observations: The observations of one player.
        discrete: Number of options of each discrete branch of an action.
        low: [continuous] lower bounds of the real parts of an action.
        high: [continuous] upper bounds.
        teams: Whether each player is a team of its own.
    """

    name: str
    players: int
    observations: tuple[ObservationSpec, ...]
    discrete: tuple[int, ...]
    low: NDArray[np.float32]
    high: NDArray[np.float32]
    teams: bool

    def init(self, key: Array) -> Any:
        """Return the first state of an episode: a tree of arrays. ``key`` is a typed key []."""

    def step(self, state: Any, action: Array, key: Array) -> Any:
        """Return the next state. ``action`` is [P, branches] of int32 or [P, continuous] of float32."""

    def view(self, state: Any) -> View:
        """Return what the players see of ``state``."""

    def result(self, state: Any) -> Result:
        """Return what the step to ``state`` gave."""
