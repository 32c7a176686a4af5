"""The settings ``environment.parameters.NAME`` of Gymnasium environments, and the paths of attributes in them."""

from __future__ import annotations

import re
from typing import Any

import attrs

from rlcore import ConfigError, SettingError, is_plain_name, setting

WAYS = ("attribute", "reset_option", "constructor")
# Attributes and indices that lead to a number, such as unwrapped.model.opt.gravity[2].
PATH = re.compile(r"[A-Za-z_]\w*(\[\d+\])*(\.[A-Za-z_]\w*(\[\d+\])*)*")


@attrs.frozen(kw_only=True)
class ParameterRoute:
    """The way in which an environment parameter reaches a Gymnasium environment; set one of the three.

    A parameter without such a block is the attribute ``unwrapped.NAME`` if that is a number, or else the constructor
    argument NAME.
    """

    attribute: str | None = setting(
        None,
        "Attribute that is set before each reset, such as unwrapped.length or unwrapped.model.opt.gravity[2].",
        foreign=is_plain_name,
    )
    reset_option: str | None = setting(None, "Key of reset(options={...}).", foreign=is_plain_name)
    constructor: str | None = setting(
        None,
        "Argument of the constructor: the environment is created again for an episode with another value.",
        foreign=is_plain_name,
    )
    whole: bool | None = setting(None, "Whether values must be whole numbers; by default as in the environment.")

    def __attrs_post_init__(self) -> None:
        chosen = [way for way in WAYS if getattr(self, way) is not None]
        if len(chosen) > 1 or (not chosen and self.whole is None):
            but = f", not {' and '.join(chosen)}" if chosen else ""
            raise ConfigError(f"give one of {WAYS[0]}, {WAYS[1]} and {WAYS[2]}{but}")
        if self.attribute is not None and not PATH.fullmatch(self.attribute):
            raise SettingError(
                "attribute",
                "must be names joined by dots, with indices where one is needed, such as "
                f"unwrapped.model.opt.gravity[2], not {self.attribute!r}",
            )
        if self.constructor is not None and not self.constructor.isidentifier():
            raise SettingError("constructor", f"must be the name of an argument, not {self.constructor!r}")


def read(owner: Any, path: str) -> Any:
    """Return the value at the path. Raises AttributeError or LookupError if it does not exist."""
    value = owner
    for part in _parts(path):
        value = _entry(value, part)
    return value


def write(owner: Any, path: str, value: Any) -> None:
    *way, last = _parts(path)
    for part in way:
        owner = _entry(owner, part)
    if isinstance(last, int):
        owner[last] = value
    else:
        setattr(owner, last, value)


def _entry(owner: Any, part: str | int) -> Any:
    return owner[part] if isinstance(part, int) else getattr(owner, part)


def last_name(path: str) -> str:
    names = [part for part in _parts(path) if isinstance(part, str)]
    return names[-1]


def _parts(path: str) -> list[str | int]:
    words = re.findall(r"\w+", path)  # the brackets of indices are no words
    return [int(word) if word.isdigit() else word for word in words]
