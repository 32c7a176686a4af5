"""The records that a configuration names: which ones a run uses, and which plugins' blocks it writes down.

``plugins.chosen`` and ``plugins.optional`` of a run's ``configuration.yaml`` list them as DIST/NAME. A resume and a
new run of the file then mean the same records by the same names, whatever is installed. A block whose plugin is gone is
left out if nothing that is learned depends on it.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Any

import attrs

from rlcore.config.document import AFTER_THE_FILE, Block, Document, Items, value_at, with_value
from rlcore.errors import KeyPath, NotInstalled, PluginError, dotted
from rlcore.plugins.call import Plugins
from rlcore.plugins.discover import Plugin, bare_name
from rlcore.records import ConfigSection, Record
from rlcore.settings import PluginSettings, RunConfig
from rlcore.settings.fields import Choice, FieldInfo

log = logging.getLogger(__name__)

SECTION = ConfigSection.kind
BLOCKS = ("chosen", "optional")  # of `plugins`: records that learning depends on, and the others
EACH_BEHAVIOR = ("behaviors", "NAME")
# The path of the mapping that has the block of a record, by the kind of the record.
_PARENTS: Mapping[str, tuple[tuple[str, ...], ...]] = {
    SECTION: ((),),
    "writer": (("stats",),),
    "exporter": (("export",),),
    "behavior": (EACH_BEHAVIOR, ("default_settings",)),
}


def with_records(config: RunConfig, settings: PluginSettings, plugins: Plugins, written: Collection[str]) -> RunConfig:
    """The configuration with the ``plugins`` block ``settings``, which lists the records that the configuration names.

    ``written`` has the keys of the file. The section of a plugin is listed if the file has it, or if the plugin has
    another record that the configuration names.
    """
    records = list(dict.fromkeys(_records_of(config, plugins)))
    used_plugins = {record.plugin for record in records if record.kind != SECTION}
    listed = []
    for record in records:
        # A configuration has the sections of every plugin that is on, with defaults: most say nothing about the run.
        is_used = record.name in written or record.plugin in used_plugins
        if record.kind != SECTION or is_used:
            listed.append(record)
    return attrs.evolve(config, plugins=_listed(settings, listed, plugins))


def block_with_sections(config: RunConfig, plugins: Plugins, took_part: Iterable[Plugin]) -> PluginSettings:
    """The ``plugins`` block that also lists the sections of the plugins that took part in the run."""
    labels = {plugin.label for plugin in took_part}
    records: list[Record] = []
    for block in BLOCKS:
        records += listed_records(config, plugins, block)
    for section in plugins.records(SECTION):
        plugin = section.plugin
        if plugin is not None and plugin.label in labels and section.name in config.sections:
            records.append(section)
    return _listed(config.plugins, records, plugins)


def listed_records(config: RunConfig, plugins: Plugins, block: str = BLOCKS[0]) -> Iterator[Record]:
    """The records that ``plugins.chosen`` lists, or ``plugins.optional``, as far as they are there."""
    for kind, reference in _references({block: getattr(config.plugins, block)}):
        record = _record_or_none(plugins, kind, reference)
        if record is not None:
            yield record


def _record_or_none(plugins: Plugins, kind: str, reference: str) -> Record | None:
    try:
        return plugins.record_of_kind(kind, reference)
    except NotInstalled:
        return None


def _listed(settings: PluginSettings, records: Iterable[Record], plugins: Plugins) -> PluginSettings:
    """The ``plugins`` block with lists of ``records``.

    Optional records that are gone stay listed: the file from which a user resumes may still have their blocks.
    """
    chosen = set[tuple[str, str]]()
    optional = set[tuple[str, str]]()
    for record in records:
        block = chosen if record.affects_learning else optional
        block.add((record.kind, record.reference))
    for kind, reference in _references({BLOCKS[1]: settings.optional}):
        if _record_or_none(plugins, kind, reference) is None:
            optional.add((kind, reference))
    return attrs.evolve(settings, chosen=_by_kind(chosen), optional=_by_kind(optional))


def _by_kind(references: Iterable[tuple[str, str]]) -> dict[str, list[str]]:
    """DIST/NAME by kind. Sorted: the order of sets differs between processes, and equal runs write equal files."""
    by_kind: dict[str, list[str]] = {}
    for kind, reference in sorted(references):
        by_kind.setdefault(kind, []).append(reference)
    return by_kind


def _records_of(config: RunConfig, plugins: Plugins) -> Iterator[Record]:
    """Each record that the configuration names, a default included. One that is absent or unclear fails where used."""
    for kind, reference in _names(config):
        try:
            record = plugins.record_of_kind(kind, reference)
        except (NotInstalled, PluginError):
            continue
        chosen = config.plugins.chosen.get(kind, ())
        used = [name for name in chosen if bare_name(name) == reference]
        # A program gave plugins of which another one has a record of this name: the run would learn something else.
        if used and record.reference not in used:
            problem = f"{kind} {reference!r} is that of {record.described}, and the run used {' and '.join(used)}"
            raise PluginError(f"{problem}; write {record.reference} to use the other one")
        if "/" in record.reference:
            yield record


def _names(value: Any) -> Iterator[tuple[str, str]]:
    """The kind and the name of each record that settings name, at any depth. A preset is used up: it is not named."""
    if isinstance(value, Mapping):
        for element in value.values():
            yield from _names(element)
    elif isinstance(value, list | tuple):
        for element in value:
            yield from _names(element)
    elif attrs.has(type(value)):
        for kind, name in _names_in_fields(value):
            if isinstance(name, str) and kind != "preset":
                yield kind, name
        for attribute in FieldInfo.fields_of(type(value)).values():
            yield from _names(getattr(value, attribute.name))


def _names_in_fields(settings: Any) -> Iterator[tuple[str, Any]]:
    """The kind and the name of each record that the fields of a settings object name; a name may be None."""
    fields = FieldInfo.fields_of(type(settings))
    for base in type(settings).__mro__:
        choice = Choice.of(base)
        if choice is not None:
            yield choice.kind, getattr(settings, fields[choice.key].name)
    for attribute in fields.values():
        info = FieldInfo.of(attribute)
        choice = info.chooses
        value = getattr(settings, attribute.name)
        if info.record is not None:
            yield info.record, value
        if choice is None:
            continue
        if choice.by == "key":
            yield choice.kind, getattr(settings, fields[choice.key].name)
        else:
            for name, block in value.items():
                if not _is_off(choice, block):
                    yield choice.kind, name


def _is_off(choice: Choice, block: Any) -> bool:
    """Whether an entry of a mapping from names to blocks turns its record off: with false, or null beside a field."""
    return block is False or (choice.by == "claim" and block is None)


# ---------------------------------------------------------------- what a run finds when it is continued


def with_records_of(document: Document, saved: Document) -> Document:
    """The document with the records that the configuration of a run lists, which ``saved`` is.

    A kind and name that the document lists itself stays as it is.
    """
    block = document.data.get("plugins", Block())
    saved_block = saved.data.get("plugins")
    if not isinstance(block, Block) or not isinstance(saved_block, Mapping):
        return document  # refused later, or the run is one of ML-Agents
    known = {(kind, bare_name(reference)) for kind, reference in _references(block)}
    for key in BLOCKS:
        kinds: Any = block.get(key, Block())
        for kind, reference in _references({key: saved_block.get(key)}):
            if not isinstance(kinds, Block) or (kind, bare_name(reference)) in known:
                continue  # what the document says counts, as any key of a file of the user
            references = (*kinds.get(kind, ()), reference)
            items = Items((text, None) for text in references)
            kinds = kinds.with_entry(kind, items, None)
        if kinds:
            block = block.with_entry(key, kinds, None)
    return document.with_block("plugins", block)


def _references(block: Mapping[str, Any], keys: Iterable[str] = BLOCKS) -> Iterator[tuple[str, str]]:
    """The kind and DIST/NAME of each record that a ``plugins`` block lists; the block is not checked yet."""
    for key in keys:
        kinds = block.get(key)
        if not isinstance(kinds, Mapping):
            continue
        for kind, references in kinds.items():
            if not isinstance(references, list):
                continue
            for reference in references:
                if isinstance(reference, str):
                    yield kind, reference


def without_blocks_of_absent(document: Document, plugins: Plugins) -> Document:
    """The document without the blocks of ``plugins.optional`` whose plugins are not there, with a warning for each.

    What the command line sets stays, and is refused.
    """
    block = document.data.get("plugins")
    if not isinstance(block, Mapping):
        return document
    for kind, reference in _references(block, BLOCKS[1:]):
        if _record_or_none(plugins, kind, reference) is not None:
            continue
        for path in tuple(_blocks_of(document, kind, reference)):
            why = f"left out, because {reference} is not there; nothing that the run learns depends on it"
            log.warning("%s: %s: %s", document.where(path), dotted(path), why)
            document = attrs.evolve(document, data=_without(document.data, path))
    return document


def _without(data: Block, path: KeyPath) -> Block:
    *above, key = map(str, path)
    if not above:
        return data.without(key)
    return with_value(data, above, lambda block: block.without(key))


def _blocks_of(document: Document, kind: str, reference: str) -> Iterator[KeyPath]:
    """The paths of the blocks of a record in a document, without those of the command line."""
    keys = (reference, bare_name(reference))
    for parent in _parents_of(document, kind):
        block = value_at(document.data, parent)
        if not isinstance(block, Block):
            continue
        for key in keys:
            path = (*parent, key)
            is_of_file = document.origin(path).order < AFTER_THE_FILE
            if key in block and is_of_file:
                yield path


def _parents_of(document: Document, kind: str) -> Iterator[tuple[str, ...]]:
    """The paths of the mappings of a document that may have blocks of records of this kind."""
    behaviors = document.data.get("behaviors")
    for parent in _PARENTS.get(kind, ()):
        if parent != EACH_BEHAVIOR:
            yield parent
        elif isinstance(behaviors, Mapping):
            for name in behaviors:
                yield ("behaviors", name)
