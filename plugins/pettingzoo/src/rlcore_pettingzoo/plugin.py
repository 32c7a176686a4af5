"""The hooks of rlcore-pettingzoo. rlcore imports this module at every start, so it must not import pettingzoo."""

from __future__ import annotations

import re
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from rlcore import CommandSpec, ConfigError, EnvironmentSpec, hookimpl

if TYPE_CHECKING:
    from rlcore import RunConfig

# What an id without a type is taken for: an id of Gymnasium, or, with a path in it, a player of Unity.
_WITHOUT_TYPE = ("gymnasium", "unity")


@hookimpl
def rlcore_environments() -> list[EnvironmentSpec]:
    return [
        EnvironmentSpec(
            name="pettingzoo",
            presets=True,
            target="rlcore_pettingzoo.environment:make_environment",
            settings="rlcore_pettingzoo.settings:PettingZooSettings",
            window="options.arguments.render_mode",
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
        if settings is None:
            continue
        game = _game_of(settings.id or "") if settings.type in _WITHOUT_TYPE else None
        if game is not None:
            advice = f"write environment: {{type: pettingzoo, id: {game}}}"
            raise ConfigError(f"{settings.id!r} is a game of PettingZoo; {advice}", key=(*block, "environment", "id"))
        if settings.type not in ("pettingzoo", "rlcore-pettingzoo/pettingzoo"):
            continue
        from rlcore_pettingzoo.games import check_id

        try:
            check_id(settings.id)
        except ConfigError as error:
            raise ConfigError(error.message, key=(*block, *error.key)) from error


def _game_of(env_id: str) -> str | None:
    """Return the id of the game that ``classic/tictactoe`` names, with or without a version; None if it names none.

    PettingZoo is not imported: each of its games is a module with the version in its name.
    """
    named = re.fullmatch(r"(?:pettingzoo[./])?([a-z]+)[./]([a-z_]+?)(?:[-_]v\d+)?", env_id)
    spec = find_spec("pettingzoo")
    if named is None or spec is None or spec.origin is None:
        return None
    namespace, name = named.groups()
    modules = sorted(Path(spec.origin).parent.glob(f"{namespace}/{name}_v*.py"))
    if not modules:
        return None
    return f"{namespace}/{name}-{modules[-1].stem.rpartition('_')[2]}"
