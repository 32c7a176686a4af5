"""Plugins add statistics to a summary, and replace some; their answers are checked."""

from __future__ import annotations

from collections.abc import Mapping
from numbers import Real
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from rlcore.errors import PluginError
from rlcore.plugins.dispatch import Dispatch

if TYPE_CHECKING:
    from rlcore.contracts.stats import StatSummary
    from rlcore.plugins.run_context import RunContext

HOOK = "rlcore_process_summary"


def process_summary(
    dispatch: Dispatch, run: RunContext, behavior: str, step: int, stats: Mapping[str, StatSummary]
) -> dict[str, StatSummary]:
    """``stats`` with the answers of all plugins. A plugin that fails is reported, and changes nothing."""
    processed = dict(stats)
    for owner, implementation in dispatch.implementations(HOOK):
        with dispatch.tolerated(owner, HOOK):
            shown = MappingProxyType(processed)
            answer = dispatch.one(implementation, HOOK, run=run, behavior=behavior, step=step, stats=shown)
            processed = processed | _checked(answer, owner.described)
    return processed


def _checked(answer: Any, owner: str) -> dict[str, StatSummary]:
    from rlcore.contracts.stats import StatSummary

    if answer is None:
        return {}
    if not isinstance(answer, Mapping):
        raise PluginError(f"{owner}: {HOOK} returned a {type(answer).__name__}, not a mapping or None")
    checked = {}
    for tag, value in answer.items():
        if not isinstance(tag, str) or not tag:
            raise PluginError(f"{owner}: {HOOK} returned the tag {tag!r}, which is not text")
        if isinstance(value, bool) or not isinstance(value, Real | StatSummary):
            kind = type(value).__name__
            raise PluginError(f"{owner}: {HOOK} returned a {kind} for {tag!r}, not a number or a StatSummary")
        checked[tag] = value if isinstance(value, StatSummary) else StatSummary.of([float(value)])
    return checked
