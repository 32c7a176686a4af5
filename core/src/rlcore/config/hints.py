"""Hints for unknown keys: where a key belongs, and what replaced the keys of older versions of ML-Agents.

ML-Agents up to 0.16 had other files: all keys of a behavior beside each other, behaviors at the top level, and lessons
and samplers in files of their own.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping, Sequence
from contextlib import suppress
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from rlcore.config.classes import settings_fields
from rlcore.config.other_frameworks import OF_SB3, OTHER_KEYS, RLLIB_FILE, ZOO_FILE, is_of_rllib, is_of_zoo
from rlcore.errors import KeyPath, PluginError, dotted
from rlcore.settings import (
    BehaviorSettings,
    CheckpointSettings,
    EnvironmentSettings,
    EnvSettings,
    RewardSettings,
    RunConfig,
    TorchSettings,
)

if TYPE_CHECKING:
    from rlcore.plugins.call import Plugins

CONVERTER = "'python -m mlagents.trainers.upgrade_config' of ML-Agents converts old trainer files"
OLD_SAMPLER = "sampler-type"
OLD_SAMPLERS = (
    "the format of ML-Agents up to 0.16; write environment_parameters: {NAME: {sampler_type: uniform, "
    "sampler_parameters: {min_value: 0.5, max_value: 2}}}"
)
_LESSONS = "the format of ML-Agents up to 0.16; write lessons in environment_parameters: {NAME: {curriculum: [...]}}"
_PATHS = (
    "removed by ML-Agents: a run writes into the directory RUN_ID of checkpoint_settings.results_dir; delete this key"
)

# Keys that earlier versions of rlcore or ML-Agents had, and what to do about them.
_REMOVED: Mapping[str, str] = MappingProxyType(
    {
        "framework": "removed: every trainer has its own framework; delete this key",
        "parameter_randomization": "removed: write samplers in environment_parameters, beside lessons",
        "trainer": "renamed by ML-Agents: write trainer_type",
        "pretraining": "renamed by ML-Agents: write behavioral_cloning",
        "use_recurrent": "removed by ML-Agents: delete this key; a block network_settings.memory replaces true",
        "use_curiosity": "removed by ML-Agents: delete this key; a block reward_signals.curiosity replaces true",
        **dict.fromkeys(("output_path", "summary_path", "model_path"), _PATHS),
        **dict.fromkeys((OLD_SAMPLER, "resampling-interval"), OLD_SAMPLERS),
    }
)
_BEHAVIOR = "belongs in behaviors, below the name of the behavior"
_OLD_BEHAVIOR = (
    "the format of ML-Agents up to 0.16: behaviors are in behaviors and 'default' is default_settings; in each, keys "
    f"of the algorithm are in hyperparameters and those of the network in network_settings; {CONVERTER}"
)
_REWARDS = ("extrinsic", "curiosity", "gail", "rnd")
# Keys of ML-Agents' trainers, for files that are read without them.
_TRAINER_KEYS = (
    *("batch_size", "buffer_size", "learning_rate", "learning_rate_schedule", "beta", "beta_schedule", "epsilon"),
    *("epsilon_schedule", "lambd", "num_epoch", "shared_critic", "buffer_init_steps", "init_entcoef", "tau"),
    *("save_replay_buffer", "steps_per_update", "reward_signal_steps_per_update"),
)
_MEMORY_KEYS = ("memory_size", "sequence_length")  # of the block network_settings.memory


def hints_at_top(behaviors: Any, plugins: Plugins) -> dict[str, str]:
    """Return the messages for keys that may stand at the top level by mistake. ``behaviors`` is the file's block."""
    names = list(behaviors) if isinstance(behaviors, Mapping) else []
    behavior = ("behaviors", next(iter(names), "NAME"))
    blocks: dict[str, type] = {
        "torch_settings": TorchSettings,
        "environment": EnvironmentSettings,
        "env_settings": EnvSettings,
        "checkpoint_settings": CheckpointSettings,
        dotted(behavior): BehaviorSettings,
    }
    inner = {key: dotted((*behavior, *block)) for key, block in _inner_places((), plugins).items()}
    outer = {key: block for block, cls in blocks.items() for key in settings_fields(cls)}
    return _messages(
        {**dict.fromkeys(names, "behaviors"), **inner, **outer, "curriculum": "environment_parameters.NAME"}
    )


def hints_in_behavior(
    path: KeyPath, block: str | None, hyperparameters: Iterable[str], plugins: Plugins
) -> dict[str, str]:
    """Return the messages for keys that are unknown in a block of the behavior at ``path``; None is its own block.

    ``hyperparameters`` are the keys of its trainer.
    """
    here = dotted(path if block is None else (*path, block))
    top = dict.fromkeys(settings_fields(RunConfig), "the top level of the file")
    inner = {key: dotted((*path, *block)) for key, block in _inner_places(hyperparameters, plugins).items()}
    own = {key: dotted(path) for key in settings_fields(BehaviorSettings)}
    places = {**top, **inner, **own}
    return _messages({key: place for key, place in places.items() if place != here})  # else: of another trainer


def _messages(places: Mapping[str, str]) -> dict[str, str]:
    belong = {key: f"unknown key; it belongs in {place}" for key, place in places.items()}
    return {**OTHER_KEYS, **belong, **_REMOVED}


def misplaced(data: Mapping[str, Any], hyperparameters: Iterable[str], plugins: Plugins) -> tuple[tuple[str, ...], str]:
    """Return the keys to change in a behavior of ML-Agents up to 0.16, and one message about all of them.

    Both are empty for a behavior of the present format, whose misplaced keys are reported one by one.
    """
    if "trainer" not in data:
        return (), ""
    places = _inner_places(hyperparameters, plugins)
    own = settings_fields(BehaviorSettings)
    moved = {key: places[key] for key in data if key in places and key not in own}
    removed = [key for key in data if key in _REMOVED and key not in own and key != "trainer"]
    if data.get("use_recurrent") is not True:
        removed += [key for key in _MEMORY_KEYS if moved.pop(key, None)]
    parts = [_belonging(moved), "rename trainer to trainer_type", f"delete {', '.join(removed)}" if removed else ""]
    text = "; ".join(filter(None, (*parts, CONVERTER)))
    return ("trainer", *moved, *removed), f"the format of ML-Agents up to 0.16: {text}"


def _belonging(moved: Mapping[str, KeyPath]) -> str:
    """``batch_size, beta belong in hyperparameters; gamma belongs in reward_signals.extrinsic``."""
    by_block: dict[KeyPath, list[str]] = {}
    for key, block in moved.items():
        by_block.setdefault(block, []).append(key)
    return "; ".join(
        f"{', '.join(keys)} {'belong' if len(keys) > 1 else 'belongs'} in {dotted(block)}"
        for block, keys in by_block.items()
    )


def outside_behaviors(data: Mapping[str, Any], known: Container[str], plugins: Plugins) -> list[tuple[list[str], str]]:
    """Return blocks at the top level that belong elsewhere, grouped by the message about them.

    ``known`` are the keys that may be at the top level.
    """
    groups: dict[str, list[str]] = {}
    for key, block in data.items():
        if key not in known and isinstance(block, Mapping):
            kind = _kind_of_block(block, "behaviors" in data, plugins)
            if kind:
                groups.setdefault(kind, []).append(key)
    return [(keys, f"{message}{_others(keys)}") for message, keys in groups.items()]


def is_behavior(block: Any, plugins: Plugins) -> bool:
    """Return whether a block that is not in ``behaviors`` describes a behavior."""
    return isinstance(block, Mapping) and _kind_of_block(block, False, plugins) in (
        _BEHAVIOR,
        _OLD_BEHAVIOR,
        ZOO_FILE,
        RLLIB_FILE,
    )


def _kind_of_block(block: Mapping[str, Any], has_behaviors: bool, plugins: Plugins) -> str:
    """The message about a block at the top level whose name is unknown; empty if its keys say nothing."""
    if OLD_SAMPLER in block:
        return OLD_SAMPLERS
    if {"measure", "thresholds"} <= block.keys():
        return _LESSONS
    if "trainer_type" in block or "hyperparameters" in block:
        return _BEHAVIOR
    if not has_behaviors and is_of_zoo(block):
        return ZOO_FILE
    if not has_behaviors and is_of_rllib(block):
        return RLLIB_FILE
    places = {**_inner_places((), plugins), **dict.fromkeys(settings_fields(BehaviorSettings), ())}
    if "trainer" in block or (not has_behaviors and any(key in places for key in block)):
        return _OLD_BEHAVIOR
    return ""


def _others(keys: Sequence[str]) -> str:
    return f"; also {', '.join(map(repr, keys[1:]))}" if len(keys) > 1 else ""


def _keys_of_trainers(plugins: Plugins, attribute: str) -> list[str]:
    """The keys of the settings classes that ``attribute`` of all trainers names."""
    keys: dict[str, None] = {}
    for record in plugins.records("trainer"):
        with suppress(PluginError):  # a broken plugin must not hide a hint
            keys |= dict.fromkeys(settings_fields(record.resolve(attribute)))
    return list(keys)


def _inner_places(hyperparameters: Iterable[str], plugins: Plugins) -> dict[str, tuple[str, ...]]:
    """The block within a behavior that each key belongs in; ``hyperparameters`` are the keys of its trainer."""
    keys = tuple(hyperparameters)
    of_trainers = (*_TRAINER_KEYS, *_keys_of_trainers(plugins, "settings"))
    foreign = {key for key in OF_SB3 if keys and key not in keys}  # n_steps is a key of some trainers
    return {
        **dict.fromkeys((key for key in of_trainers if key not in foreign), ("hyperparameters",)),
        **dict.fromkeys(settings_fields(RewardSettings), ("reward_signals", "extrinsic")),
        **dict.fromkeys(_REWARDS, ("reward_signals",)),
        **dict.fromkeys(_MEMORY_KEYS, ("network_settings", "memory")),
        **dict.fromkeys(_keys_of_trainers(plugins, "network"), ("network_settings",)),
        **dict.fromkeys(keys, ("hyperparameters",)),
    }
