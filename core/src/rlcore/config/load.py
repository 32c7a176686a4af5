"""From a document to a checked, complete RunConfig."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import attrs

from rlcore.config.blocks import Blocks
from rlcore.config.collected import Problems
from rlcore.config.data_source import check_data_source
from rlcore.config.document import Document, document_from_mapping
from rlcore.config.dump import plain
from rlcore.config.inherit import inherit_defaults
from rlcore.config.modify import modified_by_plugins
from rlcore.config.parameter_blocks import with_parameter_blocks
from rlcore.config.plugins_block import directory_of, recorded
from rlcore.config.rules import (
    check_behaviors,
    check_blocks,
    check_curricula,
    check_exporters,
    check_names,
    check_routes,
    check_start,
    check_workers,
)
from rlcore.errors import ConfigError
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

    The document has what behaviors and evaluations inherit; with :func:`rlcore.config.collected.located` it gives a
    place to errors that are found later.

    ``measuring`` is for :class:`rlcore.SavedRun`: plugins of rewards, statistics writers, exporters and
    sections may be absent, because measuring policies does not need them. Its ``export`` has the settings of
    ``exporter`` only. Raises :class:`rlcore.ConfigErrors` with every problem.
    """
    # Before, so that what a plugin adds to a behavior is not taken for the user's; after, for what it adds to defaults.
    document = inherit_defaults(modified_by_plugins(inherit_defaults(document), plugins))
    problems = Problems(with_parameter_blocks(document))
    config = Blocks(plugins, problems, measuring, exporter).run_config()
    if isinstance(config, RunConfig):
        check_data_source(config, plugins, problems)
        check_curricula(config, plugins, problems)
        if not measuring:
            check_blocks(config, plugins, problems)
        check_exporters(config, plugins, problems)
        check_routes(config, problems)
        check_workers(config, plugins, problems)
        check_behaviors(config, plugins, problems)
        config = attrs.evolve(config, plugins=recorded(config.plugins, directory_of(document), plugins))
    check_names(problems)
    check_start(problems)
    if isinstance(config, RunConfig) and not measuring:
        try:
            plain(config, ())
        except ConfigError as error:
            problems.add(error.key, error.message)
    problems.raise_any()
    assert isinstance(config, RunConfig)
    return config, problems.document
