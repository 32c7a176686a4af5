"""Advice about keys of other frameworks, of old versions of ML-Agents, and of keys in the wrong block.

ML-Agents up to 0.16 had other files: all keys of a behavior beside each other, behaviors at the top level, and lessons
and samplers in files of their own.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import suppress
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any

from rlcore import (
    BehaviorSettings,
    CheckpointSettings,
    ConfigError,
    EnvironmentSettings,
    EnvSettings,
    FieldInfo,
    KeyPath,
    PluginError,
    Plugins,
    RewardSettings,
    RunConfig,
    TrainerSpec,
    dotted,
)
from rlcore_migrate.mlagents_keys import DEFAULTS_ONLY
from rlcore_migrate.zoo.literals import AUTO, LINEAR

CONVERTER = "rlcore convert mlagents FILE converts the file"
OLD_SAMPLER = "sampler-type"
ZOO_FILE = (
    "a file of RL Zoo, whose keys have other names here: rlcore convert zoo FILE --env ID turns an entry of it into a "
    "file of rlcore; docs/how-to/stable-baselines3.md says how"
)
_RLLIB_FILE = (
    "a file of RLlib, whose keys have other names here: write environment: {type: gymnasium, id: ...} and behaviors: "
    "{NAME: {trainer_type: ppo, max_steps: ...}}; keys of RLlib in them are refused with the ones to write instead"
)
_LESSONS = (
    "the format of ML-Agents up to 0.16; write lessons in environment_parameters: {NAME: {curriculum: [...]}}, as "
    "rlcore convert mlagents --curriculum FILE does"
)
_BEHAVIOR = "belongs in behaviors, below the name of the behavior"
_OLD_BEHAVIOR = (
    "the format of ML-Agents up to 0.16: behaviors are in behaviors and 'default' is default_settings; in each, keys "
    f"of the algorithm are in hyperparameters and those of the network in network_settings; {CONVERTER}"
)
_BEHAVIORS = {ZOO_FILE, _RLLIB_FILE, _BEHAVIOR, _OLD_BEHAVIOR}
_REWARDS = ("extrinsic", "curiosity", "gail", "rnd")
_MEMORY_KEYS = ("memory_size", "sequence_length")  # of the block network_settings.memory
_ANYONES = {"seed", "device", "verbose"}  # keys that do not say whose file it is
_FALLING = {
    "learning_rate": "learning_rate_schedule: linear",
    "epsilon": "epsilon_schedule: linear and final_epsilon: 0.0",
    "beta": "beta_schedule: linear and final_beta: 0.0",
}


@lru_cache(maxsize=1)
def foreign_keys() -> Mapping[str, Mapping[str, str]]:
    """Return messages about keys of other frameworks and of earlier versions of ML-Agents, by framework and key.

    A key that rlcore has too means what it means in rlcore.
    """
    import tomllib

    return tomllib.loads(Path(__file__).with_name("foreign_keys.toml").read_text(encoding="utf-8"))


class Hints:
    """The hints about one configuration; see :class:`rlcore.KeyHints`."""

    def __init__(self, data: Mapping[str, Any], plugins: Plugins) -> None:
        self._data = data
        self._plugins = plugins
        self._places: dict[KeyPath, Mapping[str, str]] = {}  # messages about unknown keys, by the path of their block

    def message(self, path: KeyPath, problem: str, unknown: bool) -> str:
        """Return what to say about the value at ``path`` instead of ``problem``; nothing if another message says it."""
        block = path[:-1]
        key = str(path[-1]) if path else ""
        if key.startswith("--"):
            return foreign_keys()["flags"].get(key.removeprefix("--"), problem)
        if path == ("behaviors",) and not unknown and self._data.get("behaviors") is None:
            found = any(message.startswith(tuple(_BEHAVIORS)) for message in self._outside.values())
            return "" if found else problem
        if not block and key in self._outside:
            return self._outside[key]
        if path[:1] == ("environment_parameters",) and OLD_SAMPLER in self._mapping(path[:2]):
            return foreign_keys()["ml_agents"][OLD_SAMPLER] if key == OLD_SAMPLER else ""
        behavior, below = _split(path)
        if behavior and "trainer" in self._mapping(behavior) and len(below) == 1:
            old = self._old_behavior(behavior)
            return old.get(key, problem)
        if below[:-1] == ("reward_signals",) and key in FieldInfo.fields_of(RewardSettings):
            return f"unknown key; it belongs in {dotted((*block, 'extrinsic'))}"
        if not unknown:
            value = self._mapping(block).get(key)
            return with_value_hint(path, value, problem) if isinstance(value, str) else problem
        if block not in self._places:
            self._places[block] = self._messages_in(block, behavior, below[:-1])
        return self._places[block].get(key, problem)

    def _mapping(self, path: KeyPath) -> Mapping[str, Any]:
        """The block at ``path``; an empty one if no mapping is there."""
        block: Any = self._data
        for key in path:
            block = block.get(key) if isinstance(block, Mapping) else None
        return block if isinstance(block, Mapping) else {}

    # ------------------------------------------------------------ keys in the wrong block

    def _messages_in(self, path: KeyPath, behavior: KeyPath, below: KeyPath) -> Mapping[str, str]:
        """The messages about keys that are unknown in the block at ``path``; ``below`` is its path in a behavior."""
        if not path:
            return _messages(self._places_at_top())
        if path in (("environment",), ("evaluation", "environment")):
            return _of_other_frameworks()
        if not behavior or below not in ((), ("hyperparameters",), ("network_settings",)):
            return {}
        keys = () if below == ("hyperparameters",) else self._keys_of_trainer(behavior)
        places = dict.fromkeys(FieldInfo.fields_of(RunConfig), "the top level of the file")
        for key, block in self._inner_places(keys).items():
            places[key] = dotted((*behavior, *block))
        places |= dict.fromkeys(FieldInfo.fields_of(BehaviorSettings), dotted(behavior))
        here = dotted(path)
        return _messages({key: place for key, place in places.items() if place != here})

    def _places_at_top(self) -> dict[str, str]:
        """The places of keys that are no blocks, for keys at the top level of the file."""
        names = list(self._mapping(("behaviors",)))
        behavior = ("behaviors", next(iter(names), "NAME"))
        blocks: dict[str, type] = {
            **self._sections(),
            "environment": EnvironmentSettings,
            "env_settings": EnvSettings,
            "checkpoint_settings": CheckpointSettings,
            dotted(behavior): BehaviorSettings,
        }
        places = dict.fromkeys(names, "behaviors")
        for key, inner_block in self._inner_places(()).items():
            places[key] = dotted((*behavior, *inner_block))
        for block, settings in blocks.items():
            places |= dict.fromkeys(FieldInfo.fields_of(settings), block)
        for block, keys in DEFAULTS_ONLY.items():
            if block != "engine_settings":  # rlcore has no such block
                places |= dict.fromkeys(keys, block)
        places["curriculum"] = "environment_parameters.NAME"
        return places

    def _sections(self) -> dict[str, type]:
        """The settings classes of plugins' own blocks, by name."""
        found: dict[str, type] = {}
        for record in self._plugins.records("section"):
            with suppress(PluginError):  # a broken plugin must not hide a hint
                found[record.name] = record.resolve()
        return found

    def _inner_places(self, hyperparameters: Iterable[str]) -> dict[str, KeyPath]:
        """The block within a behavior that each key belongs in; ``hyperparameters`` are the keys of its trainer."""
        keys = tuple(hyperparameters)
        # n_steps is a key of some trainers.
        foreign = {key for key in foreign_keys()["stable_baselines3"] if keys and key not in keys}
        return {
            **dict.fromkeys(set(self._keys_of_trainers("settings")) - foreign, ("hyperparameters",)),
            **dict.fromkeys(FieldInfo.fields_of(RewardSettings), ("reward_signals", "extrinsic")),
            **dict.fromkeys(_REWARDS, ("reward_signals",)),
            **dict.fromkeys(_MEMORY_KEYS, ("network_settings", "memory")),
            **dict.fromkeys(self._keys_of_trainers("network"), ("network_settings",)),
            **dict.fromkeys(keys, ("hyperparameters",)),
        }

    def _keys_of_trainers(self, attribute: str) -> list[str]:
        """The keys of the settings classes that ``attribute`` of all trainers names."""
        keys: dict[str, None] = {}
        for record in self._plugins.records("trainer"):
            with suppress(PluginError):  # a broken plugin must not hide a hint
                keys |= dict.fromkeys(FieldInfo.fields_of(record.resolve(attribute)))
        return list(keys)

    def _keys_of_trainer(self, behavior: KeyPath) -> Iterable[str]:
        """The keys of ``hyperparameters``, as the trainer that a behavior names has them."""
        name = self._mapping(behavior).get("trainer_type", "ppo")
        with suppress(ConfigError, PluginError):
            trainer = self._plugins.record(TrainerSpec, name) if isinstance(name, str) else None
            return () if trainer is None else FieldInfo.fields_of(trainer.resolve("settings"))
        return ()

    # ------------------------------------------------------------ files of other formats

    def _old_behavior(self, path: KeyPath) -> dict[str, str]:
        """The messages about the keys of a behavior of ML-Agents up to 0.16, which has the key ``trainer``: all in one.

        Misplaced keys of the present format are reported one by one.
        """
        data = self._mapping(path)
        places = self._inner_places(self._keys_of_trainer(path))
        unknown = [key for key in data if key not in FieldInfo.fields_of(BehaviorSettings)]
        moved = {key: places[key] for key in unknown if key in places}
        removed = [key for key in unknown if key in foreign_keys()["ml_agents"] and key != "trainer"]
        if data.get("use_recurrent") is not True:
            removed += [key for key in _MEMORY_KEYS if moved.pop(key, None)]
        by_block: dict[KeyPath, list[str]] = {}
        for key, block in moved.items():
            by_block.setdefault(block, []).append(key)
        parts = []
        for block, keys in by_block.items():
            verb = "belong" if len(keys) > 1 else "belongs"
            parts.append(f"{', '.join(keys)} {verb} in {dotted(block)}")
        parts.append("rename trainer to trainer_type")
        if removed:
            parts.append(f"delete {', '.join(removed)}")
        parts.append(CONVERTER)
        message = f"the format of ML-Agents up to 0.16: {'; '.join(parts)}"
        return {**dict.fromkeys((*moved, *removed), ""), "trainer": message}

    @cached_property
    def _outside(self) -> dict[str, str]:
        """The messages about blocks at the top level that belong elsewhere: one for the first block of each kind."""
        sections = {record.name for record in self._plugins.records("section")}
        known = {*FieldInfo.fields_of(RunConfig), *sections}
        groups: dict[str, list[str]] = {}
        for key, block in self._data.items():
            if isinstance(block, Mapping) and key not in known:
                groups.setdefault(self._kind_of_block(block), []).append(key)
        groups.pop("", None)
        messages: dict[str, str] = {}
        for message, keys in groups.items():
            first, *others = keys
            messages[first] = message
            if others:
                messages[first] += f"; also {', '.join(map(repr, others))}"
            messages |= dict.fromkeys(others, "")
        return messages

    def _kind_of_block(self, block: Mapping[str, Any]) -> str:
        """The message about a block at the top level whose name is unknown; empty if its keys say nothing."""
        has_behaviors = "behaviors" in self._data
        if OLD_SAMPLER in block:
            return foreign_keys()["ml_agents"][OLD_SAMPLER]
        if {"measure", "thresholds"} <= block.keys():
            return _LESSONS
        if "trainer_type" in block or "hyperparameters" in block:
            return _BEHAVIOR
        if not has_behaviors:
            if foreign_keys()["stable_baselines3"].keys() & (block.keys() - _ANYONES):
                return ZOO_FILE  # an entry of such a file
            if "run" in block and block.keys() & {"env", "config", "stop"}:
                return _RLLIB_FILE  # an experiment
            if self._keys_of_a_behavior & block.keys():
                return _OLD_BEHAVIOR
        return _OLD_BEHAVIOR if "trainer" in block else ""

    @cached_property
    def _keys_of_a_behavior(self) -> set[str]:
        return {*self._inner_places(()), *FieldInfo.fields_of(BehaviorSettings)}


def _split(path: KeyPath) -> tuple[KeyPath, KeyPath]:
    """The path of the behavior that ``path`` is in, empty for none; and the path below it."""
    depth = 0
    if path:
        depth = {"behaviors": 2, "default_settings": 1}.get(str(path[0]), 0)
    if len(path) <= depth:
        return (), path
    return path[:depth], path[depth:]


def _of_other_frameworks() -> dict[str, str]:
    found: dict[str, str] = {}
    for name in ("cleanrl", "stable_baselines3", "tianshou", "rllib"):
        found |= foreign_keys()[name]
    return found


def _messages(places: Mapping[str, str]) -> dict[str, str]:
    misplaced = {key: f"unknown key; it belongs in {place}" for key, place in places.items()}
    return {**_of_other_frameworks(), **misplaced, **foreign_keys()["ml_agents"]}


def with_value_hint(path: KeyPath, value: str, problem: str) -> str:
    """Return ``problem`` with what to write instead of ``value``.

    The nearest name that ``problem`` suggests for an algorithm of another framework is another algorithm: a2c is not
    sac. It is replaced.
    """
    if path[-1:] == ("trainer_type",) and (advice := foreign_keys()["trainers"].get(value.casefold())):
        refusal, _, _ = problem.partition("; did you mean")
        return f"{refusal}; {advice}"
    return f"{problem}{value_hint(path, value)}"


def value_hint(path: KeyPath, value: str) -> str:
    """Return ``"; write 0.001 with learning_rate_schedule: linear"`` for ``lin_0.001`` of RL Zoo, and the like.

    Empty for a text that no hyperparameter has in files of RL Zoo.
    """
    if "hyperparameters" not in path[-2:-1]:
        return ""
    key = str(path[-1])
    linear = LINEAR.fullmatch(value)
    if linear and key in _FALLING:
        return f"; write {linear['initial']} with {_FALLING[key]}"
    auto = AUTO.fullmatch(value)
    if auto and key == "init_entcoef":
        return f"; write {auto['initial'] or '1.0'}, from which it is learned while learn_entcoef is true"
    return ""
