"""Requests that a program makes during a run."""

from __future__ import annotations

from contextlib import AbstractContextManager

import attrs

from rlcore.runs.closing import WhileClosing, no_deadline


@attrs.define
class Control:
    """Shared by a run and its training, which does not know the run: no cycle keeps a dropped run, and its lock."""

    stop_requested: bool = False
    while_closing: WhileClosing = no_deadline

    def closing(self, what: str, seconds: float) -> AbstractContextManager[None]:
        """A :data:`WhileClosing` that uses the one set at the time."""
        return self.while_closing(what, seconds)
