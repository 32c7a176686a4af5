"""The contracts of executors and workers: how a run starts workers, calls them and waits for them.

An *executor* starts workers and waits for them; a *worker* steps some of a run's environments somewhere else. How a
worker is started, reached and killed is the executor's matter. Deadlines, restarts and aborted episodes are the run's
(:mod:`rlcore_workers.supervisor`), and the batches of all workers become one in :mod:`rlcore_workers.arrays`.
"""

from __future__ import annotations

import pickle
import traceback
from collections.abc import Collection, Mapping
from contextlib import suppress
from typing import Any, Protocol, runtime_checkable

import attrs

from rlcore import (
    BehaviorSpec,
    ConfigError,
    EnvironmentEnded,
    Plugin,
    RlcoreError,
    RunStateError,
    UnsupportedSpace,
    one_line,
)
from rlcore_workers.arrays import BatchArrays
from rlcore_workers.layout import Layout


@attrs.frozen
class Task:
    """Some of a run's environments, for a worker to make. Can be pickled.

    Attributes:
        part: Number of the worker, from 0.
        first: Index, in the run, of its first environment.
        count: Number of its environments.
        plugins: The plugins of the run, as :func:`rlcore_workers.recipe.plugins_recipe` returns them.
        context: The run, pickled after its plugins are known: see :mod:`rlcore_workers.recipe`.
    """

    part: int
    first: int
    count: int
    plugins: bytes = attrs.field(repr=False)
    context: bytes = attrs.field(repr=False)


@attrs.frozen(eq=False)
class PartMade:
    """The answer of a worker to ``create``.

    Attributes:
        behaviors: The behaviors of its environments, of which the first has the index 0.
        saves_state: Whether its environments implement :class:`rlcore.SavesState`.
        saves_rows: Whether their state has rows: see :class:`rlcore.SavesRows`.
        factories: The plugins that took part in making them, by hook and label.
        resume_limits: Why a resumed run is only alike: see :class:`rlcore.Environment`.
        close_seconds: How long closing its environments may take, if they say so: see :class:`rlcore.Environment`.
        resume_notes: Limits of a promise that is exact all the same.
    """

    behaviors: Mapping[str, BehaviorSpec]
    saves_state: bool
    saves_rows: bool
    factories: Mapping[tuple[str, str], Plugin] = attrs.field(factory=dict)
    resume_limits: tuple[str, ...] = ()
    close_seconds: float = 0.0
    resume_notes: tuple[str, ...] = ()


class WorkerFailed(Exception):
    """A worker raised, died, or did not answer in time. Raised by :meth:`Worker.begin` and :meth:`Worker.result`.

    Attributes:
        details: The traceback and the last lines of output of the worker; may be empty.
        raised: The error that a method of the part raised, if it is one of rlcore.
        host_lost: Whether the host is gone, so that even a first start may succeed elsewhere.
    """

    def __init__(
        self, message: str, details: str = "", raised: RlcoreError | None = None, *, host_lost: bool = False
    ) -> None:
        super().__init__(message)
        self.details = details
        self.raised = raised
        self.host_lost = host_lost

    @property
    def final(self) -> bool:
        """Whether the worker must not be started again: a configuration or a saved state is wrong, or all has ended."""
        return isinstance(self.raised, ConfigError | EnvironmentEnded | RunStateError | UnsupportedSpace)

    @classmethod
    def of(cls, error: BaseException) -> WorkerFailed:
        """Return what a worker reports of an error that a method of its part raised. Can be pickled."""
        details = "".join(traceback.format_exception(error))
        if not isinstance(error, RlcoreError):
            return cls(one_line(error), details)
        raised: RlcoreError | None = None
        with suppress(Exception):
            pickle.loads(pickle.dumps(error))  # nosec B301 # whether it can be; nothing comes from elsewhere
            raised = error
        return cls(str(error), details, raised)


@runtime_checkable
class Worker(Protocol):
    """A started worker. Its methods are those of :class:`rlcore_workers.part.Part`, called by name.

    A worker has one call at a time: ``begin``, then, once :meth:`Executor.wait` returned it, ``result``.
    """

    def begin(self, method: str, *arguments: Any) -> None:
        """Start a method of the part; returns without waiting. Raises WorkerFailed if the worker is gone.

        Before ``step`` the actions are in the run's arrays, before ``reset`` the episodes and parameters.
        """

    def result(self) -> Any:
        """Return what the method returned. Raises WorkerFailed. Batches are in the run's arrays then."""

    def overdue(self, doing: str, seconds: float) -> WorkerFailed:
        """Return the error of a worker that did not finish ``doing`` within ``seconds``, with where it is."""


@runtime_checkable
class Executor(Protocol):
    """Starts workers and waits for them; :func:`rlcore_workers.create_environment` calls it."""

    def start(self, task: Task) -> Worker:
        """Start a worker; returns without waiting. Raises WorkerFailed if that is impossible."""

    def arrays(self, layout: Layout) -> BatchArrays:
        """Return the arrays that the run and its workers exchange batches in; called once."""

    def attach(self, worker: Worker, arrays: BatchArrays) -> None:
        """Begin the call in which a worker learns where the arrays of its environments are."""

    def wait(self, workers: Collection[Worker], seconds: float | None) -> Collection[Worker]:
        """Return workers whose call ended or that are gone, as soon as there is one; none after ``seconds``.

        Must not poll: the cores are for the workers. Workers that are not in ``workers`` may be within a call, or end
        one: a later ``wait`` for them returns them.
        """

    def kill(self, worker: Worker) -> None:
        """End a worker at once, and free what it holds. May be called twice."""

    def close(self) -> None:
        """Kill all workers and free everything. May be called twice."""
