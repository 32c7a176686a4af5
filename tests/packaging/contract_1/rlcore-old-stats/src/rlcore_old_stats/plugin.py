"""What rlcore-old-stats brings. rlcore imports this module at every start, so nothing heavy is imported here."""

from __future__ import annotations

from rlcore import StatsWriterSpec, hookimpl


@hookimpl
def rlcore_stats_writers() -> list[StatsWriterSpec]:
    return [
        StatsWriterSpec(
            name="old-stats",
            target="rlcore_old_stats.writer:OldStatsWriter.create",
            settings="rlcore_old_stats.settings:OldStatsSettings",
            summary="one line of CSV for each statistic",
        )
    ]
