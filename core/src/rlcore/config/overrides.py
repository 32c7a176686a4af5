"""What the command line changes in a document: ``--set a.b=1`` and the flags that stand for a key."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from typing import Any

import attrs

from rlcore.config.document import MAX_DEPTH, Document, parse_document
from rlcore.config.problems import KeyPath, Origin, dotted, shown
from rlcore.errors import ConfigError, did_you_mean

AFTER_THE_FILE = 1 << 30  # the order of overrides among errors: behind every line

# Two keys for one thing: where the command line sets one, what the file says under the other is overruled too.
_RIVALS: dict[KeyPath, KeyPath] = {
    ("env_settings", "num_envs"): ("environment", "num_envs"),
    ("environment", "num_envs"): ("env_settings", "num_envs"),
    ("checkpoint_settings", "initialize_from"): ("checkpoint_settings", "resume"),
}


def apply_overrides(
    document: Document, sets: Sequence[str] = (), flags: Mapping[tuple[str, ...], Any] | None = None
) -> Document:
    """The document as the command line changes it; ``document`` itself is left alone.

    ``sets`` are ``"a.b=value"`` with the value in YAML; a key that contains a dot is quoted: ``a."b.c"=1``. ``flags``
    maps paths to typed values; None means that the flag was not given. A flag beats a ``--set`` of the same key.
    """
    data, origins = copy.deepcopy(document.data), dict(document.origins)
    overridden: set[KeyPath] = set()
    changes: list[tuple[tuple[str, ...], Any, str]] = []
    for text in sets:
        keys, value = _parse_set(text)
        _check_behavior(document.data.get("behaviors"), keys)
        changes.append((keys, value, f"--set {dotted(keys)}"))
    for keys, value in (flags or {}).items():
        if value is not None:
            changes.append((keys, value, f"--{keys[-1].replace('_', '-')}"))
    for index, (keys, value, place) in enumerate(changes):
        _put(data, origins, keys, value, Origin(place, AFTER_THE_FILE + index, keys))
        overridden.add(keys)
    for path in overridden:
        rival = _RIVALS.get(path)
        if rival is not None and rival not in overridden and _get(data, path):
            _remove(data, origins, rival)
    return attrs.evolve(document, data=data, origins=origins)


def _parse_set(text: str) -> tuple[tuple[str, ...], Any]:
    keys, equals, value = text.partition("=")
    text = " ".join(text.encode("utf-8", "replace").decode().split())  # as the error shows it
    text = text if len(text) <= 200 else f"{text[:197]}..."
    path = _split(keys.strip())
    if not equals or not path or not all(path):
        raise ConfigError(f"--set {text}: write --set PATH=VALUE, for example --set env_settings.seed=1")
    if len(path) > MAX_DEPTH:
        raise ConfigError(f"--set {dotted(path[:3])}...: nested deeper than {MAX_DEPTH} levels")
    # Through the same strict reader as a file, one line below a key of our own.
    try:
        parsed = parse_document(f"value:\n {value}", "value")
    except ConfigError as error:
        reason = str(error).partition(": ")[2]
        raise ConfigError(f"--set {text}: the value must be plain YAML: {reason}") from None
    if set(parsed.data) != {"value"}:
        raise ConfigError(f"--set {text}: the value must be one YAML value")
    return path, parsed.data["value"]


def _check_behavior(listed: Any, keys: tuple[str, ...]) -> None:
    """A ``--set`` changes behaviors that a file lists; one of another name is mistyped, and would only be added."""
    if keys[0] == "behaviors" and len(keys) > 1 and isinstance(listed, Mapping) and listed and keys[1] not in listed:
        folded = {str(name).casefold(): str(name) for name in listed}
        name = folded.get(keys[1].casefold())
        hint = f"; did you mean {name!r}?" if name else did_you_mean(keys[1], map(str, listed))
        raise ConfigError(
            f"--set {dotted(keys)}: the file has no behavior {keys[1]!r}; it has {', '.join(map(str, listed))}{hint}"
        )


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


def _put(
    data: dict[str, Any], origins: dict[KeyPath, Origin], path: tuple[str, ...], value: Any, origin: Origin
) -> None:
    block = data
    for length, key in enumerate(path[:-1], start=1):
        child = block.get(key)
        if child is None:
            child = block[key] = {}
            origins[path[:length]] = attrs.evolve(origin, path=path[:length])
        if not isinstance(child, dict):
            raise ConfigError(
                f"{origin.place}: {dotted(path[:length])} is {shown(child)}, so nothing can be set inside it"
            )
        block = child
    _forget(origins, path)
    block[path[-1]] = value
    origins[path] = origin


def _get(data: dict[str, Any], path: KeyPath) -> Any:
    block: Any = data
    for key in path:
        block = block.get(key) if isinstance(block, dict) else None
    return block


def _remove(data: dict[str, Any], origins: dict[KeyPath, Origin], path: KeyPath) -> None:
    block = _get(data, path[:-1])
    if isinstance(block, dict) and block.pop(path[-1], None) is not None:
        _forget(origins, path)


def _forget(origins: dict[KeyPath, Origin], path: KeyPath) -> None:
    for known in [known for known in origins if known[: len(path)] == path]:
        del origins[known]
