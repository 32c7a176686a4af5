"""Which plugins a configuration asks for, known before any is imported, and the record of those it got."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import attrs

from rlcore.config.document import Document
from rlcore.config.parameter_blocks import PLACES
from rlcore.config.problems import ConfigErrors
from rlcore.config.structure import Problems, build
from rlcore.plugins.calls import Plugins, load_plugins
from rlcore.plugins.plugin import LOCAL_PREFIX
from rlcore.plugins.selection import Selection, anchored, is_local, reference_problem, selection_from
from rlcore.settings import PluginSettings

MAX_REFERENCES = 1_000


def load_plugins_for(
    document: Document,
    *,
    dash_p: Sequence[str] = (),
    no_plugins: bool = False,
    strict: bool = False,
    tolerate_errors: bool = False,
    allow_local: bool = True,
) -> Plugins:
    """The plugins of a document, the environment's variables and the command line, loaded.

    ``dash_p``, ``no_plugins`` and ``strict`` are the options of these names. With ``tolerate_errors`` a ``plugins``
    block that cannot be used counts as empty: :func:`load_config` tells what is wrong with it. Without ``allow_local``
    no file or module that only the document names is imported; :func:`local_references` says which those are.
    """
    try:
        settings = plugin_settings(document)
    except ConfigErrors:
        if not tolerate_errors:
            raise
        settings = PluginSettings()
    selection = selection_from(settings, os.environ, dash_p, no_plugins, used=used_references(document))
    if not allow_local:
        selection, _ = selection.without_local_of_config()
    return load_plugins(selection, strict=strict, config_dir=directory_of(document))


def local_references(document: Document) -> tuple[str, ...]:
    """The files and modules that the ``plugins`` block of a document names, without importing them."""
    try:
        settings = plugin_settings(document)
    except ConfigErrors:  # told where the block is needed
        return ()
    return selection_from(settings, {}, (), False).without_local_of_config()[1]


def plugin_settings(document: Document) -> PluginSettings:
    """The ``plugins`` block alone, read before any plugin is imported."""
    problems = Problems(document)
    settings = checked_block(document.data.get("plugins", {}), problems)
    problems.raise_any()
    assert isinstance(settings, PluginSettings)
    return settings


def checked_block(data: Any, problems: Problems) -> Any:
    """The ``plugins`` block as settings, or INVALID; problems are noted, those of the names in it too."""
    settings = build(PluginSettings, data, ("plugins",), problems)
    if isinstance(settings, PluginSettings):
        _check_references(settings, problems)
    return settings


def _check_references(settings: PluginSettings, problems: Problems) -> None:
    """Notes what cannot be the name of a plugin, and names that are both enabled and disabled."""
    enabled = frozenset(settings.enable)
    for key, references in (("enable", settings.enable), ("disable", settings.disable), ("local", settings.local)):
        if len(references) > MAX_REFERENCES:
            problems.add(("plugins", key), f"names {len(references)} plugins; at most {MAX_REFERENCES} are allowed")
            return
    for key, references in (("enable", settings.enable), ("disable", settings.disable)):
        for index, reference in enumerate(references):
            problem = reference_problem(reference)
            if reference.startswith("no:"):
                problem = f"{reference!r}: 'no:' is for -p and RLCORE_PLUGINS; write the plain name, here or in disable"
            if problem:
                problems.add(("plugins", key, index), problem)
            elif key == "disable" and reference in enabled:
                problems.add(("plugins", key, index), f"{reference!r} stands in both enable and disable")


def used_references(document: Document) -> tuple[str, ...]:
    """The DIST/NAME references a document makes: their plugins are loaded even where autoload is off.

    Nothing is checked yet: what is not as it should be is left for later.
    """

    def block(*path: str | int) -> Mapping[str, Any]:
        value: Any = document.data
        for key in path:
            value = value.get(key) if isinstance(value, Mapping) else None
        return value if isinstance(value, Mapping) else {}

    behaviors = [("default_settings",), *(("behaviors", name) for name in block("behaviors"))]
    names: list[Any] = [block(*path).get("type") for path in (("environment",), ("evaluation", "environment"))]
    names += block("stats")
    for place in PLACES:
        names += [block(*place, name, "curriculum").get("type") for name in block(*place)]
    for path in behaviors:
        names += [block(*path).get("trainer_type"), *block(*path, "reward_signals")]
    return tuple(dict.fromkeys(name for name in names if isinstance(name, str) and "/" in name))


def directory_of(document: Document) -> Path | None:
    """What the local files of a document are relative to; None for where we are."""
    return Path(document.path).parent if document.path is not None else None


def recorded(settings: PluginSettings, base: Path | None, plugins: Plugins) -> PluginSettings:
    """The ``plugins`` block that chooses these plugins again, wherever it is read.

    Local files, which stand beside the configuration (in ``base``), become absolute paths. What only the environment
    or the command line chose is written down, each plugin as DISTRIBUTION/NAME.
    """
    selection = plugins.selection
    if not _adds_to_the_file(selection):
        return attrs.evolve(
            settings,
            enable=[anchored(text, base) for text in settings.enable],
            disable=[anchored(text, base) for text in settings.disable],
            local=[anchored(_local(text), base).removeprefix(LOCAL_PREFIX) for text in settings.local],
        )
    chosen = [
        plugin
        for plugin in plugins.found
        if plugin.distribution and not plugin.essential and any(choice.matches(plugin) for choice in selection.choices)
    ]
    absent = [
        choice.reference
        for choice in selection.choices
        if not choice.on and not any(map(choice.matches, plugins.found))
    ]
    local = {choice.reference: choice.on for choice in selection.choices if is_local(choice)}
    return PluginSettings(
        autoload=selection.autoload,
        enable=[plugin.label for plugin in chosen if plugin.on],
        disable=[plugin.label for plugin in chosen if not plugin.on]
        + [reference for reference in dict.fromkeys(absent) if reference not in local],
        local=[reference.removeprefix(LOCAL_PREFIX) for reference, on in local.items() if on],
    )


def _adds_to_the_file(selection: Selection) -> bool:
    """Whether the environment or the command line has chosen anything."""
    said = {selection.autoload_why, *(choice.why for choice in selection.choices)}
    return not said <= {"autoload", "config"}


def _local(text: str) -> str:
    return LOCAL_PREFIX + text.removeprefix(LOCAL_PREFIX)
