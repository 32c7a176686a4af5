"""The hooks of rlcore-gymnasium. rlcore imports this module at every start, so it must not import gymnasium."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rlcore import ConfigError, EnvironmentSpec, hookimpl

if TYPE_CHECKING:
    from rlcore import RunConfig


@hookimpl
def rlcore_environments() -> list[EnvironmentSpec]:
    return [
        EnvironmentSpec(
            name="gymnasium",
            target="rlcore_gymnasium.environment:make_environment",
            parameters="rlcore_gymnasium.parameter_settings:ParameterRoute",
            video=True,
            names_behaviors=False,
            libraries=("gymnasium", "mujoco"),
            summary="any environment registered with Gymnasium, by its id",
        )
    ]


@hookimpl
def rlcore_check_config(config: RunConfig) -> None:
    for block, settings in (((), config.environment), (("evaluation",), config.evaluation_environment)):
        if settings is not None and settings.type in ("gymnasium", "rlcore-gymnasium/gymnasium"):
            from rlcore_gymnasium.ids import check_id

            try:
                check_id(settings.id)
            except ConfigError as error:
                raise ConfigError(error.message, key=(*block, *error.key)) from error
