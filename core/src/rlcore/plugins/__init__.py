"""The plugin system: plugins are found by metadata, selected before any is imported, and called through one facade.

In reading order: :mod:`~rlcore.hookspecs` (the hooks that a plugin may implement),
:mod:`~rlcore.records` (the records that it returns), :mod:`~rlcore.plugins.plugin` (a plugin),
:mod:`~rlcore.plugins.discovery` (the installed plugins), :mod:`~rlcore.plugins.contract` (what they
were written for), :mod:`~rlcore.plugins.selection` (which of them are on),
:mod:`~rlcore.plugins.loading` and :mod:`~rlcore.plugins.manager` (import, checks, registration),
:mod:`~rlcore.plugins.registry`, :mod:`~rlcore.plugins.lookup` (records: collected, found by name) and
:mod:`~rlcore.plugins.calls` (the facade that the rest of rlcore uses), with :mod:`~rlcore.plugins.factories` (its part
that creates trainers, rewards, writers and environments). :mod:`~rlcore.plugins.failures` blames plugins for their
errors.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rlcore.plugins.calls import Plugins, load_plugins
    from rlcore.plugins.catalog import HOOKS, HookInfo
    from rlcore.plugins.contract import CONTRACT
    from rlcore.plugins.failures import blame, blamed
    from rlcore.plugins.markers import hookspec, registry_of
    from rlcore.plugins.plugin import Plugin
    from rlcore.plugins.run_context import RunPlugins
    from rlcore.plugins.selection import Selection, selection_from
    from rlcore.records import Record

__all__ = [
    "CONTRACT",
    "HOOKS",
    "HookInfo",
    "Plugin",
    "Plugins",
    "Record",
    "RunPlugins",
    "Selection",
    "blame",
    "blamed",
    "hookspec",
    "load_plugins",
    "registry_of",
    "selection_from",
]

# A plugin's light module imports this package on its way to the markers, so importing this package must cost nothing.
_LAZY = {
    "CONTRACT": "rlcore.plugins.contract",
    "HOOKS": "rlcore.plugins.catalog",
    "HookInfo": "rlcore.plugins.catalog",
    "Plugin": "rlcore.plugins.plugin",
    "Plugins": "rlcore.plugins.calls",
    "Record": "rlcore.records",
    "RunPlugins": "rlcore.plugins.run_context",
    "Selection": "rlcore.plugins.selection",
    "hookspec": "rlcore.plugins.markers",
    "blame": "rlcore.plugins.failures",
    "blamed": "rlcore.plugins.failures",
    "load_plugins": "rlcore.plugins.calls",
    "registry_of": "rlcore.plugins.markers",
    "selection_from": "rlcore.plugins.selection",
}


def __getattr__(name: str) -> Any:
    if name in _LAZY:
        from importlib import import_module

        return getattr(import_module(_LAZY[name]), name)
    raise AttributeError(f"module 'rlcore.plugins' has no attribute {name!r}")
