"""The hooks of rlcore-tensorboard. rlcore imports this module at every start, so it must not import tensorboard."""

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
            foreign=True,
        )
    ]
