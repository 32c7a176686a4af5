"""Every error that rlcore raises on purpose, and the exit code that a command ends with.

A message says what is wrong, where, what is allowed, and the nearest valid name. The command line prints it on one
line, with a traceback only if ``--debug`` is given.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Iterable
from enum import IntEnum
from functools import lru_cache
from typing import ClassVar, TypeVar

__all__ = [
    "ConfigError",
    "EnvironmentEnded",
    "EnvironmentFailed",
    "ExitCode",
    "KeyPath",
    "NonFiniteError",
    "NotInstalled",
    "PluginError",
    "RanksFailed",
    "RlcoreError",
    "RunStateError",
    "TrainingDiverged",
    "UnsupportedExport",
    "UnsupportedSpace",
    "did_you_mean",
    "dotted",
    "nearest",
    "one_line",
    "repeating",
]

KeyPath = tuple[str | int, ...]
"""Path of a value in a configuration: keys of mappings, and indices of lists."""

LONGEST_KEY = 100  # letters of a key that messages show
_PLAIN_KEY = re.compile(r"[\w/-]+")

LONGEST_NAME = 100  # longer names are not compared with the allowed ones: the time is the product of both lengths


class ExitCode(IntEnum):
    """Exit codes of commands.

    Attributes:
        DONE: No error.
        INTERNAL: An error that rlcore does not expect, or a lost rank.
        CONFIG: A mistake in a configuration or on the command line.
        ENVIRONMENT: The environment failed, or the training diverged.
        PLUGIN: An error of a plugin.
        RUN_STATE: The run directory cannot be used.
        SIGINT: Interrupted by Ctrl-C.
    """

    DONE = 0
    INTERNAL = 1
    CONFIG = 2
    ENVIRONMENT = 3
    PLUGIN = 4
    RUN_STATE = 5
    SIGINT = 130


def dotted(path: KeyPath) -> str:
    """Return ``behaviors.CartPole.max_steps``; a list's element is ``[2]``, a key with odd characters is quoted."""
    text = ""
    for part in path:
        if isinstance(part, int):
            text += f"[{part}]"
            continue
        if len(part) > LONGEST_KEY:
            part = f"{part[: LONGEST_KEY - 3]}..."
        is_plain = _PLAIN_KEY.fullmatch(part.removesuffix("..."))
        if text:
            text += "."
        text += part if is_plain else repr(part)
    return text


class RlcoreError(Exception):
    """The base of all errors whose message is meant for the user.

    Attributes:
        exit_code: Exit code of ``rlcore run`` after such an error.
        repeats_cause: Whether :func:`repeating` made the error: the message ends with the text of its cause.
    """

    exit_code: ClassVar[int] = ExitCode.INTERNAL
    repeats_cause: bool = False


class ConfigError(RlcoreError):
    """A configuration (file, override or settings object) that cannot be used. Exit code 2.

    ``key`` is the path of the value that is wrong, if one value is. The text of
    ``ConfigError("is unknown", key=("environment", "id"))`` is ``environment.id: is unknown``, and rlcore puts the file
    and the line of the value before it, or the option of the command line that set it.

    Attributes:
        key: Path of the value in the configuration; empty if there is none.
        message: The text without the key.
    """

    exit_code = ExitCode.CONFIG

    def __init__(self, message: str, *, key: KeyPath = ()) -> None:
        super().__init__(f"{dotted(key)}: {message}" if key else message)
        self.key = key
        self.message = message


class NotInstalled(ConfigError):
    """A configuration names something that no installed plugin provides. Exit code 2.

    Attributes:
        package: The distribution that provides the name; None if it is unknown.
        note: The plugins that are off or could not be loaded, one of which may provide it; empty if there are none.
        problem: The text without the note, with which it ends.
    """

    def __init__(self, message: str, package: str | None = None, note: str = "") -> None:
        super().__init__(f"{message}; {note}" if note else message)
        self.package = package
        self.note = note
        self.problem = message


class UnsupportedExport(ConfigError):
    """A policy that the format of an exporter cannot represent. The message is the reason."""


class EnvironmentFailed(RlcoreError):
    """An environment that cannot be created, broke its contract or raised while stepping. Exit code 3."""

    exit_code = ExitCode.ENVIRONMENT


class EnvironmentEnded(EnvironmentFailed):
    """An environment that ended by itself and in order, such as a game whose window was closed.

    An environment raises it in ``step`` or ``reset``. A training then ends without an error: it saves a checkpoint and
    exports the policies, its outcome is ``environment ended``, and ``rlcore run`` exits with 0. Where there is no
    training to end, as at the start of a run or in ``rlcore evaluate``, it is an error with exit code 3.
    """


class UnsupportedSpace(EnvironmentFailed):
    """An observation or action space that rlcore, or the chosen trainer, cannot represent. Exit code 3."""


class NonFiniteError(EnvironmentFailed):
    """A reward or an observation that is NaN, infinite, or beyond float32. Exit code 3.

    The message names behavior, slot and step.
    """


class TrainingDiverged(RlcoreError):
    """A loss or an action that became NaN or infinite although the environment's values were finite. Exit code 3.

    The message names behavior and step.

    Attributes:
        ADVICE: What helps, where the numbers that were learned from are not known.
    """

    exit_code = ExitCode.ENVIRONMENT
    ADVICE: ClassVar[str] = (
        "network_settings.normalize: true helps where observations are large, "
        "reward_signals.extrinsic.strength below 1 where rewards are large, and else a lower learning_rate"
    )


class PluginError(RlcoreError):
    """A plugin that is missing, clashes, was built for another rlcore or raised. Exit code 4.

    The message names plugin and distribution.
    """

    exit_code = ExitCode.PLUGIN


class RanksFailed(RlcoreError):
    """A rank of a run in several processes ended or does not answer; the message names it. Exit code 1."""


class RunStateError(RlcoreError):
    """A run directory that exists, is locked, is missing or holds no usable checkpoint; state that does not fit.

    Exit code 5.
    """

    exit_code = ExitCode.RUN_STATE


def one_line(error: BaseException) -> str:
    """Return ``Type: message`` of an exception on one line."""
    message = " ".join(str(error).split())
    line = type(error).__name__
    if message:
        line += f": {message}"
    if isinstance(error, SystemExit):
        # Only rlcore ends a run: a call of sys.exit was meant to stop it, or to report an error.
        line += "; raise an exception instead of calling sys.exit"
    return line


E = TypeVar("E", bound=RlcoreError)


def repeating(cause: BaseException, what: str, kind: Callable[[str], E]) -> E:
    """Return an error of ``kind`` whose message is ``what``, a colon, and the type and message of ``cause``.

    Raise it for an exception of foreign code. The command line adds that ``--debug`` shows the traceback::

        raise repeating(error, f"{env_id}: cannot be made", EnvironmentFailed) from error
    """
    error = kind(f"{what}: {one_line(cause)}")
    error.repeats_cause = True
    return error


def traceback_hint(error: BaseException) -> str:
    """``"; --debug shows the traceback"`` for an error that :func:`repeating` made, else an empty string."""
    if isinstance(error, RlcoreError) and error.repeats_cause:
        return "; --debug shows the traceback"
    return ""


def nearest(name: str, allowed: Iterable[str]) -> str | None:
    """Return the allowed name closest to ``name``, whatever the case of its letters, or None if nothing is close."""
    short = tuple(other for other in allowed if len(other) <= LONGEST_NAME)
    return _nearest(name, short)


@lru_cache(maxsize=4096)  # a mistake in default_settings is found again in every behavior
def _nearest(name: str, allowed: tuple[str, ...]) -> str | None:
    if len(name) > LONGEST_NAME:
        return None
    by_lower_case = {other.lower(): other for other in reversed(allowed)}
    matches = difflib.get_close_matches(name.lower(), by_lower_case, n=1, cutoff=0.6)
    return by_lower_case[matches[0]] if matches else None


def did_you_mean(name: str, allowed: Iterable[str]) -> str:
    """Return ``"; did you mean 'x'?"`` for the closest allowed name, or an empty string."""
    match = nearest(name, allowed)
    return f"; did you mean {match!r}?" if match else ""
