"""The hooks of envpool. rlcore imports this module at every start, so it must not import envpool."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

from rlcore import ConfigError, EnvironmentFailed, EnvironmentSpec, hookimpl

if TYPE_CHECKING:
    from rlcore import RunConfig


@hookimpl
def rlcore_environments() -> list[EnvironmentSpec]:
    return [
        EnvironmentSpec(
            name="envpool",
            target="rlcore_gymnasium.envpool.environment:make_environment",
            block="rlcore_gymnasium.settings:ObservedEnvironmentSettings",
            names_behaviors=False,
            presets=True,
            libraries=("envpool", "envpool-assets"),
            foreign=True,
            summary="any environment of EnvPool with one agent, by its id; stepped by threads in C++",
        )
    ]


@hookimpl
def rlcore_check_config(config: RunConfig) -> None:
    for block, settings in (((), config.environment), (("evaluation",), config.evaluation_environment)):
        if settings is not None and settings.type in ("envpool", "rlcore-gymnasium/envpool"):
            from rlcore_gymnasium.envpool.tasks import find_task

            try:
                # The configuration may be right although this machine lacks a package or a file.
                with suppress(EnvironmentFailed):
                    find_task(settings.id, settings.options or {})
            except ConfigError as error:
                raise ConfigError(error.message, key=(*block, *error.key)) from error
