"""The hooks of rlcore-gymnasium, and the ids of environments.

rlcore imports this module at every start and checks configurations with it, so it imports gymnasium only if it must.
"""

from __future__ import annotations

import importlib
import re
import shlex
import sys
from collections.abc import Collection, Mapping
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rlcore import CommandSpec, ConfigError, EnvironmentSpec, hookimpl, nearest, one_line, pip_install
from rlcore_gymnasium.modules import is_importable, not_importable
from rlcore_gymnasium.worlds import world_of
from rlcore_gymnasium.wrappers import wrapper_entries

if TYPE_CHECKING:
    from gymnasium.envs.registration import EnvSpec

    from rlcore import RunConfig

__all__ = ["registered"]

ID = ("environment", "id")
HUMAN = "human"  # the render mode of a window


@hookimpl
def rlcore_environments() -> list[EnvironmentSpec]:
    return [
        EnvironmentSpec(
            name="gymnasium",
            target="rlcore_gymnasium.environment:make_environment",
            parameters="rlcore_gymnasium.parameter_settings:ParameterRoute",
            block="rlcore_gymnasium.settings:GymnasiumSettings",
            video=True,
            window="options.render_mode",
            names_behaviors=False,
            presets=True,
            libraries=("gymnasium", "mujoco"),
            foreign=True,
            adapter="rlcore_gymnasium.made_by_programs:adapt",
            summary="any environment registered with Gymnasium, by its id",
        )
    ]


@hookimpl
def rlcore_commands() -> list[CommandSpec]:
    return [
        CommandSpec(
            name="init",
            target="rlcore_gymnasium.init:init_command",
            summary="Write a configuration file for an environment.",
        ),
        CommandSpec(
            name="watch",
            target="rlcore_gymnasium.watch:watch_command",
            summary="Show the agents of a run in a window.",
        ),
    ]


@hookimpl
def rlcore_check_config(config: RunConfig) -> str | None:
    unchecked: dict[str, str] = {}
    local = [Path(name).stem for name in config.plugins.local if name.endswith(".py")]
    blocks: dict[tuple[str, ...], Any] = {(): config.environment, ("evaluation",): config.evaluation_environment}
    for block, settings in blocks.items():
        if settings is not None and settings.type in ("gymnasium", "rlcore-gymnasium/gymnasium"):
            try:
                reason = check_id(settings.id, local)
                if reason is not None:
                    place = ".".join((*block, *ID))
                    # Said once: an evaluation inherits the id.
                    unchecked.setdefault(str(settings.id), f"{place} {settings.id!r}: {reason}")
                wrappers = getattr(settings, "wrappers", ())
                if wrappers:
                    for entry in wrapper_entries(wrappers):
                        entry.check(local)
            except ConfigError as error:
                raise ConfigError(error.message, key=(*block, *error.key)) from error
    return "; ".join(unchecked.values()) or None


def check_id(env_id: str | None, local: Collection[str] = ()) -> str | None:
    """Return why an id is not checked, None for a known one, and raise ConfigError for one that cannot be an id.

    ``local`` are the modules of files that the configuration names.

    No module of the id is imported. An unregistered id without a module is refused if it is close to a
    registered one: code of a plugin may register others when the run starts.
    """
    module, name = _parts(env_id)
    if module and module not in sys.modules:
        _refuse_namespace(env_id, module, name)
        if not is_importable(module, local):
            raise not_importable(env_id, module, "it is not installed", ID)
        return f"only a run imports {module}, which registers it"
    if not name:
        raise _unknown(env_id, module, name)
    if _is_gymnasiums(name):
        newest = _successor(name)
        if newest is not None:
            raise ConfigError(f"{name!r} needs mujoco-py, which Gymnasium has given up; write {newest!r}", key=ID)
        return None
    if name in _registry():
        return None
    if _nearest_id(module, name):
        raise _unknown(env_id, module, name)
    return "no installed package is known to have it"


def registered(env_id: str | None) -> EnvSpec:
    """Return the registration of ``[module:]Name-vN``. Importing the module registers its environments.

    The module of a package that :mod:`rlcore_gymnasium.worlds` knows need not be named.
    """
    module, name = _parts(env_id)
    if module:
        _refuse_namespace(env_id, module, name)
        known = world_of(name)
        try:
            imported = importlib.import_module(module)
            if known is not None and known.register and known.module == module:
                getattr(imported, known.register)()
        except (Exception, SystemExit) as error:
            raise not_importable(env_id, module, one_line(error), ID) from error
    spec = _registry().get(name)
    if spec is None:
        raise _unknown(env_id, module, name)
    return spec


def _parts(env_id: str | None) -> tuple[str, str]:
    """Return the module to import for an id, empty if none is needed, and the id without a module in front."""
    module, _, name = (env_id or "").rpartition(":")
    if module or not name:
        return module, name
    # Registered ids need no module. Gymnasium is not imported for this: checking a file needs no numpy.
    loaded = sys.modules.get("gymnasium")
    if (loaded is not None and name in loaded.registry) or _is_gymnasiums(name):
        return "", name
    known = world_of(name)
    if known is not None:
        return known.module, name
    namespace, slash, _ = name.partition("/")
    if slash and namespace.isidentifier() and is_importable(namespace):
        return namespace, name
    return "", name


def _refuse_namespace(env_id: str | None, module: str, name: str) -> None:
    """Refuse ``dm_control:cartpole-swingup``: the name before the colon is the namespace of ids, and not a module."""
    world = world_of(f"{module}/{name}")
    if world is None or module.partition(".")[0] == world.module.partition(".")[0]:
        return
    version = "" if re.search(r"-v\d+$", name) else "-v0"
    advice = f"write '{module}/{name}{version}'"
    install = "" if is_importable(world.module) else f"; run: {pip_install(*shlex.split(world.install))}"
    raise ConfigError(f"{env_id!r}: {module} is a namespace and not a module; {advice}{install}", key=ID)


def _unknown(env_id: str | None, module: str, name: str) -> ConfigError:
    if not name:
        return ConfigError("missing; name a Gymnasium environment, such as CartPole-v1", key=ID)
    named = module if (env_id or "").startswith(f"{module}:") else ""  # else it follows from the id
    close = _nearest_id(named, name)
    hint = f"; did you mean {close!r}?" if close else ""
    if module:
        imported = f", and the module {module!r} does not register it{_imported_from(module)}"
        return ConfigError(f"{env_id!r} is not registered with Gymnasium{imported}{hint}", key=ID)
    elsewhere = " (an environment of another package is written 'its_module:Name-v0')"
    return ConfigError(f"{env_id!r} is not registered with Gymnasium{hint}{elsewhere}", key=ID)


def _imported_from(module: str) -> str:
    """Say which file ``module`` is; another one of this name beside the configuration was not imported."""
    file = getattr(sys.modules.get(module), "__file__", None)
    if file is None:
        return ""
    name = module.partition(".")[0]
    standard = name in sys.stdlib_module_names or name == "test"
    advice = f"; give {name}.py beside the configuration another name" if standard else ""
    return f" (it is {file}{advice})"


def _nearest_id(module: str, name: str) -> str | None:
    if not module and _is_atari(name):
        return f"ALE/{name}"
    close = nearest(name, _registry())
    # Equal versions make no two names alike: Pong-v5 is not Ant-v5.
    if close is None or nearest(_unversioned(name), [_unversioned(close)]) is None:
        return None
    return f"{module}:{close}" if module else close


def _unversioned(name: str) -> str:
    return re.sub(r"-v\d+$", "", name)


def _is_atari(name: str) -> bool:
    """Whether ``ALE/`` in front makes ``Pong-v5`` an id of the installed ale-py, which is not imported."""
    spec = find_spec("ale_py")
    if spec is None or spec.origin is None or not name.endswith("-v5"):
        return False
    files = (Path(spec.origin).parent / "roms").glob("*.bin")
    games = {file.stem.replace("_", "") for file in files}
    return _unversioned(name).casefold() in games


def _is_gymnasiums(name: str) -> bool:
    """Whether Gymnasium itself registers the id."""
    return f'id="{name}"' in _registrations()


def _successor(name: str) -> str | None:
    """The newest version of an id that Gymnasium registers only to say that it is gone; None for every other id."""
    text = _registrations()
    if not re.search(rf'id="{re.escape(name)}",\s*entry_point=_raise_', text):
        return None
    base = name.rpartition("-v")[0]
    versions = re.findall(rf'id="{re.escape(base)}-v([0-9]+)"', text)
    return f"{base}-v{max(map(int, versions))}"


def _registrations() -> str:
    """The code that registers Gymnasium's environments. It is read, not imported: checking a file needs no numpy."""
    spec = find_spec("gymnasium")
    if spec is None or spec.origin is None:
        return ""
    file = Path(spec.origin).parent / "envs/__init__.py"
    with suppress(OSError):
        return file.read_text(encoding="utf-8")
    return ""


def _registry() -> Mapping[str, EnvSpec]:
    import gymnasium

    return gymnasium.registry
