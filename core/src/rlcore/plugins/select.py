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
from rlcore.plugins.discover import LOCAL_PREFIX, Plugin, Why, anchored, bare_name, canonical, handshake
from rlcore.plugins.sources import is_file

if TYPE_CHECKING:
    from rlcore.settings.blocks import PluginSettings

ENV_AUTOLOAD: Final = "RLCORE_PLUGIN_AUTOLOAD"
ENV_PLUGINS: Final = "RLCORE_PLUGINS"
_REFERENCE = re.compile(r"(?:[A-Za-z0-9][\w.-]*/)?[a-z][a-z0-9-]*")
_ALL_OF = "/*"  # every plugin of a distribution


@attrs.frozen
class PluginSwitch:
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
        if not plugin.distribution:
            return False
        distribution, _, name = self.reference.rpartition("/")
        if distribution and canonical(distribution) != canonical(plugin.distribution):
            return False
        return name in (plugin.name, "*")


@attrs.frozen
class Selection:
    """The plugins that were asked for, from all sources. Can be pickled, for worker processes.

    Attributes:
        autoload: Whether installed plugins are on without being named.
        switches: Plugins turned on and off by name, in ascending precedence.
        autoload_why: The source that turned autoload on or off.
        lenient: Whether a plugin that only the configuration asks for may be missing or broken, which is then a
            warning.
        records: The kind and DIST/NAME of each record that a run of this configuration used. A name of the kind without
            a distribution means this record, so that no other distribution's record takes its place.
    """

    autoload: bool = True
    switches: tuple[PluginSwitch, ...] = ()
    autoload_why: Why = "autoload"
    lenient: bool = False
    records: frozenset[tuple[str, str]] = frozenset()

    def last(self, plugin: Plugin) -> PluginSwitch | None:
        """The switch that counts for ``plugin``, which need not be installed; None if no source names it."""
        for switch in reversed(self.switches):
            if switch.matches(plugin):
                return switch
        return None

    def off(self, plugin: Plugin) -> bool:
        """Whether ``plugin`` is turned off by its name."""
        switch = self.last(plugin)
        return switch is not None and not switch.on

    def meant(self, kind: str, name: str) -> str:
        """DIST/NAME of the record that a run used under ``name``; ``name`` itself if there is none, or several."""
        references = []
        for record_kind, reference in self.records:
            if record_kind == kind and bare_name(reference) == name:
                references.append(reference)
        return references[0] if len(references) == 1 else name

    def anchored(self, config_dir: Path | None) -> Selection:
        """A copy with absolute paths of local files; the configuration's are relative to ``config_dir``."""
        switches = []
        for switch in self.switches:
            base = config_dir if switch.why == "config" else None
            reference = anchored(switch.reference, base)
            switches.append(attrs.evolve(switch, reference=reference))
        return attrs.evolve(self, switches=tuple(switches))

    def without_local_of_config(self) -> tuple[Selection, tuple[str, ...]]:
        """A copy without the local files and modules that the configuration names, and the names that were left out."""
        kept = []
        left_out: dict[str, None] = {}
        for switch in self.switches:
            if switch.on and switch.local and switch.why == "config":
                left_out[switch.reference.removeprefix(LOCAL_PREFIX)] = None
            else:
                kept.append(switch)
        return attrs.evolve(self, switches=tuple(kept)), tuple(left_out)

    def decide(self, plugin: Plugin) -> tuple[bool, Why]:
        """Whether a plugin is on, and what decided it."""
        switch = self.last(plugin)
        # Its library is missing: asked for by its own name, it is refused with the command that installs the library.
        if plugin.lacks and (switch is None or switch.reference.endswith(_ALL_OF)):
            return False, "autoload"
        if plugin.essential:
            return True, "autoload"
        if switch is not None:
            return switch.on, switch.why
        return (True, "autoload") if self.autoload else (False, self.autoload_why)


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
    asked = [_switch(text, "-p") for text in dash_p]
    records = _records(config)
    if no_plugins:
        return Selection(autoload=False, switches=tuple(asked), autoload_why="-p", records=records)
    autoload = True
    why: Why = "autoload"
    # Ascending precedence, as the docstring of this module has it.
    switches: list[PluginSwitch] = []
    for reference in used:
        distribution = reference.rpartition("/")[0]
        if distribution:
            switches.append(PluginSwitch(distribution + _ALL_OF, True, "config"))
    if config is not None:
        if not config.autoload:
            autoload = False
            why = "config"
        switches += _from_config(config)
    value = environ.get(ENV_AUTOLOAD, "").strip()
    if value:
        if value not in ("0", "1"):
            raise ConfigError(f"{ENV_AUTOLOAD} must be 0 or 1, not {value!r}")
        autoload = value == "1"
        why = ENV_AUTOLOAD
    for text in environ.get(ENV_PLUGINS, "").split(","):
        if text.strip():
            switches.append(_switch(text, ENV_PLUGINS))
    return Selection(autoload, tuple(switches + asked), why, records=records)


def _records(config: PluginSettings | None) -> frozenset[tuple[str, str]]:
    if config is None:
        return frozenset()
    records = set[tuple[str, str]]()
    for block in (config.chosen, config.optional):
        for kind, references in block.items():
            records.update((kind, reference) for reference in references)
    return frozenset(records)


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
    waiting = [plugin for plugin in decided if plugin.on]
    waiting.sort(key=lambda plugin: not plugin.asked)
    for plugin in waiting:  # grows: a required plugin may require more
        for index, other in enumerate(decided):
            if other.on or other.lacks or selection.off(other):
                continue
            if plugin.needs_distribution_of(other):
                required = attrs.evolve(other, on=True, why=plugin.why, required_by=plugin.label)
                decided[index] = required
                waiting.append(required)
    checked = []
    for plugin in decided:
        refusal = _refusal(plugin, decided) if plugin.on else None
        checked.append(attrs.evolve(plugin, refused=refusal))
    return tuple(checked)


def _refusal(plugin: Plugin, decided: Sequence[Plugin]) -> str | None:
    """Why a plugin that is on cannot be used, or None."""
    problem = plugin.refused or handshake(plugin) or needs(plugin)
    if problem:
        return problem
    for other in decided:
        is_off = not (other.on or other.lacks)
        if is_off and plugin.needs_distribution_of(other):
            return f"requires {other.described}, which {other.why} turns off; turn it on, or turn {plugin.name!r} off"
    return None


def needs(plugin: Plugin) -> str:
    """Return ``needs DIST[EXTRA]`` and how to install it, about a plugin without its libraries; else an empty text."""
    from rlcore.plugins.installing import pip_install

    if not plugin.lacks:
        return ""
    return f"needs {plugin.lacks}; {pip_install(plugin.lacks)}"


def obstacles(plugins: Sequence[Plugin], selection: Selection) -> Iterator[tuple[str, tuple[Plugin, ...], bool]]:
    """Problems of the choice of plugins: a message, the plugins that it concerns, and whether it is fatal.

    Plugins are missing, or several that are on have one name. It is fatal, so that nothing may be loaded at all, if a
    source asks for the name.
    """
    turned_off = [switch for switch in selection.switches if not switch.on]
    for plugin in plugins:
        if plugin.essential and any(switch.matches(plugin) for switch in turned_off):
            advice = "turn off a writer with 'stats: {name: false}'"
            yield f"{plugin.described} is rlcore itself and cannot be turned off; {advice}", (plugin,), True
    for switch, message in _missing(plugins, selection):
        if switch.on and not _may_be_missing(switch, selection):
            yield message, (), True
    wanted = {switch.reference for switch in selection.switches if switch.on}
    by_name: dict[str, list[Plugin]] = {}
    for plugin in plugins:
        if plugin.state == "on":
            by_name.setdefault(plugin.name, []).append(plugin)
    for name, rivals in by_name.items():
        if len(rivals) > 1:
            names = " and ".join(f"{rival.label} ({rival.version or 'local'}, {rival.module})" for rival in rivals)
            off = " or ".join(f"-p no:{rival.label}" for rival in rivals)
            message = f"{len(rivals)} plugins are named {name!r}: {names}; turn one off, for example with {off}"
            yield message, tuple(rivals), name in wanted  # it could mean any of them


def unmatched(plugins: Sequence[Plugin], selection: Selection) -> tuple[str, ...]:
    """A warning for each name that may be misspelled: of a plugin turned off, or one that a lenient selection needs."""
    doubtful: dict[str, None] = {}
    for switch, message in _missing(plugins, selection):
        if not switch.on or _may_be_missing(switch, selection):
            doubtful[message] = None
    return tuple(doubtful)


def _may_be_missing(switch: PluginSwitch, selection: Selection) -> bool:
    return selection.lenient and switch.why == "config"


def _missing(plugins: Sequence[Plugin], selection: Selection) -> Iterator[tuple[PluginSwitch, str]]:
    """The last switch of each name that is of no installed plugin, with the message about it.

    Turning off a local file or module, or what another source turns on, is allowed. So is a DIST/NAME in the
    configuration: it is a local plugin's, or reported at its key.
    """
    installed = {plugin.name for plugin in plugins if plugin.distribution}
    names = installed | {plugin.label for plugin in plugins}
    turned_on = {switch.reference for switch in selection.switches if switch.on}
    last = {switch.reference: switch for switch in selection.switches}
    for reference, switch in last.items():
        if reference.endswith(_ALL_OF) or any(map(switch.matches, plugins)):
            continue
        if not switch.on and (switch.local or reference in turned_on):
            continue
        hint = did_you_mean(reference, names)
        if switch.on and not hint:
            hint = f"; installed: {', '.join(sorted(installed))}"
        source = f"asked for by {switch.why}" if switch.on else f"turned off by {switch.why}"
        yield switch, f"plugin {reference!r} ({source}) is not installed{hint}"


def _from_config(config: PluginSettings) -> list[PluginSwitch]:
    for key, index, problem in block_problems(config):
        raise ConfigError(f"plugins.{key}[{index}]: {problem}")
    switches = [_switch(text, "config") for text in config.enable]
    for text in config.local:
        reference = LOCAL_PREFIX + text.removeprefix(LOCAL_PREFIX)
        switches.append(PluginSwitch(reference, True, "config"))
    switches += [_switch(f"no:{text}", "config") for text in config.disable]
    return switches


def block_problems(config: PluginSettings) -> Iterator[tuple[str, int, str]]:
    """The wrong names that a ``plugins`` block enables and disables: the key, the index and the message of each.

    A name is wrong if no plugin can be called that, or if it is both enabled and disabled.
    """
    enabled = frozenset(config.enable)
    lists = {"enable": config.enable, "disable": config.disable}
    for key, references in lists.items():
        for index, reference in enumerate(references):
            problem = reference_problem(reference)
            if reference.startswith("no:"):
                problem = f"{reference!r}: 'no:' is for -p and RLCORE_PLUGINS; write the plain name, here or in disable"
            elif problem is None and key == "disable" and reference in enabled:
                problem = f"{reference!r} is in both enable and disable"
            if problem:
                yield key, index, problem


def _switch(text: str, why: Why) -> PluginSwitch:
    text = text.strip()
    problem = reference_problem(text)
    if problem:
        raise ConfigError(problem)
    reference = text.removeprefix("no:")
    return PluginSwitch(reference, reference == text, why)


def reference_problem(text: str) -> str | None:
    """Why ``text`` (NAME, DIST/NAME, ``module:...``, or one of these after ``no:``) can name no plugin, or None."""
    reference = text.strip().removeprefix("no:")
    local = reference.startswith(LOCAL_PREFIX) and reference != LOCAL_PREFIX
    if local or _REFERENCE.fullmatch(reference):
        return None
    # A module must be asked for as one, so that a typo is never imported.
    return f"{text.strip()!r} is not a plugin: write NAME, DIST/NAME, or {LOCAL_PREFIX}{reference or 'acme.hooks'}"


def _local_plugins(selection: Selection) -> list[Plugin]:
    modules = set()
    for switch in selection.switches:
        if switch.on and switch.local:
            modules.add(switch.reference.removeprefix(LOCAL_PREFIX))
    plugins = []
    for module in sorted(modules):
        name = Path(module).stem if is_file(module) else module
        plugins.append(Plugin(name, module))
    return plugins


def require_unobstructed(plugins: Sequence[Plugin], selection: Selection) -> None:
    """Raises PluginError for the first of :func:`obstacles` that is fatal."""
    for message, _, fatal in obstacles(plugins, selection):
        if fatal:
            raise PluginError(message)
