"""A RunConfig back to plain data and YAML: every block complete, and equal when it is loaded again."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import attrs

from rlcore.config.problems import KeyPath, dotted, shown
from rlcore.config.seal import sealed
from rlcore.config.structure import settings_fields
from rlcore.errors import ConfigError
from rlcore.settings import RunConfig


def dump_config(config: RunConfig) -> dict[str, Any]:
    """The complete configuration as plain data, plugins' blocks included; it loads again to an equal RunConfig."""
    data: dict[str, Any] = plain(config, ())
    data["stats"] = {name: {} if value is None else value for name, value in data["stats"].items()}
    if config.default_settings is not None:
        for name in config.behaviors:
            _prune(data["default_settings"], config.default_settings, data["behaviors"][name])
    sections: dict[str, Any] = data.pop("sections")
    return {**data, **sections}


def config_text(config: RunConfig) -> str:
    """The complete configuration as YAML."""
    import yaml

    # ASCII only: told to write Unicode, PyYAML writes U+0085 as a line break and reads it back as a space.
    return yaml.safe_dump(dump_config(config), sort_keys=False, allow_unicode=False, width=120)


def write_config(config: RunConfig, path: Path) -> None:
    """Writes the complete configuration as YAML, sealed, replacing ``path`` in one step."""
    from rlcore.files.atomic import write_atomically  # which needs numpy

    write_atomically(path, sealed(config_text(config)).encode())


def plain(value: Any, path: KeyPath) -> Any:
    """A settings object, or anything in one, as plain data; ``path`` is for the error if that cannot be."""
    if isinstance(value, enum.Enum):
        return plain(value.value, path)
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, Path):
        return str(value)
    if isinstance(value, Mapping):
        return {str(key): plain(element, (*path, str(key))) for key, element in value.items()}
    if isinstance(value, set | frozenset):
        return sorted(plain(element, path) for element in value)
    if isinstance(value, list | tuple):
        return [plain(element, (*path, index)) for index, element in enumerate(value)]
    if attrs.has(type(value)):
        return {
            key: plain(getattr(value, attribute.name), (*path, key))
            for key, attribute in settings_fields(type(value)).items()
        }
    raise ConfigError(f"{dotted(path)}: {shown(value)} cannot be written to a configuration file")


def _prune(defaults: dict[str, Any], settings: Any, behavior: Mapping[str, Any]) -> None:
    """Takes out of ``default_settings`` what a behavior must not inherit when the file is loaded again.

    Only class defaults can be in the way, which loading fills in by itself: another trainer's hyperparameters, the
    extrinsic reward where a behavior has others, entries of a mapping that the behavior gives otherwise.
    """
    for key, attribute in settings_fields(type(settings)).items():
        if key not in defaults:
            continue
        value, own = getattr(settings, attribute.name), behavior.get(key)
        if key not in behavior:
            del defaults[key]
        elif attrs.has(type(value)) and isinstance(own, Mapping):
            _prune(defaults[key], value, own)
        elif isinstance(value, Mapping) and isinstance(own, Mapping) and _adds(defaults[key], own):
            del defaults[key]


def _adds(base: Mapping[str, Any], own: Mapping[str, Any]) -> bool:
    """Whether merging ``base`` under ``own`` would add a key."""
    return any(
        key not in own or (isinstance(value, Mapping) and isinstance(own[key], Mapping) and _adds(value, own[key]))
        for key, value in base.items()
    )
