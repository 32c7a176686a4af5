"""The hooks of rlcore-pettingzoo. rlcore imports this module at every start, so it must not import pettingzoo."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rlcore import CommandSpec, ConfigError, EnvironmentSpec, hookimpl

if TYPE_CHECKING:
    from rlcore import RunConfig


@hookimpl
def rlcore_environments() -> list[EnvironmentSpec]:
    return [
        EnvironmentSpec(
            name="pettingzoo",
            target="rlcore_pettingzoo.environment:make_environment",
            settings="rlcore_pettingzoo.settings:PettingZooSettings",
            libraries=("pettingzoo", "open-spiel"),
            foreign=True,
            adapter="rlcore_pettingzoo.environment:adapt",
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


@hookimpl
def rlcore_check_config(config: RunConfig) -> None:
    for block, settings in (((), config.environment), (("evaluation",), config.evaluation_environment)):
        if settings is not None and settings.type in ("pettingzoo", "rlcore-pettingzoo/pettingzoo"):
            from rlcore_pettingzoo.games import check_id

            try:
                check_id(settings.id)
            except ConfigError as error:
                raise ConfigError(error.message, key=(*block, *error.key)) from error
