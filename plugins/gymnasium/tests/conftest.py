from __future__ import annotations

import copy
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from gym_play import Scripted, register
from gymnasium import spaces

from rlcore import Environment
from rlcore_gymnasium.environment import make_environment
from rlcore_gymnasium.parameter_settings import ParameterRoute
from rlcore_gymnasium.settings import GymnasiumSettings

RECORDER = "rlcore-tests/Recorder-v0"
DIAL = "rlcore-tests/Dial-v0"


class Recorder(Scripted):
    """Observes samples of its space; ``ends[t]`` is "", "terminated", "truncated", "both" or "raise" at step t."""

    metadata = {"render_modes": []}

    def __init__(
        self,
        observation_space: spaces.Space[Any] | None = None,
        action_space: spaces.Space[Any] | None = None,
        ends: Sequence[str] = ("", "", "terminated"),
        fail_reset_at: int = -1,
        reuse: bool = False,
    ) -> None:
        # Each environment samples from its own generator.
        self.observation_space = copy.deepcopy(observation_space or spaces.Box(-1.0, 1.0, (2,), np.float64))
        self.action_space = action_space or spaces.Discrete(2)
        self.ends = ends
        self.fail_reset_at = fail_reset_at
        self.reuse = reuse
        self.seeds: list[int | None] = []
        self.actions: list[Any] = []
        self._array: Any = None

    def begin(self, seed: int | None, options: Any) -> None:
        if seed is not None:
            self.observation_space.seed(seed)
        if len(self.seeds) == self.fail_reset_at:
            raise OSError("the port is\nin use")
        self.seeds.append(seed)

    def act(self, action: Any) -> float:
        self.actions.append(action)
        if self.ends[self._steps - 1] == "raise":
            raise ZeroDivisionError("division\nby zero")
        return 0.5 * self._steps

    def flags(self) -> tuple[bool, bool]:
        end = self.ends[self._steps - 1]
        return end in ("terminated", "both"), end in ("truncated", "both")

    def observe(self) -> Any:
        observation = self.observation_space.sample()
        if not self.reuse:
            return observation
        if self._array is None:
            self._array = observation
        self._array[...] = observation
        return self._array


class Dial(Scripted):
    """Observes the numbers that it received in each way, and ends after ``size`` steps.

    ``journal`` contains, for each reset of this object, the received values and their types.
    """

    tilt = 0.25  # an attribute of the class

    def __init__(
        self,
        size: int = 4,
        gain: float = 1.0,
        offset=10,
        title: str = "dial",
        cold: bool = False,
        slots: int | None = None,
        render_mode: str | None = None,
    ) -> None:
        self.observation_space = spaces.Box(-np.inf, np.inf, (slots or 7,), np.float64)
        self.size, self.gain, self.offset, self.render_mode = size, gain, offset, render_mode
        self.level, self.pull, self.narrow = 3, 0.5, np.float32(0.5)
        self.frozen, self.unset = True, None
        self.table = np.arange(4.0)
        self._hidden = 1.0
        self.journal: list[dict[str, Any]] = []
        self._closed = 0

    @property
    def fixed(self) -> float:
        return 1.0

    def begin(self, seed: int | None, options: Any) -> None:
        self.boost = options.get("boost", 0.0)
        received = ("size", "gain", "offset", "level", "pull", "narrow", "tilt", "boost", "unset")
        self.journal.append({name: getattr(self, name) for name in received} | {"table": self.table.tolist()})

    def flags(self) -> tuple[bool, bool]:
        return self._steps >= self.size, False

    def render(self) -> Any:
        return np.full((32, 32, 3), 10 * self._steps, np.uint8)

    def close(self) -> None:
        self._closed += 1

    def observe(self) -> Any:
        return np.array([self._steps, self.size, self.gain, self.offset, self.level, self.pull, self.boost], np.float64)


@pytest.fixture
def dial() -> str:
    """Return the id under which :class:`Dial` is registered."""
    return register(DIAL, Dial)


@pytest.fixture
def recorder() -> str:
    """Return the id under which :class:`Recorder` is registered."""
    return register(RECORDER, Recorder)


@pytest.fixture
def make() -> Callable[..., Environment]:
    """Create the environment of a run with one behavior ``Agent``: ``make("CartPole-v1", 2, option=...)``.

    ``parameters`` maps the run's environment parameters to the way in which each reaches the environment, or None.
    """

    def make(
        env_id: str | None,
        num_envs: int = 2,
        names: tuple[str, ...] = ("Agent",),
        parameters: Mapping[str, Mapping[str, Any] | None] | None = None,
        video: Path | None = None,
        wrappers: Sequence[Any] = (),
        observations: Mapping[str, Any] | None = None,
        purpose: str = "evaluate",
        **options: Any,
    ) -> Environment:
        parameters = parameters or {}
        run = SimpleNamespace(
            behavior_names=names,
            num_envs=num_envs,
            video=video,
            purpose=purpose,
            first_env=0,
            config=SimpleNamespace(environment_parameters=dict.fromkeys(parameters)),
        )
        routes = {name: ParameterRoute(**how) for name, how in parameters.items() if how is not None}
        block = {"wrappers": list(wrappers), "observations": observations or {}}
        return make_environment(GymnasiumSettings(id=env_id, options=options, parameters=routes, **block), run)

    return make
