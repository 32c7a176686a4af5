"""Calls the targets of records, and checks what they are asked for and what they return."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rlcore.errors import PluginError, UnsupportedSpace
from rlcore.plugins.contract import PORTING, added
from rlcore.plugins.failures import blamed, failure

if TYPE_CHECKING:
    from rlcore.contracts.environment import BehaviorSpec
    from rlcore.records import Record, TrainerSpec


def call_target(record: Record, hook: str, **arguments: Any) -> Any:
    """Core's answer to a factory hook: the record's target called with ``arguments``. The record is to blame."""
    target = record.resolve()
    with blamed(record.described, f"in {hook}"):
        return target(**arguments)


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
        raise failure(f"{described} returned a {type(value).__name__} that", "in a property", error) from error
    if missing:
        new = [*filter(None, (added(f"{protocol.__name__}.{member}") for member in missing))]
        hint = "; ".join(["", *new, PORTING]) if len(new) == len(missing) else ""
        raise PluginError(
            f"{described} returned a {type(value).__name__}, which is not a {protocol.__name__}: "
            f"it lacks {', '.join(missing)}{hint}"
        )
