"""Vectorized games of two and more teams with known solutions, also for configurations, as a local plugin::

    plugins: {local: [selfplay_games]}
    environment: {type: game, id: contest, num_envs: 16, options: {teams: 3}}

``id`` is a name in :data:`GAMES`; ``options`` contains the other arguments of the game.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from rlcore import ConfigError, Environment, EnvironmentSettings, EnvironmentSpec, RunContext, did_you_mean, hookimpl
from selfplay_games.base import Game
from selfplay_games.matrix import Contest, Matrix, biased_rps, skewed_pennies
from selfplay_games.tictactoe import TicTacToe

__all__ = [
    "GAMES",
    "Contest",
    "Game",
    "Matrix",
    "TicTacToe",
    "biased_rps",
    "skewed_pennies",
]

GAMES: Mapping[str, Callable[..., Game]] = {
    "biased_rps": biased_rps,
    "contest": Contest,
    "skewed_pennies": skewed_pennies,
    "tictactoe": TicTacToe,
}


@hookimpl
def rlcore_environments() -> list[EnvironmentSpec]:
    return [EnvironmentSpec(name="game", target="selfplay_games:make", summary="games with known solutions")]


def make(settings: EnvironmentSettings, run: RunContext) -> Environment:
    name = settings.id or ""
    if name not in GAMES:
        raise ConfigError(
            f"environment.id: unknown game {name!r}; allowed: {', '.join(GAMES)}{did_you_mean(name, GAMES)}",
            key=("environment", "id"),
        )
    return GAMES[name](run.num_envs, **settings.options)
