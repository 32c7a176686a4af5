"""Changes of the command line in a document: ``--set a.b=1``, flags that stand for a key, and options of plugins."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from typing import Any

import attrs

from rlcore.config.document import (
    AFTER_THE_FILE,
    Block,
    Document,
    Origin,
    placed,
    value_at,
    with_export_block,
    with_value,
    without_origins,
)
from rlcore.config.problems import ConfigErrors, short_repr
from rlcore.config.reading import MAX_DEPTH, parse_document
from rlcore.errors import ConfigError, did_you_mean, dotted

_FLAGS = {"id": "env", "trainer_type": "trainer"}  # where the flag of a key is not called like the key
_INITIALIZE = ("checkpoint_settings", "initialize_from")
_RESUME = ("checkpoint_settings", "resume")
_LONGEST = 200  # letters of a --set that a message repeats


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
    behaviors = document.data.get("behaviors")
    for override in overrides:
        _check_behavior(behaviors, override)
    for path, value in (flags or {}).items():
        if value is not None:
            key = path[-1]
            flag = _FLAGS.get(key, key).replace("_", "-")
            overrides.append(_Override(path, value, f"--{flag}"))
    for option, text in (options or {}).items():
        overrides.append(_parse_set(text, option))
    data = document.data
    for index, override in enumerate(overrides):  # later ones win: --set, then flags, then options of plugins
        origin = Origin(override.place, AFTER_THE_FILE + index, ())
        data = with_export_block(_put(data, override.path, override.value, origin))
    paths = {override.path for override in overrides}
    # A new start on the command line overrules a resume of the file, as in ML-Agents: the command line wins.
    if _INITIALIZE in paths and _RESUME not in paths and value_at(data, _INITIALIZE):
        block, key = _RESUME
        data = with_value(data, (block,), lambda settings: settings.without(key))
    return attrs.evolve(document, data=data)


def _parse_set(text: str, option: str = "--set") -> _Override:
    """The override of ``--set a.b=value``, or of an option of a plugin that stands for it."""
    keys, equals, value = text.partition("=")
    readable = text.encode("utf-8", "replace").decode()
    text = " ".join(readable.split())
    if len(text) > _LONGEST:
        text = f"{text[: _LONGEST - 3]}..."
    path = tuple(_keys(keys.strip()))
    if not equals or not path or "" in path:
        raise ConfigError(f"--set {text}: write --set PATH=VALUE, for example --set env_settings.seed=1")
    if len(path) > MAX_DEPTH:
        raise ConfigError(f"--set {dotted(path[:3])}...: nested deeper than {MAX_DEPTH} levels")
    # Read like a file, by the same strict reader: the value on the line below a key.
    try:
        parsed = parse_document(f"value:\n {value}", "value").data
    except ConfigErrors as error:
        problem = error.problems[0].message
        raise ConfigError(f"{option} {text}: the value must be plain YAML: {problem}") from None
    if set(parsed) != {"value"}:
        raise ConfigError(f"{option} {text}: the value must be one YAML value")
    place = f"--set {dotted(path)}" if option == "--set" else option
    return _Override(path, without_origins(parsed["value"]), place)


def _check_behavior(behaviors: Any, override: _Override) -> None:
    """Refuse a ``--set`` for a behavior that the file does not list: the name is mistyped and would only be added."""
    if len(override.path) < 2 or not isinstance(behaviors, Mapping) or not behaviors:
        return
    block, name, *_ = override.path
    if block != "behaviors" or name in behaviors:
        return
    names = [str(behavior) for behavior in behaviors]
    in_other_case = [behavior for behavior in names if behavior.casefold() == name.casefold()]
    hint = f"; did you mean {in_other_case[-1]!r}?" if in_other_case else did_you_mean(name, names)
    problem = f"the file has no behavior {name!r}; it has {', '.join(names)}{hint}"
    raise ConfigError(f"{override.place}: {problem}")


def _keys(text: str) -> list[str]:
    """``a."b.c".d`` as ``["a", "b.c", "d"]``; empty if a key is empty."""
    if not all(text.split(".")):
        return []
    words = shlex.shlex(text, posix=True)
    words.whitespace = "."
    words.whitespace_split = True
    words.commenters = ""
    words.escape = ""
    try:
        return list(words)
    except ValueError:  # a quote that is not closed
        return []


def _put(block: Block, path: tuple[str, ...], value: Any, parent: Origin) -> Block:
    """A copy of ``block``, which ``parent`` is the origin of, with ``value`` at ``path``; adds missing blocks."""
    key = path[0]
    below = path[1:]
    origin = parent.below((key,))
    if not below:
        return block.with_entry(key, placed(value, origin), origin)
    child = block.get(key)
    if child is None:
        return block.with_entry(key, _put(Block(), below, value, origin), origin)
    if not isinstance(child, Block):
        problem = f"{dotted(origin.path)} is {short_repr(child)}, so nothing can be set inside it"
        raise ConfigError(f"{parent.place}: {problem}")
    child = _put(child, below, value, origin)
    return block.with_entry(key, child, block.origins.get(key))
