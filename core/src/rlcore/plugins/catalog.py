"""The table of all hooks: the kind of each, and the version that introduced it."""

from __future__ import annotations

from collections.abc import Collection
from typing import Literal

import attrs

__all__ = ["HOOKS", "HookInfo", "HookKind"]

HookKind = Literal["registry", "factory", "status", "intervention", "notification", "extension"]
"""The kind of a hook, which decides how its implementations are called."""


@attrs.frozen
class HookInfo:
    """One hook. Only factories may be wrapped; the implementations of all other hooks are called one by one.

    Attributes:
        name: The name of the hook.
        kind: The kind of the hook; the page of hooks explains the kinds.
        since: The version of rlcore that added the hook.
        deprecated: What to implement instead of a deprecated hook, which is still called; None for the others.
        removed_in: The version of rlcore that will no longer have a deprecated hook, at least two minor versions later.
    """

    name: str
    kind: HookKind
    since: str = "0.1"
    deprecated: str | None = None
    removed_in: str | None = None


HOOKS: tuple[HookInfo, ...] = (
    HookInfo("rlcore_trainers", "registry"),
    HookInfo("rlcore_reward_providers", "registry"),
    HookInfo("rlcore_stats_writers", "registry"),
    HookInfo("rlcore_environments", "registry"),
    HookInfo("rlcore_executors", "registry"),
    HookInfo("rlcore_curricula", "registry"),
    HookInfo("rlcore_exporters", "registry"),
    HookInfo("rlcore_opponents", "registry"),
    HookInfo("rlcore_commands", "registry"),
    HookInfo("rlcore_run_options", "registry"),
    HookInfo("rlcore_config_sections", "registry"),
    HookInfo("rlcore_behavior_sections", "registry"),
    HookInfo("rlcore_create_trainer", "factory"),
    HookInfo("rlcore_create_reward_provider", "factory"),
    HookInfo("rlcore_create_stats_writer", "factory"),
    HookInfo("rlcore_create_environment", "factory"),
    HookInfo("rlcore_create_curriculum", "factory"),
    HookInfo("rlcore_create_exporter", "factory"),
    HookInfo("rlcore_create_recordings", "factory"),
    HookInfo("rlcore_report_status", "status"),
    HookInfo("rlcore_restore_status", "status"),
    HookInfo("rlcore_write_status", "factory"),
    HookInfo("rlcore_read_status", "factory"),
    HookInfo("rlcore_modify_config", "intervention"),
    HookInfo("rlcore_check_config", "intervention"),
    HookInfo("rlcore_process_summary", "intervention"),
    HookInfo("rlcore_run_started", "notification"),
    HookInfo("rlcore_run_failed_to_start", "notification"),
    HookInfo("rlcore_summary_written", "notification"),
    HookInfo("rlcore_evaluated", "notification"),
    HookInfo("rlcore_checkpoint_saved", "notification"),
    HookInfo("rlcore_checkpoint_removed", "notification"),
    HookInfo("rlcore_lesson_changed", "notification"),
    HookInfo("rlcore_run_finished", "notification"),
    HookInfo("rlcore_addhooks", "extension"),
)
"""All hooks of rlcore."""

KINDS: dict[str, HookKind] = {hook.name: hook.kind for hook in HOOKS}


def deprecations(implemented: Collection[str]) -> list[str]:
    """One line for each deprecated hook among those that a plugin implements: what to use instead, and until when."""
    return [
        f"{hook.name} is deprecated: {hook.deprecated}; rlcore {hook.removed_in} will no longer call it"
        for hook in HOOKS
        if hook.deprecated is not None and hook.name in implemented
    ]
