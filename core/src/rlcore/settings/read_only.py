"""Mappings of a configuration that cannot be changed: every plugin sees one configuration, and none may change it."""

from __future__ import annotations

from typing import Any, NoReturn


class ReadOnlyDict(dict[str, Any]):
    """A dict whose entries cannot be set or removed. ``dict(mapping)`` and ``{**mapping}`` are copies that can."""

    def _refuse(self, *_: object, **__: object) -> NoReturn:
        raise TypeError(
            "a configuration cannot be changed after it was checked; copy a mapping with dict(...), and settings with "
            "attrs.evolve(...)"
        )

    __setitem__ = __delitem__ = __ior__ = _refuse
    clear = pop = popitem = setdefault = update = _refuse

    def __reduce__(self) -> tuple[type[ReadOnlyDict], tuple[dict[str, Any]]]:
        return type(self), (dict(self),)


def read_only(value: Any) -> Any:
    """Return a dict as a :class:`ReadOnlyDict`, and any other value as it is.

    Dicts inside it stay as they are: an environment may get them as arguments, and they are its own then.
    """
    return ReadOnlyDict(value) if type(value) is dict else value
