"""The part of a configuration that measuring policies needs: plugins that only a training uses may be absent."""

from __future__ import annotations

import logging
from collections.abc import Set
from functools import partial
from typing import Any

import attrs

from rlcore.config.document import AFTER_THE_FILE, Block, Document, with_value
from rlcore.config.problems import Problems
from rlcore.config.record_reader import RecordReader
from rlcore.config.structure import build
from rlcore.errors import KeyPath, dotted
from rlcore.records import ExporterSpec
from rlcore.settings import BehaviorSettings, RunConfig
from rlcore.settings.fields import FieldInfo

log = logging.getLogger(__name__)


def without_absent(document: Document, reader: RecordReader, exporter: ExporterSpec | None) -> Document:
    """The document without what no measurement needs: writers, other exporters, and blocks of absent plugins."""
    data = document.data.without("stats").without("export")
    if exporter is not None:
        block = _of_exporter(document.data.get("export"), exporter)
        data = data.with_entry("export", block, None)
    known = {*reader.sections, *FieldInfo.fields_of(RunConfig)}
    data = _with_known(document, (), known, data)

    sections_of_behaviors = {record.name for record in reader.plugins.records("behavior")}
    known_of_behaviors = sections_of_behaviors.union(FieldInfo.fields_of(BehaviorSettings))
    paths = [("behaviors", str(name)) for name in data.get("behaviors") or ()]
    for path in (*paths, ("default_settings",)):
        change = partial(_with_known, document, path, known_of_behaviors)
        data = with_value(data, path, change)

    for name, record in reader.sections.items():
        problems = Problems(document)
        owner = reader.owner_of(record)
        cls = record.resolve()
        block = data.get(name, {})
        settings = build(cls, block, (name,), problems, reader, owner)
        if settings is None:
            problem = problems.errors().problems[0]
            log.warning("ignored, because no measurement needs it: %s", problem)
            data = data.without(name)
        elif name not in data:
            # For measuring, `RecordReader` reads only the sections that the document has; this one gets its defaults.
            data = data.with_entry(name, Block(), None)
    return attrs.evolve(document, data=data)


def _of_exporter(blocks: Any, exporter: ExporterSpec) -> Block:
    """The ``export`` block of one exporter, with the settings that the document has for it."""
    if isinstance(blocks, Block):
        for name, block in blocks.items():
            if name in (exporter.name, exporter.reference):
                return Block([(name, block, None)])
    return Block([(exporter.reference, Block(), None)])


def _with_known(document: Document, path: KeyPath, known: Set[str], block: Any) -> Any:
    """A block without the keys of the file that are not ``known``: those of plugins that are absent."""
    if not isinstance(block, Block):
        return block
    absent = []
    for key in block:
        # What the command line sets was asked for at this moment: it is refused later, not ignored.
        is_of_file = document.origin((*path, key)).order < AFTER_THE_FILE
        if key not in known and is_of_file:
            absent.append(key)
    if absent:
        names = ", ".join(dotted((*path, key)) for key in absent)
        log.warning("ignored, because no plugin that is on has these blocks: %s", names)
    return Block(entry for entry in block.entries() if entry[0] not in absent)
