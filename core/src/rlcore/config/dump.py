"""A RunConfig as plain data and YAML: every block is complete, and the data loads to an equal RunConfig."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import attrs

from rlcore.config.problems import shown
from rlcore.config.yaml_forms import yaml_text
from rlcore.errors import ConfigError, KeyPath, dotted
from rlcore.files.writing import write_atomically
from rlcore.settings import EnvironmentSettings, RunConfig
from rlcore.settings.fields import FieldInfo

# Training is tuned to its number of environments; evaluations choose their own, and step them in one process.
NOT_INHERITED = ("num_envs", "workers")


def dump_config(config: RunConfig) -> dict[str, Any]:
    """The complete configuration as plain data, plugins' blocks included; it loads to an equal RunConfig.

    Fields declared with ``setting(..., secret=True)`` are left out.

    ``evaluation.environment`` has only what differs from ``environment``, so that a changed ``environment`` reaches
    evaluations as it does in the file that was loaded.
    """
    data: dict[str, Any] = plain(config, ())
    _lift_sections(data)
    data["stats"] = {name: {} if value is None else value for name, value in data["stats"].items()}
    if config.default_settings is not None:
        for name in config.behaviors:
            _prune(data["default_settings"], config.default_settings, data["behaviors"][name])
            _prune_sections(data["default_settings"], config.default_settings, data["behaviors"][name])
    if data["evaluation"] is not None:
        for block in data["evaluation"].pop("sections").values():
            data["evaluation"] |= block
        data["evaluation"]["environment"] = own_entries(data["evaluation"]["environment"] or {}, data["environment"])
    del data["preset"]
    complete: dict[str, Any] = {}
    for key, value in data.items():
        if key == "sections":
            complete |= {name: block for name, block in value.items() if _is_written(name, config)}
        else:
            complete[key] = value
    return complete


def _is_written(section: str, config: RunConfig) -> bool:
    """Whether the section of a plugin belongs into the file: it is listed, or a program gave it other values.

    A section with defaults that is not listed is of a plugin that is merely installed.
    """
    listed = (*config.plugins.chosen.get("section", ()), *config.plugins.optional.get("section", ()))
    if section in {reference.rpartition("/")[2] for reference in listed}:
        return True
    block = config.sections[section]
    required = any(each.default is attrs.NOTHING for each in FieldInfo.fields_of(type(block)).values())
    return required or bool(block != type(block)())


def config_text(config: RunConfig) -> str:
    """The complete configuration as YAML."""
    # ASCII only: with allow_unicode, PyYAML writes U+0085 as a line break and reads it back as a space.
    return yaml_text(dump_config(config), sort_keys=False, allow_unicode=False, width=120)


def write_config(config: RunConfig, path: Path) -> None:
    """Write the complete configuration as YAML, sealed, and replace ``path`` in one step."""
    write_atomically(path, sealed(config_text(config)).encode())


def plain(value: Any, path: KeyPath, secrets: bool = False) -> Any:
    """A settings object, or any value in it, as plain data; ``path`` names the value in the error.

    Secret fields are left out unless ``secrets`` is True. Raises ConfigError for what no file can hold, or no path.
    """
    if isinstance(value, enum.Enum):
        return plain(value.value, path, secrets)
    if isinstance(value, str | Path):
        return _text(str(value), path)
    if value is None or isinstance(value, bool | int | float):
        return value
    if isinstance(value, Mapping):
        return {str(key): plain(element, (*path, str(key)), secrets) for key, element in value.items()}
    if isinstance(value, set | frozenset):
        return sorted(plain(element, path, secrets) for element in value)
    if isinstance(value, list | tuple):
        return [plain(element, (*path, index), secrets) for index, element in enumerate(value)]
    if attrs.has(type(value)):
        return {
            key: plain(getattr(value, attribute.name), path if key == "sections" else (*path, key), secrets)
            for key, attribute in FieldInfo.fields_of(type(value)).items()
            if secrets or not FieldInfo.of(attribute).secret
        }
    raise ConfigError(f"{dotted(path)}: {shown(value)} cannot be written to a configuration file")


def _text(value: str, path: KeyPath) -> str:
    if "\0" in value:
        raise ConfigError(f"{shown(value)} has a NUL character; leave it out", key=path)
    try:
        value.encode()
    except UnicodeEncodeError:  # lone surrogates: bytes of a name that the locale cannot decode
        raise ConfigError(
            f"{shown(value)} is not UTF-8, so a configuration with it could not be read again; use another name, or "
            "set PYTHONUTF8=1 if the locale is not UTF-8",
            key=path,
        ) from None
    return value


def _lift_sections(data: dict[str, Any]) -> None:
    """Move the blocks of plugins to the keys of their behaviors."""
    blocks = [*data["behaviors"].values(), *filter(None, [data["default_settings"]])]
    inherited = [] if data["default_settings"] is None else list(data["default_settings"]["sections"])
    for block in blocks:
        sections = block.pop("sections")
        block |= {**dict.fromkeys(inherited), **sections}  # null: the behavior does not inherit the block


def _prune_sections(defaults: dict[str, Any], settings: Any, behavior: Mapping[str, Any]) -> None:
    """Remove from the plugins' blocks of ``default_settings`` what a behavior must not inherit."""
    for key, value in settings.sections.items():
        if isinstance(behavior[key], Mapping):
            _prune(defaults[key], value, behavior[key])


def _prune(defaults: dict[str, Any], settings: Any, behavior: Mapping[str, Any]) -> None:
    """Remove from ``default_settings`` what a behavior must not inherit when the file is loaded.

    Only defaults of classes are removed, which loading adds again: another trainer's hyperparameters, the extrinsic
    reward if a behavior has other rewards, entries of a mapping that the behavior replaces.
    """
    for key, attribute in FieldInfo.fields_of(type(settings)).items():
        if key not in defaults:
            continue
        value = getattr(settings, attribute.name)
        own = behavior.get(key)
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


def own_entries(complete: Mapping[str, Any], base: Mapping[str, Any] | None) -> dict[str, Any]:
    """The part of a complete evaluation environment that does not come from ``base``, the training's environment."""
    if base is None or not same_type(complete, base):
        return dict(complete)
    inherited = {key: value for key, value in base.items() if key not in NOT_INHERITED}
    own = _differences(complete, inherited)
    return {key: value for key, value in own.items() if key not in NOT_INHERITED or value is not None}


def same_type(own: Mapping[str, Any], base: Mapping[str, Any]) -> bool:
    kind = base.get("type", attrs.fields(EnvironmentSettings).type.default)
    return bool(own.get("type", kind) == kind)


def _differences(own: Mapping[str, Any], base: Mapping[str, Any]) -> dict[str, Any]:
    """The entries of ``own``, which has every key of ``base``, that are not the same in ``base``."""
    differences: dict[str, Any] = {}
    for key, value in own.items():
        below = base.get(key)
        if isinstance(value, Mapping) and isinstance(below, Mapping):
            inner = _differences(value, below)
            if inner:
                differences[key] = inner
        elif key not in base or repr(value) != repr(below):  # not ==: 1, 1.0 and true are equal in Python
            differences[key] = value
    return differences


_SEAL = "# Written by rlcore. SHA-256 of what follows: "


def sealed(text: str) -> str:
    """``text`` below a comment with its SHA-256, which :func:`is_sealed` checks."""
    return f"{_SEAL}{_digest(text)}\n{text}"


def content_sha256(text: str) -> str:
    """The checksum of a configuration, in hexadecimal digits, without the line that :func:`sealed` adds."""
    return _digest(text.partition("\n")[2] if text.startswith(_SEAL) else text)


def is_sealed(text: str) -> bool:
    """Whether ``text`` is, to the letter, what :func:`sealed` returned."""
    first, _, rest = text.partition("\n")
    return first == f"{_SEAL}{_digest(rest)}"


def is_broken(text: str) -> bool:
    """Whether ``text`` begins with a checksum that does not fit."""
    return text.startswith(_SEAL) and not is_sealed(text)


def _digest(text: str) -> str:
    import hashlib  # takes 10 ms, and rlcore validate does without

    return hashlib.sha256(text.encode(errors="surrogateescape")).hexdigest()
