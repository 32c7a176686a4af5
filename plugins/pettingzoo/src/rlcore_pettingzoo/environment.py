"""Creates the environment of a run from ``environment: {type: pettingzoo, id: ..., options: {...}}``."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from rlcore import (
    ConfigError,
    EnvironmentSettings,
    read_settings,
    refuse_unknown_parameters,
)
from rlcore_gymnasium.episode_info import Wanted
from rlcore_gymnasium.failures import failing_as
from rlcore_gymnasium.made_by_programs import add_copies, closing_on_error
from rlcore_gymnasium.repeated_resets import are_tried
from rlcore_pettingzoo.agents import Agent, assign
from rlcore_pettingzoo.base import PettingZooEnvironment
from rlcore_pettingzoo.central import KINDS
from rlcore_pettingzoo.games import (
    Game,
    close_quietly,
    find_game,
    is_game,
    is_parallel,
    make_games,
    require_equal_agents,
)
from rlcore_pettingzoo.parallel import ParallelEnvironment
from rlcore_pettingzoo.settings import PettingZooSettings
from rlcore_pettingzoo.turns import TurnEnvironment

if TYPE_CHECKING:
    from rlcore import RunContext


_OF_PROGRAMS = ("behaviors", "state", "final_info")  # options of games that a program makes


def make_environment(settings: EnvironmentSettings, run: RunContext) -> PettingZooEnvironment:
    """Create ``run.num_envs`` environments of the game ``settings.id``.

    Raises :class:`~rlcore.ConfigError` for an id, a wrapper or a mapping of agents that does not fit, and
    :class:`~rlcore.EnvironmentFailed` if the environment cannot be constructed.
    """
    options: PettingZooSettings = settings.options
    game = find_game(settings.id, options.api)
    refuse_unknown_parameters(run.config.environment_parameters, (), game.id)
    environment = make_of(game, options, run.num_envs, run.behavior_names, settings.info)
    if are_tried(run):
        environment.try_resets()
    return environment


def make_of(
    game: Game, options: PettingZooSettings, num_envs: int, behavior_names: Sequence[str], info: Wanted = None
) -> PettingZooEnvironment:
    """Create ``num_envs`` environments of a game. ``behavior_names`` are those of the file, ``info`` of its block."""
    games = make_games(game, options, num_envs)
    try:
        return _of_games(games, game.id, game.name, options, behavior_names, info)
    except BaseException:
        for made in games:
            close_quietly(made)
        raise


def adapt(made: object, settings: EnvironmentSettings, run: RunContext) -> PettingZooEnvironment | None:
    """Return the environment for games that a Python program made, None for an object of another kind.

    ``settings.options`` may have ``behaviors``, ``state`` and ``final_info`` of :class:`PettingZooSettings`. Raises
    ConfigError for other options, and if the number of copies does not fit.
    """
    if not is_game(made):
        return None
    metadata = getattr(made, "metadata", {})
    name = str(metadata.get("name") or type(made).__name__)
    known = {key: value for key, value in settings.options.items() if key in _OF_PROGRAMS}
    for key in settings.options.keys() - known.keys():
        raise ConfigError(
            f"{name}: the program makes it, with arguments and wrappers; the options are {', '.join(_OF_PROGRAMS)}",
            key=("environment", "options", key),
        )
    options, problems = read_settings(PettingZooSettings, known)
    for path, message in problems:
        raise ConfigError(message, key=("environment", "options", *path))
    refuse_unknown_parameters(run.config.environment_parameters, (), name)
    games = [made]
    with closing_on_error(games, run):
        add_copies(games, run, name)
        require_equal_agents(games, name)
        without_version = re.sub(r"_v\d+$", "", name)
        environment = _of_games(games, name, without_version, options, run.behavior_names, settings.info)
        if are_tried(run):
            environment.try_resets()
    return environment


def _of_games(
    games: list[Any],
    game_id: str,
    name: str,
    options: PettingZooSettings,
    behavior_names: Sequence[str],
    info: Wanted,
) -> PettingZooEnvironment:
    """Return the environment that steps ``games``, whose errors it names ``game_id``."""
    with failing_as(f"{game_id}: its agents' spaces cannot be read"):
        first = games[0]
        parallel = is_parallel(first)
        in_turns = not parallel and not first.metadata.get("is_parallelizable", False)
        agents = []
        for place, name_of_agent in enumerate(first.possible_agents):
            observation_space = first.observation_space(name_of_agent)
            action_space = first.action_space(name_of_agent)
            agents.append(Agent(name_of_agent, place, observation_space, action_space))
        casts = assign(agents, options.behaviors, in_turns, name, behavior_names)
        kind = ParallelEnvironment if parallel else TurnEnvironment
        reported = info
        if info != "all":
            names = [*options.final_info, *(info or ())]
            reported = list(dict.fromkeys(names))
        state = KINDS[options.state] if options.state else None
        return kind(game_id, games, casts, reported, state)
