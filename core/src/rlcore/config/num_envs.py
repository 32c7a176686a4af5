"""The number of environments in training: ``environment.num_envs``, or its alias from ML-Agents.

After loading, ``environment.num_envs`` alone holds the number.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import attrs

from rlcore.config.classes import field_types, settings_fields
from rlcore.config.collected import Problems
from rlcore.config.structure import build_field
from rlcore.errors import dotted
from rlcore.settings import EnvironmentSettings

NUM_ENVS = ("environment", "num_envs")
ALIAS = ("env_settings", "num_envs")


def given_by_alias(env_settings: Any, problems: Problems) -> int | None:
    """The number that the ``env_settings`` block of a file gives; None if it gives none, or a wrong one."""
    if not isinstance(env_settings, Mapping) or "num_envs" not in env_settings:
        return None
    attribute = settings_fields(EnvironmentSettings)["num_envs"]
    kind = field_types(EnvironmentSettings)["num_envs"]
    number = build_field(attribute, env_settings["num_envs"], kind, ALIAS, problems)
    return number if isinstance(number, int) else None


def with_num_envs(environment: EnvironmentSettings, alias: int | None, problems: Problems) -> EnvironmentSettings:
    """The ``environment`` block of training, which always has a number: its own, the alias, or 1."""
    own = environment.num_envs
    if own is not None and alias is not None and own != alias:
        problems.add(NUM_ENVS, f"conflicts with {dotted(ALIAS)} ({alias}); set only one")
    return attrs.evolve(environment, num_envs=own or alias or 1)
