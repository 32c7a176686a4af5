"""Requests to end a run: the first of them counts."""

from __future__ import annotations

from typing import Any

import attrs


@attrs.frozen
class Stop:
    """Why a run was asked to end, and the exit code of its process if the run ends for that reason.

    Attributes:
        reason: The reason in one line.
        exit_code: Exit code of ``rlcore run``.
        by_signal: Whether a signal asked.
    """

    reason: str = ""
    exit_code: int = 0
    by_signal: bool = False

    def to_json(self) -> dict[str, Any]:
        """Return what ``result.json`` has under ``stop``."""
        return {"reason": self.reason, "exit_code": self.exit_code}


@attrs.define(eq=False)
class StopRequests:
    """The first request of a run; later ones change nothing. Safe in a signal handler and in other threads.

    Attributes:
        first: The first request; None before it.
        save: Whether a checkpoint was requested, after which the run continues.
    """

    first: Stop | None = None
    save: bool = False

    def add(self, stop: Stop) -> None:
        """Request a stop."""
        if self.first is None:
            self.first = stop
