"""The ``stats.mlflow`` block. This module does not import MLflow: checking a configuration imports it."""

from __future__ import annotations

import attrs

from rlcore import setting
from rlcore_trackers.settings import TrackerSettings


@attrs.frozen(kw_only=True)
class MlflowSettings(TrackerSettings):
    """Settings of MLflow. ``project`` is the experiment."""

    tracking_uri: str | None = setting(
        None,
        "Store of MLflow, such as sqlite:////data/mlflow.db or the address of a server; by default mlflow.db beside "
        "the run directory. The variable MLFLOW_TRACKING_URI is not read.",
    )
    tags: dict[str, str] = setting(
        factory=dict, description="Tags of the run, beside those of its study or sweep.", foreign=True
    )
