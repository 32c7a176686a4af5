"""MLflow's store: by default an SQLite database beside the run directory, with a folder of artifacts.

MLflow writes each call of ``log_batch`` in one transaction before it returns. The store is asked for the steps that it
has, so no note of what was sent is needed. If MLflow's server gets a summary twice, because an answer was lost, it
drops the second one: equal key, step, time and value are one row of its database.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Sequence
from typing import Any

from rlcore_trackers import Tracked, TrackedFile, TrackedSummary, flat
from rlcore_trackers.tracker import SummaryKey

STEP = "/Step"  # ends the name of a metric of each behavior, which says what steps the store has
ID = "rlcore.id"  # the tag by which a run is found again
MAX_METRICS = 1_000  # MLflow's bounds of one log_batch
MAX_PARAMETERS = 100
MAX_VALUE = 6_000  # characters of a parameter
MAX_KEY = 250  # characters of a name
GIT_TAGS = {"commit": "mlflow.source.git.commit", "dirty": "mlflow.source.git.dirty"}  # MLflow's own names
STATES = {"done": "FINISHED", "interrupted": "KILLED", "environment ended": "KILLED", "failed": "FAILED"}
FOLDERS = {"checkpoint": "checkpoints", "video": "videos", "report": ""}
_NOT_ALLOWED = re.compile(r"[^\w.\- ]|_(?=x[0-9a-f]+_)")
_REPLACED = re.compile(r"_x([0-9a-f]+)_")


class MlflowTracker:
    """A run in MLflow's store; see :class:`rlcore_trackers.Tracker`."""

    def __init__(self, tracked: Tracked) -> None:
        os.environ |= {"MLFLOW_DISABLE_TELEMETRY": "true", "DO_NOT_TRACK": "true"}
        from mlflow import MlflowClient

        self._tracked = tracked
        results = tracked.directory.parent
        self._uri = tracked.settings["tracking_uri"] or f"sqlite:///{results / 'mlflow.db'}"
        client: Any = MlflowClient(self._uri)
        self._client = client
        experiment = self._experiment()
        # A run that was made just before a kill is found by its tag, so none is made twice.
        runs = client.search_runs([experiment], f"tags.`{ID}` = '{tracked.id}'")
        tags = tags_of(tracked)
        if runs:
            self._id: str = runs[0].info.run_id
            client.update_run(self._id, status="RUNNING")
            for key, value in tags.items():  # of a resume with another commit
                if runs[0].data.tags.get(key) != value:
                    client.set_tag(self._id, key, value)
            parameters = set(runs[0].data.params)
        else:
            self._id = client.create_run(experiment, tags=tags, run_name=tracked.name).info.run_id
            parameters = set()
        self._log_configuration(parameters)
        self._monitor = self._started_monitor()

    def sent(self) -> set[SummaryKey]:
        keys: set[SummaryKey] = set()
        for name in self._client.get_run(self._id).data.metrics:
            if name.endswith(STEP):
                behavior = decoded(name.removesuffix(STEP))
                history = self._client.get_metric_history(self._id, name)
                keys |= {(behavior, metric.step) for metric in history}
        return keys

    def send(self, summaries: Sequence[TrackedSummary]) -> None:
        from mlflow.entities import Metric

        for summary in summaries:
            behavior = encoded(summary.behavior)
            time = int(summary.time * 1000)  # MLflow counts milliseconds
            values = {}
            for tag, value in summary.values.items():
                name = "/".join(map(encoded, tag.split("/")))
                values[f"{behavior}/{name}"] = value
            # The metric that says that the step is there comes last: a summary of several batches may be cut.
            values[f"{behavior}{STEP}"] = float(summary.step)
            metrics = [Metric(key[-MAX_KEY:], value, time, summary.step) for key, value in values.items()]
            for start in range(0, len(metrics), MAX_METRICS):
                batch = metrics[start : start + MAX_METRICS]
                self._client.log_batch(self._id, metrics=batch)

    def send_file(self, file: TrackedFile) -> None:
        """Copy a file into the run's artifacts; one that is there already is written again."""
        folder = FOLDERS[file.kind]
        if file.path.is_dir():
            self._client.log_artifacts(self._id, str(file.path), f"{folder}/{file.step}")
        else:
            self._client.log_artifact(self._id, str(file.path), folder or None)

    def finish(self, outcome: str) -> str:
        self.close()
        self._client.set_terminated(self._id, STATES[outcome])
        return f"'mlflow ui --backend-store-uri {self._uri}' shows the run"

    def close(self) -> None:
        """Stop the system metrics. MLflow keeps its connections."""
        monitor = self._monitor
        self._monitor = None
        if monitor is not None:
            monitor.finish()

    def _started_monitor(self) -> Any:
        """MLflow's thread for system metrics, of this machine; None if none are wanted, or psutil is absent."""
        if self._tracked.process is None:
            return None
        try:
            from mlflow.system_metrics.system_metrics_monitor import SystemMetricsMonitor
        except ImportError as error:
            print(f"no system metrics: {error}", file=sys.stderr)
            return None
        monitor: Any = SystemMetricsMonitor(self._id, resume_logging=True, tracking_uri=self._uri)
        monitor.start()
        return monitor

    def _experiment(self) -> str:
        """The id of the experiment, which another run may be making at this moment."""
        name = self._tracked.settings["project"]
        artifacts = None
        if self._uri.startswith("sqlite:"):  # a server decides itself where its artifacts are
            artifacts = (self._tracked.directory.parent / "mlflow-artifacts").as_uri()
        for _ in range(2):
            if self._client.get_experiment_by_name(name) is not None:
                break
            try:
                return str(self._client.create_experiment(name, artifact_location=artifacts))
            except Exception:
                continue
        return str(self._client.get_experiment_by_name(name).experiment_id)

    def _log_configuration(self, known: set[str]) -> None:
        """Log the configuration as parameters, which MLflow never changes, and whole as an artifact."""
        from mlflow.entities import Param

        values = {}
        for key, value in flat(self._tracked.configuration).items():
            name = encoded(key)[:MAX_KEY]
            values[name] = str(value)[:MAX_VALUE]
        parameters = [Param(name, value) for name, value in values.items() if name not in known]
        for start in range(0, len(parameters), MAX_PARAMETERS):
            batch = parameters[start : start + MAX_PARAMETERS]
            self._client.log_batch(self._id, params=batch)
        self._client.log_dict(self._id, dict(self._tracked.configuration), "configuration.json")


def tags_of(tracked: Tracked) -> dict[str, str]:
    """Return the tags of a run: those of the settings, and what MLflow's table groups runs by."""
    tags = {f"rlcore.{key}": str(value) for key, value in tracked.about.items() if key not in GIT_TAGS}
    if tracked.group is not None:
        tags["rlcore.group"] = tracked.group
    if tracked.git is not None:
        tags |= {tag: str(tracked.about[key]) for key, tag in GIT_TAGS.items()}
    return {**tags, **tracked.settings["tags"], ID: tracked.id}


def encoded(name: str) -> str:
    """Replace the characters that MLflow refuses in a name: ``a[2]`` becomes ``a_x5b_2_x5d_``."""
    return _NOT_ALLOWED.sub(lambda match: f"_x{ord(match[0]):x}_", name)


def decoded(name: str) -> str:
    """Undo :func:`encoded`."""
    return _REPLACED.sub(lambda match: chr(int(match[1], 16)), name)
