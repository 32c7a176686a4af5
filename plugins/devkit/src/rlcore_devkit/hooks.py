"""The environments of :mod:`rlcore_devkit.environments` for configurations, as a local plugin::

    plugins: {local: [rlcore_devkit.hooks]}
    environment: {type: testing, id: identity_hybrid, num_envs: 4}

``id`` is the name of a class or function in that module; ``options`` contains its other arguments.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rlcore import EnvironmentSpec, hookimpl

if TYPE_CHECKING:
    from rlcore import Environment, EnvironmentSettings, RunContext


@hookimpl
def rlcore_environments() -> list[EnvironmentSpec]:
    return [
        EnvironmentSpec(
            name="testing",
            target="rlcore_devkit.hooks:make_environment",
            summary="small environments with known best returns",
        )
    ]


def make_environment(settings: EnvironmentSettings, run: RunContext) -> Environment:
    from rlcore import ConfigError, did_you_mean
    from rlcore_devkit import environments

    name = settings.id or ""
    if name not in environments.FOR_CONFIGURATIONS:
        allowed = ", ".join(environments.FOR_CONFIGURATIONS)
        hint = did_you_mean(name, environments.FOR_CONFIGURATIONS)
        key = ("environment", "id")
        raise ConfigError(f"unknown environment {name!r}; allowed: {allowed}{hint}", key=key)
    make = environments.FOR_CONFIGURATIONS[name]
    try:
        environment: Environment = make(run.num_envs, run.behavior_names[0], **settings.options)
    except TypeError as error:
        raise ConfigError(str(error), key=("environment", "options")) from error
    return environment
