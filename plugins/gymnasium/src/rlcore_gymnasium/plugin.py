"""The hooks of rlcore-gymnasium. rlcore imports this module at every start, so it must not import gymnasium."""

from __future__ import annotations

from rlcore import EnvironmentSpec, hookimpl


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
