"""Environments that fail where a test says, as a local plugin; what they return shows which episode they are in.

An observation is [environment of the run, episode, step, a random number of the episode's seed]. Episodes of the
environment c have 5 + c % 3 steps. ``options.faults`` has entries ``{kind, env, episode, step}``.
"""

from __future__ import annotations

import ctypes
import os
import signal
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from rlcore import Actions, AgentBatch, BehaviorSpec, EnvironmentSpec, EpisodeSeeds, ObservationSpec, hookimpl


@hookimpl
def rlcore_environments() -> list[EnvironmentSpec]:
    return [EnvironmentSpec(name="faulty", target="faulty_environment:make")]


def make(settings: Any, run: Any) -> FaultyEnvironment:
    once = settings.options.get("fail_create_if")
    if once and Path(once).exists() and (run.first_env == settings.options.get("create_env", 0)):
        Path(once).unlink()
        raise OSError("no license for the simulator")
    return FaultyEnvironment(run.num_envs, run.first_env, run.behavior_names[0], settings.options)


class FaultyEnvironment:
    """See the module."""

    def __init__(self, num_envs: int, first: int, name: str, options: Mapping[str, Any]) -> None:
        observation = ObservationSpec("state", (4,), np.float32)
        self.behaviors = {name: BehaviorSpec(name, (observation,), discrete=(2,), env_index=np.arange(num_envs))}
        self.num_envs = num_envs
        self.episodes = np.zeros(num_envs, np.int64)
        self._first, self._name = first, name
        self._faults = {(f["env"], f["episode"], f["step"]): f["kind"] for f in options.get("faults", ())}
        self._pause = options.get("pause", 0.0)
        # While the file `gate` exists, the worker that has the environment `gate_env` does not finish a step.
        mine = 0 <= options.get("gate_env", -1) - first < num_envs
        self._gate = Path(options["gate"]) if mine else None
        self._seeds = EpisodeSeeds(0)
        self._step = np.zeros(num_envs, np.int64)
        self._random = [np.random.default_rng(0)] * num_envs
        self._drawn = np.zeros(num_envs)

    def reset(self, seeds: EpisodeSeeds, episodes: Any) -> dict[str, AgentBatch]:
        self._seeds, self.episodes = seeds, np.array(episodes, np.int64)
        for env in range(self.num_envs):
            self._begin(env)
        none = np.zeros(self.num_envs, np.bool_)
        return {self._name: AgentBatch(self._observed(), np.zeros(self.num_envs, np.float32), none, none.copy())}

    def step(self, actions: Mapping[str, Actions]) -> dict[str, AgentBatch]:
        chosen = actions[self._name].discrete
        assert chosen is not None
        time.sleep(self._pause)
        while self._gate is not None and self._gate.exists():
            time.sleep(0.005)
        self._step += 1
        self._drawn[:] = [generator.random() for generator in self._random]
        kinds = [self._fail(env) for env in range(self.num_envs)]
        index = self._first + np.arange(self.num_envs)
        ended = self._step >= 5 + index % 3
        reward = (chosen[:, 0] + 0.25 * (index % 4)).astype(np.float32)
        terminated = ended & (self.episodes % 2 == 0)
        batch_ended = np.flatnonzero(ended)
        finals = None
        info = None
        if batch_ended.size:
            finals = {"state": self._observed()["state"][batch_ended]}
            info = {"played": self.episodes[batch_ended].astype(np.float64)}
            for env in batch_ended.tolist():
                self.episodes[env] += 1
                self._begin(env)
        observations = self._observed()
        if "nan" in kinds:
            observations["state"][kinds.index("nan"), 3] = np.nan
        batch = AgentBatch(observations, reward, terminated, ended & ~terminated, batch_ended, finals, final_info=info)
        if "unpicklable" in kinds:
            batch = AgentBatch(
                observations, reward, np.ones(self.num_envs, np.bool_), np.zeros(self.num_envs, np.bool_),
                np.arange(self.num_envs), dict(observations), final_info={"odd": lambda: None},  # type: ignore[dict-item]
            )  # fmt: skip
        return {self._name: batch}

    def set_parameters(self, parameters: Any) -> None:
        assert not parameters

    def close(self) -> None:
        return None

    def _begin(self, env: int) -> None:
        self._step[env] = 0
        self._random[env] = np.random.default_rng(self._seeds(env, int(self.episodes[env])))
        self._drawn[env] = self._random[env].random()
        self._fail(env)

    def _observed(self) -> dict[str, Any]:
        index = self._first + np.arange(self.num_envs)
        return {"state": np.stack([index, self.episodes, self._step, self._drawn], 1).astype(np.float32)}

    def _fail(self, env: int) -> str | None:
        """Do what is asked for at this point; return the kind of a fault of the batch."""
        kind = self._faults.get((self._first + env, int(self.episodes[env]), int(self._step[env])))
        if kind == "raise":
            raise ValueError("the pole is broken")
        if kind == "kill":
            os.kill(os.getpid(), signal.SIGKILL)
        if kind == "stop":
            os.kill(os.getpid(), signal.SIGSTOP)
        if kind == "hang":
            while True:
                time.sleep(0.01)
        if kind == "segfault":
            ctypes.string_at(0)
        if kind == "exit":
            os._exit(3)
        return kind
