"""Errors of environments and trainers are given an owner: one line, an exit code, the traceback as cause."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Protocol

from rlcore.errors import EnvironmentFailed, PluginError, RlcoreError, one_line

if TYPE_CHECKING:
    from rlcore.settings import BehaviorSettings
    from rlcore.trainer import Policy

log = logging.getLogger(__name__)


class Learner(Protocol):
    """What a behavior that a trainer learns is called in messages."""

    @property
    def name(self) -> str: ...

    settings: BehaviorSettings


def environment_failed(named: str, doing: str, error: BaseException) -> EnvironmentFailed:
    """What to raise for a foreign error that an environment's method ``doing`` raised.

    ``named`` is what :func:`rlcore.runs.setup.environment_name` calls the environment.
    """
    return EnvironmentFailed(f"{named} failed in {doing}: {one_line(error)}")


def trainer_failed(behavior: Learner, doing: str, error: BaseException) -> PluginError:
    """What to raise for an error of ``behavior.trainer.doing``."""
    return _trainer_failed(behavior.name, behavior.settings.trainer_type, doing, error)


def _trainer_failed(behavior: str, trainer_type: str, doing: str, error: BaseException) -> PluginError:
    return PluginError(f"behavior {behavior!r}: trainer {trainer_type!r} failed in {doing}: {one_line(error)}")


def policy_failed(behavior: str, policy: Policy, doing: str, error: BaseException) -> PluginError:
    """What to raise for an error of ``policy.doing`` where policies are measured."""
    return PluginError(f"behavior {behavior!r}: policy {type(policy).__name__} failed in {doing}: {one_line(error)}")


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
def trainer_does(behavior: Learner, doing: str) -> Iterator[None]:
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


# ------------------------------------------------------------ saved states
