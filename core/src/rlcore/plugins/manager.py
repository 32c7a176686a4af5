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
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from types import ModuleType
from typing import TYPE_CHECKING, Any, NamedTuple

import pluggy

from rlcore.errors import ConfigError, PluginError, RlcoreError, did_you_mean, nearest, traceback_hint
from rlcore.plugins.discover import ENTRY_POINT_GROUP, Plugin
from rlcore.plugins.failures import blame, blamed, failure

if TYPE_CHECKING:
    from rlcore.records import Record

HOOK_PREFIX = "rlcore_"
STORES = "rlcore_write_status"  # one plugin alone can answer it, and must be able to read what it stored


class Answer(NamedTuple):
    """The answer to a factory hook.

    Attributes:
        value: The answer.
        took_part: The plugins that wrapped or gave it; core's own answer counts as none.
        makers: Those of them that made the value.
    """

    value: Any
    took_part: tuple[Plugin, ...]
    makers: tuple[Plugin, ...]


class HookManager(pluggy.PluginManager):
    """The manager of a process's plugins, created by ``load_plugins`` and passed down; there is no global one.

    ``hooks`` is the module of rlcore's hooks. With ``strict``, the failure of a notification is raised.

    Attributes:
        owners: The registered plugins by label, the name that pluggy knows them by.
        calls: How often each hook was called.
        failures: How often each failure of a notification happened.
        specifications: The specification of each hook by name: core's in the order of their module, then those of
            plugins.
        registries: The hook and the record class of each kind of record, core's before those that plugins added.
    """

    specifications: dict[str, Callable[..., Any]]

    def __init__(self, hooks: ModuleType, *, strict: bool = False) -> None:
        super().__init__(ENTRY_POINT_GROUP)
        self.owners: dict[str, Plugin] = {}
        self.calls: Counter[str] = Counter()
        self.failures: Counter[str] = Counter()
        self._strict = strict
        self._log = logging.getLogger("rlcore.plugins")
        self._left_out: list[object] = []  # plugins that are not asked in the current call of a factory
        self.registries: dict[str, tuple[str, type[Record]]] = {}
        self.add_hookspecs(hooks)

    # ------------------------------------------------------------ registration

    def parse_hookimpl_opts(self, plugin: object, name: str) -> Any:
        """Return the options of the hook implementation called ``name``, or None if it is none."""
        # Only this prefix is scanned; problems() reports marked functions with any other name. pluggy 1.6
        # would evaluate properties here.
        if not name.startswith(HOOK_PREFIX) or not _is_function(plugin, name):
            return None
        return super().parse_hookimpl_opts(plugin, name)

    def admit(self, plugin: object, owner: Plugin) -> None:
        """Registers a plugin completely or not at all. PluginError says what is wrong with it."""
        self._require_sound(plugin, owner)
        try:
            self.register(plugin, name=owner.label)
        except (Exception, SystemExit) as error:
            self.expel(owner.label, plugin)
            raise failure(owner.described, "to register", error) from error
        self.owners[owner.label] = owner

    def expel(self, label: str, plugin: object | None = None) -> None:
        """Removes a plugin and every one of its implementations."""
        if plugin is None:
            plugin = self.get_plugin(label)
        if plugin is not None and self.get_name(plugin) is not None:
            self.unregister(plugin)
        self.owners.pop(label, None)

    def _require_sound(self, plugin: object, owner: Plugin, only: str | None = None) -> None:
        mistakes = problems(plugin, self, only)
        if mistakes:
            raise PluginError(f"{owner.described}: {'; '.join(mistakes)}")

    def add_extension_hooks(self, plugin: object, owner: Plugin) -> None:
        """Calls the plugin's ``rlcore_addhooks``, before any plugin is registered, so that order does not matter.

        Raises PluginError if it fails, or adds a hook that rlcore cannot call.
        """
        if self.parse_hookimpl_opts(plugin, "rlcore_addhooks") is None:
            return
        self._require_sound(plugin, owner, only="rlcore_addhooks")
        addhooks: Callable[..., None] = plugin.rlcore_addhooks  # type: ignore[attr-defined]
        known = self.specifications
        try:
            addhooks(*(self for _ in inspect.signature(addhooks).parameters))
        except (Exception, SystemExit) as error:
            advice = owner.required(error)
            doing = "in rlcore_addhooks"
            raise failure(owner.described, doing, error, lambda text: PluginError(text + advice)) from error
        for name in self.specifications.keys() - known.keys():
            if not name.startswith(HOOK_PREFIX):
                raise PluginError(f"{owner.described}: the hook {name!r} must begin with {HOOK_PREFIX!r}")
            for record_class in self.record_classes(name):
                kind = record_class.kind
                first, _ = self.registries[kind]
                if first != name:
                    raise PluginError(
                        f"{owner.described}: the hook {name!r} is a registry of {kind!r} records, and "
                        f"{first} is one already; call the kind something else"
                    )

    def add_hookspecs(self, module_or_class: Any) -> None:
        """Add the hooks of a module or a class, in one order."""
        super().add_hookspecs(module_or_class)
        callers = [caller for caller in vars(self.hook).values() if caller.spec is not None]
        # The order of the source, whichever order plugins add their hooks in.
        callers.sort(key=lambda caller: _place(caller.spec.function))
        self.specifications = {caller.name: caller.spec.function for caller in callers}
        for name in self.specifications:
            for record_class in self.record_classes(name):
                self.registries.setdefault(record_class.kind, (name, record_class))

    def record_classes(self, hook: str) -> tuple[type[Record], ...]:
        """The classes of the records that a hook specified by ``registry_of`` returns; empty for other hooks."""
        return getattr(self.specifications[hook], "rlcore_registry", ())

    def kind(self, hook: str) -> str:
        """The kind of a hook of rlcore's own; empty for others."""
        about = getattr(self.specifications.get(hook), "rlcore_hook", None)
        return "" if about is None else about.kind

    def implementations(self, hook: str) -> list[pluggy.HookImpl]:
        """The implementations of a hook in the order pluggy calls them.

        Pluggy calls first what was registered last. :meth:`Plugins.load` registers installed plugins by name, as
        ``discover.installed`` sorts them, then local ones. So local plugins come first, and installed ones, core's own
        among them, follow from z to a. ``tryfirst``, ``trylast`` and ``wrapper`` change this order.
        """
        return list(reversed(getattr(self.hook, hook).get_hookimpls()))

    def owner(self, plugin_name: str) -> Plugin:
        """The plugin registered under this name; a plugin may itself have registered others, which are local."""
        return self.owners.get(plugin_name) or Plugin(plugin_name, plugin_name)

    # ------------------------------------------------------------ calls

    def count_calls(self, calls: Counter[str]) -> None:
        """Count calls in ``calls`` from now on. Pluggy reports those of hooks that plugins added."""

        def before(hook: str, implementations: Any, arguments: Any) -> None:
            if not self.kind(hook):
                calls[hook] += 1

        self.calls = calls
        self.add_hookcall_monitoring(before, lambda *_: None)

    def call_one(self, implementation: pluggy.HookImpl, hook: str, **arguments: Any) -> Any:
        """Calls one implementation; what it raises becomes a PluginError that names its plugin."""
        owner = self.owner(implementation.plugin_name)
        with blamed(owner.described, f"in {hook}"):
            return implementation.function(*(arguments[name] for name in implementation.argnames))

    def begin_call(self, hook: str) -> Iterator[tuple[Plugin, pluggy.HookImpl]]:
        """Count one call of a hook, and yield its implementations, each with its plugin."""
        self.calls[hook] += 1
        for implementation in self.implementations(hook):
            yield self.owner(implementation.plugin_name), implementation

    def implementing(self, hook: str, *, wrappers: bool = True) -> tuple[Plugin, ...]:
        """The plugins that answer a hook, or wrap it."""
        implementations = self.implementations(hook)
        if not wrappers:
            implementations = [implementation for implementation in implementations if not implementation.wrapper]
        return self._owners(implementations)

    def create(self, hook: str, default: Callable[..., Any], *, without: str | None = None, **arguments: Any) -> Answer:
        """The answer to a factory hook. ``default`` is core's own, which wrappers get if no plugin answers.

        The plugin called ``without`` is not asked, and neither are those that an outer call leaves out. Raises
        ValueError if no plugin is called so.
        """
        before = self._left_out
        try:
            if without is not None:
                self._left_out = [*before, *self._called(without)]
            return self._create(hook, default, arguments)
        finally:
            self._left_out = before

    def _called(self, name: str) -> list[Any]:
        plugins = []
        for label, owner in self.owners.items():
            if owner.name == name:
                plugins.append(self.get_plugin(label))
        if not plugins:
            known = [owner.name for owner in self.owners.values()]
            raise ValueError(f"no plugin is called {name!r}; there are {', '.join(known)}{did_you_mean(name, known)}")
        return plugins

    def _create(self, hook: str, default: Callable[..., Any], arguments: dict[str, Any]) -> Answer:
        left_out = self._left_out
        left_out_ids = {id(plugin) for plugin in left_out}  # plugins need not be hashable
        wrappers: list[pluggy.HookImpl] = []
        first: list[pluggy.HookImpl] = []
        others: list[pluggy.HookImpl] = []
        for implementation in self.implementations(hook):
            if id(implementation.plugin) in left_out_ids:
                continue
            if implementation.wrapper:
                wrappers.append(implementation)
            elif implementation.tryfirst:
                first.append(implementation)
            else:
                others.append(implementation)
        # Pluggy asks `tryfirst` implementations before the function below, which it calls only if none answers.
        answered = first
        inner: Any = None
        failed: BaseException | None = None

        def answer() -> Any:
            nonlocal answered, inner, failed
            answered = []
            for implementation in others:
                inner = implementation.function(*(arguments[name] for name in implementation.argnames))
                if inner is not None:
                    answered = [implementation]
                    return inner
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
            culprit = None if error is failed else self._raised_by(error, hook)
            if culprit is None:  # core's own answer raised it (a full disk)
                raise
            blame(self.owner(culprit).described, f"in {hook}", error)
        took_part = wrappers + answered
        # Without a change by a wrapper, the object is of the plugin that answered, or of core.
        makers = answered if created is inner else took_part
        return Answer(created, self._owners(took_part), self._owners(makers))

    def _raised_by(self, error: BaseException, hook: str) -> str | None:
        """The pluggy name of the plugin whose implementation of ``hook`` raised ``error``, from its traceback."""
        names: dict[Any, str] = {}
        for implementation in self.implementations(hook):
            code = getattr(implementation.function, "__code__", None)
            names[code] = implementation.plugin_name
        culprit = None
        traceback = error.__traceback__
        while traceback is not None:  # the last match is the innermost: a wrapper only passes on what was thrown
            culprit = names.get(traceback.tb_frame.f_code, culprit)
            traceback = traceback.tb_next
        return culprit

    def _owners(self, implementations: Iterable[pluggy.HookImpl]) -> tuple[Plugin, ...]:
        return tuple(self.owner(implementation.plugin_name) for implementation in implementations)

    def require(self, hook: str, *, only: str | None = None, **arguments: Any) -> list[Any]:
        """Calls every implementation (of the plugin labeled ``only``, if given) of a hook that may refuse.

        A ConfigError passes, and any other error ends the command as one of the plugin. Returns the answers other than
        None.
        """
        answers = []
        for owner, implementation in self.begin_call(hook):
            if only not in (None, owner.label):
                continue
            try:
                answer = self.call_one(implementation, hook, **arguments)
            except ConfigError as error:
                raise ConfigError(f"{error.message} (refused by {owner.described})", key=error.key) from error
            except PluginError:
                raise
            except RlcoreError as error:
                raise failure(owner.described, f"in {hook}", error) from error
            if answer is not None:
                answers.append(answer)
        return answers

    def notify(self, hook: str, **arguments: Any) -> None:
        """Calls every implementation of a notification."""
        for owner, implementation in self.begin_call(hook):
            with self.tolerated(owner, hook):
                self.call_one(implementation, hook, **arguments)

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


def _place(specification: Any) -> tuple[bool, str, int]:
    added = getattr(specification, "rlcore_hook", None) is None
    return added, specification.__module__, specification.__code__.co_firstlineno


def problems(plugin: object, manager: HookManager, only: str | None = None) -> list[str]:
    """One sentence for each mistake; ``only`` restricts the check to one hook."""
    mistakes: list[str] = []
    answered: set[str] = set()
    specifications = manager.specifications
    for name, function, options in _marked(plugin, specifications):
        hook = (options or {}).get("specname") or name
        if only not in (None, hook):
            continue
        if options is None:
            mistakes.append(f"{name} is not marked with @hookimpl")
        elif not name.startswith(HOOK_PREFIX):
            mistakes.append(f"{name} is marked with @hookimpl but does not begin with {HOOK_PREFIX!r}")
        elif hook in specifications:
            if inspect.iscoroutinefunction(function) or inspect.isasyncgenfunction(function):
                mistakes.append(f"{name} is `async def`, and its answer would never be awaited; write `def`")
            mistakes += _misuses(hook, manager, function, options)
            if not options["wrapper"]:
                answered.add(hook)
        elif not options["optionalhook"]:
            mistakes.append(f"unknown hook {hook!r}{_near(hook, specifications)}")
    if STORES in answered and "rlcore_read_status" not in answered:
        mistakes.append(f"{STORES} needs rlcore_read_status beside it: no command can read what it stores")
    return mistakes


def _is_function(plugin: object, name: str) -> bool:
    """Whether an attribute exists and is callable as a hook. Evaluates no property."""
    if isinstance(plugin, ModuleType):
        return _is_routine(vars(plugin).get(name))
    return _is_routine(inspect.getattr_static(plugin, name, None))


def _is_routine(attribute: Any) -> bool:
    return isinstance(attribute, staticmethod | classmethod) or inspect.isroutine(attribute)


def _marked(plugin: object, hooks: Iterable[str]) -> Iterator[tuple[str, Any, dict[str, Any] | None]]:
    """Functions marked as implementations, and unmarked functions of the plugin's own that have a hook's name."""
    # The unmodified reading: HookManager's own sees the rlcore_ prefix only.
    options_of = pluggy.PluginManager(ENTRY_POINT_GROUP).parse_hookimpl_opts
    module = getattr(plugin, "__name__", type(plugin).__module__)
    for name in dir(plugin):
        if not _is_function(plugin, name):
            continue
        function = getattr(plugin, name)
        options = options_of(plugin, name)
        if options is not None:
            yield name, function, dict(options)
        elif name in hooks and getattr(function, "__module__", None) == module:
            yield name, function, None


def _misuses(hook: str, manager: HookManager, function: Any, options: dict[str, Any]) -> Iterator[str]:
    allowed = getattr(manager.hook, hook).spec.argnames
    for parameter in inspect.signature(function).parameters.values():
        positional = parameter.kind in (parameter.POSITIONAL_ONLY, parameter.POSITIONAL_OR_KEYWORD)
        # pluggy 1.6 passes no argument that has a default: the hook would always see the default.
        has_default = parameter.default is not parameter.empty
        if positional and not has_default and parameter.name in allowed:
            continue
        advice = f"its arguments are {', '.join(allowed)}, without default values" if allowed else "it has none"
        yield f"{hook} has no argument {str(parameter)!r}; {advice}{did_you_mean(parameter.name, allowed)}"
    kind = manager.kind(hook)
    if options["hookwrapper"]:
        yield f"{hook}: hookwrapper=True is pluggy's old form; use wrapper=True"
    elif options["wrapper"] and kind not in ("", "factory"):
        yield f"{hook} cannot be wrapped: only factories can, and it is of the kind {kind}"


def _near(hook: str, specifications: Iterable[str]) -> str:
    """The nearest hook, compared without the prefix that all share; a hook of a plugin that is off is near none."""
    known = {name.removeprefix(HOOK_PREFIX): name for name in specifications}
    match = nearest(hook.removeprefix(HOOK_PREFIX), known)
    if not match:
        return ": no plugin that is on specifies it"
    return f"; did you mean {known[match]!r}?"
