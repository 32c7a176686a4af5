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
from rlcore.config.problems import ConfigErrors, shown
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
    for override in overrides:
        _check_behavior(document.data.get("behaviors"), override)
    for path, value in (flags or {}).items():
        if value is not None:
            flag = _FLAGS.get(path[-1], path[-1])
            overrides.append(_Override(path, value, f"--{flag.replace('_', '-')}"))
    overrides += [_parse_set(text, option) for option, text in (options or {}).items()]
    data = document.data
    for index, override in enumerate(overrides):
        origin = Origin(override.place, AFTER_THE_FILE + index, ())
        data = with_export_block(_put(data, override.path, override.value, origin))
    paths = {override.path for override in overrides}
    # A new start on the command line overrules a resume of the file.
    if _INITIALIZE in paths and _RESUME not in paths and value_at(data, _INITIALIZE):
        data = with_value(data, _RESUME[:1], lambda block: block.without(_RESUME[1]))
    return attrs.evolve(document, data=data)


def _parse_set(text: str, option: str = "--set") -> _Override:
    """The override of ``--set a.b=value``, or of an option of a plugin that stands for it."""
    keys, equals, value = text.partition("=")
    readable = text.encode("utf-8", "replace").decode()
    text = " ".join(readable.split())
    if len(text) > _LONGEST:
        text = f"{text[: _LONGEST - 3]}..."
    path = tuple(_split(keys.strip()))
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


def _check_behavior(listed: Any, override: _Override) -> None:
    """Refuse a ``--set`` for a behavior that the file does not list: the name is mistyped and would only be added."""
    block, *below = override.path
    if block != "behaviors" or not below or not isinstance(listed, Mapping) or not listed or below[0] in listed:
        return
    names = [str(name) for name in listed]
    in_other_case = [name for name in names if name.casefold() == below[0].casefold()]
    hint = f"; did you mean {in_other_case[-1]!r}?" if in_other_case else did_you_mean(below[0], names)
    problem = f"the file has no behavior {below[0]!r}; it has {', '.join(names)}{hint}"
    raise ConfigError(f"{override.place}: {problem}")


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
