"""Unity players and the Unity editor as environments of rlcore.

In reading order: :mod:`~rlcore_unity.settings` (the keys of a file), :mod:`~rlcore_unity.mlagents_keys` (those of
ML-Agents' files), :mod:`~rlcore_unity.create`, :mod:`~rlcore_unity.environment` (all players as one environment),
:mod:`~rlcore_unity.player` (a session with one), :mod:`~rlcore_unity.server` and :mod:`~rlcore_unity.http2` (what it
calls), :mod:`~rlcore_unity.census` (the agents that there are), :mod:`~rlcore_unity.behaviors`,
:mod:`~rlcore_unity.agents` (agents and their slots), :mod:`~rlcore_unity.actions`, :mod:`~rlcore_unity.channels`,
:mod:`~rlcore_unity.statistics`.

Importing this package is cheap: each name is imported from its module on first use. ``__init__.pyi`` lists the names.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
