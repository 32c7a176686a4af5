from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import attrs
from rlcore.config import setting
from rlcore.stats import StatSummary

if TYPE_CHECKING:
    from rlcore.run import RunContext


@attrs.frozen(kw_only=True)
class OldStatsSettings:
    file_name: str = setting("old-stats.csv", "Name of the file in the run directory.")


class OldStatsWriter:
    def __init__(self, settings: OldStatsSettings, run: RunContext) -> None:
        self.path = run.directory / settings.file_name

    def write(self, behavior: str, step: int, stats: Mapping[str, StatSummary]) -> None:
        with self.path.open("a") as file:
            file.writelines(f"{behavior},{step},{tag},{summary.mean}\n" for tag, summary in stats.items())

    def close(self) -> None:
        pass
