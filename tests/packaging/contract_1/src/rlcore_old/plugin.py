"""A trainer and a statistics writer of contract 1, shortened from what ``rlcore plugins new`` wrote then."""

from __future__ import annotations

from rlcore import StatsWriterSpec, TrainerSpec, hookimpl


@hookimpl
def rlcore_trainers() -> list[TrainerSpec]:
    return [
        TrainerSpec(
            name="old-trainer",
            target="rlcore_old.trainer:OldTrainer",
            settings="rlcore_old.trainer:OldTrainerSettings",
            summary="linear policy on discrete actions",
            spaces={"discrete"},
        )
    ]


@hookimpl
def rlcore_stats_writers() -> list[StatsWriterSpec]:
    return [
        StatsWriterSpec(
            name="old-stats",
            target="rlcore_old.writer:OldStatsWriter",
            settings="rlcore_old.writer:OldStatsSettings",
            summary="lines of CSV",
        )
    ]
