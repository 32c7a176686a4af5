"""Plays with the environments of ``faults/faulty_environment.py`` in workers, and checks every row that is returned."""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import psutil
from numpy.typing import NDArray

from rlcore import Actions, EpisodeSeeds, document_from_mapping, load_config, load_plugins_for
from rlcore.run.environments import make_environment
from rlcore.run.prepare import run_context

FAULTY = Path(__file__).parents[1] / "faults" / "faulty_environment.py"
SEED = 3
UNLIMITED = {"restarts_rate_limit_n": -1, "max_lifetime_restarts": -1}
Fault = dict[str, Any]


def make(
    path: Path, workers: Any, num_envs: int, faults: Sequence[Fault] = (), limits: Any = UNLIMITED, **options: Any
) -> Any:
    data = {
        "plugins": {"local": [str(FAULTY)]},
        "environment": {
            "type": "faulty",
            "num_envs": num_envs,
            "workers": workers,
            "options": {"faults": list(faults), **options},
        },
        "env_settings": {"seed": SEED, **limits},
        "behaviors": {"A": {}},
    }
    document = document_from_mapping(data)
    plugins = load_plugins_for(document)
    config = load_config(document, plugins)
    return make_environment(config, plugins, run_context(config, plugins, path, path))


class Checked:
    """Plays, and checks every row of what is returned; the rows of agents that wait are those they had."""

    def __init__(self, environment: Any) -> None:
        self.environment, count = environment, environment.num_envs
        self.random = np.random.default_rng(0)
        self.episode, self.step = np.zeros(count, np.int64), np.zeros(count, np.int64)
        self.aborts: list[tuple[int, ...]] = []  # of each step with some: the environments
        self.chosen = np.zeros(count, np.int64)  # the latest action of each environment
        self.open = np.zeros(count, np.bool_)  # environments with an action whose outcome is to come
        self.shown: list[tuple[int, ...]] = []  # of each step: the environments whose agents act next
        batch = environment.reset(EpisodeSeeds(SEED), np.zeros(count, np.int64))["A"]
        self.acts = everywhere(count) if batch.needs_action is None else batch.needs_action.copy()
        self.episode[:] = environment.episodes
        self.look(batch.observations["state"])

    def look(self, state: Any) -> None:
        for env, row in enumerate(state.tolist()):
            assert row == self.seen(env, int(self.episode[env]), int(self.step[env]))

    def seen(self, env: int, episode: int, step: int) -> list[float]:
        drawn = np.random.default_rng(EpisodeSeeds(SEED)(env, episode)).random(step + 1)[-1]
        return [float(np.float32(value)) for value in (env, episode, step, drawn)]

    def play(self, steps: int) -> None:
        for _ in range(steps):
            chosen = self.random.integers(0, 2, (len(self.step), 1))
            self.chosen[self.acts] = chosen[self.acts, 0]
            self.open |= self.acts
            batch = self.environment.step({"A": Actions(None, chosen)})["A"]
            index = np.arange(len(self.step))
            lost = np.zeros(len(index), np.bool_) if batch.aborted is None else batch.aborted
            if lost.any():
                self.aborts.append(tuple(np.flatnonzero(lost).tolist()))
            self.acts = everywhere(len(index)) if batch.needs_action is None else batch.needs_action.copy()
            self.shown.append(tuple(np.flatnonzero(self.acts).tolist()))
            moved = self.acts & self.open & ~lost
            over = moved & (self.step + 1 == 5 + index % 3)
            assert (batch.terminated | batch.truncated).tolist() == over.tolist()
            assert batch.terminated.tolist() == (over & (self.episode % 2 == 0)).tolist()
            assert batch.ended.tolist() == np.flatnonzero(over).tolist()
            reward = np.where(moved, self.chosen + 0.25 * (index % 4), 0.0)
            np.testing.assert_array_equal(batch.reward, reward.astype(np.float32))
            if over.any():
                assert batch.final_observations is not None and batch.final_info is not None
                finals = [self.seen(env, int(self.episode[env]), int(self.step[env]) + 1) for env in batch.ended]
                assert batch.final_observations["state"].tolist() == finals
                assert batch.final_info["played"].tolist() == self.episode[batch.ended].tolist()
            # A worker that was started again begins later episodes than those it was in.
            assert (self.environment.episodes[lost] > self.episode[lost]).all()
            self.episode[lost] = self.environment.episodes[lost]
            self.episode[over] += 1
            self.step = np.where(over | lost, 0, self.step + moved)
            self.open &= ~self.acts & ~lost
            assert self.environment.episodes.tolist() == self.episode.tolist()
            self.look(batch.observations["state"])


def everywhere(count: int) -> NDArray[np.bool_]:
    return np.ones(count, np.bool_)


def fault(kind: str, env: int, episode: int, step: int) -> Fault:
    return {"kind": kind, "env": env, "episode": episode, "step": step}


def left_processes() -> list[int]:
    """Processes of workers whose parent is this process."""
    found = []
    for each in psutil.Process().children():
        with suppress(psutil.Error):  # it has ended
            found += [each.pid] if "rlcore_workers.child" in " ".join(each.cmdline()) else []
    return found


def descriptors() -> int:
    """Number of open files of this process."""
    return len(os.listdir("/proc/self/fd"))
