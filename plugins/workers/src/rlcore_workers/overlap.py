"""Environments in workers that step while the run does something else.

With ``overlap: updates``, all workers step while trainers update; batches are those of lock-step. Otherwise some
workers step between two batches. Such a batch has all slots too. The agents of workers that step wait: they need no
action, and have no rewards and no ends. Workers write to shared memory while they step, so the run is shown copies of
the rows that have landed.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rlcore import Actions, AgentBatch
from rlcore_workers.environment import WorkerEnvironment
from rlcore_workers.supervisor import Supervisor

ASYNCHRONOUS = "workers.wait_for takes the workers that answer first"


class UpdatesEnvironment(WorkerEnvironment):
    """Workers that all step while trainers update; implements :class:`rlcore.SendsSteps`."""

    busy_seconds = 0.0  # a step cannot be measured

    def send(self, actions: Mapping[str, Actions]) -> None:
        """Begin a step, as :meth:`rlcore.SendsSteps.send` says."""
        self._send(actions)

    def receive(self) -> dict[str, AgentBatch]:
        """Wait for a step, as :meth:`rlcore.SendsSteps.receive` says."""
        return self._receive()


class OverlappingEnvironment(WorkerEnvironment):
    """Environments in workers of which some step between two calls of ``step``."""

    overlaps = True


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
        flying = self._supervisor.steps.flying

        def has_landed() -> bool:
            return due.isdisjoint(part for part, _ in flying.values())

        self._supervisor.land(has_landed)
        return due


class AsynchronousEnvironment(OverlappingEnvironment):
    """A step waits for the first workers that answer, and shows all that have answered by then."""

    resume_limits = (ASYNCHRONOUS,)

    def _landing(self) -> set[int]:
        assert self._settings.wait_for is not None
        landed = self._supervisor.steps.landed
        # Workers that were started again have their first observations already: they count as answers.
        others = self._settings.wait_for - len(self._fresh)
        self._supervisor.land(lambda: len(landed) >= others)
        return {*landed, *self._fresh}
