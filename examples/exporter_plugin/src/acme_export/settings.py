"""The settings class of the exporter, whose fields are the keys of ``export.pt2``."""

from __future__ import annotations

import attrs

from rlcore import ExportSettings, setting


@attrs.frozen(kw_only=True)
class PT2Settings(ExportSettings):
    """Settings of the exporter ``pt2``. The field ``checkpoints`` comes from ExportSettings."""

    max_rows: int = setting(65536, "Rows of observations that one call may have, at most.", minimum=2)
