"""The part of a configuration that measuring policies needs: plugins that only a training uses may be absent."""

from __future__ import annotations

import logging
from collections.abc import Set
from typing import Any

import attrs

from rlcore.config.choices import Choices
from rlcore.config.document import AFTER_THE_FILE, Block, Document, with_value
from rlcore.config.problems import Problems
from rlcore.config.structure import build
from rlcore.errors import KeyPath, dotted
from rlcore.records import ExporterSpec
from rlcore.settings import BehaviorSettings, RunConfig
from rlcore.settings.fields import FieldInfo

log = logging.getLogger(__name__)


def without_absent(document: Document, choices: Choices, exporter: ExporterSpec | None) -> Document:
    """The document without what no measurement needs: writers, other exporters, and blocks of absent plugins."""
    data = document.data.without("stats").without("export")
    if exporter is not None:
        data = data.with_entry("export", _of_exporter(document.data.get("export"), exporter), None)
    top = {*choices.sections, *FieldInfo.fields_of(RunConfig)}
    of_plugins = {record.name for record in choices.plugins.records("behavior")}
    of_behaviors = of_plugins.union(FieldInfo.fields_of(BehaviorSettings))
    data = _known(document, data, (), top)
    for name in data.get("behaviors") or ():
        data = _with_known(document, data, ("behaviors", str(name)), of_behaviors)
    data = _with_known(document, data, ("default_settings",), of_behaviors)
    for name, record in choices.sections.items():
        problems = Problems(document)
        owner = choices.owner_of(record)
        section = build(record.resolve(), data.get(name, {}), (name,), problems, choices, owner)
        if section is None:
            log.warning("ignored, because no measurement needs it: %s", problems.errors().problems[0])
            data = data.without(name)
        elif name not in data:
            data = data.with_entry(name, Block(), None)
    return attrs.evolve(document, data=data)


def _of_exporter(blocks: Any, exporter: ExporterSpec) -> Block:
    """The ``export`` block of one exporter, with the settings that the document has for it."""
    if isinstance(blocks, Block):
        for name, block in blocks.items():
            if name in (exporter.name, exporter.reference):
                return Block([(name, block, None)])
    return Block([(exporter.reference, Block(), None)])


def _with_known(document: Document, data: Block, path: tuple[str, ...], known: Set[str]) -> Block:
    return with_value(data, path, lambda block: _known(document, block, path, known))


def _known(document: Document, block: Any, path: KeyPath, known: Set[str]) -> Any:
    """A block without the keys of the file that are not ``known``: those of plugins that are absent."""
    if not isinstance(block, Block):
        return block
    absent = [key for key in block if key not in known and document.origin((*path, key)).order < AFTER_THE_FILE]
    if absent:
        names = ", ".join(dotted((*path, key)) for key in absent)
        log.warning("ignored, because no plugin that is on has these blocks: %s", names)
    return Block(entry for entry in block.entries() if entry[0] not in absent)
