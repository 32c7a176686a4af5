"""Trackio's local database, one SQLite file for each project.

Trackio's ``Run.log`` puts a summary into a queue of its own, and drops it with a warning if the database stays locked.
So summaries are written by ``SQLiteStorage.bulk_log``, the function below it: one transaction, with the id of each row
chosen here. Trackio keeps one row of an id. The database is asked for these ids, so no note of what was sent is needed.
"""

from __future__ import annotations

import json
import os
import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal

from rlcore_trackers import Tracked, TrackedFile, TrackedSummary
from rlcore_trackers.tracker import SummaryKey, add_content

# Variables that would make Trackio send to a server.
ONLINE = (
    "TRACKIO_SPACE_ID", "TRACKIO_SERVER_URL", "TRACKIO_DATASET_ID", "TRACKIO_BUCKET_ID", "TRACKIO_WEBHOOK_URL",
    "TRACKIO_REGISTRY_BUCKET_ID",
)  # fmt: skip


class TrackioTracker:
    """A run in Trackio's database; see :class:`rlcore_trackers.Tracker`."""

    def __init__(self, tracked: Tracked) -> None:
        for name in ONLINE:
            os.environ.pop(name, None)
        os.environ |= {"HF_HUB_OFFLINE": "1", "TRACKIO_STORAGE_MODE": "sqlite"}
        if tracked.settings["directory"]:
            os.environ["TRACKIO_DIR"] = tracked.settings["directory"]
        from trackio.sqlite_storage import SQLiteStorage

        self._storage: Any = SQLiteStorage
        self._tracked = tracked
        self._project: str = tracked.settings["project"]
        self._database = Path(SQLiteStorage.init_db(self._project))
        self._monitors = [] if tracked.process is None else self._started_monitors()

    def sent(self) -> set[SummaryKey]:
        keys: set[SummaryKey] = set()
        for log_id in self._rows("log_id"):
            if log_id and log_id.startswith(f"{self._tracked.id}:"):
                _, step, behavior = log_id.split(":", 2)
                keys.add((behavior, int(step)))
        return keys

    def send(self, summaries: Sequence[TrackedSummary]) -> None:
        self._storage.bulk_log(
            project=self._project,
            run=self._tracked.name,
            run_id=self._tracked.id,
            metrics_list=[summary.named for summary in summaries],
            steps=[summary.step for summary in summaries],
            timestamps=[datetime.fromtimestamp(summary.time, UTC).isoformat() for summary in summaries],
            config={**self._tracked.described, "_Group": self._tracked.group},
            log_ids=[f"{self._tracked.id}:{summary.step}:{summary.behavior}" for summary in summaries],
        )

    def send_file(self, file: TrackedFile) -> None:
        """Keep a file as an artifact of the project; Trackio keeps equal content once."""
        if file.kind == "video":
            self._send_film(file)
            return
        from trackio import Artifact

        artifact = Artifact(f"{self._tracked.name}-{file.kind}", file.kind, metadata={"step": file.step})
        add_content(artifact, file.path)
        with self._run() as run:
            run.log_artifact(artifact, aliases=[f"step-{file.step}"])

    def _send_film(self, file: TrackedFile) -> None:
        """Keep a film as the value of a row, which Trackio's pages play."""
        from trackio import Video

        film = f"video/{file.path.stem}"
        present = any(film in json.loads(metrics) for metrics in self._rows("metrics"))
        if not present:
            with self._run() as run:
                run.log({film: Video(str(file.path))}, step=file.step)

    def _rows(self, column: Literal["log_id", "metrics"]) -> list[Any]:
        """A column of all rows of the run."""
        query = f"SELECT {column} FROM metrics WHERE run_id = ?"
        with closing(sqlite3.connect(self._database)) as database:
            return [value for (value,) in database.execute(query, (self._tracked.id,))]

    @contextmanager
    def _run(self) -> Iterator[Any]:
        """Trackio's object of the run, which writes all that it was given before it ends."""
        from trackio.run import Run

        run: Any = Run(
            url=None,
            project=self._project,
            client=None,
            name=self._tracked.name,
            run_id=self._tracked.id,
            group=self._tracked.group,
            config=self._tracked.described,
        )
        try:
            yield run
        finally:
            run.finish()

    # ------------------------------------------------------------ system metrics

    def _started_monitors(self) -> list[Any]:
        """Trackio's threads for the processor, with psutil, and for NVIDIA's GPUs; those that work here."""
        from trackio.cpu import CpuMonitor, cpu_available
        from trackio.gpu import GpuMonitor, gpu_available

        monitors = [CpuMonitor(self)] if cpu_available() else []
        monitors += [GpuMonitor(self)] if gpu_available() else []
        for monitor in monitors:
            monitor.start()
        return monitors

    def log_system(self, metrics: Mapping[str, float]) -> None:
        """Write system metrics, as Trackio's ``Run.log_system``, for its monitors."""
        self._storage.bulk_log_system(
            project=self._project,
            run=self._tracked.name,
            run_id=self._tracked.id,
            metrics_list=[dict(metrics)],
        )

    # ------------------------------------------------------------ the end

    def finish(self, outcome: str) -> str:
        """Trackio's runs have no state to note."""
        self.close()
        folder = f"TRACKIO_DIR={self._database.parent} " if "TRACKIO_DIR" in os.environ else ""
        return f"'{folder}trackio show --project {self._project}' shows the run"

    def close(self) -> None:
        """Stop the system metrics; no connection is open."""
        monitors = self._monitors
        self._monitors = []
        for monitor in monitors:
            monitor.stop()
