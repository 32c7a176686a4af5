"""Errors as records for programs: what ``rlcore validate --json`` and ``rlcore run --json`` print of them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from rlcore.errors import ExitCode, NotInstalled, RlcoreError

if TYPE_CHECKING:
    from rlcore.config.problems import Problem

# Codes of errors that are not about one value of a configuration, by the exit code.
_CODES: dict[int, str] = {
    ExitCode.INTERNAL: "internal",
    ExitCode.CONFIG: "invalid-value",
    ExitCode.ENVIRONMENT: "environment-failed",
    ExitCode.PLUGIN: "plugin-failed",
    ExitCode.RUN_STATE: "run-state",
}
_LINE = re.compile(r"(.+):(\d+)")
_MEANT = re.compile(r"did you mean '([^']+)'")
_ALLOWED = re.compile(r" \(allowed: .*\)$")  # all keys of a block


def exit_code_of(error: BaseException) -> int:
    """The exit code of a command that ``error`` ended."""
    if isinstance(error, OSError):  # a file that cannot be read or written: one that other code needs was named by it
        return ExitCode.RUN_STATE
    return error.exit_code if isinstance(error, RlcoreError) else ExitCode.INTERNAL


def error_records(error: BaseException, file: str = "") -> list[dict[str, Any]]:
    """A record for each error that ``error`` holds: code, file, line, source, key, message, fix and text.

    ``file`` is the configuration as the user named it.
    """
    from rlcore.config.problems import NOT_INSTALLED, UNKNOWN_NAME, ConfigErrors, Problem

    if isinstance(error, ConfigErrors):
        return list(_of_problems(error, file))
    code = _CODES.get(exit_code_of(error), "internal")
    package = None
    if isinstance(error, NotInstalled):
        package = error.package
        code = NOT_INSTALLED if package else UNKNOWN_NAME
    message = " ".join(str(error).split())
    return [_record(Problem("", "", message, package=package, code=code), file)]


def _of_problems(error: Any, file: str) -> Iterator[dict[str, Any]]:
    for problem in error.problems:
        yield _record(problem, file)


def _record(problem: Problem, file: str) -> dict[str, Any]:
    from rlcore.config.problems import NOT_INSTALLED, UNREADABLE
    from rlcore.plugins.installing import pip_install

    note = f"; {problem.note}" if problem.note else ""
    message = f"{problem.message}{note}"
    meant = _MEANT.search(problem.message)
    if problem.package:
        fix = pip_install(problem.package)
    elif meant:
        fix = f"write {meant[1]!r}"
    else:  # messages say what is wrong; then what to do
        _, _, fix = _ALLOWED.sub("", message).partition("; ")
    written = _LINE.fullmatch(problem.place)
    names_file = bool(problem.place) and (problem.place == file or problem.code == UNREADABLE)
    in_file = written is not None or names_file
    return {
        "code": NOT_INSTALLED if problem.package else problem.code,
        "file": (written[1] if written else problem.place) if in_file else None,
        "line": int(written[2]) if written else None,
        "source": None if in_file else problem.place or None,
        "key": problem.path or None,
        "message": message,
        "fix": fix or None,
        "text": f"{problem}{note}",
    }
