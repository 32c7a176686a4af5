"""The configuration as classes: what a settings class is made of, and the classes of every block.

A plugin declares its own settings with :func:`setting`, deriving from the class of its kind.
"""

from __future__ import annotations

from rlcore.settings.behavior import BehaviorSettings
from rlcore.settings.environment import (
    CurriculumSettings,
    EnvironmentParameter,
    EnvironmentSettings,
    EvaluationSettings,
)
from rlcore.settings.fields import FieldInfo, field_info, setting
from rlcore.settings.run import (
    CheckpointSettings,
    EngineSettings,
    EnvSettings,
    PluginSettings,
    RunConfig,
    TorchSettings,
)
from rlcore.settings.trainers import (
    SCHEDULES,
    BehavioralCloningSettings,
    MinibatchSettings,
    NetworkSettings,
    OfflineSettings,
    OffPolicySettings,
    OnPolicySettings,
    PrioritizedReplaySettings,
    RewardSettings,
)

__all__ = [
    "SCHEDULES",
    "BehaviorSettings",
    "BehavioralCloningSettings",
    "CheckpointSettings",
    "CurriculumSettings",
    "EngineSettings",
    "EnvSettings",
    "EnvironmentParameter",
    "EnvironmentSettings",
    "EvaluationSettings",
    "FieldInfo",
    "MinibatchSettings",
    "NetworkSettings",
    "OffPolicySettings",
    "OfflineSettings",
    "OnPolicySettings",
    "PluginSettings",
    "PrioritizedReplaySettings",
    "RewardSettings",
    "RunConfig",
    "TorchSettings",
    "field_info",
    "setting",
]
