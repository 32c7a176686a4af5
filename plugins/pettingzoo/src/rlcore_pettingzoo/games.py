"""Finds and creates the games that ``environment.id`` names."""

from __future__ import annotations

import importlib
import re
import warnings
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Literal

import attrs
import pettingzoo
from pettingzoo.env_registry.exceptions import FailedToImport

from rlcore import ConfigError, EnvironmentFailed, KeyPath, RlcoreError, did_you_mean, one_line, repeating
from rlcore_pettingzoo.settings import PettingZooSettings, WrapperSettings

ID = ("environment", "id")
OPTIONS = ("environment", "options")
OPENSPIEL = "openspiel/"
Api = Literal["aec", "parallel"]

# The extra, or the package, that has the requirements of a namespace of PettingZoo.
_EXTRAS = {"classic": "'rlcore-pettingzoo[classic]'", "openspiel": "'rlcore-pettingzoo[openspiel]'"}


@attrs.frozen
class Game:
    """A kind of game: how one environment of it is created, without the arguments and wrappers of the file."""

    id: str
    name: str  # without namespace and version
    make: Callable[..., Any]
    install: str = ""  # what to install if a package is missing


def find_game(env_id: str | None, api: Api | None) -> Game:
    """Return the game that ``environment.id`` names. Raises ConfigError if there is none."""
    if not env_id:
        raise ConfigError("missing; name a game, such as classic/tictactoe-v3", key=ID)
    if env_id.startswith(OPENSPIEL):
        return _of_openspiel(env_id)
    if ":" in env_id:
        make = imported(env_id, ID)
        return Game(env_id, _name_of(env_id), make)
    return _registered(env_id, api)


def check_id(env_id: str | None) -> None:
    """Raise ConfigError for an id that cannot be one. No module that the id names is imported.

    An id that is not close to a known one is not refused: code of a plugin may register it when the run starts.
    """
    if env_id and ":" in env_id:
        return
    try:
        find_game(env_id, None)
    except EnvironmentFailed:
        return  # a package is missing: the file may be right
    except ConfigError as error:
        if not env_id or "did you mean" in error.message:
            raise


def _registered(env_id: str, api: Api | None) -> Game:
    registries = {"parallel": pettingzoo.parallel_registry, "aec": pettingzoo.aec_registry}
    wanted = re.sub(r"_v(?=\d+$)", "-v", env_id)
    matching = {name for names in registries.values() for name in names if wanted in (name, name.partition("/")[2])}
    if not matching:
        known = sorted({name for names in registries.values() for name in names})
        close = did_you_mean(wanted, known) or did_you_mean(wanted, [name.partition("/")[2] for name in known])
        raise ConfigError(
            f"{env_id!r} is not registered with PettingZoo{close or _of_gymnasium(env_id)} (an "
            "environment of another package is written module:function, a game of OpenSpiel openspiel/NAME)",
            key=ID,
        )
    if len(matching) > 1:
        raise ConfigError(f"{env_id!r} is one of {', '.join(sorted(matching))}; name one", key=ID)
    (name,) = matching
    forms = [form for form, names in registries.items() if name in names]
    if api is not None and api not in forms:
        raise ConfigError(f"{name} has no {api} form; it has {forms[0]}", key=(*OPTIONS, "api"))
    form = api or forms[0]
    spec = registries[form][name]

    def make(**arguments: Any) -> Any:
        return pettingzoo.make(form, name, **arguments)

    install = _EXTRAS.get(str(spec.namespace), f"'pettingzoo[{spec.namespace}]'")
    return Game(name, str(spec.name), make, install)


def _of_gymnasium(env_id: str) -> str:
    import gymnasium

    if env_id in gymnasium.registry:
        return f"; it has one agent: set environment.type: gymnasium to run {env_id}"
    return ""


def _of_openspiel(env_id: str) -> Game:
    name = env_id.removeprefix(OPENSPIEL)
    try:
        from rlcore_pettingzoo.openspiel import OpenSpielGame, game_names
    except ImportError as error:
        raise EnvironmentFailed(
            f"{env_id}: a package it needs is not installed; run: pip install {_EXTRAS['openspiel']} "
            f"({one_line(error)})"
        ) from error
    names = game_names()
    if name not in names:
        raise ConfigError(f"{env_id!r}: OpenSpiel has no such game{did_you_mean(name, names)}", key=ID)

    def make(**arguments: Any) -> Any:
        return OpenSpielGame(name, **arguments)

    return Game(env_id, name, make, _EXTRAS["openspiel"])


def _name_of(target: str) -> str:
    """Return what ``module:function`` is called: its function, or its module if the function has a general name."""
    module, _, function = target.rpartition(":")
    general = function in ("env", "raw_env", "parallel_env", "aec_env", "make")
    return re.sub(r"_v\d+$", "", module.rpartition(".")[2] if general else function)


def imported(target: str, key: KeyPath) -> Callable[..., Any]:
    """Return the function that ``module:function`` names. Raises ConfigError about the value at ``key``."""
    module_name, _, name = target.rpartition(":")
    try:
        module = importlib.import_module(module_name)
    except (Exception, SystemExit) as error:
        missing = getattr(error, "name", None) if isinstance(error, ModuleNotFoundError) else None
        package = module_name.partition(".")[0]
        hint = f"; run: pip install {package}" if missing == package else ""
        raise ConfigError(f"{target!r}: cannot import {module_name!r}: {one_line(error)}{hint}", key=key) from error
    function = getattr(module, name, None)
    if not callable(function):
        found = [each for each in vars(module) if callable(getattr(module, each)) and not each.startswith("_")]
        wrong = "has no" if function is None else "has no function"
        raise ConfigError(f"{target!r}: {module_name} {wrong} {name!r}{did_you_mean(name, found)}", key=key)
    result: Callable[..., Any] = function
    return result


def make_games(game: Game, options: PettingZooSettings, count: int) -> list[Any]:
    """Create ``count`` environments with their wrappers; all are in one form, with equal ``possible_agents``.

    Raises ConfigError or EnvironmentFailed; environments that were created are closed then.
    """
    wrappers = list(_wrappers(options))
    games: list[Any] = []
    try:
        for _ in range(count):
            games.append(_made(game, options.arguments))
            for index, (name, wrap, arguments) in enumerate(wrappers):
                games[-1] = _wrapped(games[-1], name, wrap, arguments, index)
            _refuse_unusable(game, games[-1], options.api)
        first = list(games[0].possible_agents)
        for other in games[1:]:
            if list(other.possible_agents) != first:
                raise EnvironmentFailed(
                    f"{game.id}: two environments have the agents {first} and {list(other.possible_agents)}; all "
                    "environments must have the same"
                )
    except BaseException:
        for made in games:
            close_quietly(made)
        raise
    return games


def close_quietly(game: Any) -> None:
    """Close a game that is given up: the error that led to this is the one to report."""
    try:
        game.close()
    except (Exception, SystemExit):
        return


def is_parallel(game: Any) -> bool:
    """Return whether all agents of a game act at once."""
    return isinstance(game, pettingzoo.ParallelEnv)


def _made(game: Game, arguments: Mapping[str, Any]) -> Any:
    try:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message=".*expected to be an instance of.*")  # checked afterwards
            return game.make(**arguments)
    except RlcoreError:
        raise
    except (ImportError, FailedToImport) as error:
        hint = f"; run: pip install {game.install}" if game.install else ""
        cause = error.__cause__ if isinstance(error, FailedToImport) and error.__cause__ is not None else error
        raise EnvironmentFailed(f"{game.id}: a package it needs is not installed{hint} ({one_line(cause)})") from error
    except (Exception, SystemExit) as error:
        given = f" with arguments {dict(arguments)}" if arguments else ""
        raise repeating(error, f"{game.id}: cannot be made{given}", EnvironmentFailed) from error


def _wrappers(options: PettingZooSettings) -> Iterable[tuple[str, Callable[..., Any], Mapping[str, Any]]]:
    for index, wrapper in enumerate(options.wrappers):
        settings = WrapperSettings(wrapper=wrapper) if isinstance(wrapper, str) else wrapper
        yield settings.wrapper, imported(settings.wrapper, (*OPTIONS, "wrappers", index)), settings.arguments


def _wrapped(game: Any, name: str, wrap: Callable[..., Any], arguments: Mapping[str, Any], index: int) -> Any:
    key = (*OPTIONS, "wrappers", index)
    try:
        wrapped = wrap(game, **arguments)
    except RlcoreError:
        raise
    except (Exception, SystemExit) as error:
        given = f" with arguments {dict(arguments)}" if arguments else ""
        message = f"{name} cannot wrap {_kind(game)}{given}: {one_line(error)}"
        raise ConfigError(message, key=key) from error
    if not isinstance(wrapped, pettingzoo.AECEnv | pettingzoo.ParallelEnv):
        raise ConfigError(f"{name} returned {_kind(wrapped)}, not an environment of PettingZoo", key=key)
    return wrapped


def _refuse_unusable(game: Game, made: Any, api: Api | None) -> None:
    if not isinstance(made, pettingzoo.AECEnv | pettingzoo.ParallelEnv):
        one_agent = "; an environment of Gymnasium has one agent: set environment.type: gymnasium"
        hint = one_agent if hasattr(made, "action_space") and not callable(made.action_space) else ""
        raise ConfigError(
            f"{game.id!r} returned {_kind(made)}, not an AECEnv or ParallelEnv of PettingZoo{hint}",
            key=ID,
        )
    found = "parallel" if is_parallel(made) else "aec"
    if api is not None and api != found:
        raise ConfigError(
            f"{game.id} returned {_kind(made)}, which is {found}, not {api}",
            key=(*OPTIONS, "api"),
        )
    if not getattr(made, "possible_agents", None):
        raise EnvironmentFailed(f"{game.id}: has no possible_agents; rlcore must know all agents before the first step")


def _kind(made: Any) -> str:
    name = type(made).__name__
    return f"{'an' if name[:1].lower() in 'aeiou' else 'a'} {name}"
