"""The decorators of hooks. They have a module of their own, so that importing them costs nothing else."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

import pluggy

if TYPE_CHECKING:
    from rlcore.records import Record

# The entry-point group, which is also pluggy's project name.
ENTRY_POINT_GROUP = "rlcore"

hookspec = pluggy.HookspecMarker(ENTRY_POINT_GROUP)
"""The decorator of hook specifications, for plugins that define hooks of their own (``rlcore_addhooks``)."""
hookimpl = pluggy.HookimplMarker(ENTRY_POINT_GROUP)
"""The decorator of hook implementations: ``@hookimpl`` before a function with the name of a hook."""

F = TypeVar("F", bound=Callable[..., Any])


def registry_of(record_class: type[Record]) -> Callable[[F], F]:
    """Specify a registry hook: one without arguments that returns records of ``record_class``.

    A plugin that has plugins may specify one for its own class of records. rlcore checks and finds these records like
    core's own (:meth:`rlcore.plugins.Plugins.record`), and ``rlcore plugins list --provides``, ``info`` and ``doctor``
    include them.
    """

    def mark(function: F) -> F:
        function.rlcore_registry = record_class  # type: ignore[attr-defined]
        return hookspec(function)

    return mark


def registered(specification: Any) -> type[Record] | None:
    """The class of records of a hook that :func:`registry_of` specified; None for other hooks."""
    record_class: type[Record] | None = getattr(specification, "rlcore_registry", None)
    return record_class
