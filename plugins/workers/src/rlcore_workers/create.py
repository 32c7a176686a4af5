"""How a run gets its workers: the executor starts them, and each makes its share of the environments."""

from __future__ import annotations

from rlcore import EnvironmentSpec, RunContext
from rlcore_workers.contract import Executor
from rlcore_workers.environment import WorkerEnvironment
from rlcore_workers.overlap import AsynchronousEnvironment, HalvesEnvironment, UpdatesEnvironment
from rlcore_workers.recipe import make_tasks
from rlcore_workers.saved import (
    SavingAsynchronousEnvironment,
    SavingHalvesEnvironment,
    SavingUpdatesEnvironment,
    SavingWorkerEnvironment,
)
from rlcore_workers.settings import WorkerSettings
from rlcore_workers.supervisor import Supervisor

# By what overlaps: environments that cannot save themselves, and those that can.
CLASSES: dict[str, tuple[type[WorkerEnvironment], type[WorkerEnvironment]]] = {
    "none": (WorkerEnvironment, SavingWorkerEnvironment),
    "half": (HalvesEnvironment, SavingHalvesEnvironment),
    "updates": (UpdatesEnvironment, SavingUpdatesEnvironment),
    "wait_for": (AsynchronousEnvironment, SavingAsynchronousEnvironment),
}


def create_environment(executor: Executor, settings: WorkerSettings, run: RunContext) -> WorkerEnvironment:
    """Return the environments of a run in workers that ``executor`` starts and this package supervises.

    An executor's :class:`rlcore.ExecutorSpec` names a function that calls this one. Raises what making the environments
    raises. Until all have made their environments, a worker is started again only if its host was lost.
    """
    counts = split(run.num_envs, settings.count)
    supervisor = Supervisor(executor, make_tasks(run, counts), settings, run.config.env_settings, described(run))
    try:
        parts = supervisor.start_all()
        for part in parts:
            run.factories.found |= part.factories
        without_state, with_state = CLASSES["wait_for" if settings.wait_for is not None else settings.overlap]
        saves_state = all(part.saves_state for part in parts)
        environment = with_state if saves_state else without_state
        return environment(supervisor, executor, parts, counts, settings, run)
    except BaseException:
        executor.close()
        raise


def split(num_envs: int, workers: int) -> list[int]:
    """Numbers of environments of each worker, as equal as possible: the first ones have one more."""
    share, more = divmod(num_envs, workers)
    return [share + (part < more) for part in range(workers)]


def described(run: RunContext) -> str:
    """Return the name of the environment in messages: its type, the plugin that makes it, and its id."""
    settings = run.config.environment
    assert settings is not None
    described = run.plugins.record(EnvironmentSpec, settings.type).described
    return f"{described}, id {settings.id!r}" if settings.id else described
