"""Apply the changes of the command line to a document: ``--set a.b=1`` and the flags that stand for a key."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import attrs

from rlcore.config.document import (
    ALIAS,
    NUM_ENVS,
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

AFTER_THE_FILE = 1 << 30  # the order of overrides among errors: after every line

# An override of the key on the left also overrules what the file says under the key on the right.
_OVERRULED: dict[tuple[str, ...], tuple[str, ...]] = {
    ALIAS: NUM_ENVS,
    NUM_ENVS: ALIAS,
    ("checkpoint_settings", "initialize_from"): ("checkpoint_settings", "resume"),
}


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
    places: Mapping[str, str] | None = None,
) -> Document:
    """The document as the command line changes it; ``document`` itself stays as it is.

    ``sets`` are ``"a.b=value"`` with the value in YAML; a key that contains a dot is quoted: ``a."b.c"=1``. ``flags``
    maps paths to typed values; None means that the flag was not given. ``options`` are those of plugins, by their names
    with dashes, with a text as in ``sets``. A flag or an option beats a ``--set`` of the same key. ``places`` are the
    places of texts in ``sets`` that a file has, such as ``"sweep.yaml:7"``; errors name them instead of ``--set``.
    """
    overrides = [_parse_set(text, place=(places or {}).get(text)) for text in sets]
    for override in overrides:
        _check_behavior(document.data.get("behaviors"), override)
    overrides += [
        _Override(path, value, f"--{path[-1].replace('_', '-')}")
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


def _parse_set(text: str, option: str = "--set", place: str | None = None) -> _Override:
    """The override of ``--set a.b=value``, or of an option of a plugin or a line of a file that stands for it."""
    keys, equals, value = text.partition("=")
    text = " ".join(text.encode("utf-8", "replace").decode().split())  # as the error shows it
    text = text if len(text) <= 200 else f"{text[:197]}..."
    path = _split(keys.strip())
    if not equals or not path or not all(path):
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
    place = place or (f"--set {dotted(path)}" if option == "--set" else option)
    return _Override(path, without_origins(parsed.data["value"]), place)


def _check_behavior(listed: Any, override: _Override) -> None:
    """Refuse a ``--set`` for a behavior that the file does not list: the name is mistyped and would only be added."""
    path = override.path
    if path[0] == "behaviors" and len(path) > 1 and isinstance(listed, Mapping) and listed and path[1] not in listed:
        folded = {str(name).casefold(): str(name) for name in listed}
        name = folded.get(path[1].casefold())
        hint = f"; did you mean {name!r}?" if name else did_you_mean(path[1], map(str, listed))
        where = override.place if override.place.endswith(dotted(path)) else f"{override.place}: {dotted(path)}"
        raise ConfigError(f"{where}: the file has no behavior {path[1]!r}; it has {', '.join(map(str, listed))}{hint}")


def _split(keys: str) -> tuple[str, ...]:
    """``a."b.c".d`` as ``("a", "b.c", "d")``."""
    parts, current, quote = [], "", ""
    for character in keys:
        if quote:
            if character == quote:
                quote = ""
            else:
                current += character
        elif character in "'\"":
            quote = character
        elif character == ".":
            parts.append(current)
            current = ""
        else:
            current += character
    return (*parts, current)


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
