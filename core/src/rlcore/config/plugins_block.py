"""The ``plugins`` block of a configuration: read and check it before any plugin is imported, and write it back.

:mod:`rlcore.plugins.select` decides which plugins are on.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import attrs

from rlcore.config.document import Document, value_at
from rlcore.config.problems import ConfigErrors, Problems
from rlcore.config.shapes import PLACES
from rlcore.config.structure import build
from rlcore.plugins.call import Plugins, load_plugins
from rlcore.plugins.discover import LOCAL_PREFIX, anchored
from rlcore.plugins.select import Selection, block_problems, is_local, selection_from
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
    lenient: bool = False,
) -> Plugins:
    """Load the plugins that a document, environment variables and the command line choose.

    ``dash_p``, ``no_plugins`` and ``strict`` are the command line's options of these names. With ``tolerate_errors``, a
    ``plugins`` block that cannot be used counts as empty: :func:`load_config` reports what is wrong with it. Without
    ``allow_local``, files and modules that only the document names are not imported; :func:`local_references` lists
    them. ``lenient``: a plugin that only the document asks for may be missing or broken, which is a warning.
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
    selection = attrs.evolve(selection, lenient=lenient)
    return load_plugins(selection, strict=strict, config_dir=directory_of(document))


def local_references(document: Document) -> tuple[str, ...]:
    """The files and modules that the ``plugins`` block of a document names, without importing them."""
    try:
        settings = plugin_settings(document)
    except ConfigErrors:  # reported by load_config
        return ()
    return selection_from(settings, {}, (), False).without_local_of_config()[1]


def left_out(document: Document, plugins: Plugins) -> Iterator[str]:
    """Yield a message for each file and module that the configuration names and that was not imported."""
    loaded = {plugin.label for plugin in plugins.found if plugin.on}
    for name in local_references(document):
        if anchored(LOCAL_PREFIX + name, directory_of(document)) not in loaded:  # or -p names it too
            what = f"{name} was not imported: looking at a configuration runs no code that it names"
            yield f"{document.where(('plugins',))}: plugins: {what}; --allow-local imports it"


def plugin_settings(document: Document) -> PluginSettings:
    """The ``plugins`` block alone, read before any plugin is imported."""
    problems = Problems(document)
    settings = checked_block(document.data.get("plugins", {}), problems)
    problems.raise_any()
    assert isinstance(settings, PluginSettings)
    return settings


def checked_block(data: Any, problems: Problems) -> Any:
    """The ``plugins`` block as settings, or INVALID; checks the names in the block too."""
    settings = build(PluginSettings, data, ("plugins",), problems)
    if isinstance(settings, PluginSettings):
        _check_references(settings, problems)
    return settings


def _check_references(settings: PluginSettings, problems: Problems) -> None:
    """Report what is wrong with the names in a ``plugins`` block, and lists that are too long."""
    for key, references in (("enable", settings.enable), ("disable", settings.disable), ("local", settings.local)):
        if len(references) > MAX_REFERENCES:
            problems.add(("plugins", key), f"names {len(references)} plugins; at most {MAX_REFERENCES} are allowed")
            return
    for key, index, problem in block_problems(settings):
        problems.add(("plugins", key, index), problem)


def used_references(document: Document) -> tuple[str, ...]:
    """The DIST/NAME references in a document. Their plugins are loaded even if autoload is off.

    The document is not checked yet: wrong data is skipped, and refused later.
    """

    def block(*path: str) -> Mapping[str, Any]:
        value = value_at(document.data, path)
        return value if isinstance(value, Mapping) else {}

    behaviors = [("default_settings",), *(("behaviors", name) for name in block("behaviors"))]
    names: list[Any] = [block(*path).get("type") for path in (("environment",), ("evaluation", "environment"))]
    names += [*block("stats"), *block("export")]
    opponents = ("evaluation", "opponents")
    names += [block(*opponents, name).get("type", name) for name in block(*opponents)]
    for place in PLACES:
        names += [block(*place, name, "curriculum").get("type") for name in block(*place)]
    for path in behaviors:
        names += [block(*path).get("trainer_type"), *block(*path, "reward_signals")]
        hyperparameters = block(*path, "hyperparameters")
        names += [block(*path, "hyperparameters", key).get("type") for key in ("replay_sampler", "optimizer")]
        names += [name for key, name in hyperparameters.items() if key.endswith("_schedule")]
    return tuple(dict.fromkeys(name for name in names if isinstance(name, str) and "/" in name))


def directory_of(document: Document) -> Path | None:
    """The directory that local files of a document are relative to; None is the working directory."""
    return Path(document.path).parent if document.path is not None else None


def recorded(settings: PluginSettings, base: Path | None, plugins: Plugins) -> PluginSettings:
    """A ``plugins`` block that chooses the same plugins from any directory.

    Local files, which are relative to the configuration's directory ``base``, become absolute paths. Plugins that only
    environment variables or the command line chose are added, each as DISTRIBUTION/NAME.
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
    """Whether environment variables or the command line chose anything."""
    said = {selection.autoload_why, *(choice.why for choice in selection.choices)}
    return not said <= {"autoload", "config"}


def _local(text: str) -> str:
    return LOCAL_PREFIX + text.removeprefix(LOCAL_PREFIX)
