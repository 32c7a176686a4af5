"""Decides which plugins are on, before any is imported.

For each plugin the last of these wins: autoload < the configuration's ``plugins`` < ``RLCORE_PLUGIN_AUTOLOAD``
and ``RLCORE_PLUGINS`` < ``-p`` and ``--no-plugins``.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

import attrs

from rlcore.errors import ConfigError, PluginError, did_you_mean
from rlcore.plugins.discover import LOCAL_PREFIX, Plugin, Why, anchored, canonical, handshake
from rlcore.plugins.sources import is_file

if TYPE_CHECKING:
    from rlcore.settings.blocks import PluginSettings

ENV_AUTOLOAD: Final = "RLCORE_PLUGIN_AUTOLOAD"
ENV_PLUGINS: Final = "RLCORE_PLUGINS"
_REFERENCE = re.compile(r"(?:[A-Za-z0-9][\w.-]*/)?[a-z][a-z0-9-]*")
_ALL_OF = "/*"  # every plugin of a distribution


@attrs.frozen
class PluginChoice:
    """One plugin turned on or off by NAME, DIST/NAME or ``module:...``; ``why`` is where that was said."""

    reference: str
    on: bool
    why: Why

    @property
    def local(self) -> bool:
        return self.reference.startswith(LOCAL_PREFIX)

    def matches(self, plugin: Plugin) -> bool:
        if self.local:
            return plugin.label == self.reference
        distribution, _, name = self.reference.rpartition("/")
        if distribution and canonical(distribution) != canonical(plugin.distribution):
            return False
        return bool(plugin.distribution) and name in (plugin.name, "*")


@attrs.frozen
class Selection:
    """The plugins that were asked for, from all sources. Can be pickled, for worker processes.

    Attributes:
        autoload: Whether installed plugins are on without being named.
        choices: Plugins turned on and off by name, in ascending precedence.
        autoload_why: The source that turned autoload on or off.
        lenient: Whether a plugin that only the configuration asks for may be missing or broken, which is then a
            warning.
        records: The kind and DIST/NAME of each record that a run of this configuration used. A name of the kind without
            a distribution means this record, so that no other distribution's record takes its place.
    """

    autoload: bool = True
    choices: tuple[PluginChoice, ...] = ()
    autoload_why: Why = "autoload"
    lenient: bool = False
    records: frozenset[tuple[str, str]] = frozenset()

    def last(self, plugin: Plugin) -> PluginChoice | None:
        """The choice that counts for ``plugin``, which need not be installed; None if no source names it."""
        return next((choice for choice in reversed(self.choices) if choice.matches(plugin)), None)

    def off(self, plugin: Plugin) -> bool:
        """Whether ``plugin`` is turned off by its name."""
        choice = self.last(plugin)
        return choice is not None and not choice.on

    def meant(self, kind: str, name: str) -> str:
        """DIST/NAME of the record that a run used under ``name``; ``name`` itself if there is none, or several."""
        of_kind = [reference for record_kind, reference in self.records if record_kind == kind]
        found = [reference for reference in of_kind if reference.rpartition("/")[2] == name]
        return found[0] if len(found) == 1 else name

    def anchored(self, config_dir: Path | None) -> Selection:
        """A copy with absolute paths of local files; the configuration's are relative to ``config_dir``."""

        def absolute(choice: PluginChoice) -> PluginChoice:
            base = config_dir if choice.why == "config" else None
            return attrs.evolve(choice, reference=anchored(choice.reference, base))

        return attrs.evolve(self, choices=tuple(map(absolute, self.choices)))

    def without_local_of_config(self) -> tuple[Selection, tuple[str, ...]]:
        """A copy without the local files and modules that the configuration names, and the names that were left out."""
        of_config = [choice for choice in self.choices if choice.on and choice.why == "config"]
        left_out = [choice for choice in of_config if choice.local]
        kept = tuple(choice for choice in self.choices if choice not in left_out)
        names = (choice.reference.removeprefix(LOCAL_PREFIX) for choice in left_out)
        return attrs.evolve(self, choices=kept), tuple(dict.fromkeys(names))

    def decide(self, plugin: Plugin) -> tuple[bool, Why]:
        """Whether a plugin is on, and what decided it."""
        choice = self.last(plugin)
        if plugin.lacks and (choice is None or choice.reference.endswith(_ALL_OF)):
            return False, "autoload"  # its own name was not asked for
        if plugin.essential or (choice is None and self.autoload):
            return True, "autoload"
        return (False, self.autoload_why) if choice is None else (choice.on, choice.why)


def selection_from(
    config: PluginSettings | None = None,
    environ: Mapping[str, str] | None = None,
    dash_p: Sequence[str] = (),
    no_plugins: bool = False,
    *,
    used: Iterable[str] = (),
) -> Selection:
    """Return the selection of one command. Raises ConfigError for a reference of the wrong form.

    ``config`` is the block ``plugins``, ``environ`` has the environment variables, by default those of this process,
    ``dash_p`` the values of ``-p``.
    ``no_plugins`` leaves rlcore's own plugin and what ``dash_p`` names. ``used`` are the DIST/NAME records that the
    configuration names: their distributions are loaded even if autoload is off, and need not exist.
    """
    environ = os.environ if environ is None else environ
    asked = [_choice(text, "-p") for text in dash_p]
    records = _records(config)
    if no_plugins:
        return Selection(autoload=False, choices=tuple(asked), autoload_why="-p", records=records)
    # type: bool, Why, list[PluginChoice]
    autoload = True
    why: Why = "autoload"
    choices: list[PluginChoice] = []
    distributions = [name.rpartition("/")[0] for name in used if "/" in name]
    choices += [PluginChoice(distribution + _ALL_OF, True, "config") for distribution in distributions]
    if config is not None:
        if not config.autoload:
            autoload = False
            why = "config"
        choices += _from_config(config)
    switch = environ.get(ENV_AUTOLOAD, "").strip()
    if switch:
        if switch not in ("0", "1"):
            raise ConfigError(f"{ENV_AUTOLOAD} must be 0 or 1, not {switch!r}")
        autoload = switch == "1"
        why = ENV_AUTOLOAD
    named = environ.get(ENV_PLUGINS, "").split(",")
    choices += [_choice(text, ENV_PLUGINS) for text in named if text.strip()]
    return Selection(autoload, tuple(choices + asked), why, records=records)


def _records(config: PluginSettings | None) -> frozenset[tuple[str, str]]:
    if config is None:
        return frozenset()
    listed = [*config.chosen.items(), *config.optional.items()]
    return frozenset((kind, reference) for kind, references in listed for reference in references)


def decide(plugins: Iterable[Plugin], selection: Selection) -> tuple[Plugin, ...]:
    """``plugins`` and the local ones of the selection, each turned on or off. Raises nothing: see :func:`obstacles`.

    A plugin turns on the plugins of the distributions that its own requires. One that is turned off by name stays off,
    and what requires it is refused.
    """
    decided = []
    for plugin in (*plugins, *_local_plugins(selection)):
        on, why = selection.decide(plugin)
        decided.append(attrs.evolve(plugin, on=on, why=why))
    # What the user named comes first, so that a plugin which two require is required by that one.
    waiting = sorted((plugin for plugin in decided if plugin.on), key=lambda plugin: not plugin.asked)
    for plugin in waiting:  # grows: a required plugin may require more
        for index, other in enumerate(decided):
            free = not (other.on or other.lacks or selection.off(other))
            if free and plugin.needs_distribution_of(other):
                decided[index] = attrs.evolve(other, on=True, why=plugin.why, required_by=plugin.label)
                waiting.append(decided[index])
    refusals = [_refusal(plugin, decided) if plugin.on else None for plugin in decided]
    return tuple(attrs.evolve(plugin, refused=why) for plugin, why in zip(decided, refusals, strict=True))


def _refusal(plugin: Plugin, decided: Sequence[Plugin]) -> str | None:
    """Why a plugin that is on cannot be used, or None."""
    if found := plugin.refused or handshake(plugin) or needs(plugin):
        return found
    for other in decided:
        if not (other.on or other.lacks) and plugin.needs_distribution_of(other):
            return f"requires {other.described}, which {other.why} turns off; turn it on, or turn {plugin.name!r} off"
    return None


def needs(plugin: Plugin) -> str:
    """Return ``needs DIST[EXTRA]`` and how to install it, about a plugin without its libraries; else an empty text."""
    from rlcore.plugins.installing import pip_install

    return f"needs {plugin.lacks}; {pip_install(plugin.lacks)}" if plugin.lacks else ""


def obstacles(plugins: Sequence[Plugin], selection: Selection) -> Iterator[tuple[str, tuple[Plugin, ...], bool]]:
    """Problems of the choice of plugins: a message, the plugins that it concerns, and whether it is fatal.

    Plugins are missing, or several that are on have one name. It is fatal, so that nothing may be loaded at all, if a
    source asks for the name.
    """
    turned_off = [choice for choice in selection.choices if not choice.on]
    for plugin in plugins:
        if plugin.essential and any(choice.matches(plugin) for choice in turned_off):
            advice = "turn off a writer with 'stats: {name: false}'"
            yield f"{plugin.described} is rlcore itself and cannot be turned off; {advice}", (plugin,), True
    for choice, message in _missing(plugins, selection):
        if choice.on and not (selection.lenient and choice.why == "config"):
            yield message, (), True
    wanted = {choice.reference for choice in selection.choices if choice.on}
    on = [plugin for plugin in plugins if plugin.state == "on"]
    for name in dict.fromkeys(plugin.name for plugin in on):
        rivals = tuple(plugin for plugin in on if plugin.name == name)
        if len(rivals) > 1:
            which = " and ".join(f"{each.label} ({each.version or 'local'}, {each.module})" for each in rivals)
            off = " or ".join(f"-p no:{each.label}" for each in rivals)
            message = f"{len(rivals)} plugins are named {name!r}: {which}; turn one off, for example with {off}"
            yield message, rivals, name in wanted  # it could mean any of them


def unmatched(plugins: Sequence[Plugin], selection: Selection) -> tuple[str, ...]:
    """A warning for each name that may be misspelled: of a plugin turned off, or one that a lenient selection needs."""
    doubtful = []
    for choice, message in _missing(plugins, selection):
        if not choice.on or (selection.lenient and choice.why == "config"):
            doubtful.append(message)
    return tuple(dict.fromkeys(doubtful))


def _missing(plugins: Sequence[Plugin], selection: Selection) -> Iterator[tuple[PluginChoice, str]]:
    """The last choice of each name that is of no installed plugin, with the message about it.

    Turning off a local file or module, or what another source turns on, is allowed. So is a DIST/NAME in the
    configuration: it is a local plugin's, or reported at its key.
    """
    installed = {plugin.name for plugin in plugins if plugin.distribution}
    names = installed | {plugin.label for plugin in plugins}
    turned_on = {choice.reference for choice in selection.choices if choice.on}
    last = {choice.reference: choice for choice in selection.choices}
    for choice in last.values():
        known = choice.reference.endswith(_ALL_OF) or any(map(choice.matches, plugins))
        if known or (not choice.on and (choice.local or choice.reference in turned_on)):
            continue
        hint = did_you_mean(choice.reference, names)
        if choice.on and not hint:
            hint = f"; installed: {', '.join(sorted(installed))}"
        asked = f"asked for by {choice.why}" if choice.on else f"turned off by {choice.why}"
        yield choice, f"plugin {choice.reference!r} ({asked}) is not installed{hint}"


def _from_config(config: PluginSettings) -> list[PluginChoice]:
    for key, index, problem in block_problems(config):
        raise ConfigError(f"plugins.{key}[{index}]: {problem}")
    return [
        *(_choice(text, "config") for text in config.enable),
        *(PluginChoice(LOCAL_PREFIX + text.removeprefix(LOCAL_PREFIX), True, "config") for text in config.local),
        *(_choice(f"no:{text}", "config") for text in config.disable),
    ]


def block_problems(config: PluginSettings) -> Iterator[tuple[str, int, str]]:
    """The wrong names that a ``plugins`` block enables and disables: the key, the index and the message of each.

    A name is wrong if no plugin can be called that, or if it is both enabled and disabled.
    """
    enabled = frozenset(config.enable)
    for key, references in (("enable", config.enable), ("disable", config.disable)):
        for index, reference in enumerate(references):
            problem = reference_problem(reference)
            if reference.startswith("no:"):
                problem = f"{reference!r}: 'no:' is for -p and RLCORE_PLUGINS; write the plain name, here or in disable"
            elif problem is None and key == "disable" and reference in enabled:
                problem = f"{reference!r} is in both enable and disable"
            if problem:
                yield key, index, problem


def _choice(text: str, why: Why) -> PluginChoice:
    text = text.strip()
    problem = reference_problem(text)
    if problem:
        raise ConfigError(problem)
    reference = text.removeprefix("no:")
    return PluginChoice(reference, reference == text, why)


def reference_problem(text: str) -> str | None:
    """Why ``text`` (NAME, DIST/NAME, ``module:...``, or one of these after ``no:``) can name no plugin, or None."""
    reference = text.strip().removeprefix("no:")
    local = reference.startswith(LOCAL_PREFIX) and reference != LOCAL_PREFIX
    if local or _REFERENCE.fullmatch(reference):
        return None
    # A module must be asked for as one, so that a typo is never imported.
    return f"{text.strip()!r} is not a plugin: write NAME, DIST/NAME, or {LOCAL_PREFIX}{reference or 'acme.hooks'}"


def _local_plugins(selection: Selection) -> list[Plugin]:
    local = [choice.reference for choice in selection.choices if choice.on and choice.local]
    modules = {reference.removeprefix(LOCAL_PREFIX) for reference in local}
    names = {module: Path(module).stem if is_file(module) else module for module in sorted(modules)}
    return [Plugin(name, module) for module, name in names.items()]


def require_unobstructed(plugins: Sequence[Plugin], selection: Selection) -> None:
    """Raises PluginError for the first of :func:`obstacles` that is fatal."""
    for message, _, fatal in obstacles(plugins, selection):
        if fatal:
            raise PluginError(message)
