"""A plugin with environments that have random observations of every kind of space: ``{type: world, id: ...}``."""

from __future__ import annotations

from typing import Any

import attrs
import numpy as np
from numpy.typing import NDArray

from rlcore import Actions, BehaviorSpec, EnvironmentSpec, ObservationSpec, hookimpl
from rlcore_devkit.environments import ArrayEnvironment
from rlcore_devkit.playing import random_observations

VECTOR = ObservationSpec("seen", (3,), np.float32, low=-1.0, high=np.ones(3, np.float32))
IMAGE = ObservationSpec("camera", (20, 24, 3), np.uint8, "image")
ROOM = ObservationSpec("room", (4,), np.float32, "one_hot")


def spec(*observations: ObservationSpec, low: Any = (), high: Any = (), discrete: tuple[int, ...] = ()) -> BehaviorSpec:
    bounds = np.array(low, np.float32), np.array(high, np.float32)
    return BehaviorSpec("Agent", observations, len(bounds[0]), discrete, *bounds)


ONE = ([-1.0], [1.0])
INFINITE = ([-np.inf], [np.inf])
SPECS: dict[str, BehaviorSpec] = {
    "vector": spec(VECTOR, low=ONE[0], high=ONE[1]),
    "several vectors": spec(VECTOR, ObservationSpec("wind", (2, 2), np.float32), low=ONE[0], high=ONE[1]),
    "double precision": spec(ObservationSpec("seen", (3,), np.float64), low=ONE[0], high=ONE[1]),
    "integers": spec(ObservationSpec("count", (2,), np.int64), discrete=(3,)),
    "one number": spec(ObservationSpec("height", (), np.float32), discrete=(2,)),
    "one-hot": spec(VECTOR, ROOM, discrete=(2,)),
    "image": spec(IMAGE, discrete=(3,)),
    "image of floats and vector": spec(attrs.evolve(IMAGE, dtype=np.float32), VECTOR, discrete=(3,)),
    "uneven bounds": spec(VECTOR, low=[-2.0, 0.0], high=[1.0, 5.0]),
    "no bounds": spec(VECTOR, low=INFINITE[0], high=INFINITE[1]),
    "branches": spec(VECTOR, discrete=(2, 3, 4)),
    "hybrid": spec(VECTOR, low=[-1.0, -3.0], high=[1.0, 3.0], discrete=(2, 3)),
}


class World(ArrayEnvironment):
    """Observations, masks and rewards are random; an episode has five steps."""

    def __init__(self, kind: str, num_envs: int) -> None:
        super().__init__(attrs.evolve(SPECS[kind], env_index=np.arange(num_envs)), max_steps=5)
        self.drawn = np.random.default_rng(0)

    def begin(self, env: int, generator: np.random.Generator) -> None:
        self.drawn = generator

    def observe(self) -> dict[str, NDArray[Any]]:
        return random_observations(self.behaviors["Agent"], self.num_envs, self.drawn)

    def advance(self, actions: Actions) -> tuple[NDArray[Any], NDArray[Any]]:
        return self.drawn.standard_normal(self.num_envs), np.zeros(self.num_envs, np.bool_)


def make(settings: Any, run: Any) -> World:
    return World(settings.id, run.num_envs)


@hookimpl
def rlcore_environments() -> list[EnvironmentSpec]:
    return [EnvironmentSpec(name="world", target="worlds:make", summary="random observations")]
