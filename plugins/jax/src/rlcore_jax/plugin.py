"""The hooks of rlcore-jax. rlcore imports this module at every start, so it must not import jax."""

from __future__ import annotations

from importlib.util import find_spec
from typing import TYPE_CHECKING

from rlcore import ConfigError, EnvironmentSpec, hookimpl

if TYPE_CHECKING:
    from rlcore import RunConfig


@hookimpl
def rlcore_environments() -> list[EnvironmentSpec]:
    return [
        EnvironmentSpec(
            name="pgx",
            target="rlcore_jax.games:make_environment",
            settings="rlcore_jax.settings:PgxSettings",
            names_behaviors=False,
            libraries=("jax", "pgx"),
            foreign=True,
            summary="a game of pgx, by its id; all environments are one compiled program of JAX",
        ),
        EnvironmentSpec(
            name="playground",
            target="rlcore_jax.playground:make_environment",
            settings="rlcore_jax.settings:PlaygroundSettings",
            names_behaviors=False,
            libraries=("jax", "playground", "mujoco", "mujoco-mjx"),
            foreign=True,
            summary="a task of MuJoCo Playground's control suite, by its name; one compiled program of JAX",
        ),
    ]


@hookimpl
def rlcore_check_config(config: RunConfig) -> None:
    for block, settings in (((), config.environment), (("evaluation",), config.evaluation_environment)):
        if settings is None:
            continue
        try:
            kind = settings.type.removeprefix("rlcore-jax/")
            if kind == "pgx" and find_spec("pgx") is not None:
                from rlcore_jax.games import check_id

                check_id(settings.id)
            elif kind == "playground" and find_spec("mujoco_playground") is not None:
                from rlcore_jax.playground import check_task

                check_task(settings.id)
        except ConfigError as error:
            raise ConfigError(error.message, key=(*block, *error.key)) from error
