"""Writes summaries as TensorBoard event files, ``<run directory>/<behavior>/events.out.tfevents.*``.

Records and protobufs come from TensorBoard; neither TensorFlow nor PyTorch is imported. Events are written to a plain
file. TensorBoard's ``EventFileWriter`` would import TensorFlow if it is installed, and its thread reports a full disk
only at a later call.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Mapping
from functools import partial
from glob import escape
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from tensorboard.compat.proto.summary_pb2 import HistogramProto, Summary, SummaryMetadata
from tensorboard.compat.proto.tensor_pb2 import TensorProto
from tensorboard.compat.proto.types_pb2 import DataType

from rlcore import RunStateError, StatSummary, Tag, WatchedDirectory, dump_config
from rlcore_tensorboard.event_file import EventFile
from rlcore_tensorboard.settings import TensorBoardSettings

if TYPE_CHECKING:
    from rlcore import RunConfig, RunContext

log = logging.getLogger("rlcore.tensorboard")

HIDDEN = frozenset({"Step", "Is Training"})  # as in ML-Agents: the step is the axis of every chart
HISTOGRAM_BINS = 30
HYPERPARAMETERS = "Hyperparameters/text_summary"  # ML-Agents' tag


class TensorBoardWriter:
    """Writes one event file per behavior, flushed at every summary."""

    def __init__(
        self,
        directory: Path,
        resumed_steps: Mapping[str, int] | None = None,
        histograms: bool = True,
        own_files: Callable[[str], None] = lambda pattern: None,
        hyperparameters: Callable[[str], str] | None = None,
    ) -> None:
        """``resumed_steps`` is the agent step from which each behavior resumes; a missing behavior starts from zero.

        ``own_files`` gets the name of each file before it is made. ``hyperparameters`` returns the text that the file
        of a behavior begins with.
        """
        self._hyperparameters = hyperparameters
        directory.mkdir(parents=True, exist_ok=True)
        self._directory = WatchedDirectory(directory)
        self._resumed_steps = dict(resumed_steps or {})
        self._histograms = histograms
        self._own_files = own_files
        self._files: dict[str, EventFile] = {}

    @classmethod
    def create(cls, settings: TensorBoardSettings | None, run: RunContext) -> TensorBoardWriter:
        settings = settings or TensorBoardSettings()
        hyperparameters = partial(text_of, run.config)
        return cls(run.directory, run.resumed_steps, settings.histograms, run.own_files, hyperparameters)

    def write(self, behavior: str, step: int, stats: Mapping[str, StatSummary]) -> None:
        summary = Summary()
        for tag, stat in stats.items():
            if tag not in HIDDEN:
                summary.value.add(tag=tag, simple_value=stat.mean)
        returns = stats.get(Tag.CUMULATIVE_REWARD)
        if self._histograms and returns is not None and returns.values:
            summary.value.add(tag=f"{Tag.CUMULATIVE_REWARD}_hist", histo=histogram(returns.values))
        self._file(behavior, step).write(step, summary)

    def flush(self) -> None:
        """Have the disk store all events."""
        for file in self._files.values():
            file.sync()

    def close(self) -> None:
        for file in self._files.values():
            file.close()
        self._files = {}

    def _declare(self, path: Path) -> None:
        """Declare exactly this file: ``--force`` must not delete the event files of other programs."""
        self._own_files(f"{escape(path.parent.name)}/{escape(path.name)}")

    def _file(self, behavior: str, step: int) -> EventFile:
        """Return the behavior's event file; create another one if it was removed, or has a hard link in a backup."""
        file = self._files.get(behavior)
        lost = file is not None and self._directory.lost(file.path, file.stream)
        if file is not None and not lost and not self._directory.linked(file.stream):
            return file
        self._directory.require()
        directory = self._directory.path / behavior
        if directory.is_symlink():
            raise RunStateError(f"{directory}: is a symbolic link, and a run writes only in its directory; move it")
        first = step
        if file is None:
            first = self._resumed_steps.get(behavior, -1) + 1
        new_file = EventFile(directory, first, self._declare)
        self._files[behavior] = new_file
        if self._hyperparameters is not None:
            text = self._hyperparameters(behavior)
            new_file.write(first, text_summary(text))
        if file is not None:
            file.close()
        if file is not None and lost:
            log.warning(
                "%s: was removed while the run was writing to it; summaries from step %d on are in %s",
                file.path,
                step,
                new_file.path.name,
            )
        return new_file


def text_of(config: RunConfig, behavior: str) -> str:
    """The settings of a behavior as a block of Markdown."""
    settings = dump_config(config)["behaviors"].get(behavior, {})
    return f"```json\n{json.dumps(settings, indent=2)}\n```"


def text_summary(text: str) -> Summary:
    """A text for TensorBoard's page of texts, under ML-Agents' tag."""
    metadata = SummaryMetadata(plugin_data=SummaryMetadata.PluginData(plugin_name="text"))
    tensor = TensorProto(dtype=DataType.DT_STRING, string_val=[text.encode()])
    tensor.tensor_shape.dim.add(size=1)
    return Summary(value=[Summary.Value(tag=HYPERPARAMETERS, metadata=metadata, tensor=tensor)])


def histogram(values: tuple[float, ...]) -> HistogramProto:
    """Return the distribution of the finite values in equal bins; an empty first bin shows the lower edge."""
    array = np.asarray(values, np.float64)
    array = array[np.isfinite(array)]
    if not array.size:
        return HistogramProto()
    counts, edges = np.histogram(array, bins=HISTOGRAM_BINS)
    return HistogramProto(
        min=array.min(),
        max=array.max(),
        num=len(array),
        sum=array.sum(),
        sum_squares=np.square(array).sum(),
        bucket_limit=edges.tolist(),
        bucket=[0.0, *counts.tolist()],
    )
