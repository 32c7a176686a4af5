"""The commit of the working directory, and whether tracked files differ from it. No remote and no patch is read."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import attrs

PATIENCE = 2.0  # seconds that the start of a run may wait for git, as in a large repository on a slow disk
COMMIT = re.compile(r"[0-9a-f]{40}|[0-9a-f]{64}")  # SHA-1 or SHA-256
# Without the monitor, which is a program that a repository may name, and without counting commits of other branches.
# Untracked files do not count: the results of a run are among them.
STATUS = ("-c", "core.fsmonitor=false", "status", "--porcelain=2", "--branch", "--no-ahead-behind", "-uno")
# Neither a lock in the user's repository, nor a question, nor the network for a partial clone.
VARIABLES = {"GIT_OPTIONAL_LOCKS": "0", "GIT_TERMINAL_PROMPT": "0", "GIT_NO_LAZY_FETCH": "1"}


@attrs.frozen
class GitState:
    """The code that a run began with.

    Attributes:
        commit: The commit that is checked out, 40 or 64 hexadecimal digits.
        dirty: Whether files that git tracks have other contents.
    """

    commit: str
    dirty: bool


def git_state(directory: Path) -> GitState | None:
    """Return the commit of ``directory``; None if it is in no git repository, or git is absent or too slow."""
    try:
        status = subprocess.run(
            ["git", "-C", str(directory), *STATUS],
            check=True,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            timeout=PATIENCE,
            env={**os.environ, **VARIABLES},
        )
    except (OSError, subprocess.SubprocessError):
        return None
    commit = None
    dirty = False
    for line in status.stdout.decode(errors="replace").splitlines():
        if line.startswith("# branch.oid "):
            commit = line.removeprefix("# branch.oid ")
        elif not line.startswith("#"):  # a changed file
            dirty = True
    return read_git_state({"commit": commit, "dirty": dirty})  # which refuses "(initial)" of a repository without one


def read_git_state(data: Mapping[str, Any]) -> GitState | None:
    """Read what :class:`GitState` was written as; None for anything else, since the file may be another person's."""
    commit = data.get("commit")
    dirty = data.get("dirty")
    if isinstance(commit, str) and COMMIT.fullmatch(commit) and isinstance(dirty, bool):
        return GitState(commit, dirty)
    return None
