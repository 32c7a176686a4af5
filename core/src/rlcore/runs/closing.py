"""How long a ``close()`` may take at the end, where the process is rlcore's own."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Protocol

import attrs

from rlcore.errors import EnvironmentFailed, RlcoreError, one_line

log = logging.getLogger(__name__)

# Seconds; what a writer still has to send is worth more of them.
CLOSE_ENVIRONMENT = 5.0
CLOSE_WRITER = 30.0

# Entered around one close(), with what is closed and how many seconds that may take.
WhileClosing = Callable[[str, float], AbstractContextManager[None]]


def no_deadline(what: str, seconds: float) -> AbstractContextManager[None]:
    """Waits however long it takes: in a program of its own, a run ends no process."""
    return nullcontext()


class Closable(Protocol):
    """An environment, an evaluator or a statistics writer."""

    def close(self) -> None: ...


@attrs.frozen
class Held:
    """Something to close at the end: ``what`` messages call it, and the ``kind`` of error that it is to blame with."""

    closable: Closable
    what: str
    kind: type[RlcoreError]

    @property
    def seconds(self) -> float:
        """How long closing it may take."""
        return CLOSE_ENVIRONMENT if self.kind is EnvironmentFailed else CLOSE_WRITER


def close_all(held: Iterable[Held], level: int, while_closing: WhileClosing = no_deadline) -> RlcoreError | None:
    """Close everything in ``held``.

    An exception is logged at ``level`` and keeps nothing else open. A SystemExit is returned as an error for the caller
    to raise where no other error ended the run: it must not end the process unnoticed.
    """
    first: RlcoreError | None = None
    for each in held:
        try:
            with while_closing(each.what, each.seconds):
                each.closable.close()
        except (Exception, SystemExit) as error:
            failure = _failed_to_close(each, error)
            if first is None and isinstance(failure.__cause__, SystemExit):
                first = failure
            else:
                log.log(level, "%s", failure)
    return first


@contextmanager
def closing(
    closable: Closable, what: str, kind: type[RlcoreError], while_closing: WhileClosing = no_deadline
) -> Iterator[None]:
    """Close ``closable`` after the block, as :func:`close_all` does; an error of the block is the one to report."""
    held = [Held(closable, what, kind)]
    try:
        yield
    except BaseException:
        close_all(held, logging.DEBUG, while_closing)
        raise
    failure = close_all(held, logging.WARNING, while_closing)
    if failure is not None:
        raise failure


def _failed_to_close(held: Held, error: BaseException) -> RlcoreError:
    if isinstance(error, RlcoreError):
        return error
    failure = held.kind(f"{held.what} failed to close: {one_line(error)}")
    failure.__cause__ = error
    return failure
