"""The plugin system: found by metadata, chosen before anything is imported, called through one typed facade.

In reading order: :mod:`~rlcore.plugins.hookspecs` (what a plugin may implement), :mod:`~rlcore.plugins.records` (what
it returns), :mod:`~rlcore.plugins.candidates` (what is installed), :mod:`~rlcore.plugins.discover` (what is chosen),
:mod:`~rlcore.plugins.loading` and :mod:`~rlcore.plugins.manager` (import, checks, registration) and
:mod:`~rlcore.plugins.calls` (the facade that the rest of rlcore uses). :mod:`~rlcore.plugins.recording`
reads and writes recorded episodes through it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rlcore.plugins.calls import Owned, Plugins, load_plugins
    from rlcore.plugins.catalog import HOOKS, HookInfo
    from rlcore.plugins.discover import Selection, selection_from
    from rlcore.plugins.manager import LoadedPlugin
    from rlcore.plugins.markers import hookspec, registry_of
    from rlcore.plugins.recording import read_recording
    from rlcore.plugins.records import Record
    from rlcore.plugins.run_context import RunPlugins

__all__ = [
    "HOOKS",
    "HookInfo",
    "LoadedPlugin",
    "Owned",
    "Plugins",
    "Record",
    "RunPlugins",
    "Selection",
    "hookspec",
    "load_plugins",
    "read_recording",
    "registry_of",
    "selection_from",
]

# A plugin's light module imports this package on its way to the markers, so nothing here may cost anything.
_LAZY = {
    "HOOKS": "rlcore.plugins.catalog",
    "HookInfo": "rlcore.plugins.catalog",
    "LoadedPlugin": "rlcore.plugins.manager",
    "Owned": "rlcore.plugins.calls",
    "Plugins": "rlcore.plugins.calls",
    "Record": "rlcore.plugins.records",
    "RunPlugins": "rlcore.plugins.run_context",
    "Selection": "rlcore.plugins.discover",
    "hookspec": "rlcore.plugins.markers",
    "load_plugins": "rlcore.plugins.calls",
    "read_recording": "rlcore.plugins.recording",
    "registry_of": "rlcore.plugins.markers",
    "selection_from": "rlcore.plugins.discover",
}


def __getattr__(name: str) -> Any:
    if name in _LAZY:
        from importlib import import_module

        return getattr(import_module(_LAZY[name]), name)
    raise AttributeError(f"module 'rlcore.plugins' has no attribute {name!r}")
