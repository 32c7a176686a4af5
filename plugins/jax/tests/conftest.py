from __future__ import annotations

from collections.abc import Callable, Mapping
from types import SimpleNamespace
from typing import Any, NamedTuple

import numpy as np
import pytest

from rlcore import Environment, EnvironmentSettings, ObservationSpec


@pytest.fixture
def make() -> Callable[..., Environment]:
    """Create the environment of a run with one behavior ``Agent``: ``make("connect_four", 2, max_episode_steps=9)``."""
    from rlcore_jax.games import make_environment
    from rlcore_jax.settings import PgxSettings

    def make(
        game: str | None, copies: int = 2, parameters: Mapping[str, Any] | None = None, /, **options: Any
    ) -> Environment:
        run: Any = SimpleNamespace(
            behavior_names=("Agent",),
            num_envs=copies,
            config=SimpleNamespace(environment_parameters=dict(parameters or {})),
        )
        return make_environment(EnvironmentSettings(id=game, options=PgxSettings(**options)), run)

    return make


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
