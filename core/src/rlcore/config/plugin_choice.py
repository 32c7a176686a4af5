"""The block ``plugins`` of a document: which plugins are loaded, before any of them is imported.

:mod:`rlcore.plugins.select` decides which plugins are on. The block also names files and modules that are not
installed; those beside the file that an environment names are among them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import attrs

from rlcore.config.document import Block, Document, Items, value_at
from rlcore.config.problems import ConfigErrors, Problems
from rlcore.config.structure import build
from rlcore.errors import KeyPath
from rlcore.plugins.call import Plugins, load_plugins
from rlcore.plugins.discover import LOCAL_PREFIX, anchored, is_free
from rlcore.plugins.select import Selection, block_problems, selection_from
from rlcore.settings import PluginSettings

MAX_REFERENCES = 1_000
_LISTS = ("enable", "disable", "local", "chosen", "optional")
_REFERENCE = re.compile(r"[A-Za-z0-9][\w.-]*/[A-Za-z][\w.-]*")  # DIST/NAME
_TARGET = re.compile(r"[A-Za-z_][\w.]*:[A-Za-z_]\w*")  # MODULE:NAME


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
    selection = selection_from(settings, None, dash_p, no_plugins, used=used_references(document))
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
    return selection_from(settings, {}).without_local_of_config()[1]


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
    settings: PluginSettings = checked_block(with_modules_beside(document).data.get("plugins", {}), problems)
    problems.raise_any()
    return settings


def checked_block(data: Any, problems: Problems) -> Any:
    """The ``plugins`` block as settings, or None; checks the names in the block too, and how many there are."""
    settings = build(PluginSettings, data, ("plugins",), problems)
    if settings is None:
        return None
    for key in _LISTS:
        named = getattr(settings, key)
        count = sum(map(len, named.values())) if isinstance(named, Mapping) else len(named)
        if count > MAX_REFERENCES:
            problems.add(("plugins", key), f"names {count} plugins; at most {MAX_REFERENCES} are allowed")
            return settings
    for key, index, problem in block_problems(settings):
        problems.add(("plugins", key, index), problem)
    return settings


def used_references(document: Document) -> tuple[str, ...]:
    """The DIST/NAME references in a document. Their plugins are loaded even if autoload is off.

    The document is not checked yet: wrong data is skipped, and refused later.
    """
    texts = (text for _, text in _texts(document.data.without("plugins")))
    return tuple(dict.fromkeys(text for text in texts if _REFERENCE.fullmatch(text)))


def environment_modules(document: Document) -> list[str]:
    """The ids, wrappers and options of environments that name code of a module, such as ``module:Name``.

    The document is not checked yet.
    """
    named: dict[str, None] = {}
    for block in (("environment",), ("evaluation", "environment")):
        for path, text in _texts(value_at(document.data, block)):
            key = path[0] if path else ""
            if (key == "id" and ":" in text) or (key in ("options", "wrappers") and _TARGET.fullmatch(text)):
                named[text] = None
    return list(named)


def with_modules_beside(document: Document) -> Document:
    """The document with the Python files beside it that its environments name among its local plugins.

    ``mine:Name`` names ``mine.py``, unless another module of that name is installed.
    """
    block = document.data.get("plugins", Block())
    local = block.get("local", Items()) if isinstance(block, Block) else None
    if not isinstance(local, Items):
        return document  # refused later
    base = directory_of(document)
    known = {anchored(_local(str(text)), base) for text in local}
    modules = dict.fromkeys(text.partition(":")[0] for text in environment_modules(document))
    files = [((base or Path()) / f"{module}.py").resolve() for module in modules]
    found = [str(file) for file in files if file.is_file() and _local(str(file)) not in known and is_free(file)]
    if not found:
        return document
    local = Items([*zip(local, local.origins, strict=True), *((file, None) for file in found)])
    block = block.with_entry("local", local, None)
    return attrs.evolve(document, data=document.data.with_entry("plugins", block, document.data.origins.get("plugins")))


def _texts(value: Any, path: KeyPath = ()) -> Iterator[tuple[KeyPath, str]]:
    """Yield each text in data, keys too, with its path; a key has the path of its mapping."""
    if isinstance(value, str):
        yield path, value
    entries = value.items() if isinstance(value, Mapping) else enumerate(value) if isinstance(value, list) else ()
    for key, below in entries:
        yield from _texts(key, path)
        yield from _texts(below, (*path, key))


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
    local = {choice.reference: choice.on for choice in selection.choices if choice.local}
    return attrs.evolve(
        settings,
        autoload=selection.autoload,
        enable=[plugin.label for plugin in chosen if plugin.on],
        disable=[plugin.label for plugin in chosen if plugin.state == "off"]
        + [reference for reference in dict.fromkeys(absent) if reference not in local],
        local=[reference.removeprefix(LOCAL_PREFIX) for reference, on in local.items() if on],
    )


def _adds_to_the_file(selection: Selection) -> bool:
    """Whether environment variables or the command line chose anything."""
    said = {selection.autoload_why, *(choice.why for choice in selection.choices)}
    return not said <= {"autoload", "config"}


def _local(text: str) -> str:
    return LOCAL_PREFIX + text.removeprefix(LOCAL_PREFIX)
