"""The markers of hooks, in a module of their own so that importing them costs nothing else."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

import pluggy

if TYPE_CHECKING:
    from rlcore.plugins.records import Record

# pluggy's project name is the entry-point group: one word to remember.
ENTRY_POINT_GROUP = "rlcore"

hookspec = pluggy.HookspecMarker(ENTRY_POINT_GROUP)
hookimpl = pluggy.HookimplMarker(ENTRY_POINT_GROUP)

F = TypeVar("F", bound=Callable[..., Any])


def registry_of(record_class: type[Record]) -> Callable[[F], F]:
    """Specifies a hook without arguments that returns records of this class: core's, or those of a plugin with plugins.

    What it returns is checked and found like core's own (:meth:`rlcore.plugins.Plugins.record`), and is in what
    ``rlcore plugins list --provides``, ``info`` and ``doctor`` tell.
    """

    def mark(function: F) -> F:
        function.rlcore_registry = record_class  # type: ignore[attr-defined]
        return hookspec(function)

    return mark


def registered(specification: Any) -> type[Record] | None:
    """The records of a hook that :func:`registry_of` specifies; None for other hooks."""
    record_class: type[Record] | None = getattr(specification, "rlcore_registry", None)
    return record_class
