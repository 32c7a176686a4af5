"""The pluggy manager: registration with checks and rollback, and the calls of hooks by their kind.

Only the checked is registered: pluggy accepts a misspelled hook name silently. Everything here uses pluggy's public
interface and behaves alike on pluggy 1.6 and 1.7, which differ in what they do with default arguments and with a plugin
that fails validation (1.6 leaves it half registered, and calls it).

Registries, status reports and notifications are called implementation by implementation, so that an error has an owner
and cannot reach another plugin. Factories go through pluggy, which knows about wrappers; there the owner of an error is
found from its traceback. rlcore's own errors (``RlcoreError``) are raised on purpose and pass unchanged: an
UnsupportedSpace from a trainer plugin is the user's message, not the plugin's failure.
"""

from __future__ import annotations

import inspect
import logging
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from copy import deepcopy
from types import FunctionType
from typing import Any, NoReturn

import pluggy

from rlcore import hookspecs
from rlcore.errors import ConfigError, PluginError, RlcoreError, did_you_mean, nearest, traceback_hint
from rlcore.hookspecs import HOOKS, KINDS, registered
from rlcore.plugins.discover import ENTRY_POINT_GROUP, Plugin
from rlcore.plugins.failures import blame, failure
from rlcore.records import Record

HOOK_PREFIX = "rlcore_"
STORES = "rlcore_write_status"  # one plugin alone can answer it, and must be able to read what it stored


class HookManager(pluggy.PluginManager):
    """The manager of a process's plugins, created by ``load_plugins`` and passed down; there is no global one.

    With ``strict``, the failure of a notification is raised.

    Attributes:
        owners: The registered plugins by label, the name that pluggy knows them by.
        calls: How often each hook was called.
        failures: How often each failure of a notification happened.
    """

    def __init__(self, *, strict: bool = False) -> None:
        super().__init__(ENTRY_POINT_GROUP)
        self.owners: dict[str, Plugin] = {}
        self.calls: Counter[str] = Counter()
        self.failures: Counter[str] = Counter()
        self._strict = strict
        self._log = logging.getLogger("rlcore.plugins")
        self._left_out: list[object] = []  # plugins that are not asked in the current call of a factory
        self.add_hookspecs(hookspecs)

    # ------------------------------------------------------------ registration

    def parse_hookimpl_opts(self, plugin: object, name: str) -> Any:
        """Return the options of the hook implementation called ``name``, or None if it is none."""
        # Only this prefix is scanned; problems() reports marked functions with any other name. pluggy 1.6
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
        """Calls the plugin's ``rlcore_addhooks``, before any plugin is registered, so that order does not matter.

        Raises PluginError if it fails, or adds a hook that rlcore cannot call.
        """
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
            for record_class in self.record_classes(name):
                first, _ = self.registries[record_class.kind]
                if first != name:
                    raise PluginError(
                        f"{owner.described}: the hook {name!r} is a registry of {record_class.kind!r} records, and "
                        f"{first} is one already; call the kind something else"
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
            for record_class in registered(function):
                found.setdefault(record_class.kind, (name, record_class))
        return found

    def record_classes(self, hook: str) -> tuple[type[Record], ...]:
        """The classes of the records that a registry hook returns; empty for other hooks."""
        caller: pluggy.HookCaller = getattr(self.hook, hook)
        return registered(caller.spec.function) if caller.spec is not None else ()

    def implementations(self, hook: str) -> list[pluggy.HookImpl]:
        """The implementations of a hook in the order pluggy calls them.

        Pluggy calls first what was registered last. ``load_plugins`` registers installed plugins by name,
        core's own among them, then local ones. So local plugins come first, and installed ones follow from z to a.
        ``tryfirst``, ``trylast`` and ``wrapper`` change this order.
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

    # ------------------------------------------------------------ calls

    def one(self, implementation: pluggy.HookImpl, hook: str, **arguments: Any) -> Any:
        """Calls one implementation; what it raises becomes a PluginError that names its plugin."""
        try:
            return implementation.function(*(arguments[name] for name in implementation.argnames))
        except BaseException as error:
            self._blame(implementation.plugin_name, hook, error)

    def each(self, hook: str) -> Iterator[tuple[Plugin, pluggy.HookImpl]]:
        """The implementations of one call of a hook, which is counted, each with its plugin."""
        self.calls[hook] += 1
        for implementation in self.implementations(hook):
            yield self.owner(implementation.plugin_name), implementation

    def answers(
        self, hook: str, own: Mapping[str, Any] | None = None, **arguments: Any
    ) -> Iterator[tuple[Plugin, Any]]:
        """Each implementation's plugin and answer. Every implementation gets its own copy of the arguments ``own``."""
        for owner, implementation in self.each(hook):
            yield owner, self.one(implementation, hook, **arguments, **deepcopy(dict(own or {})))

    def implementing(self, hook: str, *, wrappers: bool = True) -> tuple[Plugin, ...]:
        """The plugins that answer a hook, or wrap it."""
        return self._owners(each for each in self.implementations(hook) if wrappers or not each.wrapper)

    @contextmanager
    def leaving_out(self, name: str | None) -> Iterator[None]:
        """Ask all plugins but those called ``name`` within the block, and none that an outer block leaves out.

        Raises ValueError if no plugin is called ``name``.
        """
        found = [] if name is None else [label for label, each in self.owners.items() if each.name == name]
        if name is not None and not found:
            known = [each.name for each in self.owners.values()]
            raise ValueError(f"no plugin is called {name!r}; there are {', '.join(known)}{did_you_mean(name, known)}")
        before = self._left_out
        self._left_out = [*before, *map(self.get_plugin, found)]
        try:
            yield
        finally:
            self._left_out = before

    def first(
        self, hook: str, default: Callable[..., Any], own: Mapping[str, Any] | None = None, **arguments: Any
    ) -> Any:
        """The first answer to a factory hook that is not None, through all wrappers; ``default`` is core's own.

        Every implementation gets its own copy of the arguments ``own``; wrappers and what they wrap share one copy.
        """
        if own is None or any(each.wrapper for each in self.implementations(hook)):
            return self.create(hook, default, **arguments, **deepcopy(dict(own or {})))[0]
        found = (answer for _, answer in self.answers(hook, own, **arguments) if answer is not None)
        answer = next(found, None)
        return default(**arguments, **own) if answer is None else answer

    def create(
        self, hook: str, default: Callable[..., Any], **arguments: Any
    ) -> tuple[Any, tuple[Plugin, ...], tuple[Plugin, ...]]:
        """The answer to a factory hook, the plugins that took part (wrappers and answerer), and those who made it.

        ``default`` is core's own answer, which wrappers get if no plugin answers; core does not count as a plugin.
        """
        left_out = self._left_out
        asked = [each for each in self.implementations(hook) if not any(each.plugin is plugin for plugin in left_out)]
        # Pluggy asks `tryfirst` implementations before the function below, which it calls only if none answers.
        answered = [each for each in asked if each.tryfirst and not each.wrapper]
        inner: Any = None
        failed: BaseException | None = None

        def answer() -> Any:
            nonlocal inner, failed
            answered.clear()
            for each in asked:
                if not (each.wrapper or each.tryfirst):
                    found = each.function(*(arguments[name] for name in each.argnames))
                    if found is not None:
                        answered.append(each)
                        inner = found
                        return found
            try:
                inner = default(**arguments)
            except BaseException as error:
                failed = error
                raise
            return inner

        self.calls[hook] += 1
        try:
            created = self.subset_hook_caller(hook, left_out).call_extra([answer], arguments)
        except BaseException as error:
            self._blame(None if error is failed else self.raised_by(error, hook), hook, error)
        took_part = [each for each in asked if each.wrapper] + answered
        return created, self._owners(took_part), self._owners(answered if created is inner else took_part)

    def _owners(self, implementations: Iterable[pluggy.HookImpl]) -> tuple[Plugin, ...]:
        return tuple(self.owner(each.plugin_name) for each in implementations)

    def require(self, hook: str, *, only: str | None = None, **arguments: Any) -> None:
        """Calls every implementation (of the plugin labeled ``only``, if given) of a hook that may refuse.

        A ConfigError passes, and any other error ends the command as one of the plugin.
        """
        for owner, implementation in self.each(hook):
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
        for owner, implementation in self.each(hook):
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
        if plugin_name is None:
            raise error
        blame(self.owner(plugin_name).described, f"in {hook}", error)


def _takes_arguments(function: Any) -> bool:
    code = getattr(function, "__code__", None)
    bound = 0 if isinstance(function, FunctionType) else 1
    return code is None or code.co_argcount > bound


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
            from rlcore.plugins.contract import PORTING, successor

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


def deprecations(implemented: Collection[str]) -> list[str]:
    """One line for each deprecated hook among those that a plugin implements: what to use instead, and until when."""
    return [
        f"{hook.name} is deprecated: {hook.deprecated}; rlcore {hook.removed_in} will no longer call it"
        for hook in hookspecs.HOOKS
        if hook.deprecated is not None and hook.name in implemented
    ]
