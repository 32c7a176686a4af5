"""rlcore: reinforcement learning whose trainers, rewards, writers and environments are plugins.

Importing this package is cheap: names that need numpy are resolved on first use (PEP 562), so a plugin's light
module may write ``from rlcore import TrainerSpec, hookimpl`` without importing numpy.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rlcore._version import __version__
from rlcore.plugins.markers import hookimpl
from rlcore.plugins.records import (
    BehaviorSection,
    CommandSpec,
    ConfigSection,
    CurriculumSpec,
    EnvironmentSpec,
    ExecutorSpec,
    ExporterSpec,
    OpponentSpec,
    RecordingFormatSpec,
    RewardProviderSpec,
    RunOptionSpec,
    StatsWriterSpec,
    TrainerSpec,
)
from rlcore.plugins.stash import StashKey

if TYPE_CHECKING:
    from rlcore.environment import Actions, AgentBatch, BehaviorSpec, Environment, ObservationSpec
    from rlcore.plugins.run_context import RunContext
    from rlcore.recordings import Recording
    from rlcore.results import EpochResult
    from rlcore.runs.export import export_policies
    from rlcore.runs.run import Run
    from rlcore.runs.run_data import read_checkpoint, read_run
    from rlcore.runs.saved_policies import load_policies

_LAZY = {
    "Actions": "rlcore.environment",
    "AgentBatch": "rlcore.environment",
    "BehaviorSpec": "rlcore.environment",
    "Environment": "rlcore.environment",
    "EpochResult": "rlcore.results",
    "ObservationSpec": "rlcore.environment",
    "Recording": "rlcore.recordings",
    "Run": "rlcore.runs.run",
    "RunContext": "rlcore.plugins.run_context",
    "export_policies": "rlcore.runs.export",
    "load_policies": "rlcore.runs.saved_policies",
    "read_checkpoint": "rlcore.runs.run_data",
    "read_run": "rlcore.runs.run_data",
}

__all__ = [
    "Actions",
    "AgentBatch",
    "BehaviorSection",
    "BehaviorSpec",
    "CommandSpec",
    "ConfigSection",
    "CurriculumSpec",
    "Environment",
    "EnvironmentSpec",
    "EpochResult",
    "ExecutorSpec",
    "ExporterSpec",
    "ObservationSpec",
    "OpponentSpec",
    "Recording",
    "RecordingFormatSpec",
    "RewardProviderSpec",
    "Run",
    "RunContext",
    "RunOptionSpec",
    "StashKey",
    "StatsWriterSpec",
    "TrainerSpec",
    "__version__",
    "export_policies",
    "hookimpl",
    "load_policies",
    "read_checkpoint",
    "read_run",
]


def __getattr__(name: str) -> Any:
    if name in _LAZY:
        from importlib import import_module

        return getattr(import_module(_LAZY[name]), name)
    raise AttributeError(f"module 'rlcore' has no attribute {name!r}")
