"""Closing what a run opened: an error of a ``close()`` is reported, and keeps nothing else open.

How long a ``close()`` may take is set here too. :mod:`rlcore.cli.main` ends the process at these deadlines.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from types import TracebackType
from typing import Protocol

from rlcore.errors import RlcoreError
from rlcore.plugins.failures import failure

log = logging.getLogger(__name__)

# Seconds that a close() may take under `rlcore run` and `rlcore evaluate`; a writer may still have data to send.
CLOSE_ENVIRONMENT = 5.0
CLOSE_WRITER = 30.0

# Entered around one close(), with what is closed and how many seconds that may take.
CloseDeadline = Callable[[str, float], AbstractContextManager[None]]


def no_deadline(what: str, seconds: float) -> AbstractContextManager[None]:
    """Wait as long as it takes: a run that a program makes does not end the process."""
    return nullcontext()


class Closable(Protocol):
    """An environment, an evaluator or a statistics writer."""

    def close(self) -> None: ...


def close_at_exit(
    stack: ExitStack,
    closable: Closable,
    what: str,
    kind: type[RlcoreError],
    seconds: float,
    deadline: CloseDeadline = no_deadline,
) -> None:
    """Have ``stack`` close ``closable``, which messages call ``what`` and blame with an error of ``kind``.

    ``deadline`` is entered around ``close()`` and decides what happens after ``seconds``.

    An exception of ``close()`` is logged: as a warning, or for debugging if the stack is left by an error. A SystemExit
    must not end the process unnoticed: it is raised as an error of ``kind`` unless an error is reported already.
    """

    def close(raised: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None) -> None:
        try:
            with deadline(what, seconds):
                closable.close()
        except KeyboardInterrupt:
            raise
        except BaseException as problem:
            failed = problem if isinstance(problem, RlcoreError) else failure(what, "to close", problem, kind)
            if error is None and isinstance(failed.__cause__, SystemExit):
                raise failed from failed.__cause__
            log.log(logging.WARNING if error is None else logging.DEBUG, "%s", failed)

    stack.push(close)


@contextmanager
def closing(
    closable: Closable,
    what: str,
    kind: type[RlcoreError],
    seconds: float = CLOSE_ENVIRONMENT,
    deadline: CloseDeadline = no_deadline,
) -> Iterator[None]:
    """Close ``closable`` after the block, as :func:`close_at_exit` says."""
    with ExitStack() as stack:
        close_at_exit(stack, closable, what, kind, seconds, deadline)
        yield
