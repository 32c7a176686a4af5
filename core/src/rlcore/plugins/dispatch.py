"""How a hook is called, by its kind, and who is named when a plugin raises.

rlcore's own errors (``RlcoreError``) are raised on purpose and pass unchanged: an UnsupportedSpace from a trainer
plugin is the user's message, not the plugin's failure.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Iterator, Mapping
from copy import deepcopy
from typing import Any

import pluggy

from rlcore.errors import ConfigError, PluginError, RlcoreError, one_line, traceback_hint
from rlcore.plugins.defaults import DEFAULTS_NAME
from rlcore.plugins.manager import HookManager, LoadedPlugin

# The one notification that checks something: a ConfigError of it refuses the run, and any other error ends it too,
# because nothing has been checked then.
_CHECKS = "rlcore_configured"


class Dispatch:
    """Calls hooks of one manager, counts the calls, and remembers which notifications failed."""

    def __init__(self, manager: HookManager, *, strict: bool) -> None:
        self._manager = manager
        self._strict = strict
        self._log = logging.getLogger("rlcore.plugins")
        self.calls: Counter[str] = Counter()
        self.failures: Counter[str] = Counter()

    def one(self, implementation: pluggy.HookImpl, hook: str, **arguments: Any) -> Any:
        """Calls one implementation; what it raises becomes a PluginError that names its plugin."""
        owner = self._manager.owner(implementation.plugin_name)
        try:
            return implementation.function(*(arguments[name] for name in implementation.argnames))
        except RlcoreError:
            raise
        except (Exception, SystemExit) as error:
            if implementation.plugin_name == DEFAULTS_NAME:
                raise  # core's own: a full disk is not a plugin's failure
            raise failed(owner, hook, error) from error

    def each(
        self, hook: str, own: Mapping[str, Any] | None = None, **arguments: Any
    ) -> Iterator[tuple[LoadedPlugin, Any]]:
        """Every implementation's answer and whose it is; of the arguments ``own``, each gets a copy for itself."""
        self.calls[hook] += 1
        for implementation in self._manager.implementations(hook):
            answer = self.one(implementation, hook, **arguments, **deepcopy(dict(own or {})))
            yield self._manager.owner(implementation.plugin_name), answer

    def first_of_own(self, hook: str, own: Mapping[str, Any], **arguments: Any) -> Any:
        """The first answer that is not None; of the arguments ``own``, each implementation gets a copy for itself.

        Where there are wrappers, they and what they wrap have one copy together.
        """
        implementations = self._manager.implementations(hook)
        if any(each.wrapper for each in implementations):
            return self.first(hook, **arguments, **deepcopy(dict(own)))
        return next((answer for _, answer in self.each(hook, own, **arguments) if answer is not None), None)

    def first(self, hook: str, **arguments: Any) -> Any:
        """The first answer that is not None, through all wrappers."""
        self.calls[hook] += 1
        try:
            return getattr(self._manager.hook, hook)(**arguments)
        except RlcoreError:
            raise
        except (Exception, SystemExit) as error:
            blamed = self._manager.blame(error, hook)
            if blamed is None or blamed == DEFAULTS_NAME:
                raise  # core's own: a full disk is not a plugin's failure
            raise failed(self._manager.owner(blamed), hook, error) from error

    def notify(self, hook: str, *, only: str | None = None, **arguments: Any) -> None:
        """Tells every implementation (of the plugin ``only``).

        A failure is noted. It is fatal where strict, and in ``rlcore_configured`` everywhere.
        """
        self.calls[hook] += 1
        for implementation in self._manager.implementations(hook):
            if only is not None and implementation.plugin_name != only:
                continue
            try:
                self.one(implementation, hook, **arguments)
            except RlcoreError as error:
                if hook == _CHECKS and isinstance(error, ConfigError):
                    raise
                if isinstance(error.__cause__, SystemExit):  # it wants the process to end: that much is granted
                    raise
                if not isinstance(error, PluginError):
                    problem = failed(self._manager.owner(implementation.plugin_name), hook, error)
                    problem.__cause__ = error
                    error = problem
                if self._strict or hook == _CHECKS:
                    raise error from error.__cause__
                self.failures[str(error)] += 1
                if self.failures[str(error)] == 1:  # the closing summary says how often
                    self._log.error("%s%s", error, traceback_hint(error))
                    self._log.debug("the traceback of it:", exc_info=error)


def failed(owner: LoadedPlugin, hook: str, error: BaseException) -> PluginError:
    return PluginError(f"{owner.described} failed in {hook}: {one_line(error)}")
