"""The record of collections of configurations. rlcore imports this module at every start."""

from __future__ import annotations

from typing import ClassVar

import attrs

from rlcore import Record, check_target


@attrs.frozen(kw_only=True)
class CollectionSpec(Record):
    """A collection of configuration files: ``NAME:FILE`` in place of a path, as in ``rlcore run zoo:ppo/CartPole-v1``.

    ``target(file: str) -> Path`` returns the path of the file that ``FILE`` names; it raises a
    :class:`rlcore.ConfigError`, with the nearest name, for one that the collection does not have. A file of the user's
    own that is called ``NAME:FILE`` wins.

    Attributes:
        for_environment: ``for_environment(given: Mapping) -> str | None`` as ``"package.module:name"``: the file that
            ``rlcore run --env ID`` begins with when no CONFIG and no preset is given; None from it for an environment
            that the collection has no file for. ``given`` is the configuration that the command line describes:
            ``environment.id`` always, ``default_settings.trainer_type`` and ``environment.type`` if they are given. Of
            several collections the first by name that has a file is used.
        agents: ``agents(file: str) -> Path`` as ``"package.module:name"``: the directory of the trained agent that
            ``NAME:FILE`` stands for in place of a run, as in ``rlcore evaluate zoo:ppo/CartPole-v1``. It is that of a
            run, or of a checkpoint with the models of the behaviors, and is only read. Raises ConfigError where the
            collection has none.
    """

    kind: ClassVar[str] = "collection"
    key: ClassVar[str] = "CONFIG"

    for_environment: str | None = attrs.field(default=None, validator=check_target)
    agents: str | None = attrs.field(default=None, validator=check_target)
