"""The environments of a run in workers, as one :class:`rlcore.Environment`.

Environments are split into blocks of consecutive numbers. An episode has the seed that it has in one process, and the
slots are in the same order, so a run gets the same batches.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import accumulate, pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rlcore import (
    ABORTED_EPISODES,
    WORKER_RESTARTS,
    WORKER_WAIT,
    Actions,
    AgentBatch,
    BehaviorSpec,
    EnvironmentFailed,
    EpisodeSeeds,
    Parameters,
    RunContext,
    SavedValueError,
    refuse_unknown_parameters,
    saved_entry,
)
from rlcore_workers.arrays import RunArrays
from rlcore_workers.contract import Executor, PartMade
from rlcore_workers.layout import Layout
from rlcore_workers.settings import WorkerSettings
from rlcore_workers.supervisor import Supervisor

FIRST = "first_env"  # the entry of a state with the number of its first environment


class WorkerEnvironment:
    """N environments in supervised workers.

    Attributes:
        behaviors: The behaviors by name, those of one process.
        num_envs: N, the number of environments.
        episodes: [N] number of the episode that each environment is in.
        aborted: Number of agents' episodes that were dropped because a worker failed.
    """

    def __init__(
        self,
        supervisor: Supervisor,
        executor: Executor,
        parts: Sequence[PartMade],
        counts: Sequence[int],
        settings: WorkerSettings,
        context: RunContext,
    ) -> None:
        names = tuple(context.config.environment_parameters)
        bounds = np.cumsum([0, *counts]).tolist()
        layout = Layout.of([part.behaviors for part in parts], bounds, len(names))
        self.behaviors: Mapping[str, BehaviorSpec] = layout.behaviors
        self.num_envs = context.num_envs
        self.episodes: NDArray[np.int64] = np.zeros(self.num_envs, np.int64)
        self.aborted = 0
        self._supervisor = supervisor
        self._parts = parts
        self._layout = layout
        self._arrays: RunArrays = executor.arrays(layout)
        self._arrays.fill_defaults()
        self._settings = settings
        self._known = names
        self._names: tuple[str, ...] = ()  # of the parameters that were set so far
        self._parameters: NDArray[np.float64] = self._arrays.parameters  # [N, P] of the next episodes
        self._stale: set[int] = set()  # workers whose parameters changed since they were last set there
        self._seeds = EpisodeSeeds(context.seed, context.first_env)
        # Workers that were started again since the latest batches: their rows are those of other episodes.
        self._fresh: set[int] = set()
        self._gone: set[int] = set()  # workers that the run does without
        supervisor.refuse(supervisor.attach(range(supervisor.size), self._arrays), "attach")

    # ------------------------------------------------------------ episodes

    def reset(self, seeds: EpisodeSeeds, episodes: NDArray[np.int64]) -> dict[str, AgentBatch]:
        """Start an episode everywhere, as :meth:`rlcore.Environment.reset` says."""
        failures = self._settle()
        self._seeds = seeds
        self._arrays.begin[:] = episodes
        self._fresh.clear()
        failures |= self._reset([part for part in self._living() if part not in failures])[1]
        while failures:
            again, dropped = self._supervisor.recover(failures, "reset")
            self._drop(dropped)
            self._next_episodes(again)
            failures = self._started(again)
        self.episodes[:] = self._arrays.begin
        return self._arrays.batches({})

    def step(self, actions: Mapping[str, Actions]) -> dict[str, AgentBatch]:
        """Step everywhere, as :meth:`rlcore.Environment.step` says.

        The episodes of a worker that fails are aborted, and its environments start their next ones.
        """
        self._send_step(actions)
        return self._receive_step()

    def _send_step(self, actions: Mapping[str, Actions]) -> None:
        self._arrays.put_actions(actions)
        self._send([part for part in self._supervisor.workers if part not in self._fresh])

    def _send(self, parts: Sequence[int]) -> None:
        """Have these workers step, with the parameters that changed."""
        stale = self._stale
        self._supervisor.send(parts, (lambda part: (self._names,) if part in stale else ()) if stale else None)
        if stale:
            stale.difference_update(parts)

    def _receive_step(self) -> dict[str, AgentBatch]:
        self._supervisor.land()
        infos, failures = self._supervisor.take()
        lost: set[int] = set()
        if failures or self._fresh:
            self.episodes[self._rows_of(set(infos))] = self._arrays.episodes[self._rows_of(set(infos))]
            if failures:
                self._revive(failures, "step")
            lost, self._fresh = self._fresh, set()
            self._count_aborted(lost)
        else:
            self.episodes[:] = self._arrays.episodes
        return self._arrays.batches({part: info for part, info in infos.items() if info is not None}, lost)

    def _settle(self) -> dict[int, Any]:
        """Wait for steps that were sent, and forget them. Return the failures."""
        self._supervisor.land()
        return self._supervisor.take()[1]

    def _living(self) -> list[int]:
        return [part for part in range(self._supervisor.size) if part not in self._gone]

    def _reset(self, parts: Sequence[int]) -> tuple[dict[int, Any], dict[int, Any]]:
        """Start the episodes in ``arrays.begin`` in the environments of these workers."""
        results, failures = self._supervisor.call(parts, "reset", lambda part: (self._own_seeds(part), self._names))
        self._stale.difference_update(results)
        return results, failures

    def _own_seeds(self, part: int) -> EpisodeSeeds:
        return EpisodeSeeds(self._seeds.run_seed, self._seeds.first_env + self._layout.bounds[part])

    def _started(self, parts: Sequence[int]) -> dict[int, Any]:
        """Start workers again, with the episodes in ``arrays.begin``; return the failures."""
        made, failures = self._supervisor.start(parts)
        for part, found in made.items():
            if not _same(found, self._parts[part]):
                raise EnvironmentFailed(f"worker {part} was started again and made other environments than before")
        failures |= self._supervisor.attach(made, self._arrays)
        failures |= self._reset([part for part in made if part not in failures])[1]
        return failures

    def _revive(self, failures: Mapping[int, Any], doing: str) -> None:
        """Start workers that failed again, with the next episode of each environment."""
        for part in failures:
            self._arrays.begin[self._envs(part)] = self.episodes[self._envs(part)]
        while failures:
            again, dropped = self._supervisor.recover(failures, doing)
            self._drop(dropped)
            self._next_episodes(again)
            self._fresh |= {*again, *dropped}
            failures, doing = self._started(again), "starting again"
        for part in self._fresh - self._gone:
            self.episodes[self._envs(part)] = self._arrays.begin[self._envs(part)]

    def _next_episodes(self, parts: Sequence[int]) -> None:
        """Have workers that are started again begin other episodes: an episode may be what a worker fails at."""
        for part in parts:
            self._arrays.begin[self._envs(part)] += 1

    def _drop(self, parts: Sequence[int]) -> None:
        for part in parts:
            self._gone.add(part)
            self._arrays.silence(part)

    def _count_aborted(self, parts: set[int]) -> None:
        for rows in (self._layout.rows[part] for part in parts):
            self.aborted += sum(len(np.arange(spec.slots)[rows[name]]) for name, spec in self.behaviors.items())

    def _envs(self, part: int) -> slice:
        return slice(self._layout.bounds[part], self._layout.bounds[part + 1])

    def _rows_of(self, parts: set[int]) -> NDArray[np.intp]:
        """The environments of these workers."""
        every = np.arange(self.num_envs)
        return np.concatenate([every[self._envs(part)] for part in sorted(parts)] or [every[:0]])

    # ------------------------------------------------------------ parameters, statistics, end

    def set_parameters(self, parameters: Parameters) -> None:
        """Set the parameters of the next episodes; workers get them with the next step or reset."""
        refuse_unknown_parameters(parameters, self._known, "the run")
        names = (*self._names, *(name for name in parameters if name not in self._names))
        changed: NDArray[np.bool_] = np.full(self.num_envs, names != self._names)
        self._names = names
        for name, values in parameters.items():
            column = self._parameters[:, names.index(name)]
            changed |= column != values
            column[:] = values
        for part in range(self._supervisor.size):
            if changed[self._envs(part)].any():
                self._stale.add(part)

    @property
    def busy_seconds(self) -> float:
        """Seconds that the workers together have spent in steps of their environments; 0 if unknown."""
        return float(self._arrays.busy.sum())

    def stats(self) -> dict[str, float]:
        """Workers that were started again, agents' episodes that were dropped, and seconds spent waiting."""
        return {
            WORKER_RESTARTS: float(self._supervisor.restarts),
            ABORTED_EPISODES: float(self.aborted),
            WORKER_WAIT: self._supervisor.waited,
        }

    def close(self) -> None:
        """Close the environments and end the workers; may be called twice."""
        self._supervisor.close()


class SavingWorkerEnvironment(WorkerEnvironment):
    """Environments that save themselves, in workers; implements :class:`rlcore.SavesState`."""

    def state_dict(self) -> dict[str, Any]:
        """Return the state that one process would have, if it has rows; else that of each worker's environments.

        A worker that fails is started again. Its part is None, and so is that of a worker whose episodes the next step
        aborts.
        """
        parts = [part for part in self._supervisor.workers if part not in self._fresh]
        states, failures = self._supervisor.call(parts, "state_dict")
        if failures:
            self._revive(failures, "state_dict")
        if len(states) == self._supervisor.size and all(part.saves_rows for part in self._parts):
            return join_states([states[part] for part in range(self._supervisor.size)])
        return {
            "episodes": self.episodes.copy(),
            "workers": {str(part): states.get(part) for part in self._living()},
            "bounds": list(self._layout.bounds),
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> dict[str, AgentBatch]:
        """Continue from ``state``. Raises SavedValueError for another number of workers or environments."""
        if "in_flight" in state:
            raise SavedValueError(
                "the environments were saved while some workers were a step ahead; resume with the same "
                "environment.workers, with its overlap or wait_for"
            )
        if "bounds" not in state and all(part.saves_rows for part in self._parts):
            return self._load_rows(state)
        if "bounds" not in state:
            raise SavedValueError("the environments were saved in one process; resume with environment.workers: null")
        bounds = saved_entry(state, "bounds")
        if list(bounds) != list(self._layout.bounds):
            before = len(bounds) - 1
            raise SavedValueError(
                f"the environments were saved by {before} workers with the blocks {list(bounds)}, and are "
                f"{list(self._layout.bounds)} now; resume with environment.workers: {before}"
            )
        self.episodes[:] = saved_entry(state, "episodes")
        saved = saved_entry(state, "workers")
        self._arrays.begin[:] = self.episodes
        fresh = [part for part in self._living() if saved.get(str(part)) is None]
        loaded = [part for part in self._living() if part not in fresh]
        failures = self._supervisor.call(loaded, "load_state_dict", lambda part: (saved[str(part)],))[1]
        failures |= self._reset(fresh)[1]
        self._supervisor.refuse(failures, "load_state_dict")
        self._fresh = set(fresh)
        return self._arrays.batches({})

    def _load_rows(self, state: Mapping[str, Any]) -> dict[str, AgentBatch]:
        """Continue from the state of one process."""
        counts = np.diff(self._layout.bounds).tolist()
        states = split_state(state, counts)
        _, failures = self._supervisor.call(self._living(), "load_state_dict", lambda part: (states[part],))
        self._supervisor.refuse(failures, "load_state_dict")
        self.episodes[:] = self._arrays.episodes
        self._fresh = set()
        return self._arrays.batches({})


def _same(found: PartMade, before: PartMade) -> bool:
    """Whether a worker that was started again made the environments that it had."""
    return found.behaviors.keys() == before.behaviors.keys() and all(
        spec.observations == found.behaviors[name].observations
        and np.array_equal(spec.env_index, found.behaviors[name].env_index)
        and (spec.continuous, spec.discrete) == (found.behaviors[name].continuous, found.behaviors[name].discrete)
        for name, spec in before.behaviors.items()
    )


# ---------------------------------------------------------------- states of rows: see :class:`rlcore.SavesRows`


def join_states(states: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """The state of all environments, from those of consecutive blocks."""
    joined: dict[str, Any] = {}
    first = states[0]
    for name, value in first.items():
        values = [state[name] for state in states]
        if isinstance(value, Mapping):
            joined[name] = join_states(values)
        elif isinstance(value, np.ndarray):
            joined[name] = np.concatenate(values)
        elif isinstance(value, list):
            joined[name] = [row for rows in values for row in rows]
        else:
            joined[name] = value
    return joined


def split_state(state: Mapping[str, Any], counts: Sequence[int]) -> list[dict[str, Any]]:
    """The states of blocks with ``counts`` environments each. Raises SavedValueError for another number in all."""
    bounds = [0, *accumulate(counts)]
    parts: list[dict[str, Any]] = [{} for _ in counts]
    for name, value in state.items():
        if isinstance(value, Mapping):
            for part, inner in zip(parts, split_state(value, counts), strict=True):
                part[name] = inner
            continue
        rows = isinstance(value, np.ndarray | list)
        if rows and len(value) != bounds[-1]:
            raise SavedValueError(f"the entry {name!r} has {len(value)} rows, not one for each of {bounds[-1]}")
        for part, (start, end) in zip(parts, pairwise(bounds), strict=True):
            part[name] = value[start:end] if rows else value + start if name == FIRST else value
    return parts
