"""From a document to a checked, complete RunConfig; :mod:`rlcore.config.plugins_block` loads its plugins before."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from rlcore.config.document import Block, Document
from rlcore.config.dump import plain
from rlcore.config.inheritance import inherit_defaults, with_environments, with_named_behavior
from rlcore.config.plugins_block import checked_block, directory_of, recorded, with_modules_beside
from rlcore.config.presets import with_presets
from rlcore.config.problems import INVALID, NOT_INSTALLED, UNKNOWN_NAME, Problems
from rlcore.config.reading import document_from_mapping
from rlcore.config.record_reader import RecordReader
from rlcore.config.rewriting import modified_by_plugins, rewritten_by_plugins, with_parameter_blocks
from rlcore.config.rules import check_config, check_names, check_start
from rlcore.config.structure import build
from rlcore.config.used_records import with_records, without_blocks_of_absent
from rlcore.errors import ConfigError, KeyPath, NotInstalled
from rlcore.settings import RunConfig

if TYPE_CHECKING:
    from rlcore.plugins.call import Plugins
    from rlcore.records import ExporterSpec


def config_from_mapping(data: Mapping[str, Any], plugins: Plugins) -> RunConfig:
    """A configuration from plain data, for Python users. Raises like :func:`load_config`."""
    return load_config(document_from_mapping(data), plugins)


def load_config(
    document: Document, plugins: Plugins, *, measuring: bool = False, exporter: ExporterSpec | None = None
) -> RunConfig:
    """The checked, complete configuration. Arguments and errors are those of :func:`load_document`."""
    return load_document(document, plugins, measuring=measuring, exporter=exporter)[0]


def load_document(
    document: Document, plugins: Plugins, *, measuring: bool = False, exporter: ExporterSpec | None = None
) -> tuple[RunConfig, Document]:
    """The checked, complete configuration, as plugins modify it, and the document that it was built from.

    The document has what behaviors and evaluations inherit, and the values of its preset; with
    :func:`located` it gives a place to errors that are found later.

    ``measuring`` is for :class:`rlcore.SavedRun`: plugins of rewards, statistics writers, exporters and
    sections may be absent, because measuring policies does not need them. Its ``export`` has the settings of
    ``exporter`` only. Raises :class:`rlcore.ConfigErrors` with every problem.
    """
    document = with_modules_beside(document)
    # A package that is merely installed must not end runs of which no file names it.
    plugins.leave_out_unusable_sections(document.data)
    if not measuring:
        document = without_blocks_of_absent(document, plugins)
    with located(document):
        document = with_presets(document, plugins)
        document = with_named_behavior(document, plugins)
    # Behaviors inherit before the hooks of plugins, so that what a plugin adds to a behavior is not taken for the
    # user's; and again after the hooks, for what a plugin adds to the default settings.
    document = inherit_defaults(document)
    document = modified_by_plugins(document, plugins)
    document = inherit_defaults(document)
    document = with_parameter_blocks(document)
    problems = Problems(document)
    reader = RecordReader(plugins, document, measuring)
    document = rewritten_by_plugins(document, plugins, problems)
    if measuring:
        from rlcore.config.measuring import without_absent  # no training needs it

        document = without_absent(document, reader, exporter)
    document = with_environments(document, reader, problems)
    problems.document = document  # problems from here on have the places of the complete document
    config = _checked(document, plugins, problems, reader)
    return config, document


def _checked(document: Document, plugins: Plugins, problems: Problems, reader: RecordReader) -> RunConfig:
    """The configuration of a complete document. Raises ConfigErrors with the ``problems`` so far, and those found."""
    checked_block(document.data.get("plugins", {}), problems)
    config: RunConfig | None = build(RunConfig, document.data, (), problems, reader)
    if config is not None:
        check_config(config, plugins, problems, reader.measuring)
        settings = recorded(config.plugins, directory_of(document), plugins)
        config = with_records(config, settings, plugins, document.data)
    check_names(problems)
    check_start(problems)
    if config is not None and not reader.measuring:
        try:
            plain(config, ())  # a run writes its configuration
        except ConfigError as error:
            problems.add(error.key, error.message)
    problems.raise_any()
    assert config is not None
    return config


@contextmanager
def located(document: Document) -> Iterator[None]:
    """Raise a ConfigError of the block again, with the place of its ``key`` in ``document``.

    For errors that are found after the configuration was read, such as those of an environment. An error without a key
    stays as it is.
    """
    try:
        yield
    except ConfigError as error:
        if not error.key:
            raise
        problems = Problems(_with_behavior(document, error.key))
        package = None
        code = INVALID
        if isinstance(error, NotInstalled):
            package = error.package
            code = NOT_INSTALLED if package else UNKNOWN_NAME
        problems.add(error.key, error.message, package, code=code)
        placed = problems.errors()
        placed.repeats_cause = error.repeats_cause
        raise placed from error


def _with_behavior(document: Document, key: KeyPath) -> Document:
    """The document with the behavior that ``key`` is about, if only the environment names it."""
    if len(key) < 2 or key[0] != "behaviors":
        return document
    behaviors = document.data.get("behaviors", Block())
    if not isinstance(behaviors, Block) or key[1] in behaviors:
        return document
    behaviors = behaviors.with_entry(str(key[1]), Block(), None)
    return inherit_defaults(document.with_block("behaviors", behaviors))
