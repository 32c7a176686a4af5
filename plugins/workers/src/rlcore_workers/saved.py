"""The state of environments in workers that save themselves.

It is that of one process if that has a row for each environment: see :class:`rlcore.SavesRows`. If some workers are a
step ahead, it also has their answers, which no batch has shown yet, and what agents see.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import accumulate, chain, pairwise
from typing import Any

import numpy as np

from rlcore import AgentBatch, SavedValueError, fill, saved_array, saved_count, saved_entry, saved_mapping
from rlcore_workers.contract import WorkerFailed
from rlcore_workers.environment import WorkerEnvironment
from rlcore_workers.messages import PartMessages
from rlcore_workers.overlap import AsynchronousEnvironment, HalvesEnvironment, UpdatesEnvironment

FIRST = "first_env"  # the entry of a state with the number of its first environment


class SavingWorkerEnvironment(WorkerEnvironment):
    """Environments that save themselves, in workers; implements :class:`rlcore.SavesState`."""

    def state_dict(self) -> dict[str, Any]:
        """Return the state of the environments. Steps that were sent are waited for.

        A worker that fails is started again. Its part is None, and so is that of a worker whose episodes the next step
        aborts.
        """
        self._supervisor.land()
        steps = self._supervisor.steps
        failed = [part for part, answer in steps.landed.items() if isinstance(answer, WorkerFailed)]
        if failed:
            _, failures = steps.take(failed)
            self._revive(failures, "step")
        environments = self._states()
        if not self.overlaps:
            return environments
        # Answers of steps that no batch has shown. A resumed run shows them where this one will.
        answers: dict[str, Any] = {}
        infos: dict[str, Any] = {}
        for part, info in sorted(steps.landed.items()):
            if part in self._fresh:
                continue
            message = PartMessages(self._arrays, part).answer()
            answers[str(part)] = np.frombuffer(message, np.uint8)
            if info is not None:
                infos[str(part)] = info
        return {
            "in_flight": environments,
            "bounds": list(self._layout.bounds),
            "episodes": self.episodes.copy(),
            "acting": sorted(self._acting),
            "turn": self._turn,
            "seen": self._shown.seen(),
            "answers": answers,
            "infos": infos,
        }

    def _states(self) -> dict[str, Any]:
        """The state that one process would have, if it has rows; else that of each worker's environments."""
        parts = [part for part in self._supervisor.workers if part not in self._fresh]
        states, failures = self._supervisor.call(parts, "state_dict")
        if failures:
            self._revive(failures, "state_dict")
        saves_rows = all(part.saves_rows for part in self._parts)
        if saves_rows and len(states) == self._supervisor.size:  # a run may resume with another number of workers
            in_order = [states[part] for part in range(self._supervisor.size)]
            return join_states(in_order)
        return {
            "episodes": self.episodes.copy(),
            "workers": {str(part): states.get(part) for part in self._living()},
            "bounds": list(self._layout.bounds),
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> dict[str, AgentBatch]:
        """Continue from ``state``. Raises SavedValueError for one of other environments, workers or overlap."""
        if "in_flight" in state and not self.overlaps:
            raise SavedValueError(
                "the environments were saved while some workers were a step ahead; resume with the same "
                "environment.workers, with its overlap or wait_for"
            )
        if not self.overlaps:
            self._load_states(state)
            return self._shown.batches({})
        if "in_flight" not in state:
            raise SavedValueError(
                "the environments were saved by workers in lock-step, or in one process; resume without "
                "environment.workers.overlap and environment.workers.wait_for"
            )
        self._require_blocks(state)
        self._drop_steps()
        self._load_states(saved_mapping(state, "in_flight"))
        fill(self.episodes, state, "episodes")
        self._shown.load_seen(saved_mapping(state, "seen"))
        infos = saved_mapping(state, "infos")
        answers = saved_mapping(state, "answers")
        for part in answers:
            data = saved_array(answers, part, np.uint8, (None,))
            message = PartMessages(self._arrays, int(part))
            try:
                message.take(data.tobytes())
            except ValueError as error:
                raise SavedValueError(f"the answer of worker {part} does not fit: {error}") from error
            self._supervisor.steps.landed[int(part)] = infos.get(part)
        self._acting = {int(part) for part in saved_entry(state, "acting")}
        self._turn = saved_count(state, "turn")
        return self._shown.batches({})

    def _load_states(self, state: Mapping[str, Any]) -> None:
        """Continue from what :meth:`_states` returned, or from the state of one process if it has rows."""
        count = self._supervisor.size
        if "bounds" in state:
            self._require_blocks(state)
            self._arrays.begin[:] = saved_entry(state, "episodes")
            saved = saved_entry(state, "workers")
            states = {part: saved.get(str(part)) for part in range(count)}
        elif all(part.saves_rows for part in self._parts):  # of one process
            counts = np.diff(self._layout.bounds).tolist()
            states = dict(enumerate(split_state(state, counts)))
        else:
            raise SavedValueError("the environments were saved in one process; resume with environment.workers: null")
        self._fresh = {part for part in range(count) if states[part] is None}
        loaded = [part for part in range(count) if part not in self._fresh]
        _, failures = self._supervisor.call(loaded, "load_state_dict", lambda part: (states[part],))
        _, failures_of_resets = self._reset(sorted(self._fresh))
        self._supervisor.refuse(failures | failures_of_resets, "load_state_dict")
        self.episodes[:] = self._arrays.episodes
        self._acting = set(range(count))

    def _require_blocks(self, state: Mapping[str, Any]) -> None:
        """Raise SavedValueError unless ``state`` is of workers with the same environments."""
        bounds = list(saved_entry(state, "bounds"))
        current = list(self._layout.bounds)
        if bounds != current:
            workers = len(bounds) - 1
            raise SavedValueError(
                f"the environments were saved by {workers} workers with the blocks {bounds}, and are {current} "
                f"now; resume with environment.workers: {workers}"
            )


class SavingUpdatesEnvironment(SavingWorkerEnvironment, UpdatesEnvironment):
    """Workers that step while trainers update, with environments that save themselves."""


class SavingHalvesEnvironment(SavingWorkerEnvironment, HalvesEnvironment):
    """Halves that take turns, of environments that save themselves."""


class SavingAsynchronousEnvironment(SavingWorkerEnvironment, AsynchronousEnvironment):
    """The first workers that answer, of environments that save themselves."""


# ---------------------------------------------------------------- states of rows: see :class:`rlcore.SavesRows`


def join_states(states: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """The state of all environments, from those of consecutive blocks."""
    state_of_all: dict[str, Any] = {}
    first = states[0]
    for name, value in first.items():
        values = [state[name] for state in states]
        if isinstance(value, Mapping):
            state_of_all[name] = join_states(values)
        elif isinstance(value, np.ndarray):
            state_of_all[name] = np.concatenate(values)
        elif isinstance(value, list):
            state_of_all[name] = list(chain.from_iterable(values))
        else:  # what all have, and the number of the first environment, which is that of the first block
            state_of_all[name] = value
    return state_of_all


def split_state(state: Mapping[str, Any], counts: Sequence[int]) -> list[dict[str, Any]]:
    """The states of blocks with ``counts`` environments each. Raises SavedValueError for another number in all."""
    bounds = [0, *accumulate(counts)]
    parts: list[dict[str, Any]] = [{} for _ in counts]
    for name, value in state.items():
        if isinstance(value, Mapping):
            for part, inner in zip(parts, split_state(value, counts), strict=True):
                part[name] = inner
            continue
        has_rows = isinstance(value, np.ndarray | list)
        if has_rows and len(value) != bounds[-1]:
            raise SavedValueError(f"the entry {name!r} has {len(value)} rows, not one for each of {bounds[-1]}")
        for part, (start, end) in zip(parts, pairwise(bounds), strict=True):
            if has_rows:
                part[name] = value[start:end]
            elif name == FIRST:  # seeds follow from the number that an environment has in the run
                part[name] = value + start
            else:
                part[name] = value
    return parts
