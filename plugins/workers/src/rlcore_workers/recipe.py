"""Descriptions from which another process makes environments of a run: of its plugins, then of its context.

The plugins come first, because the configuration of a run has objects of classes that local plugins define.
"""

from __future__ import annotations

import pickle
from types import ModuleType
from typing import Any

import attrs

from rlcore import ConfigError, Environment, EnvironmentSpec, PluginError, Plugins, RunContext, load_plugins
from rlcore_workers.contract import Task

KEY = ("environment", "workers")
# What a worker gets of the run's context as it is.
SENT = ("config", "directory", "seed", "purpose", "offline", "resumed_steps", "working_directory", "factories")


def make_tasks(context: RunContext, counts: list[int]) -> list[Task]:
    """The tasks of workers with ``counts`` environments each. Raises ConfigError for what cannot leave the process."""
    recipe = plugins_recipe(context.plugins)
    tasks = []
    first = 0
    for part, count in enumerate(counts):
        tasks.append(Task(part, first, count, recipe, context_recipe(context, first, count)))
        first += count
    return tasks


def plugins_recipe(plugins: Any) -> bytes:
    """The choice of plugins, and objects that a program registered, for :func:`plugins_of`."""
    registered: list[tuple[Any, str | None, bytes]] = []
    for plugin, implementation in plugins.registered:
        if isinstance(implementation, ModuleType):  # which cannot be pickled; the worker imports it
            registered.append((plugin, implementation.__name__, b""))
        else:
            registered.append((plugin, None, _pickled(implementation, plugin)))
    return pickle.dumps((plugins.selection, plugins.strict, registered))


def _pickled(implementation: object, plugin: Any) -> bytes:
    try:
        return pickle.dumps(implementation)
    except Exception as error:
        raise ConfigError(
            f"{plugin.described} was registered as an object that cannot be sent to another process ({error}); "
            "register a module, or train without workers",
            key=KEY,
        ) from error


def plugins_of(recipe: bytes) -> Plugins:
    """Load the plugins of :func:`plugins_recipe` in this process."""
    from importlib import import_module

    selection, strict, registered = pickle.loads(recipe)  # nosec B301 # from the run that started this worker
    plugins = load_plugins(selection, strict=strict)
    for plugin, module, pickled in registered:
        # The run made it.
        implementation = import_module(module) if module is not None else pickle.loads(pickled)  # nosec B301
        plugins.register(implementation, plugin.name, plugin.distribution, plugin.version)
    return plugins


def context_recipe(context: RunContext, first: int, count: int) -> bytes:
    """The run for ``count`` of its environments, of which the first has the index ``first``."""
    fields = {name: getattr(context, name) for name in SENT}
    fields |= {"num_envs": count, "first_env": context.first_env + first}
    try:
        return pickle.dumps(fields)
    except Exception as error:
        raise ConfigError(f"the configuration cannot be sent to another process: {error}", key=KEY) from error


def context_of(recipe: bytes, plugins: Plugins) -> RunContext:
    """The run of :func:`context_recipe` in this process."""
    return RunContext(plugins=plugins, **pickle.loads(recipe))  # nosec B301 # from the run that started this worker


def make_environment(plugins: Plugins, context: RunContext) -> Environment:
    """Return the environments of ``context`` in this process. Raises PluginError for another number of them."""
    settings = context.config.environment
    assert settings is not None
    settings = attrs.evolve(settings, num_envs=context.num_envs, workers=None)
    spec = plugins.record(EnvironmentSpec, settings.type)
    environment: Environment = plugins.create(spec, settings=settings, run=context)
    if environment.num_envs != context.num_envs:
        raise PluginError(
            f"{spec.described} was made with num_envs {environment.num_envs} where run.num_envs is {context.num_envs}"
        )
    return environment
