"""How a run gets its actors: the function that the record of the executor names."""

from __future__ import annotations

from typing import Any

from rlcore import ConfigError, Environment, RunContext
from rlcore_actors.environment import ActorEnvironment
from rlcore_actors.hub import Hub
from rlcore_actors.settings import ActorSettings
from rlcore_actors.source import InProcess, Source
from rlcore_workers import described, make_environment

__all__ = ["create_environment"]


def create_environment(settings: ActorSettings, run: RunContext) -> Environment:
    """Return the environments of ``run`` in actors; in this process, without actors, where nothing is learned."""
    plugins: Any = run.plugins
    if run.inference:
        return make_environment(plugins, run)
    if run.ranks.size > 1:
        raise ConfigError(
            "actors play for one learner, and this run has several ranks; start it without torchrun",
            key=("environment", "workers"),
        )
    if settings.in_process:
        source: Source = InProcess(settings, run)
    else:
        source = Hub(settings, run)
    try:
        return ActorEnvironment(source, settings, run, described(run))
    except BaseException:
        source.close()
        raise
