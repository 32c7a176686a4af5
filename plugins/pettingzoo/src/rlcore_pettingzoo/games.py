"""Finds and creates the games that ``environment.id`` names."""

from __future__ import annotations

import importlib
import re
import shlex
import warnings
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from importlib.util import find_spec
from typing import Any, Literal

import attrs
import pettingzoo
from pettingzoo.env_registry.exceptions import FailedToImport

from rlcore import ConfigError, EnvironmentFailed, KeyPath, RlcoreError, did_you_mean, one_line, pip_install, repeating
from rlcore_pettingzoo.settings import PettingZooSettings, WrapperSettings

ID = ("environment", "id")
OPTIONS = ("environment", "options")
OPENSPIEL = "openspiel/"
_MPE = re.compile(r"(?:(?:pettingzoo[./])?mpe2?[./])?(simple(?:_[a-z]+)*)-v(\d+)")
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
        return Game(env_id, _name_of(env_id), imported(env_id, ID))
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
    wanted = re.sub(r"_v(?=\d+$)", "-v", env_id)  # modules of PettingZoo are called tictactoe_v3, ids tictactoe-v3
    known = sorted({*registries["parallel"], *registries["aec"]})
    short = {name: name.partition("/")[2] for name in known}  # without namespace
    matching = [name for name in known if wanted in (name, short[name])]
    if not matching:
        _refuse_moved(env_id, wanted)
        close = did_you_mean(wanted, known) or did_you_mean(wanted, list(short.values()))
        raise ConfigError(
            f"{env_id!r} is not registered with PettingZoo{close} (an environment of another package is written "
            "module:function, a game of OpenSpiel openspiel/NAME)",
            key=ID,
        )
    if len(matching) > 1:
        raise ConfigError(f"{env_id!r} is one of {', '.join(matching)}; name one", key=ID)
    (name,) = matching
    forms = [form for form, names in registries.items() if name in names]
    if api is not None and api not in forms:
        raise ConfigError(f"{name} has no {api} form; it has {forms[0]}", key=(*OPTIONS, "api"))
    form = api or forms[0]
    spec = registries[form][name]
    install = _EXTRAS.get(str(spec.namespace), f"'pettingzoo[{spec.namespace}]'")
    make = partial(pettingzoo.make, form, name)
    return Game(name, str(spec.name), make, install)


def _refuse_moved(env_id: str, wanted: str) -> None:
    """Refuse games of MPE, such as ``mpe/simple_spread_v3``, that PettingZoo gave to the package ``mpe2``."""
    found = _MPE.fullmatch(wanted)
    if found is None:
        return
    hint = "" if find_spec("mpe2") else f"; run: {pip_install('mpe2')}"
    game = f"mpe2.{found[1]}_v{found[2]}:parallel_env"
    raise ConfigError(f"{env_id!r}: MPE is the package mpe2 now; did you mean {game!r}?{hint}", key=ID)


def _of_openspiel(env_id: str) -> Game:
    name = env_id.removeprefix(OPENSPIEL)
    try:
        from rlcore_pettingzoo.openspiel import OpenSpielGame, game_names
    except ImportError as error:
        raise _missing(env_id, _EXTRAS["openspiel"], error) from error
    if name not in game_names():
        raise ConfigError(f"{env_id!r}: OpenSpiel has no such game{did_you_mean(name, game_names())}", key=ID)
    return Game(env_id, name, partial(OpenSpielGame, name), _EXTRAS["openspiel"])


def _missing(env_id: str, install: str, error: BaseException) -> EnvironmentFailed:
    hint = f"; run: {pip_install(*shlex.split(install))}" if install else ""
    return EnvironmentFailed(f"{env_id}: a package it needs is not installed{hint} ({one_line(error)})")


def _name_of(target: str) -> str:
    """Return what ``module:function`` is called: its function, or its module if the function has a general name."""
    module, _, function = target.rpartition(":")
    general = function in ("env", "raw_env", "parallel_env", "aec_env", "make")
    name = module.rpartition(".")[2] if general else function
    return re.sub(r"_v\d+$", "", name)


def imported(target: str, key: KeyPath) -> Callable[..., Any]:
    """Return the function that ``module:function`` names. Raises ConfigError about the value at ``key``."""
    module_name, _, name = target.rpartition(":")
    try:
        module = importlib.import_module(module_name)
    except (Exception, SystemExit) as error:
        package = module_name.partition(".")[0]
        missing = isinstance(error, ModuleNotFoundError) and error.name == package
        hint = f"; run: pip install {package}" if missing else ""
        raise ConfigError(f"{target!r}: cannot import {module_name!r}: {one_line(error)}{hint}", key=key) from error
    function = getattr(module, name, None)
    if not callable(function):
        public = [attribute for attribute in vars(module) if not attribute.startswith("_")]
        functions = [attribute for attribute in public if callable(getattr(module, attribute))]
        hint = did_you_mean(name, functions)
        raise ConfigError(f"{target!r}: {module_name} has no function {name!r}{hint}", key=key)
    result: Callable[..., Any] = function
    return result


def make_games(game: Game, options: PettingZooSettings, count: int) -> list[Any]:
    """Create ``count`` environments with their wrappers; all are in one form, with equal ``possible_agents``.

    Raises ConfigError or EnvironmentFailed; environments that were created are closed then.
    """
    games: list[Any] = []
    try:
        for _ in range(count):
            made = _made(game, options.arguments)
            games.append(made)
            _require_environment(made, repr(game.id), ID)
            for index, wrapper in enumerate(options.wrappers):
                made = _wrapped(made, wrapper, (*OPTIONS, "wrappers", index))
                games[-1] = made  # closing a wrapper closes what it wraps
            _refuse_unusable(game, made, options.api)
        require_equal_agents(games, game.id)
    except BaseException:
        for made in games:
            close_quietly(made)
        raise
    return games


def require_equal_agents(games: Sequence[Any], name: str) -> None:
    """Raise EnvironmentFailed unless all games have the same ``possible_agents``, and at least one."""
    agents = [list(getattr(game, "possible_agents", None) or ()) for game in games]
    first, *others = agents
    if not first:
        raise EnvironmentFailed(f"{name}: has no possible_agents; rlcore must know all agents before the first step")
    for other in others:
        if other != first:
            raise EnvironmentFailed(
                f"{name}: two environments have the agents {first} and {other}; all environments must have the same"
            )


def close_quietly(game: Any) -> None:
    """Close a game that is given up: the error that led to this is the one to report."""
    try:
        game.close()
    except (Exception, SystemExit):
        return


def is_game(made: object) -> bool:
    """Return whether an object is an environment of PettingZoo."""
    return isinstance(made, pettingzoo.AECEnv | pettingzoo.ParallelEnv)


def is_parallel(game: Any) -> bool:
    """Return whether all agents of a game act at once."""
    return isinstance(game, pettingzoo.ParallelEnv)


def _made(game: Game, arguments: Mapping[str, Any]) -> Any:
    try:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message=".*expected to be an instance of.*")  # checked afterwards
            made = game.make(**arguments)
        if arguments.get("render_mode") == "human":
            _require_window(game, made)
        return made
    except RlcoreError:
        raise
    except (ImportError, FailedToImport) as error:
        raise _missing(game.id, game.install, error.__cause__ or error) from error
    except (Exception, SystemExit) as error:
        raise repeating(error, f"{game.id}: cannot be made{_with(arguments)}", EnvironmentFailed) from error


def _require_window(game: Game, made: Any) -> None:
    """Raise ConfigError if the game has no render mode ``human``, which it may ignore."""
    modes = list(made.metadata.get("render_modes") or ())
    if "human" not in modes:
        made.close()
        problem = f"{game.id}: cannot be shown in a window; its render modes are {', '.join(modes) or 'none'}"
        raise ConfigError(problem, key=("environment", "options", "arguments", "render_mode"))


def _wrapped(game: Any, wrapper: WrapperSettings | str, key: KeyPath) -> Any:
    settings = WrapperSettings(wrapper=wrapper) if isinstance(wrapper, str) else wrapper
    wrap = imported(settings.wrapper, key)
    try:
        wrapped = wrap(game, **settings.arguments)
    except RlcoreError:
        raise
    except (Exception, SystemExit) as error:
        what = f"{type(game).__name__}{_with(settings.arguments)}"
        raise ConfigError(f"{settings.wrapper} cannot wrap {what}: {one_line(error)}", key=key) from error
    _require_environment(wrapped, settings.wrapper, key)
    return wrapped


def _with(arguments: Mapping[str, Any]) -> str:
    return f" with arguments {dict(arguments)}" if arguments else ""


def _require_environment(made: Any, name: str, key: KeyPath) -> None:
    if not is_game(made):
        kind = type(made).__name__
        raise ConfigError(f"{name} returned {kind}, not an AECEnv or ParallelEnv of PettingZoo", key=key)


def _refuse_unusable(game: Game, made: Any, api: Api | None) -> None:
    found = "parallel" if is_parallel(made) else "aec"
    if api is not None and api != found:
        raise ConfigError(
            f"{game.id} returned {type(made).__name__}, which is {found}, not {api}", key=(*OPTIONS, "api")
        )
