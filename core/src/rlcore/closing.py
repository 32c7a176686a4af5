"""How long a ``close()`` may take at the end, where the process is rlcore's own."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext

# Seconds; what a writer still has to send is worth more of them.
CLOSE_ENVIRONMENT = 5.0
CLOSE_WRITER = 30.0

# Entered around one close(), with what is closed and how many seconds that may take.
WhileClosing = Callable[[str, float], AbstractContextManager[None]]


def no_deadline(what: str, seconds: float) -> AbstractContextManager[None]:
    """Waits however long it takes: in a program of its own, a run ends no process."""
    return nullcontext()
