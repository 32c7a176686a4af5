"""Errors of environments and trainers are given an owner: one line, an exit code, the traceback as cause."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

from rlcore.errors import EnvironmentFailed, PluginError, RlcoreError, RunStateError, one_line
from rlcore.saved_values import BAD_STATE, SavedValueError, bad_state

if TYPE_CHECKING:
    from rlcore.behavior_run import BehaviorRun
    from rlcore.environment import Environment


def environment_failed(environment: Environment, doing: str, error: BaseException) -> RlcoreError:
    """What to raise for an error of ``environment.doing``; rlcore's own errors stay as they are."""
    if isinstance(error, RlcoreError):
        return error
    return EnvironmentFailed(f"environment {type(environment).__name__} failed in {doing}: {one_line(error)}")


def trainer_failed(behavior: BehaviorRun, doing: str, error: BaseException) -> RlcoreError:
    """The same for an error of ``behavior.trainer.doing``."""
    if isinstance(error, RlcoreError):
        return error
    trainer = behavior.settings.trainer_type
    return PluginError(f"behavior {behavior.name!r}: trainer {trainer!r} failed in {doing}: {one_line(error)}")


def nothing_to_learn(behaviors: Sequence[BehaviorRun]) -> PluginError:
    """What to raise where trainers of recorded data are not at their end, and none has anything to learn from."""
    names = ", ".join(repr(behavior.name) for behavior in behaviors if behavior.learning)
    trainers = ", ".join(repr(behavior.settings.trainer_type) for behavior in behaviors if behavior.learning)
    return PluginError(f"behavior {names}: trainer {trainers} has no data left to learn from before max_steps")


@contextmanager
def environment_does(environment: Environment, doing: str) -> Iterator[None]:
    """For a block that calls ``environment.doing``; loops use the functions above, which cost nothing per step."""
    try:
        yield
    except RlcoreError:
        raise
    except (Exception, SystemExit) as error:
        raise environment_failed(environment, doing, error) from error


@contextmanager
def trainer_does(behavior: BehaviorRun, doing: str) -> Iterator[None]:
    """For a block that calls ``behavior.trainer.doing``."""
    try:
        yield
    except RlcoreError:
        raise
    except (Exception, SystemExit) as error:
        raise trainer_failed(behavior, doing, error) from error


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
