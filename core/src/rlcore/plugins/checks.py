"""Checks a plugin's hook implementations before any of them is registered.

The checks are rlcore's own because pluggy accepts a misspelled hook name silently, and because its versions disagree
about default values.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from typing import Any

import pluggy

from rlcore.errors import did_you_mean, nearest
from rlcore.plugins.catalog import HOOKS, KINDS
from rlcore.plugins.contract import PORTING, successor
from rlcore.plugins.markers import ENTRY_POINT_GROUP

HOOK_PREFIX = "rlcore_"
STORES = "rlcore_write_status"  # one plugin alone can answer it, and must be able to read what it stored


def problems(plugin: object, manager: pluggy.PluginManager, only: str | None = None) -> list[str]:
    """One sentence for each mistake; ``only`` restricts the check to one hook."""
    found: list[str] = []
    answered: set[str] = set()
    for name, function, options in _marked(plugin):
        hook = (options or {}).get("specname") or name
        if only is not None and hook != only:
            continue
        if options is None:
            found.append(f"{name} is not marked with @hookimpl")
        elif not name.startswith(HOOK_PREFIX):
            found.append(f"{name} is marked with @hookimpl but does not begin with {HOOK_PREFIX!r}{_close(name)}")
        elif options["optionalhook"] and not _is_specified(manager, hook):
            continue
        elif not _is_specified(manager, hook):
            answer = successor(hook)
            found.append(f"unknown hook {hook!r}{f'; {answer}; {PORTING}' if answer else _close_hook(hook, manager)}")
        else:
            found += _signature_problems(manager, hook, function) + _option_problems(hook, options)
            answered |= set() if options["wrapper"] else {hook}
    if STORES in answered and "rlcore_read_status" not in answered:
        found.append(f"{STORES} needs rlcore_read_status beside it: no command can read what it stores")
    return found


def is_function(plugin: object, name: str) -> bool:
    """Whether an attribute exists and is callable as a hook. Evaluates no property."""
    static = inspect.getattr_static(plugin, name, None)
    return isinstance(static, staticmethod | classmethod) or inspect.isroutine(static)


def _marked(plugin: object) -> Iterator[tuple[str, Any, dict[str, Any] | None]]:
    """Functions marked as implementations, and unmarked functions of the plugin's own that have a hook's name."""
    for name in dir(plugin):
        if not is_function(plugin, name):
            continue
        function = getattr(plugin, name)
        options = _options(plugin, name)
        if options is not None:
            yield name, function, options
        elif name in KINDS and getattr(function, "__module__", None) == getattr(
            plugin, "__name__", type(plugin).__module__
        ):
            yield name, function, None


def _options(plugin: object, name: str) -> dict[str, Any] | None:
    # The unmodified reading: HookManager's own sees the rlcore_ prefix only.
    options: Any = pluggy.PluginManager(ENTRY_POINT_GROUP).parse_hookimpl_opts(plugin, name)
    return dict(options) if options is not None else None


def _specified(manager: pluggy.PluginManager) -> list[str]:
    return [name for name in vars(manager.hook) if _is_specified(manager, name)]


def _is_specified(manager: pluggy.PluginManager, hook: str) -> bool:
    caller: pluggy.HookCaller | None = getattr(manager.hook, hook, None)
    return caller is not None and caller.has_spec()


def _signature_problems(manager: pluggy.PluginManager, hook: str, function: Any) -> list[str]:
    caller: pluggy.HookCaller = getattr(manager.hook, hook)
    assert caller.spec is not None
    allowed = list(caller.spec.argnames)
    found = []
    for parameter in inspect.signature(function).parameters.values():
        if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD, parameter.KEYWORD_ONLY):
            found.append(f"{hook} may not take {str(parameter)!r}: pluggy would never fill it")
        elif parameter.name not in allowed:
            takes = f"it has {', '.join(allowed)}" if allowed else "it has none"
            found.append(f"{hook} has no argument {parameter.name!r}; {takes}{did_you_mean(parameter.name, allowed)}")
        elif parameter.default is not parameter.empty:
            found.append(f"{hook} may not give {parameter.name!r} a default value: pluggy 1.6 ignores it, 1.7 does not")
    return found


def _option_problems(hook: str, options: dict[str, Any]) -> list[str]:
    if options["hookwrapper"]:
        return [f"{hook}: hookwrapper=True is pluggy's old form; use wrapper=True"]
    kind = KINDS.get(hook)
    if options["wrapper"] and kind not in (None, "factory"):
        article = "an" if kind == "intervention" else "a"
        return [f"{hook} is {article} {kind} hook and cannot be wrapped: its implementations are called one by one"]
    return []


def _close_hook(hook: str, manager: pluggy.PluginManager) -> str:
    """The nearest hook, compared without the prefix that all share; a hook of a plugin that is off is near none."""
    known = {name.removeprefix(HOOK_PREFIX): name for name in _specified(manager)}
    match = nearest(hook.removeprefix(HOOK_PREFIX), known)
    return f"; did you mean {known[match]!r}?" if match else ": no plugin that is on specifies it"


def _close(name: str) -> str:
    return did_you_mean(name, [hook.name for hook in HOOKS])
