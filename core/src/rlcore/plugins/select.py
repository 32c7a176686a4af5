"""Decides which plugins are on, before any is imported.

For each plugin the last of these wins: autoload < the configuration's ``plugins`` < ``RLCORE_PLUGIN_AUTOLOAD``
and ``RLCORE_PLUGINS`` < ``-p`` and ``--no-plugins``.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

import attrs

from rlcore.errors import ConfigError, PluginError, did_you_mean
from rlcore.plugins.discover import LOCAL_PREFIX, Plugin, Why, anchored, canonical, handshake, is_file

if TYPE_CHECKING:
    from rlcore.settings.blocks import PluginSettings

ENV_AUTOLOAD: Final = "RLCORE_PLUGIN_AUTOLOAD"
ENV_PLUGINS: Final = "RLCORE_PLUGINS"
_REFERENCE = re.compile(r"(?:[A-Za-z0-9][\w.-]*/)?[a-z][a-z0-9-]*")
_ALL_OF = "/*"  # every plugin of a distribution


@attrs.frozen
class Choice:
    """One plugin turned on or off by NAME, DIST/NAME or ``module:...``; ``why`` is where that was said."""

    reference: str
    on: bool
    why: Why

    def matches(self, plugin: Plugin) -> bool:
        if self.reference.startswith(LOCAL_PREFIX):
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
    """

    autoload: bool = True
    choices: tuple[Choice, ...] = ()
    autoload_why: Why = "autoload"
    lenient: bool = False

    @property
    def enable(self) -> tuple[str, ...]:
        """The references of plugins that are turned on, without local ones."""
        return tuple(choice.reference for choice in self.choices if choice.on and not is_local(choice))

    @property
    def disable(self) -> tuple[str, ...]:
        """The references of plugins that are turned off."""
        return tuple(choice.reference for choice in self.choices if not choice.on)

    @property
    def local(self) -> tuple[str, ...]:
        """The references of local plugins (``module:...``) that are turned on."""
        return tuple(choice.reference for choice in self.choices if choice.on and is_local(choice))

    def off(self, plugin: Plugin) -> bool:
        """Whether ``plugin``, which need not be installed, is turned off by its name."""
        return next((not choice.on for choice in reversed(self.choices) if choice.matches(plugin)), False)

    def anchored(self, config_dir: Path | None) -> Selection:
        """A copy with absolute paths of local files; the configuration's are relative to ``config_dir``."""

        def absolute(choice: Choice) -> Choice:
            base = config_dir if choice.why == "config" else None
            return attrs.evolve(choice, reference=anchored(choice.reference, base))

        return attrs.evolve(self, choices=tuple(map(absolute, self.choices)))

    def without_local_of_config(self) -> tuple[Selection, tuple[str, ...]]:
        """A copy without the local files and modules that the configuration names, and the names that were left out."""
        left_out = [choice for choice in self.choices if choice.on and choice.why == "config" and is_local(choice)]
        kept = tuple(choice for choice in self.choices if choice not in left_out)
        names = (choice.reference.removeprefix(LOCAL_PREFIX) for choice in left_out)
        return attrs.evolve(self, choices=kept), tuple(dict.fromkeys(names))

    def decide(self, plugin: Plugin) -> tuple[bool, Why]:
        """Whether a plugin is on, and what decided it."""
        if plugin.essential:
            return True, "autoload"
        for choice in reversed(self.choices):
            if choice.matches(plugin):
                return choice.on, choice.why
        return self.autoload, self.autoload_why if not self.autoload else "autoload"


@attrs.frozen
class Obstacle:
    """A reason why no plugin may be loaded; ``plugins`` are those it concerns."""

    message: str
    plugins: tuple[Plugin, ...] = ()


def selection_from(
    config: PluginSettings | None,
    environ: Mapping[str, str],
    dash_p: Sequence[str],
    no_plugins: bool,
    *,
    used: Iterable[str] = (),
) -> Selection:
    """Return the selection of one command. Raises ConfigError for a reference of the wrong form.

    ``config`` is the block ``plugins``, ``environ`` has the environment variables, ``dash_p`` the values of ``-p``.
    ``no_plugins`` leaves rlcore's own plugin and what ``dash_p`` names. ``used`` are the DIST/NAME records that the
    configuration names: their distributions are loaded even if autoload is off, and need not exist.
    """
    asked = [_choice(text, "-p") for text in dash_p]
    if no_plugins:
        return Selection(autoload=False, choices=tuple(asked), autoload_why="-p")
    autoload, why, choices = True, "autoload", []  # type: bool, Why, list[Choice]
    choices += [Choice(name.rpartition("/")[0] + _ALL_OF, True, "config") for name in used if "/" in name]
    if config is not None:
        if not config.autoload:
            autoload, why = False, "config"
        choices += _from_config(config)
    switch = environ.get(ENV_AUTOLOAD, "").strip()
    if switch:
        if switch not in ("0", "1"):
            raise ConfigError(f"{ENV_AUTOLOAD} must be 0 or 1, not {switch!r}")
        autoload, why = switch == "1", ENV_AUTOLOAD
    choices += [_choice(text, ENV_PLUGINS) for text in environ.get(ENV_PLUGINS, "").split(",") if text.strip()]
    return Selection(autoload, tuple(choices + asked), why)


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
            if not other.on and plugin.needs_distribution_of(other) and not selection.off(other):
                decided[index] = attrs.evolve(other, on=True, why=plugin.why, required_by=plugin.label)
                waiting.append(decided[index])
    return tuple(attrs.evolve(plugin, refused=_refusal(plugin, decided) if plugin.on else None) for plugin in decided)


def _refusal(plugin: Plugin, decided: Sequence[Plugin]) -> str | None:
    """Why a plugin that is on cannot be used, or None."""
    if found := plugin.refused or handshake(plugin):
        return found
    for other in decided:
        if not other.on and plugin.needs_distribution_of(other):
            return f"requires {other.described}, which {other.why} turns off; turn it on, or turn {plugin.name!r} off"
    return None


def obstacles(plugins: Sequence[Plugin], selection: Selection) -> tuple[Obstacle, ...]:
    """Why nothing may be loaded at all: plugins that are missing, clash, or may not be turned off."""
    return (*_forbidden(plugins, selection), *_missing(plugins, selection), *_clashes(plugins))


def _from_config(config: PluginSettings) -> list[Choice]:
    for key, index, problem in block_problems(config):
        raise ConfigError(f"plugins.{key}[{index}]: {problem}")
    return [
        *(_choice(text, "config") for text in config.enable),
        *(Choice(LOCAL_PREFIX + text.removeprefix(LOCAL_PREFIX), True, "config") for text in config.local),
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


def _choice(text: str, why: Why) -> Choice:
    text = text.strip()
    problem = reference_problem(text)
    if problem:
        raise ConfigError(problem)
    reference = text.removeprefix("no:")
    return Choice(reference, reference == text, why)


def reference_problem(text: str) -> str | None:
    """Why ``text`` (NAME, DIST/NAME, ``module:...``, or one of these after ``no:``) can name no plugin, or None."""
    reference = text.strip().removeprefix("no:")
    local = reference.startswith(LOCAL_PREFIX) and reference != LOCAL_PREFIX
    if local or _REFERENCE.fullmatch(reference):
        return None
    # A module must be asked for as one, so that a typo is never imported.
    return f"{text.strip()!r} is not a plugin: write NAME, DIST/NAME, or {LOCAL_PREFIX}{reference or 'acme.hooks'}"


def is_local(choice: Choice) -> bool:
    return choice.reference.startswith(LOCAL_PREFIX)


def _local_plugins(selection: Selection) -> list[Plugin]:
    modules = dict.fromkeys(reference.removeprefix(LOCAL_PREFIX) for reference in selection.local)
    return [Plugin(Path(module).stem if is_file(module) else module, module) for module in sorted(modules)]


def _forbidden(plugins: Sequence[Plugin], selection: Selection) -> list[Obstacle]:
    return [
        Obstacle(
            f"{plugin.described} is rlcore itself and cannot be turned off; "
            "turn off a writer with 'stats: {name: false}'",
            (plugin,),
        )
        for plugin in plugins
        if plugin.essential and any(not choice.on and choice.matches(plugin) for choice in selection.choices)
    ]


def _missing(plugins: Sequence[Plugin], selection: Selection) -> list[Obstacle]:
    needed = (choice for choice in _absent(plugins, selection) if not (selection.lenient and choice.why == "config"))
    return [Obstacle(_not_installed(choice, plugins)) for choice in needed]


def not_needed(plugins: Sequence[Plugin], selection: Selection) -> tuple[str, ...]:
    """A warning for each plugin that a lenient selection does without."""
    missing = (choice for choice in _absent(plugins, selection) if selection.lenient and choice.why == "config")
    return tuple(_not_installed(choice, plugins) for choice in missing)


def _not_installed(choice: Choice, plugins: Sequence[Plugin]) -> str:
    names = sorted({plugin.name for plugin in plugins if plugin.distribution})
    hint = did_you_mean(choice.reference, _names(plugins)) or f"; installed: {', '.join(names)}"
    return f"plugin {choice.reference!r} (asked for by {choice.why}) is not installed{hint}"


def _absent(plugins: Sequence[Plugin], selection: Selection) -> Iterator[Choice]:
    """The choices that turn on a plugin which is not installed."""
    last_off = {choice.reference: index for index, choice in enumerate(selection.choices) if not choice.on}
    for index, choice in enumerate(selection.choices):
        if choice.reference.endswith(_ALL_OF):
            continue  # of a DIST/NAME in the configuration: a local plugin's, or a mistake reported at its key
        withdrawn = last_off.get(choice.reference, -1) > index
        if choice.on and not withdrawn and not any(map(choice.matches, plugins)):
            yield choice


def unmatched(plugins: Sequence[Plugin], selection: Selection) -> tuple[str, ...]:
    """A warning for each name that turns off a plugin which is not installed, because the name may be misspelled.

    Local files and modules, and names that another source turns on, give no warning.
    """
    allowed = _names(plugins)
    asked = set(selection.enable)
    messages = (
        f"plugin {choice.reference!r} (turned off by {choice.why}) is not installed"
        f"{did_you_mean(choice.reference, allowed)}"
        for choice in selection.choices
        if not (choice.on or is_local(choice) or choice.reference in asked or any(map(choice.matches, plugins)))
    )
    return tuple(dict.fromkeys(messages))


def _names(plugins: Sequence[Plugin]) -> set[str]:
    """The names by which the user may refer to ``plugins``."""
    return {plugin.name for plugin in plugins if plugin.distribution} | {plugin.label for plugin in plugins}


def _clashes(plugins: Sequence[Plugin]) -> list[Obstacle]:
    by_name: dict[str, list[Plugin]] = {}
    for plugin in plugins:
        if plugin.state == "on":
            by_name.setdefault(plugin.name, []).append(plugin)
    return [
        Obstacle(
            f"{len(rivals)} plugins are named {name!r}: "
            + " and ".join(f"{rival.label} ({rival.version or 'local'}, {rival.module})" for rival in rivals)
            + "; turn one off, for example with "
            + " or ".join(f"-p no:{rival.label}" for rival in rivals),
            tuple(rivals),
        )
        for name, rivals in by_name.items()
        if len(rivals) > 1
    ]


def require_unobstructed(plugins: Sequence[Plugin], selection: Selection) -> None:
    """Raises PluginError for the first of :func:`obstacles`."""
    for obstacle in obstacles(plugins, selection):
        raise PluginError(obstacle.message)
