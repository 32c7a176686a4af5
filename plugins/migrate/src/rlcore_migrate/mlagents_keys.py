"""Keys of ML-Agents' files that rlcore has under another name, or that have no effect here.

rlcore reads this module with every configuration, so it imports nothing heavy.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rlcore import EnvironmentSettings, KeyPath, Rewriting, dotted, read_settings

NUM_ENVS: KeyPath = ("environment", "num_envs")
ALIAS: KeyPath = ("env_settings", "num_envs")
PLAYER = "environment: {type: unity} of rlcore-unity"

# Keys that a file may only have with these defaults, by block. rlcore-unity takes those of players before.
DEFAULTS_ONLY: Mapping[str, Mapping[str, Any]] = {
    "env_settings": {"env_path": None, "env_args": None, "base_port": 5005, "num_areas": 1},
    "engine_settings": {
        "width": 84,
        "height": 84,
        "quality_level": 5,
        "time_scale": 20,
        "target_frame_rate": -1,
        "capture_frame_rate": 60,
        "no_graphics": False,
        "no_graphics_monitor": False,
    },
    "checkpoint_settings": {"load_model": False, "train_model": False},
}

# The keys that a file may have, for the schema of editors.
ACCEPTED: Mapping[str, Mapping[str, Any]] = {
    **DEFAULTS_ONLY,
    "env_settings": {**DEFAULTS_ONLY["env_settings"], "num_envs": 1},
}


def rewrite(file: Rewriting) -> None:
    """Leave out keys with their defaults, and write ``env_settings.num_envs`` as ``environment.num_envs``."""
    for block in DEFAULTS_ONLY:
        _without_defaults(file, block)
    _number_of_environments(file)


def _without_defaults(file: Rewriting, block: str) -> None:
    defaults = DEFAULTS_ONLY[block]
    found = file.get((block,))
    whole = block == "engine_settings"  # rlcore has no such block: it is left out with its keys
    if isinstance(found, Mapping):
        for key, value in found.items():
            if key in defaults:
                _refuse_another_value(file, (block, key), value)
                file.remove((block, key))
            elif whole:
                file.refuse_unknown((block, key), defaults)
    elif whole and found:
        file.refuse((block,), f"must be a mapping of settings, not {file.shown(found)}")
    if whole:
        file.remove((block,))


def _refuse_another_value(file: Rewriting, path: tuple[str, str], value: Any) -> None:
    block, key = path
    default = file.shown(DEFAULTS_ONLY[block][key])
    if file.shown(value) not in (default, f"{default}.0"):
        where = "" if block == "checkpoint_settings" else f" without {PLAYER}"
        file.refuse(path, f"not supported{where}; only its default, {default}, is allowed")


def _number_of_environments(file: Rewriting) -> None:
    alias = file.get(ALIAS)
    own = file.get(NUM_ENVS)
    # What the command line says overrules the file, and the file a preset, under either name.
    lead = file.strength(ALIAS) - file.strength(NUM_ENVS)
    if alias is not None and (own is None or lead >= 0):
        count, problems = _count(alias)
        for _, message in problems:
            file.refuse(ALIAS, message)
        own_count, _ = _count(own)
        if count is not None and (own is None or lead > 0):
            file.move(ALIAS, NUM_ENVS)
        elif None not in (count, own_count) and count != own_count:
            file.refuse(NUM_ENVS, f"conflicts with {dotted(ALIAS)} ({count}); set only one")
    file.remove(ALIAS)


def _count(value: Any) -> tuple[int | None, tuple[tuple[KeyPath, str], ...]]:
    """The number of environments that a value of a file stands for, and what is wrong with the value."""
    settings, problems = read_settings(EnvironmentSettings, {"num_envs": value})
    return (None if settings is None else settings.num_envs), problems
