"""The pluggy manager: registration with checks and rollback, and the plugin to blame for an exception.

Everything here uses pluggy's public interface and behaves alike on pluggy 1.6 and 1.7, which differ in what they do
with default arguments and with a plugin that fails validation (1.6 leaves it half registered, and calls it).
"""

from __future__ import annotations

from collections.abc import Callable
from types import FunctionType
from typing import Any

import pluggy

from rlcore import hookspecs
from rlcore.errors import PluginError
from rlcore.plugins.catalog import KINDS
from rlcore.plugins.checks import HOOK_PREFIX, is_function, problems
from rlcore.plugins.failures import failure
from rlcore.plugins.markers import ENTRY_POINT_GROUP, registered
from rlcore.plugins.plugin import Plugin
from rlcore.records import Record


class HookManager(pluggy.PluginManager):
    """The manager of a process's plugins, created by ``load_plugins`` and passed down; there is no global one."""

    def __init__(self) -> None:
        super().__init__(ENTRY_POINT_GROUP)
        self.owners: dict[str, Plugin] = {}  # by label, the name that pluggy knows them by
        self.add_hookspecs(hookspecs)

    def parse_hookimpl_opts(self, plugin: object, name: str) -> Any:
        # Only this prefix is scanned; checks.problems() reports marked functions with any other name. pluggy 1.6
        # would evaluate properties here.
        if not name.startswith(HOOK_PREFIX) or not is_function(plugin, name):
            return None
        return super().parse_hookimpl_opts(plugin, name)

    def admit(self, plugin: object, owner: Plugin) -> None:
        """Registers a plugin completely or not at all. PluginError says what is wrong with it."""
        found = problems(plugin, self)
        if found:
            raise PluginError(f"{owner.described}: {'; '.join(found)}")
        try:
            self.register(plugin, name=owner.label)
        except (Exception, SystemExit) as error:
            self.expel(owner.label, plugin)
            raise failure(owner.described, "to register", error) from error
        self.owners[owner.label] = owner

    def expel(self, label: str, plugin: object | None = None) -> None:
        """Removes a plugin and every one of its implementations."""
        plugin = plugin if plugin is not None else self.get_plugin(label)
        if plugin is not None and self.get_name(plugin) is not None:
            self.unregister(plugin)
        self.owners.pop(label, None)

    def add_extension_hooks(self, plugin: object, owner: Plugin) -> None:
        """Calls the plugin's ``rlcore_addhooks``, before any plugin is registered, so that order does not matter."""
        if self.parse_hookimpl_opts(plugin, "rlcore_addhooks") is None:
            return
        found = problems(plugin, self, only="rlcore_addhooks")
        if found:
            raise PluginError(f"{owner.described}: {'; '.join(found)}")
        addhooks: Any = plugin
        known = set(vars(self.hook))
        try:
            addhooks.rlcore_addhooks(self) if _takes_arguments(addhooks.rlcore_addhooks) else addhooks.rlcore_addhooks()
        except (Exception, SystemExit) as error:
            raise failure(owner.described, "in rlcore_addhooks", error) from error
        added = sorted(set(vars(self.hook)) - known)
        foreign = [name for name in added if not name.startswith(HOOK_PREFIX)]
        if foreign:
            raise PluginError(f"{owner.described}: the hook {foreign[0]!r} must begin with {HOOK_PREFIX!r}")
        for name in added:
            record_class = self._registered(name)
            if record_class is not None and self.registries[record_class.kind][0] != name:
                raise PluginError(
                    f"{owner.described}: the hook {name!r} is a registry of {record_class.kind!r} records, and "
                    f"{self.registries[record_class.kind][0]} is one already; call the kind something else"
                )

    @property
    def specifications(self) -> dict[str, tuple[str, Callable[..., Any]]]:
        """The module and the specification of each hook by name: core's, then those that plugins added."""
        core = list(KINDS)
        names = sorted(vars(self.hook), key=lambda name: core.index(name) if name in KINDS else len(core))
        callers = ((name, getattr(self.hook, name)) for name in names)
        return {name: (each.spec.function.__module__, each.spec.function) for name, each in callers if each.spec}

    @property
    def registries(self) -> dict[str, tuple[str, type[Record]]]:
        """The hook and the record class of each kind of record, core's before those that plugins added."""
        found: dict[str, tuple[str, type[Record]]] = {}
        for name, (_, function) in self.specifications.items():
            record_class = registered(function)
            if record_class is not None:
                found.setdefault(record_class.kind, (name, record_class))
        return found

    def _registered(self, hook: str) -> type[Record] | None:
        caller: pluggy.HookCaller = getattr(self.hook, hook)
        return registered(caller.spec.function) if caller.spec is not None else None

    def implementations(self, hook: str) -> list[pluggy.HookImpl]:
        """The implementations of a hook in the order pluggy calls them.

        Pluggy calls first what was registered last. ``rlcore.plugins.loading`` registers installed plugins by name,
        core's own among them, then local ones. So local plugins come first, and installed ones follow from z to a.
        ``tryfirst``, ``trylast`` and ``wrapper`` change this order; core's defaults of the factories are ``trylast``.
        """
        caller: pluggy.HookCaller = getattr(self.hook, hook)
        return list(reversed(caller.get_hookimpls()))

    def owner(self, plugin_name: str) -> Plugin:
        """The plugin registered under this name; a plugin may itself have registered others, which are local."""
        return self.owners.get(plugin_name) or Plugin(plugin_name, plugin_name)

    def raised_by(self, error: BaseException, hook: str) -> str | None:
        """The pluggy name of the plugin whose implementation of ``hook`` raised ``error``, from its traceback."""
        by_code = {
            getattr(implementation.function, "__code__", None): implementation.plugin_name
            for implementation in self.implementations(hook)
        }
        blamed = None
        traceback = error.__traceback__
        while traceback is not None:  # the last match is the innermost: a wrapper only passes on what was thrown
            blamed = by_code.get(traceback.tb_frame.f_code, blamed)
            traceback = traceback.tb_next
        return blamed


def _takes_arguments(function: Any) -> bool:
    code = getattr(function, "__code__", None)
    bound = 0 if isinstance(function, FunctionType) else 1
    return code is None or code.co_argcount > bound
