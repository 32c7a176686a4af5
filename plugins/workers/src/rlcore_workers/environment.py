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
from rlcore_workers.arrays import BatchArrays
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
        # Workers mostly say the same: each text is shown once.
        limits = [limit for part in parts for limit in part.resume_limits]
        notes = [note for part in parts for note in part.resume_notes]
        self.resume_limits = tuple(dict.fromkeys([*self.resume_limits, *limits]))
        self.resume_notes = tuple(dict.fromkeys(notes))
        supervisor.close_seconds = max(supervisor.close_seconds, *(part.close_seconds for part in parts))
        self.close_seconds = supervisor.close_seconds + 1.0  # in which workers are killed
        self._supervisor = supervisor
        self._parts = parts
        self._layout = layout
        self._arrays: BatchArrays = executor.arrays(layout)
        self._arrays.fill_defaults()
        # What the run is shown, and the parameters [N, P] of the next episodes: copies if workers step meanwhile.
        self._shown = self._arrays
        self._parameters = self._arrays.parameters
        if self.overlaps:
            self._shown = BatchArrays(layout, bytearray(layout.size))
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
        failures = supervisor.attach(range(supervisor.size), self._arrays)
        supervisor.refuse(failures, "attach")

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
        failures = self._drop_steps()
        self._seeds = seeds
        self._arrays.begin[:] = episodes
        self._fresh.clear()
        alive = [part for part in self._living() if part not in failures]
        _, failures_of_resets = self._reset(alive)
        failures |= failures_of_resets
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
        measured = self._alone
        alone = measured is not None and measured.due and measured.is_next(self.busy_seconds)
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

        def arguments(part: int) -> tuple[Any, ...]:
            return (self._names,) if part in stale else ()  # a step without arguments is the shortest message

        if alone:
            for part in parts:
                self._supervisor.send([part], arguments)
                self._supervisor.land()
        else:
            self._supervisor.send(parts, arguments)
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
            self.aborted += sum(spec.slots for spec in self._parts[part].behaviors.values())
        self._show(due)
        for part in infos:
            envs = self._envs(part)
            self.episodes[envs] = self._arrays.episodes[envs]
        self._acting = due - self._gone
        final_info = {part: info for part, info in infos.items() if info is not None}
        return self._shown.batches(final_info, lost)

    def _show(self, parts: Iterable[int]) -> None:
        """Copy what these workers wrote, unless the run sees it where they wrote it."""
        if self._shown is not self._arrays:
            for part in parts:
                self._shown.copy_part(self._arrays, part)

    def _drop_steps(self) -> dict[int, Any]:
        """Wait for steps that were sent, and forget them. Return the failures."""
        self._supervisor.land()
        _, failures = self._supervisor.steps.take(range(self._supervisor.size))
        return failures

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
        for part, answer in made.items():
            if not _same(answer, self._parts[part]):
                raise EnvironmentFailed(f"worker {part} was started again and made other environments than before")
        failures |= self._supervisor.attach(made, self._arrays)
        attached = [part for part in made if part not in failures]
        _, failures_of_resets = self._reset(attached)
        return failures | failures_of_resets

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
            envs = self._envs(part)
            self._arrays.begin[envs] = self.episodes[envs]
        self._fresh |= self._start_again(failures, doing)
        for part in self._fresh - self._gone:
            envs = self._envs(part)
            self.episodes[envs] = self._arrays.begin[envs]

    def _envs(self, part: int) -> slice:
        return slice(self._layout.bounds[part], self._layout.bounds[part + 1])

    # ------------------------------------------------------------ parameters, statistics, end

    def set_parameters(self, parameters: Parameters) -> None:
        """Set the parameters of the next episodes; workers get them with the next step or reset."""
        refuse_unknown_parameters(parameters, self._known, "the run")
        new_names = [name for name in parameters if name not in self._names]
        changed: NDArray[np.bool_] = np.full(self.num_envs, bool(new_names))  # [N]
        self._names = (*self._names, *new_names)  # appended, so that the columns of the others stay theirs
        for name, values in parameters.items():
            column = self._parameters[:, self._names.index(name)]
            changed |= column != values
            column[:] = values
        for part in range(self._supervisor.size):
            if changed[self._envs(part)].any():
                self._stale.add(part)

    def _put_parameters(self, parts: Iterable[int]) -> None:
        """Give the parameters of the next episodes to workers that do not step."""
        for part in parts:
            envs = self._envs(part)
            self._arrays.parameters[envs] = self._parameters[envs]

    @property
    def busy_seconds(self) -> float:
        """Seconds that the workers together have spent in steps of their environments; 0 if unknown."""
        return float(self._arrays.busy.sum())

    def stats(self) -> dict[str, float]:
        """Workers that were started again, agents' episodes that were dropped, and seconds of waiting and of steps.

        Those of steps are what all of them would take one after the other.
        """
        share = 1.0 if self._alone is None else self._alone.share
        return {
            Tag.WORKER_RESTARTS: float(self._supervisor.restarts),
            Tag.ABORTED_EPISODES: float(self.aborted),
            Tag.WORKER_WAIT: self._supervisor.waited,
            Tag.WORKER_STEPS: self.busy_seconds * share,
        }

    def close(self) -> None:
        """Close the environments and end the workers; may be called twice."""
        self._supervisor.close()


def _same(after: PartMade, before: PartMade) -> bool:
    """Whether a worker that was started again made the environments that it had."""
    if after.behaviors.keys() != before.behaviors.keys():
        return False
    for name, spec in before.behaviors.items():
        again = after.behaviors[name]
        if spec_mismatch(spec, again) is not None or not np.array_equal(spec.env_index, again.env_index):
            return False
    return True
