"""Requests that a program makes during a run."""

from __future__ import annotations

from contextlib import AbstractContextManager

import attrs

from rlcore.plugins.context import StopRequests
from rlcore.run.closing import CloseDeadline, no_deadline


@attrs.define
class Control:
    """Shared by a run and its training, which does not know the run: no cycle keeps a dropped run, and its lock."""

    stops: StopRequests = attrs.field(factory=StopRequests)
    close_deadline: CloseDeadline = no_deadline

    @property
    def stop_requested(self) -> bool:
        return self.stops.first is not None

    def current_deadline(self, what: str, seconds: float) -> AbstractContextManager[None]:
        """A :data:`CloseDeadline`: the one that is set when something is closed."""
        return self.close_deadline(what, seconds)
