"""Where a command may write its output: never to the place of a run's file."""

from __future__ import annotations

import os
from pathlib import Path

from rlcore.errors import ConfigError
from rlcore.storage.checkpoints import CHECKPOINTS, find_checkpoints, is_step
from rlcore.storage.mark import MARK, Mark, read_mark

__all__ = ["require_output"]


def require_output(
    path: Path, force: bool, place: str | None = None, existing: str = "exists", new_directory: bool = False
) -> None:
    """Raise ConfigError unless a command may write a file at ``path``; call it before the work.

    Never allowed are a run's own files and what lies in its checkpoints, whatever way leads there, a symbolic link, and
    anything that is not a regular file. A file that exists needs ``force``. ``place`` is ``path`` in
    messages, with the option that has it; ``existing`` says why a file that exists stays. With ``new_directory``, the
    command makes the directory of ``path`` if nothing has its name.

    Write the file with ``write_atomically``, which replaces one name of a file that has several.
    """
    place = place or str(path)
    require_outside_runs(path, place)
    if path.is_symlink():
        raise ConfigError(f"{place}: is a symbolic link; name the file that it leads to, {os.path.realpath(path)}")
    if path.is_dir():
        raise ConfigError(f"{place}: is a directory; name a file")
    if new_directory and not os.path.lexists(path.parent):
        return
    if not path.parent.is_dir():
        raise ConfigError(f"{place}: there is no directory {path.parent}; create it first")
    if not path.exists():
        return
    if not path.is_file():
        raise ConfigError(f"{place}: is not a regular file")
    if not force:
        raise ConfigError(f"{place}: {existing}; replace it with --force, or name another file")


def require_outside_runs(path: Path, place: str) -> None:
    """Raise ConfigError if ``path`` is, or would be, one of a run's own files or lies in its checkpoints.

    Links and ``..`` on the way are followed. Names that differ in case alone count as equal, because they are on some
    file systems.
    """
    real = Path(os.path.realpath(path))
    for directory in real.parents:
        problem = _problem(real.relative_to(directory), directory)
        if problem:
            raise ConfigError(f"{place}: {problem}; name another place")


def _problem(relative: Path, directory: Path) -> str | None:
    """Why nothing may be written at ``relative`` in ``directory``; None if ``directory`` does not forbid it."""
    if is_step(directory):
        return f"lies in the checkpoint {directory}, which never changes"
    marked = os.path.lexists(directory / MARK)
    mark = read_mark(directory)
    if marked and mark is None:
        return f"lies in the run {directory}, whose {MARK} cannot be read"
    try:  # a run that was copied without its mark has checkpoints
        if mark is None and not find_checkpoints(directory / CHECKPOINTS):
            return None
    except OSError:
        return None
    if relative.parts[0].casefold() == CHECKPOINTS:
        return f"lies among the checkpoints of the run {directory}"
    mark = mark or Mark()
    if mark.may_become(relative.as_posix()):
        return f"is a file of the run {directory}"
    return None
