"""What rlcore-tensorboard brings. Imported whenever rlcore starts: tensorboard enters with the target, not here."""

from __future__ import annotations

from rlcore import StatsWriterSpec, hookimpl


@hookimpl
def rlcore_stats_writers() -> list[StatsWriterSpec]:
    return [
        StatsWriterSpec(
            name="tensorboard",
            target="rlcore_tensorboard.writer:TensorBoardWriter.create",
            settings="rlcore_tensorboard.settings:TensorBoardSettings",
            summary="event files for TensorBoard, with ML-Agents' tags",
            default_on=True,
        )
    ]
