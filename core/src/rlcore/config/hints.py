"""Hints for unknown keys: where a key belongs, and what replaced the keys of older versions of ML-Agents.

ML-Agents up to 0.16 had other files: all keys of a behavior beside each other, behaviors at the top level, and lessons
and samplers in files of their own.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import attrs

from rlcore.config.document import value_at
from rlcore.errors import ConfigError, KeyPath, PluginError, dotted
from rlcore.records import TrainerSpec
from rlcore.settings import (
    BehaviorSettings,
    CheckpointSettings,
    EnvironmentSettings,
    EnvSettings,
    RewardSettings,
    RunConfig,
    TorchSettings,
)
from rlcore.settings.fields import settings_fields

if TYPE_CHECKING:
    from rlcore.plugins.call import Plugins

CONVERTER = "'python -m mlagents.trainers.upgrade_config' of ML-Agents converts old trainer files"
OLD_SAMPLER = "sampler-type"
ZOO_FILE = (
    "a file of RL Zoo, whose keys have other names here: docs/how-to/stable-baselines3.md turns such a file into one "
    "of rlcore, step by step"
)
RLLIB_FILE = (
    "a file of RLlib, whose keys have other names here: write environment: {type: gymnasium, id: ...} and behaviors: "
    "{NAME: {trainer_type: ppo, max_steps: ...}}; keys of RLlib in them are refused with the ones to write instead"
)
_LESSONS = "the format of ML-Agents up to 0.16; write lessons in environment_parameters: {NAME: {curriculum: [...]}}"
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
_ANYONES = {"seed", "device", "verbose"}  # keys that do not say whose file it is
_LINEAR = re.compile(r"lin_(\d[\d.]*(?:e[+-]?\d+)?)")
_AUTO = re.compile(r"auto(?:_(\d[\d.]*(?:e[+-]?\d+)?))?")
_FALLING = {
    "learning_rate": "learning_rate_schedule: linear",
    "epsilon": "epsilon_schedule: linear and final_epsilon: 0.0",
    "beta": "beta_schedule: linear and final_beta: 0.0",
}


@lru_cache(maxsize=1)
def foreign_keys() -> Mapping[str, Mapping[str, Any]]:
    """Messages about keys of other frameworks and of earlier versions of ML-Agents, by framework and key.

    A key that rlcore has too means what it means in rlcore.
    """
    import tomllib

    return tomllib.loads(Path(__file__).with_name("foreign_keys.toml").read_text(encoding="utf-8"))


def _of_other_frameworks() -> dict[str, str]:
    others = ("stable_baselines3", "tianshou", "rllib")
    return {key: said for name in others for key, said in foreign_keys()[name].items()}


def not_supported_keys() -> dict[tuple[str, str], tuple[Any, str]]:
    """The keys of ML-Agents that a file may only have with their defaults: each default, and what rlcore lacks."""
    import json

    return {
        (block, key): (json.loads(default), missing)
        for missing, keys in foreign_keys()["not_supported"].items()
        for (block, _, key), default in ((path.partition("."), default) for path, default in keys.items())
    }


class Hints:
    """Hints about the unknown keys and wrong texts of one document."""

    def __init__(self, data: Mapping[str, Any], plugins: Plugins) -> None:
        self._data = data
        self._plugins = plugins
        self._messages: dict[KeyPath, Mapping[str, str]] = {}  # of unknown keys, by the path of their block

    def completed(self, problem: str, path: KeyPath, unknown: bool, text: str | None, note: str) -> tuple[str, str]:
        """Return the message about what is wrong at ``path``, and its note.

        The note about an ``unknown`` key says which plugins may have claimed it. ``text`` is of the wrong type.
        """
        if not unknown:
            return f"{problem}{value_hint(path, text or '')}", note
        behavior, below = _split(path)
        if below[0] == "reward_signals" and path[-1] in settings_fields(RewardSettings):
            return f"unknown key; it belongs in {dotted((*path[:-1], 'extrinsic'))}", ""
        if path[:-1] not in self._messages:
            self._messages[path[:-1]] = self._messages_in(path[:-1], behavior, below[:-1])
        known = self._messages[path[:-1]].get(str(path[-1]))
        return known or problem, self._plugins.absent if not known and len(below) == 1 else ""

    def keys_of_trainer(self, behavior: Any) -> Iterable[str]:
        """Return the keys of ``hyperparameters``, as the trainer that a behavior names has them."""
        name = attrs.fields(BehaviorSettings).trainer_type.default
        name = behavior.get("trainer_type", name) if isinstance(behavior, Mapping) else name
        with suppress(ConfigError, PluginError):
            return (
                settings_fields(self._plugins.record(TrainerSpec, name).resolve("settings"))
                if isinstance(name, str)
                else ()
            )
        return ()

    def _messages_in(self, path: KeyPath, behavior: KeyPath, below: KeyPath) -> Mapping[str, str]:
        """The messages about keys that are unknown in the block at ``path``; ``below`` is its path in a behavior."""
        if not path:
            return self._messages_at_top()
        if path in (("environment",), ("evaluation", "environment")):
            return _of_other_frameworks()
        if not behavior or below not in ((), ("hyperparameters",), ("network_settings",)):
            return {}
        keys = () if below == ("hyperparameters",) else self.keys_of_trainer(value_at(self._data, map(str, behavior)))
        top = dict.fromkeys(settings_fields(RunConfig), "the top level of the file")
        inner = {key: dotted((*behavior, *block)) for key, block in _inner_places(keys, self._plugins).items()}
        own = {key: dotted(behavior) for key in settings_fields(BehaviorSettings)}
        places = {**top, **inner, **own}
        return _messages({key: place for key, place in places.items() if place != dotted(path)})  # else: of another one

    def _messages_at_top(self) -> Mapping[str, str]:
        behaviors = self._data.get("behaviors")
        names = list(behaviors) if isinstance(behaviors, Mapping) else []
        behavior = ("behaviors", next(iter(names), "NAME"))
        blocks: dict[str, type] = {
            "torch_settings": TorchSettings,
            "environment": EnvironmentSettings,
            "env_settings": EnvSettings,
            "checkpoint_settings": CheckpointSettings,
            dotted(behavior): BehaviorSettings,
        }
        inner = {key: dotted((*behavior, *block)) for key, block in _inner_places((), self._plugins).items()}
        outer = {key: block for block, cls in blocks.items() for key in settings_fields(cls)}
        outer |= {key: block for block, key in not_supported_keys() if block != "engine_settings"}
        return _messages(
            {**dict.fromkeys(names, "behaviors"), **inner, **outer, "curriculum": "environment_parameters.NAME"}
        )


def _split(path: KeyPath) -> tuple[KeyPath, KeyPath]:
    """The path of the behavior that ``path`` is in, empty for none; and the path below it."""
    depth = {"behaviors": 2, "default_settings": 1}.get(str(path[0]), 0)
    return (path[:depth], path[depth:]) if len(path) > depth else ((), path)


def _messages(places: Mapping[str, str]) -> dict[str, str]:
    belong = {key: f"unknown key; it belongs in {place}" for key, place in places.items()}
    return {**_of_other_frameworks(), **belong, **foreign_keys()["ml_agents"]}


def misplaced(
    data: Mapping[str, Any], keys_of_trainer: Callable[[Any], Iterable[str]], plugins: Plugins
) -> tuple[tuple[str, ...], str]:
    """Return the keys to change in a behavior of ML-Agents up to 0.16, and one message about all of them.

    Such a behavior has the key ``trainer``. Misplaced keys of the present format are reported one by one.
    """
    places = _inner_places(keys_of_trainer(data), plugins)
    own = settings_fields(BehaviorSettings)
    moved = {key: places[key] for key in data if key in places and key not in own}
    removed = [key for key in data if key in foreign_keys()["ml_agents"] and key not in own and key != "trainer"]
    if data.get("use_recurrent") is not True:
        removed += [key for key in _MEMORY_KEYS if moved.pop(key, None)]
    by_block: dict[KeyPath, list[str]] = {}
    for key, block in moved.items():
        by_block.setdefault(block, []).append(key)
    parts = [
        f"{', '.join(keys)} {'belong' if len(keys) > 1 else 'belongs'} in {dotted(block)}"
        for block, keys in by_block.items()
    ]
    parts += ["rename trainer to trainer_type", *([f"delete {', '.join(removed)}"] if removed else []), CONVERTER]
    return ("trainer", *moved, *removed), f"the format of ML-Agents up to 0.16: {'; '.join(parts)}"


def outside_behaviors(unknown: Mapping[str, Any], has_behaviors: bool, plugins: Plugins) -> list[tuple[list[str], str]]:
    """Return which of the ``unknown`` blocks at the top level belong elsewhere, grouped by the message about them."""
    groups: dict[str, list[str]] = {}
    for key, block in unknown.items():
        if isinstance(block, Mapping):
            kind = _kind_of_block(block, has_behaviors, plugins)
            if kind:
                groups.setdefault(kind, []).append(key)
    others = {message: f"; also {', '.join(map(repr, keys[1:]))}" for message, keys in groups.items() if len(keys) > 1}
    return [(keys, f"{message}{others.get(message, '')}") for message, keys in groups.items()]


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
        return str(foreign_keys()["ml_agents"][OLD_SAMPLER])
    if {"measure", "thresholds"} <= block.keys():
        return _LESSONS
    if "trainer_type" in block or "hyperparameters" in block:
        return _BEHAVIOR
    if not has_behaviors and not foreign_keys()["stable_baselines3"].keys().isdisjoint(block.keys() - _ANYONES):
        return ZOO_FILE  # an entry of such a file
    if not has_behaviors and "run" in block and not block.keys().isdisjoint({"env", "config", "stop"}):
        return RLLIB_FILE  # an experiment
    places = {**_inner_places((), plugins), **dict.fromkeys(settings_fields(BehaviorSettings), ())}
    if "trainer" in block or (not has_behaviors and any(key in places for key in block)):
        return _OLD_BEHAVIOR
    return ""


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
    foreign = {
        key for key in foreign_keys()["stable_baselines3"] if keys and key not in keys
    }  # n_steps is a key of some trainers
    return {
        **dict.fromkeys((key for key in of_trainers if key not in foreign), ("hyperparameters",)),
        **dict.fromkeys(settings_fields(RewardSettings), ("reward_signals", "extrinsic")),
        **dict.fromkeys(_REWARDS, ("reward_signals",)),
        **dict.fromkeys(_MEMORY_KEYS, ("network_settings", "memory")),
        **dict.fromkeys(_keys_of_trainers(plugins, "network"), ("network_settings",)),
        **dict.fromkeys(keys, ("hyperparameters",)),
    }


def value_hint(path: KeyPath, value: str) -> str:
    """Return ``"; write 0.001 with learning_rate_schedule: linear"`` for ``lin_0.001`` of RL Zoo, and the like.

    Empty for a text that no hyperparameter has in files of RL Zoo.
    """
    key = str(path[-1]) if "hyperparameters" in path[-2:-1] else ""
    if key in _FALLING and (linear := _LINEAR.fullmatch(value)):
        return f"; write {linear[1]} with {_FALLING[key]}"
    if key == "init_entcoef" and (auto := _AUTO.fullmatch(value)):
        return f"; write {auto[1] or '1.0'}, from which it is learned while learn_entcoef is true"
    return ""
