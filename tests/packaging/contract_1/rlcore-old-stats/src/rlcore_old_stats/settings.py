"""The block ``stats.old-stats``."""

from __future__ import annotations

import attrs
from rlcore.config import setting


@attrs.frozen(kw_only=True)
class OldStatsSettings:
    """Every field needs a default and a description."""

    file_name: str = setting("old-stats.csv", "Name of the file in the run directory.")
