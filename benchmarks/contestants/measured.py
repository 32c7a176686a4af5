"""The measurements of the resume contest in a training's process: steps while it runs, and the state at its end.

Steps are counted in Gymnasium's environments, so every library is counted alike. The count is in a file that is mapped
into memory: it is still there when the process was killed.
"""

from __future__ import annotations

import json
import random
import sys
from collections.abc import Mapping
from functools import wraps
from pathlib import Path
from typing import Any

import numpy as np
from gymnasium.envs.classic_control import CartPoleEnv, PendulumEnv
from gymnasium.envs.classic_control.cartpole import CartPoleVectorEnv

STEPS = "steps.bin"
BEGAN = "began.json"
END = "end.npz"


class Instrument:
    """Counts the environment steps of this process and keeps the last observation that an environment gave.

    Attributes:
        observation: What the last ``step`` or ``reset`` of an environment returned.
    """

    def __init__(self, place: Path) -> None:
        self.observation: Any = None
        self._place = place
        self._count = np.memmap(place / STEPS, np.int64, "w+", shape=(1,))
        for kind in (CartPoleEnv, CartPoleVectorEnv, PendulumEnv):
            self._watch(kind)

    def _watch(self, kind: Any) -> None:
        step = kind.step
        reset = kind.reset

        @wraps(step)
        def counted_step(env: Any, action: Any) -> Any:
            answer = step(env, action)
            self._count[0] += getattr(env, "num_envs", 1)
            self.observation = np.array(answer[0])
            return answer

        @wraps(reset)
        def watched_reset(env: Any, **options: Any) -> Any:
            answer = reset(env, **options)
            self.observation = np.array(answer[0])
            return answer

        kind.step = counted_step
        kind.reset = watched_reset

    def began(self, step: int, weights: int | None = None) -> None:
        """Note where this process begins: what the library's counter says, and the step that its weights are of."""
        answer = {"step": int(step), "weights": int(step if weights is None else weights)}
        (self._place / BEGAN).write_text(json.dumps(answer))

    def end(self, **kinds: Any) -> None:
        """Write the state at the end: nested dictionaries, lists, arrays and numbers by what they are.

        None says that the library has nothing of this kind, or that it cannot be read. The random states of Python,
        NumPy and PyTorch, and the last observation, are added.
        """
        kinds = {"observation": self.observation, "random": random_states(), **kinds}
        arrays = {
            f"{kind}/{name}": array
            for kind, state in kinds.items()
            if state is not None
            for name, array in flat(state).items()
        }
        with (self._place / END).open("wb") as file:
            np.savez(file, **arrays)


def random_states() -> dict[str, Any]:
    """The states of the random generators that a whole process shares."""
    _, words, position, *_ = np.random.get_state()  # noqa: NPY002 - the state that the libraries draw from
    states: dict[str, Any] = {"numpy": np.append(words, position), "python": np.array(random.getstate()[1])}
    if "torch" in sys.modules:
        states["torch"] = sys.modules["torch"].get_rng_state().numpy()
    return states


def flat(state: Any, name: str = "") -> dict[str, Any]:
    """Every array and number in nested dictionaries and lists, by its path."""
    if hasattr(state, "detach"):
        return {name: state.detach().cpu().numpy()}
    if isinstance(state, Mapping):
        items = list(state.items())
    elif isinstance(state, list | tuple):
        items = list(enumerate(state))
    elif state is None or isinstance(state, str):
        return {}
    else:
        array = np.asarray(state)
        return {} if array.dtype == object else {name: array}
    found = {}
    for key, value in items:
        found.update(flat(value, f"{name}.{key}" if name else str(key)))
    return found


def command_line() -> tuple[str, Path, int, int]:
    """The task, the directory, the number of steps and the seed that the contest gives to a contestant."""
    task, place, steps, seed = sys.argv[1:]
    return task, Path(place), int(steps), int(seed)
