"""How hooks are called, by their kind, and which plugin is named in an error.

rlcore's own errors (``RlcoreError``) are raised on purpose and pass unchanged: an UnsupportedSpace from a trainer
plugin is the user's message, not the plugin's failure.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from copy import deepcopy
from typing import Any, NoReturn

import pluggy

from rlcore.errors import ConfigError, PluginError, RlcoreError, did_you_mean, traceback_hint
from rlcore.plugins.defaults import DEFAULTS_NAME
from rlcore.plugins.failures import blame, failure
from rlcore.plugins.manager import HookManager
from rlcore.plugins.plugin import Plugin


class Dispatch:
    """Calls hooks of one manager, counts the calls, and remembers which notifications failed."""

    def __init__(self, manager: HookManager, *, strict: bool) -> None:
        self._manager = manager
        self._strict = strict
        self._log = logging.getLogger("rlcore.plugins")
        self._left_out: list[object] = []  # plugins that are not asked in the current call of a factory
        self.calls: Counter[str] = Counter()
        self.failures: Counter[str] = Counter()

    def answering(self, hook: str) -> tuple[Plugin, ...]:
        """The plugins that answer a factory hook themselves; core and wrappers do not count."""
        return tuple(
            self._manager.owner(implementation.plugin_name)
            for implementation in self._manager.implementations(hook)
            if not implementation.wrapper and implementation.plugin_name != DEFAULTS_NAME
        )

    def one(self, implementation: pluggy.HookImpl, hook: str, **arguments: Any) -> Any:
        """Calls one implementation; what it raises becomes a PluginError that names its plugin."""
        try:
            return implementation.function(*(arguments[name] for name in implementation.argnames))
        except BaseException as error:
            self._blame(implementation.plugin_name, hook, error)

    def each(self, hook: str, own: Mapping[str, Any] | None = None, **arguments: Any) -> Iterator[tuple[Plugin, Any]]:
        """Each implementation's plugin and answer. Every implementation gets its own copy of the arguments ``own``."""
        for owner, implementation in self.implementations(hook):
            yield owner, self.one(implementation, hook, **arguments, **deepcopy(dict(own or {})))

    def first_of_own(self, hook: str, own: Mapping[str, Any], **arguments: Any) -> Any:
        """The first answer that is not None. Every implementation gets its own copy of the arguments ``own``.

        Wrappers and the implementations that they wrap share one copy.
        """
        implementations = self._manager.implementations(hook)
        if any(each.wrapper for each in implementations):
            return self.first(hook, **arguments, **deepcopy(dict(own)))
        return next((answer for _, answer in self.each(hook, own, **arguments) if answer is not None), None)

    @contextmanager
    def leaving_out(self, name: str | None) -> Iterator[None]:
        """Ask all plugins but those called ``name`` within the block, and none that an outer block leaves out."""
        found = [] if name is None else [label for label, each in self._manager.owners.items() if each.name == name]
        if name is not None and not found:
            known = [each.name for each in self._manager.owners.values()]
            raise ValueError(f"no plugin is called {name!r}; there are {', '.join(known)}{did_you_mean(name, known)}")
        before = self._left_out
        self._left_out = [*before, *map(self._manager.get_plugin, found)]
        try:
            yield
        finally:
            self._left_out = before

    def first(self, hook: str, **arguments: Any) -> Any:
        """The first answer that is not None, through all wrappers."""
        self.calls[hook] += 1
        try:
            return self._manager.subset_hook_caller(hook, self._left_out)(**arguments)
        except BaseException as error:
            self._blame(self._manager.raised_by(error, hook), hook, error)

    def create(self, hook: str, **arguments: Any) -> tuple[Any, list[Plugin], list[Plugin]]:
        """The answer to a factory hook, the plugins that took part (wrappers and answerer), and those who made it.

        Core's defaults do not count: what they return was made by the record's plugin.
        """
        asked = [
            each
            for each in self._manager.implementations(hook)
            if not any(each.plugin is plugin for plugin in self._left_out)
        ]
        # Pluggy asks `tryfirst` implementations before the function below, which it calls only if none answers.
        answered = [each for each in asked if each.tryfirst and not each.wrapper]
        inner: Any = None

        def answer() -> Any:
            nonlocal inner
            answered.clear()
            for each in asked:
                if not (each.wrapper or each.tryfirst):
                    found = each.function(*(arguments[name] for name in each.argnames))
                    if found is not None:
                        answered.append(each)
                        inner = found
                        return found
            return None

        self.calls[hook] += 1
        try:
            created = self._manager.subset_hook_caller(hook, self._left_out).call_extra([answer], arguments)
        except (Exception, SystemExit) as error:
            self._blame(self._manager.raised_by(error, hook), hook, error)
        took_part = [each for each in asked if each.wrapper] + answered
        return created, self._owners(took_part), self._owners(answered if created is inner else took_part)

    def _owners(self, implementations: Iterable[pluggy.HookImpl]) -> list[Plugin]:
        """The plugins of implementations; core does not count."""
        names = [each.plugin_name for each in implementations if each.plugin_name != DEFAULTS_NAME]
        return [self._manager.owner(name) for name in names]

    def implementing(self, hook: str) -> list[Plugin]:
        """The plugins that answer or wrap a hook; core does not count."""
        return self._owners(self._manager.implementations(hook))

    def implementations(self, hook: str) -> Iterator[tuple[Plugin, pluggy.HookImpl]]:
        """The implementations of one call of a hook, which is counted, each with its plugin."""
        self.calls[hook] += 1
        for implementation in self._manager.implementations(hook):
            yield self._manager.owner(implementation.plugin_name), implementation

    def require(self, hook: str, *, only: str | None = None, **arguments: Any) -> None:
        """Calls every implementation (of the plugin labeled ``only``, if given) of a hook that may refuse.

        A ConfigError passes, and any other error ends the command as one of the plugin.
        """
        for owner, implementation in self.implementations(hook):
            if only is None or owner.label == only:
                try:
                    self.one(implementation, hook, **arguments)
                except ConfigError as error:
                    raise ConfigError(f"{error.message} (refused by {owner.described})", key=error.key) from error
                except PluginError:
                    raise
                except RlcoreError as error:
                    raise failure(owner.described, f"in {hook}", error) from error

    def notify(self, hook: str, **arguments: Any) -> None:
        """Calls every implementation of a notification."""
        for owner, implementation in self.implementations(hook):
            with self.tolerated(owner, hook):
                self.one(implementation, hook, **arguments)

    @contextmanager
    def tolerated(self, owner: Plugin, hook: str) -> Iterator[None]:
        """For a block that calls one implementation: its failure is recorded and logged, and raised if strict."""
        try:
            yield
        except RlcoreError as error:
            if isinstance(error.__cause__, SystemExit):  # the plugin wants the process to end, so it ends
                raise
            if not isinstance(error, PluginError):
                error = failure(owner.described, f"in {hook}", error)
            if self._strict:
                raise error from error.__cause__
            self.failures[str(error)] += 1
            if self.failures[str(error)] == 1:  # the closing summary says how often
                self._log.error("%s%s", error, traceback_hint(error))
                self._log.debug("the traceback of it:", exc_info=error)

    def _blame(self, plugin_name: str | None, hook: str, error: BaseException) -> NoReturn:
        """Raises ``error`` as a PluginError of the plugin; unchanged if core's own answer raised it (a full disk)."""
        if plugin_name is None or plugin_name == DEFAULTS_NAME:
            raise error
        blame(self._manager.owner(plugin_name).described, f"in {hook}", error)
