"""The steps that rewrite a document before it is checked; :mod:`rlcore.config.load` calls them in order.

The command line changes entries: ``--set a.b=1``, and the flags that stand for a key. Behaviors inherit from
``default_settings``, and the environment of evaluations from ``environment``. Plugins change what they like. Shorter
ways to write a block become one: ``environment_parameters`` gets the shape ``{NAME: {curriculum: {type: ..., ...}}}``,
where ML-Agents has three more, which all mean lessons: a number, a sampler, and ``{curriculum: [lessons]}``.
"""

from __future__ import annotations

import logging
import shlex
from collections.abc import Mapping, Sequence, Set
from functools import partial
from typing import TYPE_CHECKING, Any

import attrs

from rlcore.config.document import (
    AFTER_THE_FILE,
    Block,
    ConfigErrors,
    Document,
    Items,
    Origin,
    Problems,
    merged,
    placed,
    placed_like,
    shown,
    to_float,
    to_int,
    value_at,
    with_export_block,
    with_value,
    without_origins,
)
from rlcore.config.dump import NOT_INHERITED, plain, same_type
from rlcore.config.reading import MAX_DEPTH, document_from_mapping, parse_document
from rlcore.config.structure import build, unknown_key
from rlcore.errors import ConfigError, KeyPath, PluginError, did_you_mean, dotted
from rlcore.plugins.failures import failure
from rlcore.plugins.known import LESSONS, PACKAGES
from rlcore.settings import BehaviorSettings, EnvironmentSettings, RunConfig
from rlcore.settings.fields import settings_fields

if TYPE_CHECKING:
    from rlcore.config.choices import Choices
    from rlcore.plugins.call import Plugins
    from rlcore.plugins.discover import Plugin
    from rlcore.records import ExporterSpec

log = logging.getLogger(__name__)

NUM_ENVS = ("environment", "num_envs")
ALIAS = ("env_settings", "num_envs")  # of ML-Agents
PLACES: tuple[tuple[str, ...], ...] = (("environment_parameters",), ("evaluation", "environment_parameters"))
HOOK = "rlcore_modify_config"

NOT_SUPPORTED: Mapping[str, Mapping[str, Any]] = {
    "env_settings": {"env_path": None, "env_args": None, "base_port": 5005, "num_areas": 1},
    "engine_settings": {
        "width": 84,
        "height": 84,
        "quality_level": 5,
        "time_scale": 20,
        "target_frame_rate": -1,
        "capture_frame_rate": 60,
        "no_graphics": False,
        "no_graphics_monitor": False,
    },
    "checkpoint_settings": {"load_model": False, "train_model": False},
}
"""Keys of ML-Agents that a file may only have with these defaults, by block."""

# An override of the key on the left also overrules what the file says under the key on the right.
_OVERRULED: dict[tuple[str, ...], tuple[str, ...]] = {
    ALIAS: NUM_ENVS,
    NUM_ENVS: ALIAS,
    ("checkpoint_settings", "initialize_from"): ("checkpoint_settings", "resume"),
}


_FLAGS = {"id": "env", "trainer_type": "trainer"}  # where the flag of a key is not called like the key


@attrs.frozen
class _Override:
    path: tuple[str, ...]
    value: Any
    place: str  # "--set a.b", "--seed"


def apply_overrides(
    document: Document,
    sets: Sequence[str] = (),
    flags: Mapping[tuple[str, ...], Any] | None = None,
    options: Mapping[str, str] | None = None,
) -> Document:
    """The document as the command line changes it; ``document`` itself stays as it is.

    ``sets`` are ``"a.b=value"`` with the value in YAML; a key that contains a dot is quoted: ``a."b.c"=1``. ``flags``
    maps paths to typed values; None means that the flag was not given. ``options`` are those of plugins, by their names
    with dashes, with a text as in ``sets``. A flag or an option beats a ``--set`` of the same key.
    """
    overrides = [_parse_set(text) for text in sets]
    for override in overrides:
        _check_behavior(document.data.get("behaviors"), override)
    overrides += [
        _Override(path, value, f"--{_FLAGS.get(path[-1], path[-1]).replace('_', '-')}")
        for path, value in (flags or {}).items()
        if value is not None
    ]
    overrides += [_parse_set(text, option) for option, text in (options or {}).items()]
    data = document.data
    for index, override in enumerate(overrides):
        origin = Origin(override.place, AFTER_THE_FILE + index, ())
        data = with_export_block(_put(data, override.path, override.value, origin))
    overridden = {override.path for override in overrides}
    for path in overridden:
        overruled = _OVERRULED.get(path)
        if overruled is not None and overruled not in overridden and value_at(data, path):
            data = with_value(data, overruled[:-1], partial(_without, key=overruled[-1]))
    return attrs.evolve(document, data=data)


def _parse_set(text: str, option: str = "--set") -> _Override:
    """The override of ``--set a.b=value``, or of an option of a plugin that stands for it."""
    keys, equals, value = text.partition("=")
    text = " ".join(text.encode("utf-8", "replace").decode().split())  # as the error shows it
    text = text if len(text) <= 200 else f"{text[:197]}..."
    path = tuple(_split(keys.strip()))
    if not equals or not all(path or [""]):
        raise ConfigError(f"--set {text}: write --set PATH=VALUE, for example --set env_settings.seed=1")
    if len(path) > MAX_DEPTH:
        raise ConfigError(f"--set {dotted(path[:3])}...: nested deeper than {MAX_DEPTH} levels")
    # Read like a file, by the same strict reader: the value on the line below a key.
    try:
        parsed = parse_document(f"value:\n {value}", "value")
    except ConfigErrors as error:
        raise ConfigError(f"{option} {text}: the value must be plain YAML: {error.problems[0].message}") from None
    if set(parsed.data) != {"value"}:
        raise ConfigError(f"{option} {text}: the value must be one YAML value")
    place = f"--set {dotted(path)}" if option == "--set" else option
    return _Override(path, without_origins(parsed.data["value"]), place)


def _check_behavior(listed: Any, override: _Override) -> None:
    """Refuse a ``--set`` for a behavior that the file does not list: the name is mistyped and would only be added."""
    path = override.path
    if path[0] == "behaviors" and len(path) > 1 and isinstance(listed, Mapping) and listed and path[1] not in listed:
        folded = {str(name).casefold(): str(name) for name in listed}
        name = folded.get(path[1].casefold())
        hint = f"; did you mean {name!r}?" if name else did_you_mean(path[1], map(str, listed))
        raise ConfigError(
            f"{override.place}: the file has no behavior {path[1]!r}; it has {', '.join(map(str, listed))}{hint}"
        )


def _split(keys: str) -> list[str]:
    """``a."b.c".d`` as ``["a", "b.c", "d"]``; empty if a key is empty."""
    words = shlex.shlex(keys, posix=True)
    words.whitespace = "."
    words.whitespace_split = True
    words.commenters = ""
    words.escape = ""
    try:
        return list(words) if all(keys.split(".")) else []
    except ValueError:  # a quote that is not closed
        return []


def _put(block: Block, path: tuple[str, ...], value: Any, at: Origin) -> Block:
    """A copy of ``block``, which stands at ``at.path``, with ``value`` at ``path`` below it; adds missing blocks."""
    key, *rest = path
    origin = at.below((key,))
    if not rest:
        return block.with_entry(key, placed(value, origin), origin)
    child = block.get(key)
    if child is None:
        return block.with_entry(key, _put(Block(), tuple(rest), value, origin), origin)
    if not isinstance(child, Block):
        raise ConfigError(f"{at.place}: {dotted(origin.path)} is {shown(child)}, so nothing can be set inside it")
    return block.with_entry(key, _put(child, tuple(rest), value, origin), block.origins.get(key))


def _without(block: Any, key: str) -> Any:
    return block.without(key) if isinstance(block, Block) else block


# ---------------------------------------------------------------- blocks that inherit


def inherit_defaults(document: Document) -> Document:
    """The document with ``default_settings`` merged under each behavior, as deep as both are mappings."""
    defaults = document.data.get("default_settings")
    behaviors = document.data.get("behaviors")
    if not isinstance(defaults, Block) or not isinstance(behaviors, Block):
        return document
    complete = Block(
        (name, merged(own, defaults) if isinstance(own, Block) else own, origin)
        for name, own, origin in behaviors.entries()
    )
    origin = document.data.origins.get("behaviors")
    return attrs.evolve(document, data=document.data.with_entry("behaviors", complete, origin))


def evaluation_block(own: Block, base: Block | None) -> Block:
    """The environment block of evaluations: ``own`` over ``environment``, unless ``own`` is of another type."""
    if base is None or not same_type(own, base):
        return own
    for key in NOT_INHERITED:
        base = base.without(key)
    return merged(own, base)


def with_evaluation_environment(document: Document, choices: Choices, problems: Problems) -> Document:
    """The document with the complete environment of evaluations: its own entries, over ``environment``.

    ``environment`` has its defaults then: they are decided once, so that the configuration that a run writes loads to
    an equal one.
    """
    path = ("evaluation", "environment")
    evaluation = document.data.get(path[0])
    base = document.data.get("environment")
    if not isinstance(evaluation, Block):
        return document
    own = evaluation.get(path[1], Block())
    complete = None
    if not isinstance(own, Block):
        problems.add(path, f"must be a mapping, not {shown(own)}")
    elif base is None and not own:
        problems.add(path[:1], "there is no environment to evaluate in; give environment or evaluation.environment")
    else:
        base = base if isinstance(base, Block) else None
        built = None
        if base is not None:
            built = build(EnvironmentSettings, base, path[1:], Problems(document), choices)
            base = base if built is None else placed_like(plain(built, path[1:], secrets=True), base)
        if own or built is not None:
            complete = evaluation_block(own, base)
    evaluation = evaluation.without(path[1])
    if complete is not None:
        origin = document.data["evaluation"].origins.get(path[1])
        evaluation = evaluation.with_entry(path[1], complete, origin)
    return attrs.evolve(document, data=with_value(document.data, path[:1], lambda _: evaluation))


# ---------------------------------------------------------------- plugins


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
        at = Origin(owner.described, 2 * AFTER_THE_FILE, ())
        current = attrs.evolve(current, data=placed_like(plain, current.data, at))

    plugins.modify_config(lambda: without_origins(current.data), changed)
    return current


# ---------------------------------------------------------------- one way to write a block, and ML-Agents' keys


def with_parameter_blocks(document: Document) -> Document:
    """The document with every block of ``environment_parameters`` in the one shape, if the block has a known shape."""
    data = document.data
    for place in PLACES:
        data = with_value(data, place, _blocks)
    return attrs.evolve(document, data=data)


def _blocks(blocks: Any) -> Any:
    if not isinstance(blocks, Block):
        return blocks
    return Block((name, _one_shape(name, block, origin), origin) for name, block, origin in blocks.entries())


def _one_shape(name: str, block: Any, origin: Origin | None) -> Any:
    if isinstance(block, Block) and isinstance(block.get("curriculum"), list):
        at = block.origins.get("curriculum")
        curriculum = Block([("type", LESSONS, at), ("lessons", block["curriculum"], at)])
        return block.with_entry("curriculum", curriculum, at)
    is_sampler = isinstance(block, Mapping) and not {"sampler_type", "sampler_parameters"}.isdisjoint(block)
    if is_sampler or to_float(block) is not None:
        lesson = Block([("name", name, origin), ("value", block, origin)])
        curriculum = Block([("type", LESSONS, origin), ("lessons", Items([(lesson, origin)]), origin)])
        return Block([("curriculum", curriculum, origin)])
    return block


def with_num_envs(document: Document, problems: Problems) -> Document:
    """The document with ML-Agents' ``env_settings.num_envs`` as ``environment.num_envs``, which is 1 by default."""
    data = document.data
    given = data.get(ALIAS[0])
    environment = data.get(NUM_ENVS[0])
    alias: Any = None
    if isinstance(given, Block) and ALIAS[1] in given:
        alias = Block([(ALIAS[1], given[ALIAS[1]], given.origins.get(ALIAS[1]))])
        data = with_value(data, ALIAS[:1], lambda block: block.without(ALIAS[1]))
        if build(EnvironmentSettings, alias, ALIAS[:1], problems) is None or alias[ALIAS[1]] is None:
            alias = None
    if isinstance(environment, Block):
        own = environment.get(NUM_ENVS[1])
        if own is None:
            value, origin = (1, None) if alias is None else (alias[ALIAS[1]], alias.origins.get(ALIAS[1]))
            environment = environment.with_entry(NUM_ENVS[1], value, origin)
            data = with_value(data, NUM_ENVS[:1], lambda _: environment)
        elif alias is not None and to_int(own) not in (None, to_int(alias[ALIAS[1]])):
            problems.add(NUM_ENVS, f"conflicts with {dotted(ALIAS)} ({to_int(alias[ALIAS[1]])}); set only one")
    return attrs.evolve(document, data=data)


def without_not_supported(document: Document, problems: Problems) -> Document:
    """The document without the keys of ML-Agents that may only have their defaults, and without their own block."""
    data = document.data
    for name, defaults in NOT_SUPPORTED.items():
        block = data.get(name, Block())
        own = name == "engine_settings"
        if not isinstance(block, Block):
            if own:
                problems.add((name,), f"must be a mapping of settings, not {shown(block)}")
            continue
        for key, value in block.items():
            if key in defaults:
                default = shown(defaults[key])
                if shown(value) not in (default, f"{default}.0"):
                    player = f"environment: {{type: unity}} of {PACKAGES['environment', 'unity']}"
                    where = "" if name == "checkpoint_settings" else f" without {player}"
                    problems.add((name, key), f"not supported{where}; only its default, {default}, is allowed")
                data = with_value(data, (name,), partial(_without, key=key))
            elif own:
                problems.add((name, key), unknown_key(key, list(defaults)))
    return attrs.evolve(document, data=data.without("engine_settings"))


# ---------------------------------------------------------------- to measure policies


def without_absent(document: Document, choices: Choices, exporter: ExporterSpec | None) -> Document:
    """The document without what no measurement needs: writers, other exporters, and blocks of absent plugins."""
    data = document.data.without("stats").without("export")
    if exporter is not None:
        given = document.data.get("export")
        names = (exporter.name, exporter.reference)
        entries = given.items() if isinstance(given, Mapping) else ()
        own = next(((name, block, None) for name, block in entries if name in names), (names[1], Block(), None))
        data = data.with_entry("export", Block([own]), None)
    claimed = {record.name for record in choices.plugins.records("behavior")}.union(settings_fields(BehaviorSettings))

    def known(block: Any, *path: str) -> Any:
        return _known(document, block, path, claimed)

    def behaviors(blocks: Any) -> Any:
        own = blocks.entries() if isinstance(blocks, Block) else ()
        return Block((name, known(block, "behaviors", name), at) for name, block, at in own) if own else blocks

    data = _known(document, data, (), {*choices.sections, *settings_fields(RunConfig)})
    data = with_value(data, ("default_settings",), lambda block: known(block, "default_settings"))
    data = with_value(data, ("behaviors",), behaviors)
    for name, record in choices.sections.items():
        problems = Problems(document)
        section = build(record.resolve(), data.get(name, {}), (name,), problems, choices, choices.owner_of(record))
        if section is None:
            log.warning("ignored, because no measurement needs it: %s", problems.errors().problems[0])
            data = data.without(name)
        elif name not in data:
            data = data.with_entry(name, Block(), None)
    return attrs.evolve(document, data=data)


def _known(document: Document, block: Any, path: KeyPath, known: Set[str]) -> Any:
    """A block without the keys of the file that are not ``known``: those of plugins that are absent."""
    if not isinstance(block, Block):
        return block
    absent = [key for key in block if key not in known and document.origin((*path, key)).order < AFTER_THE_FILE]
    if absent:
        names = ", ".join(dotted((*path, key)) for key in absent)
        log.warning("ignored, because no plugin that is on has these blocks: %s", names)
    return Block(entry for entry in block.entries() if entry[0] not in absent)
