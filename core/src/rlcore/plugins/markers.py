"""The two pluggy markers, in a module of their own so that importing them costs nothing else."""

from __future__ import annotations

import pluggy

# pluggy's project name is the entry-point group: one word to remember.
ENTRY_POINT_GROUP = "rlcore"

hookspec = pluggy.HookspecMarker(ENTRY_POINT_GROUP)
hookimpl = pluggy.HookimplMarker(ENTRY_POINT_GROUP)
