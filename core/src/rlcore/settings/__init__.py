"""The settings classes of every block of a configuration, and what a plugin needs to declare its own.

A plugin's settings class derives from the class of its kind and declares each field with :func:`setting`.
"""

from __future__ import annotations

from rlcore.settings.behavior import BehaviorSettings
from rlcore.settings.environment import (
    CurriculumSettings,
    EnvironmentParameter,
    EnvironmentSettings,
    EvaluationSettings,
    ExecutorSettings,
)
from rlcore.settings.fields import Choice, FieldInfo, SettingError, field_info, setting
from rlcore.settings.run import CheckpointSettings, ExportSettings, PluginSettings, RunConfig, TorchSettings
from rlcore.settings.trainers import ExtrinsicSettings, PolicySettings, RewardSettings
from rlcore.settings.unity import EngineSettings, EnvSettings

__all__ = [
    "BehaviorSettings",
    "CheckpointSettings",
    "Choice",
    "CurriculumSettings",
    "EngineSettings",
    "EnvSettings",
    "EnvironmentParameter",
    "EnvironmentSettings",
    "EvaluationSettings",
    "ExecutorSettings",
    "ExportSettings",
    "ExtrinsicSettings",
    "FieldInfo",
    "PluginSettings",
    "PolicySettings",
    "RewardSettings",
    "RunConfig",
    "SettingError",
    "TorchSettings",
    "field_info",
    "setting",
]
