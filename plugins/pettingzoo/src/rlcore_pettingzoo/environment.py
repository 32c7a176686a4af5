"""Creates the environment of a run from ``environment: {type: pettingzoo, id: ..., options: {...}}``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from rlcore import EnvironmentFailed, EnvironmentSettings, RlcoreError, refuse_unknown_parameters, repeating
from rlcore_pettingzoo.agents import Agent, assign
from rlcore_pettingzoo.base import PettingZooEnvironment
from rlcore_pettingzoo.games import Game, close_quietly, find_game, is_parallel, make_games
from rlcore_pettingzoo.parallel import ParallelEnvironment
from rlcore_pettingzoo.settings import PettingZooSettings
from rlcore_pettingzoo.turns import TurnEnvironment

if TYPE_CHECKING:
    from rlcore import RunContext


def make_environment(settings: EnvironmentSettings, run: RunContext) -> PettingZooEnvironment:
    """Create ``run.num_envs`` environments of the game ``settings.id``.

    Raises :class:`~rlcore.ConfigError` for an id, a wrapper or a mapping of agents that does not fit, and
    :class:`~rlcore.EnvironmentFailed` if the environment cannot be constructed.
    """
    options: PettingZooSettings = settings.options
    game = find_game(settings.id, options.api)
    refuse_unknown_parameters(run.config.environment_parameters, (), game.id)
    return make_of(game, options, run.num_envs, run.behavior_names)


def make_of(
    game: Game, options: PettingZooSettings, num_envs: int, behavior_names: Sequence[str]
) -> PettingZooEnvironment:
    """Create ``num_envs`` environments of a game. ``behavior_names`` are those of the file."""
    games = make_games(game, options, num_envs)
    try:
        parallel = is_parallel(games[0])
        in_turns = not parallel and not games[0].metadata.get("is_parallelizable", False)
        agents = [
            Agent(name, place, games[0].observation_space(name), games[0].action_space(name))
            for place, name in enumerate(games[0].possible_agents)
        ]
        casts = assign(agents, options.behaviors, in_turns, game.name, behavior_names)
        kind = ParallelEnvironment if parallel else TurnEnvironment
        return kind(game.id, games, casts, options.final_info)
    except BaseException as error:
        for made in games:
            close_quietly(made)
        if isinstance(error, RlcoreError) or not isinstance(error, Exception | SystemExit):
            raise
        raise repeating(error, f"{game.id}: its agents' spaces cannot be read", EnvironmentFailed) from error
