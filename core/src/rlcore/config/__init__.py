"""The configuration: settings classes, reading a file, and the errors that say what to mend."""

from __future__ import annotations

from rlcore.config.fields import FieldInfo, field_info, setting
from rlcore.config.settings import (
    BehaviorSettings,
    CheckpointSettings,
    EngineSettings,
    EnvironmentSettings,
    EnvSettings,
    NetworkSettings,
    PluginSettings,
    RewardSettings,
    RunConfig,
    TorchSettings,
)

__all__ = [
    "BehaviorSettings",
    "CheckpointSettings",
    "EngineSettings",
    "EnvSettings",
    "EnvironmentSettings",
    "FieldInfo",
    "NetworkSettings",
    "PluginSettings",
    "RewardSettings",
    "RunConfig",
    "TorchSettings",
    "field_info",
    "setting",
]
