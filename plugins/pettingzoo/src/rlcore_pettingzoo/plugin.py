"""The hooks of rlcore-pettingzoo. rlcore imports this module at every start, so it must not import pettingzoo."""

from __future__ import annotations

from rlcore import CommandSpec, EnvironmentSpec, hookimpl


@hookimpl
def rlcore_environments() -> list[EnvironmentSpec]:
    return [
        EnvironmentSpec(
            name="pettingzoo",
            target="rlcore_pettingzoo.environment:make_environment",
            settings="rlcore_pettingzoo.settings:PettingZooSettings",
            libraries=("pettingzoo", "open-spiel"),
            summary="any environment of PettingZoo or game of OpenSpiel, by its id",
        )
    ]


@hookimpl
def rlcore_commands() -> list[CommandSpec]:
    return [
        CommandSpec(
            name="play",
            target="rlcore_pettingzoo.play:play_command",
            summary="Play a turn-based game against the policies of a run.",
        )
    ]
