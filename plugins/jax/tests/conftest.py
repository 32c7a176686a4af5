from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import pytest

from rlcore import ObservationSpec


class WalkState(NamedTuple):
    """The state of :func:`walk`."""

    place: Any
    key: Any
    moved: Any


@pytest.fixture(scope="session")
def walk() -> Any:
    """A simulator that can be calculated by hand, with one of JAX's keys in its state.

    An action of two real numbers moves the place by their sum, and the simulator adds a random number in [0, 1) to it.
    An episode begins at a random place in [0, 1), and terminates from place 5 on. The reward is the move.
    """
    import jax
    import jax.numpy as jnp

    from rlcore_jax.simulator import Result, View

    class Walk:
        name = "walk"
        players = 1
        observations = (ObservationSpec("place", (1,), np.float32), ObservationSpec("square", (1, 2), np.float32))
        discrete = ()
        low = np.full(2, -1, np.float32)
        high = np.full(2, 1, np.float32)
        teams = False

        def init(self, key: Any) -> WalkState:
            return WalkState(jax.random.uniform(key, (1,)), key, jnp.float32(0))

        def step(self, state: WalkState, action: Any, key: Any) -> WalkState:
            moved = action[0].sum() + jax.random.uniform(key)
            return WalkState(state.place + moved, state.key, moved)

        def view(self, state: WalkState) -> View:
            return View({"place": state.place, "square": jnp.stack([state.place, state.place**2], axis=-1)})

        def result(self, state: WalkState) -> Result:
            return Result(state.moved[None], state.place[0] >= 5, jnp.bool_(False))

    return Walk()
