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
    used = used_references(document)
    selection = selection_from(settings, None, dash_p, no_plugins, used=used)
    if not allow_local:
        selection, _ = selection.without_local_of_config()
    # Measuring a run needs few of its plugins, and the others may be gone.
    selection = attrs.evolve(selection, lenient=lenient)
    return load_plugins(selection, strict=strict, config_dir=directory_of(document))


def local_references(document: Document) -> tuple[str, ...]:
    """The files and modules that the ``plugins`` block of a document names, without importing them."""
    try:
        settings = plugin_settings(document)
    except ConfigErrors:  # reported by load_config
        return ()
    _, references = selection_from(settings, {}).without_local_of_config()
    return references


def left_out(document: Document, plugins: Plugins) -> Iterator[str]:
    """Yield a message for each file and module that the configuration names and that was not imported."""
    loaded = {plugin.label for plugin in plugins.found if plugin.on}
    directory = directory_of(document)
    for name in local_references(document):
        if anchored(LOCAL_PREFIX + name, directory) not in loaded:  # or -p names it too
            why = f"{name} was not imported: looking at a configuration runs no code that it names"
            yield f"{document.where(('plugins',))}: plugins: {why}; --allow-local imports it"


def plugin_settings(document: Document) -> PluginSettings:
    """The ``plugins`` block alone, read before any plugin is imported."""
    problems = Problems(document)
    block = with_modules_beside(document).data.get("plugins", {})
    settings: PluginSettings = checked_block(block, problems)
    problems.raise_any()
    return settings


def checked_block(data: Any, problems: Problems) -> Any:
    """The ``plugins`` block as settings, or None; checks the names in the block too, and how many there are."""
    settings = build(PluginSettings, data, ("plugins",), problems)
    if settings is None:
        return None
    for key in _LISTS:
        references = getattr(settings, key)
        count = len(references)
        if isinstance(references, Mapping):  # lists by kind of record
            count = sum(map(len, references.values()))
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
    references: dict[str, None] = {}
    for _, text in _texts(document.data.without("plugins")):
        if _REFERENCE.fullmatch(text):
            references[text] = None
    return tuple(references)


def environment_modules(document: Document) -> list[str]:
    """The ids, wrappers and options of environments that name code of a module, such as ``module:Name``.

    The document is not checked yet.
    """
    references: dict[str, None] = {}
    for block in (("environment",), ("evaluation", "environment")):
        for path, text in _texts(value_at(document.data, block)):
            key = path[0] if path else ""
            is_id = key == "id" and ":" in text
            is_target = key in ("options", "wrappers") and _TARGET.fullmatch(text)
            if is_id or is_target:
                references[text] = None
    return list(references)


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
    modules = [text.partition(":")[0] for text in environment_modules(document)]
    added = []
    for module in dict.fromkeys(modules):
        file = ((base or Path()) / f"{module}.py").resolve()
        is_known = _local(str(file)) in known
        if file.is_file() and not is_known and is_free(file):
            added.append((str(file), None))
    if not added:
        return document
    written = zip(local, local.origins, strict=True)
    local = Items([*written, *added])
    return document.with_block("plugins", block.with_entry("local", local, None))


def _texts(value: Any, path: KeyPath = ()) -> Iterator[tuple[KeyPath, str]]:
    """Yield each text in data, keys too, with its path; a key has the path of its mapping."""
    if isinstance(value, str):
        yield path, value
    elif isinstance(value, Mapping):
        for key, below in value.items():
            yield path, key
            yield from _texts(below, (*path, key))
    elif isinstance(value, list):
        for index, below in enumerate(value):
            yield from _texts(below, (*path, index))


def directory_of(document: Document) -> Path | None:
    """The directory that local files of a document are relative to; None is the working directory."""
    return None if document.path is None else Path(document.path).parent


def recorded(settings: PluginSettings, base: Path | None, plugins: Plugins) -> PluginSettings:
    """A ``plugins`` block that chooses the same plugins from any directory.

    Local files, which are relative to the configuration's directory ``base``, become absolute paths. Plugins that only
    environment variables or the command line chose are added, each as DISTRIBUTION/NAME.
    """
    selection = plugins.selection
    # A file that alone chooses keeps its form, such as `autoload: true`: what is installed later is loaded too.
    if not _adds_to_the_file(selection):
        files = [anchored(_local(text), base) for text in settings.local]
        return attrs.evolve(
            settings,
            enable=[anchored(text, base) for text in settings.enable],
            disable=[anchored(text, base) for text in settings.disable],
            local=[file.removeprefix(LOCAL_PREFIX) for file in files],
        )
    enable: list[str] = []
    disable: list[str] = []
    for plugin in plugins.found:
        named = any(switch.matches(plugin) for switch in selection.switches)
        if not named or not plugin.distribution or plugin.essential:
            continue
        if plugin.on:
            enable.append(plugin.label)
        elif plugin.state == "off":
            disable.append(plugin.label)
    local: dict[str, bool] = {}
    absent: dict[str, None] = {}
    for switch in selection.switches:
        if switch.local:
            local[switch.reference] = switch.on
        elif not switch.on and not any(map(switch.matches, plugins.found)):
            absent[switch.reference] = None
    return attrs.evolve(
        settings,
        autoload=selection.autoload,
        enable=enable,
        disable=[*disable, *absent],
        local=[reference.removeprefix(LOCAL_PREFIX) for reference, on in local.items() if on],
    )


def _adds_to_the_file(selection: Selection) -> bool:
    """Whether environment variables or the command line chose anything."""
    sources = {selection.autoload_why, *(switch.why for switch in selection.switches)}
    return not sources <= {"autoload", "config"}


def _local(text: str) -> str:
    return LOCAL_PREFIX + text.removeprefix(LOCAL_PREFIX)
