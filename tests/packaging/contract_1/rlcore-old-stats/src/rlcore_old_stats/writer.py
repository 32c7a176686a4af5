"""Statistics as CSV: behavior, step, tag, mean."""

from __future__ import annotations

import csv
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from rlcore.stats import StatSummary

from rlcore_old_stats.settings import OldStatsSettings

if TYPE_CHECKING:
    from rlcore.run import RunContext


class OldStatsWriter:
    """Appends, so that a resumed run goes on with the file it has."""

    def __init__(self, path: Path) -> None:
        self._file = path.open("a", encoding="utf-8", newline="")
        self._rows = csv.writer(self._file)

    @classmethod
    def create(cls, settings: OldStatsSettings, run: RunContext) -> OldStatsWriter:
        return cls(run.directory / settings.file_name)

    def write(self, behavior: str, step: int, stats: Mapping[str, StatSummary]) -> None:
        self._rows.writerows((behavior, step, tag, summary.mean) for tag, summary in stats.items())
        self._file.flush()  # whoever watches the file sees it, and a killed run keeps it

    def close(self) -> None:
        self._file.close()
