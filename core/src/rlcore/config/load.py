"""From a document to its plugins, and to a checked, complete RunConfig.

The ``plugins`` block is read before any plugin is imported; :mod:`rlcore.plugins.select` decides which plugins are on.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import attrs

from rlcore.config.choices import Choices
from rlcore.config.document import Block, ConfigErrors, Document, Items, Problems, value_at
from rlcore.config.dump import plain
from rlcore.config.named import with_records, without_blocks_of_absent
from rlcore.config.presets import with_named_behavior, with_preset
from rlcore.config.reading import document_from_mapping
from rlcore.config.rewriting import (
    inherit_defaults,
    modified_by_plugins,
    with_evaluation_environment,
    with_num_envs,
    with_parameter_blocks,
    without_absent,
    without_not_supported,
)
from rlcore.config.rules import check_config, check_names, check_start
from rlcore.config.structure import build
from rlcore.errors import ConfigError, KeyPath, NotInstalled
from rlcore.plugins.call import Plugins, load_plugins
from rlcore.plugins.discover import LOCAL_PREFIX, anchored, is_free
from rlcore.plugins.select import Selection, block_problems, is_local, selection_from
from rlcore.settings import PluginSettings, RunConfig

if TYPE_CHECKING:
    from rlcore.records import ExporterSpec

MAX_REFERENCES = 1_000
_REFERENCE = re.compile(r"[A-Za-z0-9][\w.-]*/[A-Za-z][\w.-]*")  # DIST/NAME
_TARGET = re.compile(r"[A-Za-z_][\w.]*:[A-Za-z_]\w*")  # MODULE:NAME


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
    plugins.leave_out_unusable_sections(document.data)
    if not measuring:
        document = without_blocks_of_absent(document, plugins)
    with located(document):
        document = with_named_behavior(with_preset(document, plugins), plugins)
    # Before, so that what a plugin adds to a behavior is not taken for the user's; after, for what it adds to defaults.
    document = inherit_defaults(modified_by_plugins(inherit_defaults(document), plugins))
    document = with_parameter_blocks(document)
    choices = Choices(plugins, document, measuring)
    problems = Problems(document)
    document = without_not_supported(document, problems)
    if measuring:
        document = without_absent(document, choices, exporter)
    document = with_num_envs(document, problems)
    document = problems.document = with_evaluation_environment(document, choices, problems)
    checked_block(document.data.get("plugins", {}), problems)
    config: RunConfig | None = build(RunConfig, document.data, (), problems, choices)
    if config is not None:
        check_config(config, plugins, problems, measuring)
        config = attrs.evolve(config, plugins=recorded(config.plugins, directory_of(document), plugins))
        config = with_records(config, plugins, document.data)
    check_names(problems)
    check_start(problems)
    if config is not None and not measuring:
        try:
            plain(config, ())
        except ConfigError as error:
            problems.add(error.key, error.message)
    problems.raise_any()
    assert config is not None
    return config, document


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
        problems.add(error.key, error.message, error.package if isinstance(error, NotInstalled) else None)
        placed = problems.errors()
        placed.repeats_cause = error.repeats_cause
        raise placed from error


def _with_behavior(document: Document, key: KeyPath) -> Document:
    """The document with the behavior that ``key`` is about, if only the environment names it."""
    behaviors = document.data.get("behaviors", Block())
    if len(key) < 2 or key[0] != "behaviors" or not isinstance(behaviors, Block) or key[1] in behaviors:
        return document
    complete = behaviors.with_entry(str(key[1]), Block(), None)
    data = document.data.with_entry("behaviors", complete, document.data.origins.get("behaviors"))
    return inherit_defaults(attrs.evolve(document, data=data))


# ---------------------------------------------------------------- the plugins block


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
    for key in ("enable", "disable", "local", "chosen", "optional"):
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
    local = {choice.reference: choice.on for choice in selection.choices if is_local(choice)}
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
