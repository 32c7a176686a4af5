"""ML-Agents' files and options: what they say about the player becomes keys of the ``environment`` block.

A document is one of these if its environment is of type ``unity``, or if it names no type and a player: in
``env_settings.env_path``, in ``environment.executable``, or with ``--env``.
"""

from __future__ import annotations

import logging
import re
import shlex
from collections.abc import Mapping
from importlib.util import find_spec
from typing import Any

from rlcore_unity.executable import EDITOR, names_a_player

log = logging.getLogger("rlcore.plugin.unity")

CHECKPOINT_INTERVAL = 500_000  # agent steps, the default of ML-Agents
TYPES = ("unity", "rlcore-unity/unity")
OF_ENV_SETTINGS = {"env_path": "executable", "env_args": "args", "base_port": "base_port", "num_areas": "num_areas"}
OF_ENGINE_SETTINGS = (
    "width",
    "height",
    "quality_level",
    "time_scale",
    "target_frame_rate",
    "capture_frame_rate",
    "no_graphics",
    "no_graphics_monitor",
)


def translate(document: dict[str, Any]) -> None:
    """Change ``document`` in place if its environment is a player."""
    environment = document.get("environment")
    evaluated = _evaluated(document)
    if isinstance(environment, dict):
        _unname(document, environment)
        _executable_of_id(environment, environment.get("type"))
    if isinstance(evaluated, dict):  # without a type, it has that of the training
        training = environment if isinstance(environment, dict) else {}
        _executable_of_id(evaluated, evaluated.get("type", training.get("type")))
    if not _is_unity(document):
        return
    if not isinstance(environment, dict):
        environment = document["environment"] = {}
    environment.setdefault("type", TYPES[0])
    _take(document, "env_settings", OF_ENV_SETTINGS, environment)
    _take(document, "engine_settings", {key: key for key in OF_ENGINE_SETTINGS}, environment)
    if isinstance(environment.get("args"), str):
        environment["args"] = shlex.split(environment["args"])
    elif environment.get("args") is None:
        environment.pop("args", None)
    if environment.get("executable") is not None:
        environment.setdefault("id", environment["executable"])
    _evaluate_in_one_player(document)
    _save_as_often(document)
    if find_spec("rlcore_onnx") is not None and "export" not in document:
        document["export"] = {"onnx": {"profile": "unity", "checkpoints": True}}


def _evaluated(document: Mapping[str, Any]) -> Any:
    evaluation = document.get("evaluation")
    return evaluation.get("environment") if isinstance(evaluation, dict) else None


def _executable_of_id(environment: dict[str, Any], kind: Any) -> None:
    """Take the ``id`` for a player if it names one and ``kind`` is not another's: ``--env`` sets it."""
    named = environment.get("id")
    if not isinstance(named, str) or named == environment.get("executable") or kind not in (None, *TYPES):
        return
    if named == EDITOR:
        environment.update(type=kind or TYPES[0], executable=None)
    elif names_a_player(named):
        environment.update(type=kind or TYPES[0], executable=named)


def _unname(document: dict[str, Any], environment: Mapping[str, Any]) -> None:
    """Remove the behavior that was named after an id without a type, before the id was known to be a player's.

    The behaviors of a player have names of their own, and ``default_settings`` are for all of them.
    """
    named = environment.get("id")
    behaviors = document.get("behaviors")
    if environment.get("type") is not None or not isinstance(named, str) or not names_a_player(named):
        return
    name = re.sub(r"[^A-Za-z0-9._-]", "_", re.split("[:/]", named)[-1])
    if isinstance(behaviors, dict) and [*behaviors] == [name] and behaviors[name] == document.get("default_settings"):
        del document["behaviors"]


def _is_unity(document: Mapping[str, Any]) -> bool:
    environment = document.get("environment")
    env_settings = document.get("env_settings")
    if isinstance(environment, dict):
        if environment.get("type") is not None:
            return environment["type"] in TYPES
        if environment.get("executable") is not None:
            return True
        if environment.get("id") is not None:
            return False
    elif environment is not None:
        return False
    return isinstance(env_settings, dict) and env_settings.get("env_path") is not None


def _take(document: dict[str, Any], name: str, keys: Mapping[str, str], environment: dict[str, Any]) -> None:
    """Move the ``keys`` of a block to the environment, whose own win."""
    block = document.get(name)
    if not isinstance(block, dict):
        return
    for key, ours in keys.items():
        if key in block:
            value = block.pop(key)
            if value is not None:
                environment.setdefault(ours, value)
    if not block:
        del document[name]


def _save_as_often(document: Mapping[str, Any]) -> None:
    """Save checkpoints as often as ML-Agents does where the file does not say how often."""
    default = document.get("default_settings")
    behaviors = document.get("behaviors")
    blocks = [default, *(behaviors.values() if isinstance(behaviors, dict) else ())]
    inherited = default if isinstance(default, dict) else {}
    for block in blocks:
        if isinstance(block, dict) and not {"checkpoint_interval", "even_checkpoints"} & {*block, *inherited}:
            block["checkpoint_interval"] = CHECKPOINT_INTERVAL


def _evaluate_in_one_player(document: dict[str, Any]) -> None:
    """Evaluations start one player unless the file gives their number: the default would be one for each episode."""
    evaluation = document.setdefault("evaluation", {"interval": None})
    if isinstance(evaluation, dict):
        environment = evaluation.setdefault("environment", {})
        if isinstance(environment, dict):
            environment.setdefault("num_envs", 1)
