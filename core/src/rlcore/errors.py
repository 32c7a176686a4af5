"""Every error rlcore raises on purpose, and the exit code each one ends a command with.

A message is written for the person who can mend it: what is wrong, where, what is allowed, the nearest valid name.
The command line prints it on one line, without a traceback unless ``--debug`` is given.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from functools import lru_cache
from typing import ClassVar

LONGEST_NAME = 100  # that is looked for among the allowed ones: comparing takes the product of both lengths

EXIT_DONE = 0
EXIT_INTERNAL = 1
EXIT_CONFIG = 2
EXIT_ENVIRONMENT = 3  # the environment failed, or training diverged
EXIT_PLUGIN = 4
EXIT_RUN_STATE = 5
EXIT_SIGINT = 130


class RlcoreError(Exception):
    """Base of all errors whose message is meant for the user."""

    exit_code: ClassVar[int] = EXIT_INTERNAL


class ConfigError(RlcoreError):
    """A configuration (file, override or settings object) that cannot be used."""

    exit_code = EXIT_CONFIG


class NotInstalled(ConfigError):
    """A configuration names what no installed plugin brings; ``package`` does, if one is known."""

    def __init__(self, message: str, package: str | None = None) -> None:
        super().__init__(message)
        self.package = package


class EnvironmentFailed(RlcoreError):
    """An environment that cannot be made, broke its contract or raised while stepping."""

    exit_code = EXIT_ENVIRONMENT


class UnsupportedSpace(EnvironmentFailed):
    """An observation or action space that rlcore, or the chosen trainer, cannot represent."""


class NonFiniteError(EnvironmentFailed):
    """A reward or an observation that is NaN or infinite; names behavior, slot and step.

    ``env`` is the index of its environment. ``latest`` is True if the value belongs to the episode that environment
    is in after the step, False if to the one that ended.
    """

    def __init__(self, message: str, env: int = 0, latest: bool = True) -> None:
        super().__init__(message)
        self.env = env
        self.latest = latest


class TrainingDiverged(RlcoreError):
    """A loss that became NaN or infinite, through no fault of the environment; names behavior and step."""

    exit_code = EXIT_ENVIRONMENT


class PluginError(RlcoreError):
    """A plugin that is missing, clashes, was built for another rlcore or raised; names plugin and distribution."""

    exit_code = EXIT_PLUGIN


class RunStateError(RlcoreError):
    """A run directory that exists, is locked, is missing or holds no usable checkpoint."""

    exit_code = EXIT_RUN_STATE


def one_line(error: BaseException) -> str:
    """``Type: message`` on one line."""
    text = " ".join(str(error).split())
    shown = f"{type(error).__name__}: {text}" if text else type(error).__name__
    # rlcore ends a run by itself: whoever calls sys.exit wanted to stop, or did not know how to report an error.
    return f"{shown}; raise an exception instead of calling sys.exit" if isinstance(error, SystemExit) else shown


def traceback_hint(error: BaseException) -> str:
    """``"; --debug shows the traceback"`` for an error that repeats, word for word, what foreign code raised."""
    cause = error.__cause__
    repeats = isinstance(error, PluginError | EnvironmentFailed | RunStateError)
    if cause is None or isinstance(cause, RlcoreError) or not repeats:
        return ""
    return "; --debug shows the traceback" if one_line(error).endswith(one_line(cause)) else ""


def nearest(name: str, allowed: Iterable[str]) -> str | None:
    """The allowed name closest to ``name``, or None if nothing is close."""
    return _nearest(name, tuple(each for each in allowed if len(each) <= LONGEST_NAME))


@lru_cache(maxsize=4096)  # a mistake in default_settings is one of every behavior
def _nearest(name: str, allowed: tuple[str, ...]) -> str | None:
    if len(name) > LONGEST_NAME:
        return None
    matches = difflib.get_close_matches(name, allowed, n=1, cutoff=0.6)
    return matches[0] if matches else None


def did_you_mean(name: str, allowed: Iterable[str]) -> str:
    """``"; did you mean 'x'?"`` for the closest allowed name, or an empty string."""
    match = nearest(name, allowed)
    return f"; did you mean {match!r}?" if match else ""
