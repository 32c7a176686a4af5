"""The hook that rlcore-zoo adds, for plugins with collections of configurations of their own."""

# mypy: disable-error-code="empty-body"

from __future__ import annotations

from collections.abc import Iterable

from rlcore import registry_of
from rlcore_zoo.records import CollectionSpec


@registry_of(CollectionSpec)
def rlcore_collections() -> Iterable[CollectionSpec]:
    """The collections of configuration files that this plugin provides, for ``rlcore run NAME:FILE``.

    Called once per loading of plugins. A configuration is found before it is read, so a plugin that only a
    configuration names cannot provide one. Must not import torch or numpy.
    """
