"""The promise of a resume: how a resumed run compares with one that is never stopped.

:func:`promise_of` is the one place that decides it. An environment or a trainer whose results do not repeat says why in
an optional attribute ``resume_limits``.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Literal, Self

import attrs

from rlcore.plugins.context import RunContext
from rlcore.run.state import RunState
from rlcore.storage.fingerprint import device_of

__all__ = ["ResumePromise"]

Kind = Literal["exact", "statistical", "weights only"]


@attrs.frozen
class ResumePromise:
    """How a resumed run compares with one that is never stopped.

    Attributes:
        kind: ``"exact"``: equal, bit for bit, on the same machine with the same versions. ``"statistical"``: alike, but
            not equal. ``"weights only"``: nothing but policies is saved, as in the checkpoints of the best evaluation.
        reasons: What prevents an exact resume; empty if nothing does.
        notes: Limits of an exact resume.
    """

    kind: Kind
    reasons: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()

    def __str__(self) -> str:
        if self.kind == "exact":
            return "; ".join(("exact", *self.notes))
        return f"{self.kind}, because {' and '.join(self.reasons)}" if self.reasons else self.kind

    @classmethod
    def from_json(cls, found: Mapping[str, Any]) -> Self:
        """The promise in a checkpoint, whose types were checked."""
        return cls(found["promise"], tuple(found["reasons"]), tuple(found["notes"]))

    def to_json(self) -> dict[str, Any]:
        """``{"promise": "exact", "reasons": [], "notes": []}``, for checkpoints, the status and the result."""
        return {"promise": self.kind, "reasons": list(self.reasons), "notes": list(self.notes)}

    def after(self, differences: tuple[str, ...]) -> ResumePromise:
        """The promise of a run that was resumed with these ``differences`` from its checkpoint."""
        if not differences:
            return self
        reason = f"this process has {', '.join(differences)}"
        return ResumePromise("statistical", (*self.reasons, reason))


def promise_of(context: RunContext, state: RunState) -> ResumePromise:
    """The promise that the configuration, the environment and the trainers of a run allow."""
    reasons = tuple(dict.fromkeys(_reasons(context, state)))
    return ResumePromise("statistical", reasons) if reasons else ResumePromise("exact", notes=_restarts(state))


def _reasons(context: RunContext, state: RunState) -> Iterator[str]:
    for name, behavior in state.behaviors.items():
        if getattr(behavior.settings.hyperparameters, "save_replay_buffer", True) is False:
            yield f"hyperparameters.save_replay_buffer of {name} is false"
    device = device_of(context.config)
    if not device.startswith("cpu") and not context.config.torch_settings.deterministic:
        yield f"kernels of {device} may add numbers in another order (torch_settings.deterministic: true prevents it)"
    yield from getattr(state.environment, "resume_limits", ())
    for behavior in state.behaviors.values():
        yield from getattr(behavior.trainer, "resume_limits", ())


def _restarts(state: RunState) -> tuple[str, ...]:
    """What it costs that the environment cannot save its state: how often all episodes restart."""
    behaviors = [behavior for behavior in state.behaviors.values() if behavior.restarts]
    if not behaviors:
        return ()
    often = min(behaviors, key=lambda behavior: behavior.checkpoint_interval)
    interval, steps = f"{often.checkpoint_interval:,}", often.settings.max_steps
    times = (steps - 1) // often.checkpoint_interval  # the last checkpoint cuts nothing that would be learned from
    of = f" of {often.name}" if len(behaviors) > 1 else ""
    why = "because the environment cannot save its state"
    if often.interval_is_open:
        return (f"all episodes restart about every 10 minutes, and never within {interval} steps{of}, {why}",)
    if times == 0:
        return (f"no checkpoint before the end, which would restart all episodes, {why}",)
    return (
        f"every {interval} steps{of} all episodes restart, {times} time{'s' if times > 1 else ''} in the run, {why}",
    )
