"""Errors of environments and trainers are given an owner: one line, an exit code, the traceback as cause."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

from rlcore.errors import EnvironmentFailed, PluginError, RlcoreError, one_line

if TYPE_CHECKING:
    from rlcore.behavior_run import BehaviorRun


def environment_failed(named: str, doing: str, error: BaseException) -> EnvironmentFailed:
    """What to raise for a foreign error that an environment's method ``doing`` raised.

    ``named`` is what :func:`rlcore.setup.environment_name` calls the environment.
    """
    return EnvironmentFailed(f"{named} failed in {doing}: {one_line(error)}")


def trainer_failed(behavior: BehaviorRun, doing: str, error: BaseException) -> PluginError:
    """What to raise for a foreign error of ``behavior.trainer.doing``."""
    trainer = behavior.settings.trainer_type
    return PluginError(f"behavior {behavior.name!r}: trainer {trainer!r} failed in {doing}: {one_line(error)}")


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
    try:
        yield
    except RlcoreError:
        raise
    except (Exception, SystemExit) as error:
        raise trainer_failed(behavior, doing, error) from error
