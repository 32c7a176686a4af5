"""The record of collections of configurations. rlcore imports this module at every start."""

from __future__ import annotations

from typing import ClassVar

import attrs

from rlcore import Record


@attrs.frozen(kw_only=True)
class CollectionSpec(Record):
    """A collection of configuration files: ``NAME:FILE`` in place of a path, as in ``rlcore run zoo:ppo/CartPole-v1``.

    ``target(file: str) -> Path`` returns the path of the file that ``FILE`` names; it raises a
    :class:`rlcore.ConfigError`, with the nearest name, for one that the collection does not have. A file of the user's
    own that is called ``NAME:FILE`` wins.
    """

    kind: ClassVar[str] = "collection"
    key: ClassVar[str] = "CONFIG"
