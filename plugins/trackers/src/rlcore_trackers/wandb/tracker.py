"""Runs of Weights & Biases. Offline, each process that works on a run writes a folder ``offline-run-TIME-ID``.

What a killed process wrote is read from its transaction log (:mod:`rlcore_trackers.wandb.transaction_log`), because
wandb writes it some time after ``Run.log`` returned. The logs are below ``trackers/wandb`` of the run directory. If
``wandb sync --clean`` deleted them, a note says what they had: ``trackers/wandb/sent.json``, written when a log was
complete.
"""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rlcore import read_object, write_atomically
from rlcore_trackers import Tracked, TrackedFile, TrackedSummary
from rlcore_trackers.tracker import SummaryKey, add_content
from rlcore_trackers.wandb.transaction_log import rows

STEP = "/Step"  # ends the name of the axis of each behavior
SENT = "sent.json"
FLUSH_SECONDS = 1.0  # wandb writes its log to disk this often; 15 by default
MAX_TAG = 64  # characters; wandb refuses longer ones
EXIT_CODES = {"done": 0, "interrupted": 130, "environment ended": 0, "failed": 1}


class WandbTracker:
    """A run of Weights & Biases; see :class:`rlcore_trackers.Tracker`."""

    def __init__(self, tracked: Tracked) -> None:
        self._tracked = tracked
        self._online = tracked.settings["mode"] == "online"
        tracked.place.mkdir(exist_ok=True)
        os.environ["WANDB_ERROR_REPORTING"] = "false"  # wandb would send its own errors to a server
        os.environ["WANDB_DATA_DIR"] = str(tracked.place)  # artifacts wait there for 'wandb sync'
        import wandb

        self._wandb: Any = wandb
        settings = wandb.Settings(
            console="off",
            silent=True,
            init_timeout=30,
            x_transaction_log_flush_interval=FLUSH_SECONDS,
            # wandb would send the remote of the repository, a patch, the command line and the names of the machine.
            disable_code=True,
            disable_git=True,
            x_disable_meta=True,
            x_save_requirements=False,
            # System metrics are those of the training, with its workers.
            x_disable_stats=tracked.process is None,
            x_stats_pid=tracked.process or os.getpid(),
            x_stats_track_process_tree=True,
        )
        labels = [f"{key}:{value}" for key, value in tracked.labels.items()]
        self._axes: set[str] = set()
        self._sent = self._read_sent()
        self._run: Any = wandb.init(
            settings=settings,
            mode=tracked.settings["mode"],
            dir=str(tracked.place),
            id=tracked.id,
            resume="allow",
            name=tracked.name,
            project=tracked.settings["project"],
            entity=tracked.settings["entity"],
            group=tracked.group,
            job_type=tracked.job_type,
            tags=[tag[:MAX_TAG] for tag in (*tracked.settings["tags"], *labels)],
            config=tracked.described,
        )

    def sent(self) -> set[SummaryKey]:
        return self._sent | self._read_sent()

    def send(self, summaries: Sequence[TrackedSummary]) -> None:
        for summary in summaries:
            axis = f"{summary.behavior}{STEP}"
            if axis not in self._axes:
                self._run.define_metric(axis, hidden=True)
                self._run.define_metric(f"{summary.behavior}/*", step_metric=axis)
                self._axes.add(axis)
            # The server takes rows of rising steps alone: a row that it has already is not taken again.
            row = {**summary.named, axis: summary.step, "_timestamp": summary.time}
            self._run.log(row, step=summary.index, commit=True)

    def send_file(self, file: TrackedFile) -> None:
        """Keep a file as an artifact. The server keeps equal content once."""
        if file.kind == "video":
            name = f"video/{file.path.stem}"
            self._run.summary[name] = self._wandb.Video(str(file.path), format=file.path.suffix[1:])
        artifact = self._wandb.Artifact(f"{self._tracked.id}-{file.kind}", file.kind, metadata={"step": file.step})
        add_content(artifact, file.path)
        self._run.log_artifact(artifact, aliases=["latest", f"step-{file.step}"])

    def finish(self, outcome: str) -> str:
        url = str(self._run.url or "") if self._online else ""
        self._run.finish(exit_code=EXIT_CODES[outcome])
        self.close()  # finish() returns a moment before the log is on disk; the end of wandb's process says that it is
        self._note_sent()
        if self._online:
            return url
        return f"'wandb sync {self._tracked.place / 'wandb'}/offline-run-*' uploads the run"

    def close(self) -> None:
        """End the process of wandb's."""
        self._wandb.teardown()

    # ------------------------------------------------------------ what the logs have

    @property
    def _note(self) -> Path:
        return self._tracked.place / SENT

    def _read_sent(self) -> set[SummaryKey]:
        keys: set[SummaryKey] = set()
        for log in sorted(self._tracked.place.glob(f"wandb/*run-*/run-{self._tracked.id}.wandb")):
            for row in rows(log):
                for key, value in row.items():
                    if key.endswith(STEP):
                        keys.add((key.removesuffix(STEP), int(value)))
        if self._note.exists():
            keys |= {(behavior, step) for behavior, step in read_object(self._note)["sent"]}
        return keys

    def _note_sent(self) -> None:
        document = {"sent": sorted(self._read_sent())}
        write_atomically(self._note, json.dumps(document).encode())
