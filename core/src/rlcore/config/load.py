"""From a document to a checked, complete RunConfig."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import attrs

from rlcore.config.choices import Choices, without_absent
from rlcore.config.document import Block, Document, Origin, placed, placed_like, with_value, without_origins
from rlcore.config.dump import plain
from rlcore.config.plugins_block import checked_block, directory_of, recorded
from rlcore.config.problems import Problems, shown
from rlcore.config.reading import document_from_mapping
from rlcore.config.rules import check_config, check_names, check_start
from rlcore.config.shapes import ALIAS, NUM_ENVS, evaluation_block, inherit_defaults, with_parameter_blocks
from rlcore.config.structure import INVALID, build, to_int
from rlcore.errors import ConfigError, KeyPath, NotInstalled, PluginError, dotted
from rlcore.plugins.failures import failure
from rlcore.settings import EnvironmentSettings, RunConfig

if TYPE_CHECKING:
    from rlcore.plugins.call import Plugins
    from rlcore.plugins.discover import Plugin
    from rlcore.records import ExporterSpec

HOOK = "rlcore_modify_config"
_AFTER_OVERRIDES = 1 << 31  # the order among errors of values that plugins changed


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

    The document has what behaviors and evaluations inherit; with :func:`located` it gives a
    place to errors that are found later.

    ``measuring`` is for :class:`rlcore.SavedRun`: plugins of rewards, statistics writers, exporters and
    sections may be absent, because measuring policies does not need them. Its ``export`` has the settings of
    ``exporter`` only. Raises :class:`rlcore.ConfigErrors` with every problem.
    """
    # Before, so that what a plugin adds to a behavior is not taken for the user's; after, for what it adds to defaults.
    document = inherit_defaults(modified_by_plugins(inherit_defaults(document), plugins))
    document = with_parameter_blocks(document)
    choices = Choices(plugins, document, measuring)
    if measuring:
        document = without_absent(document, choices, exporter)
    problems = Problems(document)
    document = _with_num_envs(document, problems)
    document = problems.document = _with_evaluation_environment(document, choices, problems)
    checked_block(document.data.get("plugins", {}), problems)
    config = build(RunConfig, document.data, (), problems, choices)
    if isinstance(config, RunConfig):
        check_config(config, plugins, problems, measuring)
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
    return config, document


def _with_num_envs(document: Document, problems: Problems) -> Document:
    """The document with ML-Agents' ``env_settings.num_envs`` as ``environment.num_envs``, which is 1 by default."""
    data = document.data
    given, environment = data.get(ALIAS[0]), data.get(NUM_ENVS[0])
    alias: Any = None
    if isinstance(given, Block) and ALIAS[1] in given:
        alias = Block([(ALIAS[1], given[ALIAS[1]], given.origins.get(ALIAS[1]))])
        data = with_value(data, ALIAS[:1], lambda block: block.without(ALIAS[1]))
        if build(EnvironmentSettings, alias, ALIAS[:1], problems) is INVALID or alias[ALIAS[1]] is None:
            alias = None
    if isinstance(environment, Block):
        own = environment.get(NUM_ENVS[1])
        if own is None:
            value, origin = (1, None) if alias is None else (alias[ALIAS[1]], alias.origins.get(ALIAS[1]))
            environment = environment.with_entry(NUM_ENVS[1], value, origin)
            data = with_value(data, NUM_ENVS[:1], lambda _: environment)
        elif alias is not None and to_int(own) not in (INVALID, to_int(alias[ALIAS[1]])):
            problems.add(NUM_ENVS, f"conflicts with {dotted(ALIAS)} ({to_int(alias[ALIAS[1]])}); set only one")
    return attrs.evolve(document, data=data)


def _with_evaluation_environment(document: Document, choices: Choices, problems: Problems) -> Document:
    """The document with the complete environment of evaluations: its own entries, over ``environment``.

    ``environment`` has its defaults then: they are decided once, so that the configuration that a run writes loads to
    an equal one.
    """
    path = ("evaluation", "environment")
    evaluation, base = document.data.get(path[0]), document.data.get("environment")
    if not isinstance(evaluation, Block):
        return document
    own, complete = evaluation.get(path[1], Block()), None
    if not isinstance(own, Block):
        problems.add(path, f"must be a mapping, not {shown(own)}")
    elif base is None and not own:
        problems.add(path[:1], "there is no environment to evaluate in; give environment or evaluation.environment")
    else:
        built = INVALID
        if isinstance(base, Block):
            built = build(EnvironmentSettings, base, path[1:], Problems(document), choices)
        if built is not INVALID:
            base = placed_like(plain(built, path[1:], secrets=True), base)
        if own or built is not INVALID:
            complete = evaluation_block(own, base if isinstance(base, Block) else None)
    evaluation = evaluation.without(path[1])
    if complete is not None:
        origin = document.data["evaluation"].origins.get(path[1])
        evaluation = evaluation.with_entry(path[1], complete, origin)
    return attrs.evolve(document, data=with_value(document.data, path[:1], lambda _: evaluation))


def modified_by_plugins(document: Document, plugins: Plugins) -> Document:
    """The document as the ``rlcore_modify_config`` of each plugin leaves it. Raises PluginError for unusable data."""
    current = document

    def changed(owner: Plugin, data: dict[str, Any]) -> None:
        nonlocal current
        try:
            plain = document_from_mapping(data).data
        except (ConfigError, RecursionError) as error:
            raise failure(owner.described, f"in {HOOK}", error) from error
        if plain.get("plugins") != current.data.get("plugins"):
            raise PluginError(
                f"{owner.described}: {HOOK} changed the plugins block, but plugins are chosen before the hook is "
                "called; name plugins in the environment variable RLCORE_PLUGINS instead"
            )
        data_with_origins = _with_origins(plain, current.data, Origin(owner.described, _AFTER_OVERRIDES, ()))
        current = attrs.evolve(current, data=data_with_origins)

    plugins.modify_config(lambda: without_origins(current.data), changed)
    return current


def _with_origins(now: Mapping[str, Any], before: Block, at: Origin) -> Block:
    """``now`` as a block: entries that equal those of ``before`` keep their origins, others have the origin ``at``."""
    block = Block()
    for key, value in now.items():
        old, origin = before.get(key), at.below((key,))
        if isinstance(value, Mapping) and isinstance(old, Block):
            block.put(key, _with_origins(value, old, origin), before.origins.get(key))
        elif key in before and repr(value) == repr(old):  # not ==: 1, 1.0 and true are equal in Python
            block.put(key, old, before.origins.get(key))
        else:
            block.put(key, placed(value, origin), origin)
    return block


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
