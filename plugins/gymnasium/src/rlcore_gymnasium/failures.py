"""Exceptions of environments as errors of one line."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from rlcore import EnvironmentFailed, RlcoreError, repeating

__all__ = ["failing_as"]


@contextmanager
def failing_as(what: str) -> Iterator[None]:
    """Raise an EnvironmentFailed that begins with ``what`` for an exception of the block that is not one of rlcore."""
    try:
        yield
    except RlcoreError:
        raise
    except (Exception, SystemExit) as error:
        raise repeating(error, what, EnvironmentFailed) from error
