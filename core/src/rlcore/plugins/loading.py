"""Imports and registers the plugins that are on. A plugin that fails is left out as a whole.

:mod:`rlcore.plugins.local_file` imports a plugin that is a Python file.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from rlcore.errors import PluginError
from rlcore.plugins.failures import failure
from rlcore.plugins.local_file import import_file, is_file
from rlcore.plugins.manager import HookManager
from rlcore.plugins.plugin import Plugin

# Called with each plugin that cannot be used, and why. Raises if that is fatal, and records it otherwise.
OnFailure = Callable[[Plugin, PluginError], None]


def load(manager: HookManager, plugins: Sequence[Plugin], on_failure: OnFailure) -> None:
    """Imports all plugins that are on, then lets each add hooks, then registers each.

    The order of imports and of ``rlcore_addhooks`` does not matter. The order of registration is the reverse of the
    order in which hooks are called; see :meth:`HookManager.implementations`.
    """
    imported: list[tuple[Plugin, object]] = []
    for plugin in plugins:
        if not plugin.on:
            continue
        try:
            if plugin.refused:
                raise PluginError(f"{plugin.described}: {plugin.refused}")
            imported.append((plugin, import_plugin(plugin)))
        except PluginError as error:
            on_failure(plugin, error)
    for step in (manager.add_extension_hooks, manager.admit):
        for plugin, module in tuple(imported):
            try:
                step(module, plugin)
            except PluginError as error:
                imported.remove((plugin, module))
                on_failure(plugin, error)


def import_plugin(plugin: Plugin) -> object:
    """The light module of a plugin, or the object in it that its entry point names."""
    try:
        if not plugin.distribution and is_file(plugin.module):
            return import_file(Path(plugin.module))
        name, _, attribute = plugin.module.partition(":")
        found: Any = importlib.import_module(name.strip())
        for part in filter(None, attribute.strip().split(".")):
            found = getattr(found, part)
    except PluginError:
        raise
    except (Exception, SystemExit) as error:  # never BaseException: Ctrl-C is not a broken plugin
        raise failure(plugin.described, "to load", error) from error
    return found
