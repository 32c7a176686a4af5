"""Environments in workers that step while the run does something else.

With ``overlap: updates``, all workers step while trainers update; batches are those of lock-step. Otherwise some
workers step between two batches. Such a batch has all slots too. The agents of workers that step wait: they need no
action, and have no rewards and no ends. Workers write to shared memory while they step, so the run is shown copies of
the rows that have landed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rlcore import (
    Actions,
    AgentBatch,
    EpisodeSeeds,
    SavedValueError,
    fill,
    saved_array,
    saved_count,
    saved_entry,
    saved_mapping,
)
from rlcore_workers.arrays import RunArrays
from rlcore_workers.environment import SavingWorkerEnvironment, WorkerEnvironment
from rlcore_workers.messages import PartMessages
from rlcore_workers.supervisor import Supervisor

ASYNCHRONOUS = "workers.wait_for takes the workers that answer first"


class UpdatesEnvironment(WorkerEnvironment):
    """Workers that all step while trainers update; implements :class:`rlcore.SendsSteps`."""

    busy_seconds = 0.0  # a step cannot be measured

    def send(self, actions: Mapping[str, Actions]) -> None:
        """Begin a step, as :meth:`rlcore.SendsSteps.send` says."""
        self._send_step(actions)

    def receive(self) -> dict[str, AgentBatch]:
        """Wait for a step, as :meth:`rlcore.SendsSteps.receive` says."""
        return self._receive_step()


class SavingUpdatesEnvironment(UpdatesEnvironment, SavingWorkerEnvironment):
    """Workers that step while trainers update, with environments that save themselves."""


class OverlappingEnvironment(WorkerEnvironment):
    """Environments in workers of which some step between two calls of ``step``.

    Attributes:
        resume_limits: Why a resumed run is only alike; empty if it is equal.
    """

    resume_limits: tuple[str, ...] = ()

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self._shown = RunArrays(self._layout, bytearray(self._layout.size))
        self._shown.fill_defaults()
        self._parameters = self._arrays.parameters.copy()  # workers that step read the shared ones
        self._acting: set[int] = set()  # workers whose agents the latest batches asked for actions
        self._turn = 0  # where groups take turns: the one whose agents act next

    # ------------------------------------------------------------ what a kind of overlap decides

    def _first(self) -> set[int]:
        """The workers whose agents act first after a reset; the others land without a step."""
        raise NotImplementedError

    def _landing(self) -> set[int]:
        """Wait; return the workers whose answers the next batches show. Others may have landed too."""
        raise NotImplementedError

    # ------------------------------------------------------------ episodes

    def reset(self, seeds: EpisodeSeeds, episodes: NDArray[np.int64]) -> dict[str, AgentBatch]:
        """Start an episode everywhere. What workers do at this time is waited for and forgotten."""
        super().reset(seeds, episodes)
        everywhere = range(self._supervisor.size)
        for part in everywhere:
            self._shown.copy_part(self._arrays, part)
        self._acting = self._first() - self._gone
        waiting = set(self._supervisor.workers) - self._acting
        self._supervisor.landed = dict.fromkeys(waiting)
        for part in waiting:
            self._shown.rest(part)
        return self._shown.batches({})

    def _send_step(self, actions: Mapping[str, Actions]) -> None:
        """Have the workers step whose agents were asked for ``actions``."""
        parts = sorted(self._acting - self._fresh)
        self._arrays.put_actions(actions, parts)
        self._send(parts)

    def _send(self, parts: Sequence[int]) -> None:
        for part in self._stale.intersection(parts):
            self._arrays.parameters[self._envs(part)] = self._parameters[self._envs(part)]
        super()._send(parts)

    def _reset(self, parts: Sequence[int]) -> tuple[dict[int, Any], dict[int, Any]]:
        for part in parts:
            self._arrays.parameters[self._envs(part)] = self._parameters[self._envs(part)]
        return super()._reset(parts)

    def _receive_step(self) -> dict[str, AgentBatch]:
        """Wait for some workers; the agents of all others rest. Workers that failed are started again."""
        due = self._landing()
        infos, failures = self._supervisor.take(due)
        for part in self._acting - due:
            self._shown.rest(part)
        if failures:
            self._revive(failures, "step")
        lost = self._fresh & due
        self._fresh -= lost
        self._count_aborted(lost)
        for part in due:
            self._shown.copy_part(self._arrays, part)
        for part in infos:
            self.episodes[self._envs(part)] = self._arrays.episodes[self._envs(part)]
        self._acting = due - self._gone
        return self._shown.batches({part: info for part, info in infos.items() if info is not None}, lost)


class HalvesEnvironment(OverlappingEnvironment):
    """The first half of the workers and the second take turns: one steps, the agents of the other one act."""

    busy_seconds = 0.0  # a step cannot be measured

    def __init__(self, supervisor: Supervisor, *others: Any) -> None:
        super().__init__(supervisor, *others)
        middle = (supervisor.size + 1) // 2
        self._halves = (set(range(middle)), set(range(middle, supervisor.size)))

    def _first(self) -> set[int]:
        self._turn = 0
        return self._halves[0]

    def _landing(self) -> set[int]:
        self._turn = 1 - self._turn
        due = self._halves[self._turn]
        flying = self._supervisor.flying
        self._supervisor.land(lambda: not any(part in due for part, _ in flying.values()))
        return due


class AsynchronousEnvironment(OverlappingEnvironment):
    """A step waits for the first workers that answer, and shows all that have answered by then."""

    resume_limits = (ASYNCHRONOUS,)

    def _first(self) -> set[int]:
        return set(range(self._supervisor.size))

    def _landing(self) -> set[int]:
        assert self._settings.wait_for is not None
        supervisor, others = self._supervisor, self._settings.wait_for - len(self._fresh)
        supervisor.land(lambda: len(supervisor.landed) >= others)
        return {*supervisor.landed, *self._fresh}


class _SavesFlights(OverlappingEnvironment, SavingWorkerEnvironment):
    """Environments that save themselves. Steps that were sent are waited for, and their answers are saved too."""

    def state_dict(self) -> dict[str, Any]:
        """Return the state of the environments, what agents see, and the answers that no batch has shown yet."""
        self._supervisor.land()
        failures = {part: answer for part, answer in self._supervisor.landed.items() if isinstance(answer, Exception)}
        if failures:
            self._supervisor.take(failures)
            self._revive(failures, "step")
        environments = super().state_dict()
        landed = {part: info for part, info in self._supervisor.landed.items() if part not in self._fresh}
        return {
            "in_flight": environments,
            "bounds": list(self._layout.bounds),
            "episodes": self.episodes.copy(),
            "acting": sorted(self._acting),
            "turn": self._turn,
            "seen": self._shown.seen(),
            "answers": {str(part): self._answer(part) for part in sorted(landed)},
            "infos": {str(part): info for part, info in sorted(landed.items()) if info is not None},
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> dict[str, AgentBatch]:
        """Continue from ``state``. Raises SavedValueError for one of other workers, or of workers in lock-step."""
        if "in_flight" not in state:
            raise SavedValueError(
                "the environments were saved by workers in lock-step, or in one process; resume without "
                "environment.workers.overlap and environment.workers.wait_for"
            )
        bounds = saved_entry(state, "bounds")
        if list(bounds) != list(self._layout.bounds):
            raise SavedValueError(
                f"the environments were saved by {len(bounds) - 1} workers with the blocks {list(bounds)}, some of "
                f"which took a step, and are {list(self._layout.bounds)} now; resume with as many workers"
            )
        self._settle()
        super().load_state_dict(saved_mapping(state, "in_flight"))
        fill(self.episodes, state, "episodes")
        self._shown.load_seen(saved_mapping(state, "seen"))
        infos = saved_mapping(state, "infos")
        for part, answer in saved_mapping(state, "answers").items():
            self._take_answer(int(part), answer)
            self._supervisor.landed[int(part)] = infos.get(part)
        self._acting = {int(part) for part in saved_entry(state, "acting")}
        self._turn = saved_count(state, "turn")
        return self._shown.batches({})

    def _answer(self, part: int) -> NDArray[np.uint8]:
        return np.frombuffer(PartMessages(self._arrays, part).answer(), np.uint8)

    def _take_answer(self, part: int, answer: Any) -> None:
        data = saved_array({"answers": answer}, "answers", np.uint8, (None,))
        try:
            PartMessages(self._arrays, part).take(data.tobytes())
        except ValueError as error:
            raise SavedValueError(f"the answer of worker {part} does not fit: {error}") from error


class SavingHalvesEnvironment(_SavesFlights, HalvesEnvironment):
    """Halves that take turns, of environments that save themselves."""


class SavingAsynchronousEnvironment(_SavesFlights, AsynchronousEnvironment):
    """The first workers that answer, of environments that save themselves."""
