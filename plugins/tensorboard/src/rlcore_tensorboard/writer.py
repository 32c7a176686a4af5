"""Writes summaries as TensorBoard event files, ``<run directory>/<behavior>/events.out.tfevents.*``.

The records and protobufs are TensorBoard's own; neither TensorFlow nor PyTorch is imported. Events go to a plain file
instead of ``EventFileWriter``, whose file layer imports TensorFlow wherever it happens to be installed, and whose
thread reports a full disk at some later call.
"""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from tensorboard.compat.proto.event_pb2 import Event, SessionLog
from tensorboard.compat.proto.summary_pb2 import HistogramProto, Summary
from tensorboard.summary.writer.record_writer import RecordWriter

from rlcore.stats import CUMULATIVE_REWARD, StatSummary
from rlcore_tensorboard.settings import TensorBoardSettings

if TYPE_CHECKING:
    from rlcore import RunContext

HIDDEN = frozenset({"Step", "Is Training"})  # as in ML-Agents: the step is the axis of every chart
HISTOGRAM_BINS = 30


class TensorBoardWriter:
    """One event file for each behavior, flushed at every summary."""

    def __init__(
        self, directory: Path, resumed_steps: Mapping[str, int] | None = None, histograms: bool = True
    ) -> None:
        """``resumed_steps`` holds the agent step each behavior resumes from; one that is missing starts anew."""
        self._directory = directory
        self._resumed_steps = dict(resumed_steps or {})
        self._histograms = histograms
        self._records: dict[str, RecordWriter] = {}

    @classmethod
    def create(cls, settings: TensorBoardSettings | None, run: RunContext) -> TensorBoardWriter:
        settings = settings or TensorBoardSettings()
        run.own_files("{behavior}/events.out.tfevents.*")
        return cls(run.directory, run.resumed_steps, settings.histograms)

    def write(self, behavior: str, step: int, stats: Mapping[str, StatSummary]) -> None:
        summary = Summary()
        for tag, stat in stats.items():
            if tag not in HIDDEN:
                summary.value.add(tag=tag, simple_value=stat.mean)
        returns = stats.get(CUMULATIVE_REWARD)
        if self._histograms and returns is not None and returns.values:
            summary.value.add(tag=f"{CUMULATIVE_REWARD}_hist", histo=histogram(returns.values))
        records = self._records.get(behavior)
        if records is None:
            records = self._records[behavior] = self._open(behavior)
        records.write(Event(wall_time=time.time(), step=step, summary=summary).SerializeToString())
        records.flush()

    def close(self) -> None:
        for records in self._records.values():
            records.close()
        self._records = {}

    def _open(self, behavior: str) -> RecordWriter:
        directory = self._directory / behavior
        directory.mkdir(parents=True, exist_ok=True)
        # TensorBoard reads a directory's files in the order of their names, hence the nanoseconds.
        now = time.time_ns()
        name = f"events.out.tfevents.{now // 10**9}.{now % 10**9:09d}.{socket.gethostname()}.{os.getpid()}"
        records = RecordWriter((directory / name).open("xb"))
        records.write(Event(wall_time=now / 1e9, file_version="brain.Event:2").SerializeToString())
        # Tells readers to forget points of earlier files from this step on: this run takes those steps again.
        start = SessionLog(status=SessionLog.START)
        first = self._resumed_steps.get(behavior, -1) + 1
        records.write(Event(wall_time=now / 1e9, step=first, session_log=start).SerializeToString())
        records.flush()
        return records


def histogram(values: tuple[float, ...]) -> HistogramProto:
    """The distribution of the finite values, in equal bins; an empty first bin shows the lower edge."""
    array = np.asarray(values, np.float64)
    array = array[np.isfinite(array)]
    if not array.size:
        return HistogramProto()
    counts, edges = np.histogram(array, bins=HISTOGRAM_BINS)
    return HistogramProto(
        min=array.min(), max=array.max(), num=len(array), sum=array.sum(), sum_squares=np.square(array).sum(),
        bucket_limit=edges.tolist(), bucket=[0.0, *counts.tolist()],
    )  # fmt: skip
