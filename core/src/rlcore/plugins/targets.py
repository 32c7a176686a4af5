"""Imports what a record names, and checks that a factory is asked for what it can do and returned what it must."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from rlcore.errors import PluginError, UnsupportedSpace, one_line

if TYPE_CHECKING:
    from rlcore.environment import BehaviorSpec
    from rlcore.plugins.records import TrainerSpec


def import_target(reference: str, described: str) -> Any:
    """``"package.module:Name.attribute"``; ``described`` names its owner in the error."""
    module, _, path = reference.partition(":")
    try:
        target: Any = importlib.import_module(module)
    except (Exception, SystemExit) as error:
        raise PluginError(f"{described}: cannot import {module}: {one_line(error)}") from error
    for part in path.split("."):
        try:
            target = getattr(target, part)
        except AttributeError:
            raise PluginError(f"{described}: {module} has no {path!r}") from None
    return target


def require_space(spec: TrainerSpec, behavior: BehaviorSpec) -> None:
    """UnsupportedSpace if the behavior's actions are not of a kind that the trainer's record declares."""
    if behavior.continuous and behavior.discrete:
        kind = "hybrid"
    else:
        kind = "continuous" if behavior.continuous else "discrete"
    if kind not in spec.spaces:
        raise UnsupportedSpace(
            f"behavior {behavior.name!r} has {kind} actions and trainer {spec.name!r} learns "
            f"{' or '.join(sorted(spec.spaces))} ones only; choose another trainer_type"
        )


def require_protocol(value: object, protocol: type, described: str) -> None:
    """PluginError naming what ``value`` lacks of a protocol class."""
    members = {
        name
        for name, member in vars(protocol).items()
        if (callable(member) or isinstance(member, property)) and not name.startswith("_")
    }
    members |= set(getattr(protocol, "__annotations__", {}))
    try:
        missing = sorted(member for member in members if not hasattr(value, member))
    except (Exception, SystemExit) as error:  # a property may raise anything
        raise PluginError(f"{described} returned a {type(value).__name__} that failed: {one_line(error)}") from error
    if missing:
        raise PluginError(
            f"{described} returned a {type(value).__name__}, which is no {protocol.__name__}: "
            f"it lacks {', '.join(missing)}"
        )
