"""The status hooks: what plugins report, store and read back, checked."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from rlcore.errors import PluginError
from rlcore.plugins.dispatch import Dispatch
from rlcore.plugins.plugin import Plugin

if TYPE_CHECKING:
    from rlcore.plugins.run_context import RunContext


def report_status(
    dispatch: Dispatch, run: RunContext, parameters: Collection[str], behaviors: Collection[str]
) -> dict[str, Any]:
    """The sections that plugins report, by name. Each must be JSON, and only one plugin may report it.

    A plugin may not report the section of an environment parameter, one of ``parameters``. Several plugins may add keys
    to the section of a behavior, one of ``behaviors``.
    """
    from rlcore.contracts.saved_values import plain

    sections: dict[str, Any] = {}
    owners: dict[str, Plugin] = {}
    for owner, reported in dispatch.each("rlcore_report_status", run=run):
        if reported is not None and not isinstance(reported, Mapping):
            kind = type(reported).__name__
            raise PluginError(f"{owner.described}: rlcore_report_status returned a {kind}, not a mapping or None")
        for name, section in (reported or {}).items():
            earlier = sections.get(name)
            if not (name in behaviors and isinstance(earlier, dict) and isinstance(section, Mapping)):
                earlier = None
            if name in sections and (earlier is None or not earlier.keys().isdisjoint(section)):
                raise PluginError(
                    f"{owner.described} and {owners[name].described} both report the status section {name!r}"
                )
            try:
                # A copy: what is written again when the run ends is what was reported for its last checkpoint.
                sections[name] = plain(section) if earlier is None else {**earlier, **plain(section)}
            except (TypeError, RecursionError) as error:
                raise PluginError(f"{owner.described}: status section {name!r} is not JSON: {error}") from error
            owners[name] = owner
            problem = _section_problem(name, section, parameters, behaviors)
            if problem:
                raise PluginError(f"{owner.described} reports the status section {name!r}{problem}")
    return sections


def write_status(dispatch: Dispatch, status: Mapping[str, Any], directory: Path) -> None:
    """Stores the status through the first plugin that answers, else in core's file."""
    hook = "rlcore_write_status"
    answer = dispatch.first_of_own(hook, {"status": status}, directory=directory)
    if answer is not True:
        raise PluginError(
            f"{hook} answered {answer!r}, so the status may be stored nowhere; a plugin returns True when it has "
            f"stored it, None to leave that to others, a wrapper what it was given{_answered_by(dispatch, hook)}"
        )


def read_status(dispatch: Dispatch, directory: Path) -> Mapping[str, Any] | None:
    """The status that :func:`write_status` stored; None if there is none."""
    from rlcore.contracts.saved_values import plain

    hook = "rlcore_read_status"
    status = dispatch.first(hook, directory=directory)
    if status is not None and not isinstance(status, Mapping):
        kind = type(status).__name__
        raise PluginError(f"{hook} answered a {kind} instead of a mapping{_answered_by(dispatch, hook)}")
    try:
        return None if status is None else cast("Mapping[str, Any]", plain(status))
    except (TypeError, RecursionError) as error:
        raise PluginError(f"{hook} answered what is not JSON: {error}{_answered_by(dispatch, hook)}") from error


def _answered_by(dispatch: Dispatch, hook: str) -> str:
    named = " or ".join(plugin.described for plugin in dispatch.implementing(hook))
    return f"; it is answered by {named}" if named else ""


def _section_problem(name: Any, section: Any, parameters: Collection[str], behaviors: Collection[str]) -> str:
    """What keeps a plugin from reporting a section of the status; empty if nothing does."""
    if not isinstance(name, str):
        return ", whose name is not text"
    if name == "metadata":
        return ", which is rlcore's own"
    if name in parameters:
        return ", which is an environment parameter's"
    if name not in behaviors:
        return ""
    if not isinstance(section, Mapping):
        return f", which is a behavior's, with a {type(section).__name__} instead of a mapping to add to it"
    own = [key for key in ("checkpoints", "final_checkpoint") if key in section]
    return f": {own[0]!r} is rlcore's own" if own else ""
