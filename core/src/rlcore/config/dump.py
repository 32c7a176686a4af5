"""A RunConfig as plain data and YAML: every block is complete, and the data loads to an equal RunConfig."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import attrs

from rlcore.config.problems import short_repr
from rlcore.config.yaml_forms import yaml_text
from rlcore.errors import ConfigError, KeyPath, dotted
from rlcore.files.writing import write_atomically
from rlcore.plugins.discover import bare_name
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
    for block in (data["default_settings"], *data["behaviors"].values()):
        if block is not None:
            del block["preset"]  # used up: its values are in the block
    _lift_sections(data)
    for name, block in data["stats"].items():
        if block is None:  # a writer without settings, whose block in a file is empty
            data["stats"][name] = {}
    defaults = config.default_settings
    if defaults is not None:
        block = data["default_settings"]
        for name in config.behaviors:
            behavior = data["behaviors"][name]
            _prune(block, defaults, behavior)
            _prune_sections(block, defaults, behavior)
    evaluation = data["evaluation"]
    if evaluation is not None:
        for block in evaluation.pop("sections").values():
            evaluation |= block
        environment = evaluation["environment"] or {}
        evaluation["environment"] = own_entries(environment, data["environment"])
    complete: dict[str, Any] = {}
    for key, value in data.items():
        if key != "sections":
            complete[key] = value
            continue
        for name, block in value.items():
            if _is_written(name, config):
                complete[name] = block
    return complete


def _is_written(section: str, config: RunConfig) -> bool:
    """Whether the section of a plugin belongs into the file: it is listed, or a program gave it other values.

    A section with defaults that is not listed is of a plugin that is merely installed.
    """
    for block in (config.plugins.chosen, config.plugins.optional):
        references = block.get("section", ())
        if section in map(bare_name, references):
            return True
    settings = config.sections[section]
    cls = type(settings)
    for attribute in FieldInfo.fields_of(cls).values():
        if attribute.default is attrs.NOTHING:  # a program gave a value: there is no default
            return True
    return bool(settings != cls())


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
        texts = {str(key): element for key, element in value.items()}
        return {key: plain(element, (*path, key), secrets) for key, element in texts.items()}
    if isinstance(value, set | frozenset):  # sorted: equal configurations have equal files
        return sorted(plain(element, path, secrets) for element in value)
    if isinstance(value, list | tuple):
        return [plain(element, (*path, index), secrets) for index, element in enumerate(value)]
    if not attrs.has(type(value)):
        raise ConfigError(f"{dotted(path)}: {short_repr(value)} cannot be written to a configuration file")
    data = {}
    for key, attribute in FieldInfo.fields_of(type(value)).items():
        if FieldInfo.of(attribute).secret and not secrets:
            continue
        # The blocks of plugins are beside the other keys in a file: "sections" is part of no path.
        below = path if key == "sections" else (*path, key)
        data[key] = plain(getattr(value, attribute.name), below, secrets)
    return data


def _text(text: str, path: KeyPath) -> str:
    if "\0" in text:
        raise ConfigError(f"{short_repr(text)} has a NUL character; leave it out", key=path)
    try:
        text.encode()
    except UnicodeEncodeError:  # lone surrogates: bytes of a name that the locale cannot decode
        problem = f"{short_repr(text)} is not UTF-8, so a configuration with it could not be read again"
        advice = "use another name, or set PYTHONUTF8=1 if the locale is not UTF-8"
        raise ConfigError(f"{problem}; {advice}", key=path) from None
    return text


def _lift_sections(data: dict[str, Any]) -> None:
    """Move the blocks of plugins to the keys of their behaviors."""
    blocks = list(data["behaviors"].values())
    defaults = data["default_settings"]
    inherited = []
    if defaults is not None:
        blocks.append(defaults)
        inherited = list(defaults["sections"])
    for block in blocks:
        sections = block.pop("sections")
        # null: the behavior does not inherit the block, although it has none of its own.
        block |= {**dict.fromkeys(inherited), **sections}


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
        if key not in behavior:
            del defaults[key]
            continue
        value = getattr(settings, attribute.name)
        block = behavior[key]
        if not isinstance(block, Mapping):
            continue
        if attrs.has(type(value)):
            _prune(defaults[key], value, block)
        elif isinstance(value, Mapping) and _adds(defaults[key], block):
            del defaults[key]


def _adds(base: Mapping[str, Any], block: Mapping[str, Any]) -> bool:
    """Whether merging ``base`` under ``block`` would add a key."""
    for key, value in base.items():
        if key not in block:
            return True
        below = block[key]
        if isinstance(value, Mapping) and isinstance(below, Mapping) and _adds(value, below):
            return True
    return False


def own_entries(complete: Mapping[str, Any], base: Mapping[str, Any] | None) -> dict[str, Any]:
    """The part of a complete evaluation environment that does not come from ``base``, the training's environment."""
    if base is None or not same_type(complete, base):  # nothing is inherited from another type
        return dict(complete)
    inherited = {key: value for key, value in base.items() if key not in NOT_INHERITED}
    entries = {}
    for key, value in _differences(complete, inherited).items():
        if key not in NOT_INHERITED or value is not None:
            entries[key] = value
    return entries


def same_type(block: Mapping[str, Any], base: Mapping[str, Any]) -> bool:
    """Whether an environment block has the type of ``base``. Blocks of other types share no keys."""
    kind = base.get("type", attrs.fields(EnvironmentSettings).type.default)
    return bool(block.get("type", kind) == kind)


def _differences(block: Mapping[str, Any], base: Mapping[str, Any]) -> dict[str, Any]:
    """The entries of ``block``, which has every key of ``base``, that are not the same in ``base``."""
    differences: dict[str, Any] = {}
    for key, value in block.items():
        below = base.get(key)
        if isinstance(value, Mapping) and isinstance(below, Mapping):
            inner = _differences(value, below)
            if inner:
                differences[key] = inner
        elif key not in base or repr(value) != repr(below):  # not ==: 1, 1.0 and true are equal in Python
            differences[key] = value
    return differences


# A resume reads the copy in a checkpoint if this file was edited or damaged: an edit must not change a run unseen.
_SEAL = "# Written by rlcore. SHA-256 of what follows: "


def sealed(text: str) -> str:
    """``text`` below a comment with its SHA-256, which :func:`is_sealed` checks."""
    return f"{_SEAL}{_digest(text)}\n{text}"


def content_sha256(text: str) -> str:
    """The checksum of a configuration, in hexadecimal digits, without the line that :func:`sealed` adds."""
    if text.startswith(_SEAL):
        text = text.partition("\n")[2]
    return _digest(text)


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
