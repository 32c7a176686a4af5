"""The environments of a run in workers, as one :class:`rlcore.Environment`.

Environments are split into blocks of consecutive numbers. An episode has the seed that it has in one process, and the
slots are in the same order, so a run gets the same batches.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rlcore import (
    Actions,
    AgentBatch,
    BehaviorSpec,
    EnvironmentFailed,
    EpisodeSeeds,
    Parameters,
    RunContext,
    Tag,
    refuse_unknown_parameters,
    spec_mismatch,
)
from rlcore_workers.alone import StepsAlone
from rlcore_workers.arrays import RunArrays
from rlcore_workers.contract import Executor, PartMade
from rlcore_workers.layout import Layout
from rlcore_workers.settings import WorkerSettings
from rlcore_workers.supervisor import Supervisor


class WorkerEnvironment:
    """N environments in supervised workers.

    Attributes:
        behaviors: The behaviors by name, those of one process.
        num_envs: N, the number of environments.
        episodes: [N] number of the episode that each environment is in.
        aborted: Number of agents' episodes that were dropped because a worker failed.
        resume_limits: Why a resumed run is only alike; empty if it is equal.
        close_seconds: How long :meth:`close` may take.
    """

    overlaps = False  # whether some workers step between two calls of `step`: see rlcore_workers.overlap
    resume_limits: tuple[str, ...] = ()
    _turn = 0  # where groups of workers take turns: the one whose agents act next

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
        limits = [*self.resume_limits, *(limit for part in parts for limit in part.resume_limits)]
        self.resume_limits = tuple(dict.fromkeys(limits))
        supervisor.close_seconds = max(supervisor.close_seconds, *(part.close_seconds for part in parts))
        self.close_seconds = supervisor.close_seconds + 1.0  # in which workers are killed
        self.resume_notes = tuple(dict.fromkeys(note for part in parts for note in part.resume_notes))
        self._supervisor = supervisor
        self._parts = parts
        self._layout = layout
        self._arrays: RunArrays = executor.arrays(layout)
        self._arrays.fill_defaults()
        # What the run is shown, and the parameters [N, P] of the next episodes: copies if workers step meanwhile.
        self._shown = self._arrays
        self._parameters = self._arrays.parameters
        if self.overlaps:
            self._shown = RunArrays(layout, bytearray(layout.size))
            self._shown.fill_defaults()
            self._parameters = self._arrays.parameters.copy()
        self._settings = settings
        self._known = names
        self._names: tuple[str, ...] = ()  # of the parameters that were set so far
        self._stale: set[int] = set()  # workers whose parameters changed since they were last set there
        self._seeds = EpisodeSeeds(context.seed, context.first_env)
        self._acting: set[int] = set()  # workers whose agents the latest batches asked for actions
        # Workers that were started again since the latest batches: their rows are those of other episodes.
        self._fresh: set[int] = set()
        self._gone: set[int] = set()  # workers that the run does without
        self._alone = None if self.overlaps or supervisor.size == 1 else StepsAlone()
        supervisor.refuse(supervisor.attach(range(supervisor.size), self._arrays), "attach")

    # ------------------------------------------------------------ what a kind of overlap decides

    def _first(self) -> set[int]:
        """The workers whose agents act first after a reset; the others land without a step."""
        return set(range(self._supervisor.size))

    def _landing(self) -> set[int]:
        """Wait; return the workers whose answers the next batches show. Others may have landed too."""
        self._supervisor.land()
        return set(range(self._supervisor.size))

    # ------------------------------------------------------------ episodes

    def reset(self, seeds: EpisodeSeeds, episodes: NDArray[np.int64]) -> dict[str, AgentBatch]:
        """Start an episode everywhere, as :meth:`rlcore.Environment.reset` says.

        What workers do at this time is waited for and forgotten.
        """
        failures = self._settle()
        self._seeds = seeds
        self._arrays.begin[:] = episodes
        self._fresh.clear()
        failures |= self._reset([part for part in self._living() if part not in failures])[1]
        self._start_again(failures, "reset")
        self.episodes[:] = self._arrays.begin
        self._show(range(self._supervisor.size))
        self._acting = self._first() - self._gone
        waiting = set(self._supervisor.workers) - self._acting
        self._supervisor.steps.landed = dict.fromkeys(waiting)
        for part in waiting:
            self._shown.rest(part)
        return self._shown.batches({})

    def step(self, actions: Mapping[str, Actions]) -> dict[str, AgentBatch]:
        """Step everywhere, as :meth:`rlcore.Environment.step` says.

        The episodes of a worker that fails are aborted, and its environments start their next ones.
        """
        alone = self._alone is not None and self._alone.due and self._alone.is_next(self.busy_seconds)
        self._send(actions, alone)
        return self._receive()

    def _send(self, actions: Mapping[str, Actions], alone: bool = False) -> None:
        """Have the workers step whose agents were asked for ``actions``, with the parameters that changed.

        ``alone``: one after the other.
        """
        parts = sorted(self._acting - self._fresh)
        self._arrays.put_actions(actions, parts)
        stale = self._stale.intersection(parts)
        self._put_parameters(stale)
        arguments = (lambda part: (self._names,) if part in stale else ()) if stale else None
        for together in [[part] for part in parts] if alone else [parts]:
            self._supervisor.send(together, arguments)
            if alone:
                self._supervisor.land()
        self._stale -= stale

    def _receive(self) -> dict[str, AgentBatch]:
        """Wait for workers; the agents of all others rest. Workers that failed are started again."""
        due = self._landing()
        infos, failures = self._supervisor.steps.take(due)
        for part in self._acting - due:
            self._shown.rest(part)
        if failures:
            self._revive(failures, "step")
        lost = self._fresh & due
        self._fresh -= lost
        for part in lost:
            rows = self._layout.rows[part]
            self.aborted += sum(len(np.arange(spec.slots)[rows[name]]) for name, spec in self.behaviors.items())
        self._show(due)
        for part in infos:
            self.episodes[self._envs(part)] = self._arrays.episodes[self._envs(part)]
        self._acting = due - self._gone
        return self._shown.batches({part: info for part, info in infos.items() if info is not None}, lost)

    def _show(self, parts: Iterable[int]) -> None:
        """Copy what these workers wrote, unless the run sees it where they wrote it."""
        if self._shown is not self._arrays:
            for part in parts:
                self._shown.copy_part(self._arrays, part)

    def _settle(self) -> dict[int, Any]:
        """Wait for steps that were sent, and forget them. Return the failures."""
        self._supervisor.land()
        return self._supervisor.steps.take(range(self._supervisor.size))[1]

    def _living(self) -> list[int]:
        return [part for part in range(self._supervisor.size) if part not in self._gone]

    def _reset(self, parts: Sequence[int]) -> tuple[dict[int, Any], dict[int, Any]]:
        """Start the episodes in ``arrays.begin`` in the environments of these workers."""

        def arguments(part: int) -> tuple[Any, ...]:
            first_env = self._seeds.first_env + self._layout.bounds[part]
            return EpisodeSeeds(self._seeds.run_seed, first_env), self._names

        self._put_parameters(parts)
        results, failures = self._supervisor.call(parts, "reset", arguments)
        self._stale.difference_update(results)
        return results, failures

    def _started(self, parts: Sequence[int]) -> dict[int, Any]:
        """Start workers again, with the episodes in ``arrays.begin``; return the failures."""
        made, failures = self._supervisor.start(parts)
        for part, found in made.items():
            if not _same(found, self._parts[part]):
                raise EnvironmentFailed(f"worker {part} was started again and made other environments than before")
        failures |= self._supervisor.attach(made, self._arrays)
        failures |= self._reset([part for part in made if part not in failures])[1]
        return failures

    def _start_again(self, failures: Mapping[int, Any], doing: str) -> set[int]:
        """Start workers that failed, with other episodes than those in ``arrays.begin``: one may be why they fail.

        Returns them, with those that the run does without from here on.
        """
        fresh: set[int] = set()
        while failures:
            again, dropped = self._supervisor.recover(failures, doing)
            for part in dropped:
                self._gone.add(part)
                self._arrays.silence(part)
            for part in again:
                self._arrays.begin[self._envs(part)] += 1
            fresh |= {*again, *dropped}
            failures = self._started(again)
            doing = "starting again"
        return fresh

    def _revive(self, failures: Mapping[int, Any], doing: str) -> None:
        """Start workers that failed again, with the next episode of each environment."""
        for part in failures:
            self._arrays.begin[self._envs(part)] = self.episodes[self._envs(part)]
        self._fresh |= self._start_again(failures, doing)
        for part in self._fresh - self._gone:
            self.episodes[self._envs(part)] = self._arrays.begin[self._envs(part)]

    def _envs(self, part: int) -> slice:
        return slice(self._layout.bounds[part], self._layout.bounds[part + 1])

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
        self._stale |= {part for part in range(self._supervisor.size) if changed[self._envs(part)].any()}

    def _put_parameters(self, parts: Iterable[int]) -> None:
        """Give the parameters of the next episodes to workers that do not step."""
        for part in parts:
            self._arrays.parameters[self._envs(part)] = self._parameters[self._envs(part)]

    @property
    def busy_seconds(self) -> float:
        """Seconds that the workers together have spent in steps of their environments; 0 if unknown."""
        return float(self._arrays.busy.sum())

    def stats(self) -> dict[str, float]:
        """Workers that were started again, agents' episodes that were dropped, and seconds of waiting and of steps.

        Those of steps are what all of them would take one after the other.
        """
        return {
            Tag.WORKER_RESTARTS: float(self._supervisor.restarts),
            Tag.ABORTED_EPISODES: float(self.aborted),
            Tag.WORKER_WAIT: self._supervisor.waited,
            Tag.WORKER_STEPS: self.busy_seconds * (1.0 if self._alone is None else self._alone.share),
        }

    def close(self) -> None:
        """Close the environments and end the workers; may be called twice."""
        self._supervisor.close()


def _same(found: PartMade, before: PartMade) -> bool:
    """Whether a worker that was started again made the environments that it had."""
    return found.behaviors.keys() == before.behaviors.keys() and all(
        spec_mismatch(spec, found.behaviors[name]) is None
        and np.array_equal(spec.env_index, found.behaviors[name].env_index)
        for name, spec in before.behaviors.items()
    )
