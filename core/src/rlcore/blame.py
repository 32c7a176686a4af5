"""Errors of environments and trainers are given an owner: one line, an exit code, the traceback as cause."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Protocol

import attrs

from rlcore.closing import CLOSE_ENVIRONMENT, CLOSE_WRITER, WhileClosing, no_deadline
from rlcore.errors import EnvironmentFailed, PluginError, RlcoreError, RunStateError, one_line
from rlcore.saved_values import BAD_STATE, SavedValueError, bad_state

if TYPE_CHECKING:
    from rlcore.behavior_run import BehaviorRun
    from rlcore.trainer import Policy

log = logging.getLogger(__name__)


class Closable(Protocol):
    """An environment, an evaluator or a statistics writer."""

    def close(self) -> None: ...


def environment_failed(named: str, doing: str, error: BaseException) -> EnvironmentFailed:
    """What to raise for a foreign error that an environment's method ``doing`` raised.

    ``named`` is what :func:`rlcore.setup.environment_name` calls the environment.
    """
    return EnvironmentFailed(f"{named} failed in {doing}: {one_line(error)}")


def trainer_failed(behavior: BehaviorRun, doing: str, error: BaseException) -> PluginError:
    """What to raise for an error of ``behavior.trainer.doing``."""
    return _trainer_failed(behavior.name, behavior.settings.trainer_type, doing, error)


def _trainer_failed(behavior: str, trainer_type: str, doing: str, error: BaseException) -> PluginError:
    return PluginError(f"behavior {behavior!r}: trainer {trainer_type!r} failed in {doing}: {one_line(error)}")


def policy_failed(behavior: str, policy: Policy, doing: str, error: BaseException) -> PluginError:
    """What to raise for an error of ``policy.doing`` where policies are measured."""
    return PluginError(f"behavior {behavior!r}: policy {type(policy).__name__} failed in {doing}: {one_line(error)}")


def nothing_to_learn(behaviors: Sequence[BehaviorRun]) -> PluginError:
    """What to raise where trainers of recorded data are not at their end, and none has anything to learn from."""
    names = ", ".join(repr(behavior.name) for behavior in behaviors if behavior.learning)
    trainers = ", ".join(repr(behavior.settings.trainer_type) for behavior in behaviors if behavior.learning)
    return PluginError(f"behavior {names}: trainer {trainers} has no data left to learn from before max_steps")


@contextmanager
def environment_does(named: str, doing: str) -> Iterator[None]:
    """For a block that calls an environment's method ``doing``; loops use the functions above, which cost nothing."""
    try:
        yield
    except RlcoreError:
        raise
    except (Exception, SystemExit) as error:
        raise environment_failed(named, doing, error) from error


@contextmanager
def trainer_does(behavior: BehaviorRun, doing: str) -> Iterator[None]:
    """For a block that calls ``behavior.trainer.doing``."""
    with called_trainer(behavior.name, behavior.settings.trainer_type, doing):
        yield


@contextmanager
def called_trainer(behavior: str, trainer_type: str, doing: str) -> Iterator[None]:
    """For a block that calls ``doing`` of a trainer that belongs to no run."""
    try:
        yield
    except RlcoreError:
        raise
    except (Exception, SystemExit) as error:
        raise _trainer_failed(behavior, trainer_type, doing, error) from error


# ------------------------------------------------------------ closing


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


# ------------------------------------------------------------ saved states


@contextmanager
def state_taken_up(where: str, owner: str) -> Iterator[None]:
    """For a block in which ``owner`` takes up what ``where``, a checkpoint, holds of it.

    An entry that is missing or is not what it should be becomes a RunStateError that names both and the entry.
    """
    try:
        yield
    except SavedValueError as error:
        raise RunStateError(f"{where}: {owner}: {error}") from error
    except RlcoreError:
        raise
    except BAD_STATE as error:
        raise RunStateError(f"{where}: {owner} cannot take up its state: {bad_state(error)}") from error
