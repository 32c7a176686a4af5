"""State that plugins keep for one run, under typed keys, as pytest's Stash does for one session."""

from __future__ import annotations

from typing import Any, Generic, TypeVar

__all__ = ["Stash", "StashKey"]

T = TypeVar("T")

_MISSING = object()


class StashKey(Generic[T]):
    """A key of :class:`Stash` for a value of type ``T``. Create it once, at the top of the plugin's module::

        UPLOADER = StashKey[Uploader]()

    Two keys are never equal, so that plugins cannot read each other's values by accident.
    """

    __slots__ = ()


class Stash:
    """Values by :class:`StashKey`: ``run.stash[UPLOADER] = Uploader()``, ``run.stash[UPLOADER].send(path)``.

    Use it instead of global variables of a module, which several runs of one process would share. The values are not
    saved; ``rlcore_report_status`` saves what a resumed run needs.
    """

    __slots__ = ("_values",)

    def __init__(self) -> None:
        self._values: dict[StashKey[Any], Any] = {}

    def __setitem__(self, key: StashKey[T], value: T) -> None:
        self._values[key] = value

    def __getitem__(self, key: StashKey[T]) -> T:
        """Return the value. Raises KeyError if there is none."""
        value: T = self._values[key]
        return value

    def get(self, key: StashKey[T], default: T) -> T:
        """Return the value, or ``default`` if there is none."""
        value: T = self._values.get(key, default)
        return value

    def setdefault(self, key: StashKey[T], default: T) -> T:
        """Return the value; set it to ``default`` first if there is none."""
        value: T = self._values.setdefault(key, default)
        return value

    def pop(self, key: StashKey[T], default: Any = _MISSING) -> T:
        """Remove and return the value. Without one, return ``default``, or raise KeyError if that is not given."""
        value: T = self._values.pop(key) if default is _MISSING else self._values.pop(key, default)
        return value

    def __delitem__(self, key: StashKey[Any]) -> None:
        """Remove the value. Raises KeyError if there is none."""
        del self._values[key]

    def __contains__(self, key: StashKey[Any]) -> bool:
        return key in self._values

    def __len__(self) -> int:
        return len(self._values)
