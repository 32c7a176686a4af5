"""Imports what was chosen. A plugin somebody asked for must load; of the others, a broken one is left out whole."""

from __future__ import annotations

import importlib
import importlib.util
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from rlcore.errors import PluginError, one_line
from rlcore.plugins.candidates import Candidate
from rlcore.plugins.discover import Decision, is_file
from rlcore.plugins.manager import HookManager, LoadedPlugin

# Called with each plugin that cannot be used and why: raises if that is fatal, notes it otherwise.
OnFailure = Callable[[Decision, PluginError], None]


def load(manager: HookManager, decisions: Sequence[Decision], on_failure: OnFailure) -> None:
    """Imports, then lets plugins add hooks, then registers: no step depends on the order within the one before."""
    imported: list[tuple[Decision, object]] = []
    for decision in decisions:
        if not decision.on:
            continue
        try:
            if decision.refused:
                raise PluginError(f"{decision.candidate.described}: {decision.refused}")
            imported.append((decision, import_plugin(decision.candidate)))
        except PluginError as error:
            on_failure(decision, error)
    for step in (manager.add_extension_hooks, manager.admit):
        for decision, plugin in tuple(imported):
            try:
                step(plugin, LoadedPlugin.of(decision.candidate, decision.why))
            except PluginError as error:
                imported.remove((decision, plugin))
                on_failure(decision, error)


def import_plugin(candidate: Candidate) -> object:
    """The light module of a plugin."""
    try:
        if not candidate.distribution and is_file(candidate.module):
            return _import_file(Path(candidate.module))
        module, _, attribute = candidate.module.partition(":")
        plugin: Any = importlib.import_module(module.strip())
        for part in filter(None, attribute.strip().split(".")):
            plugin = getattr(plugin, part)
    except PluginError:
        raise
    except (Exception, SystemExit) as error:  # never BaseException: Ctrl-C is not a broken plugin
        raise PluginError(f"{candidate.described} not loaded: {one_line(error)}") from error
    return plugin


def _import_file(path: Path) -> object:
    """A file becomes a module named after it, so that its records can name targets in it: ``"hooks:MyReward"``."""
    path = path.resolve()
    name = path.stem
    if not path.is_file():
        raise FileNotFoundError(f"no file {path}")
    present = sys.modules.get(name)
    if present is not None and getattr(present, "__file__", None) == str(path):
        return present
    taken = importlib.util.find_spec(name) if name.isidentifier() else None
    if not name.isidentifier() or (taken is not None and taken.origin != str(path)):
        raise ImportError(f"{path.name} must be renamed: {name!r} is no free module name")
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise ImportError(f"{path} is no Python file")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[name]
        raise
    return module
