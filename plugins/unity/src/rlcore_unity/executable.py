"""The file of a player: whether a text names one, which file it is, and what is wrong with it."""

from __future__ import annotations

import os
import re
from pathlib import Path

from rlcore import ConfigError, did_you_mean

SUFFIXES = (".x86_64", ".x86", ".exe", ".app")
EDITOR = "editor"  # of `--env editor`
_GYMNASIUM_ID = re.compile(r"([\w:.-]+/)?[\w:.-]+-v\d+")
KEY = ("environment", "executable")


def names_a_player(text: str) -> bool:
    """Whether ``text`` names a player rather than an environment's id: a file that is there, or a path."""
    if any(map(os.path.isfile, _candidates(Path(text).expanduser()))):
        return True
    if text.endswith(SUFFIXES):
        return True
    return not _GYMNASIUM_ID.fullmatch(text) and (os.sep in text or text.startswith(("~", ".")))


def _candidates(path: Path) -> list[Path]:
    """The files that a user may mean: Unity builds ``Game.x86_64``, and a folder ``Game.app`` on macOS."""
    found = [path, *(path.with_name(path.name + suffix) for suffix in SUFFIXES)] if path.name else [path]
    for each in [each for each in found if each.suffix == ".app"]:
        found += [each / "Contents" / "MacOS" / each.stem, *sorted((each / "Contents" / "MacOS").glob("*"))]
    return found


def find_player(path: Path) -> Path:
    """Return the file to start for ``path``. Raises ConfigError with the place of the key."""
    found = [each for each in _candidates(path) if each.is_file()]
    if found:
        if not os.access(found[0], os.X_OK):
            raise ConfigError(f"{found[0]} may not be executed; chmod +x {found[0]}", key=KEY)
        return found[0]
    if path.is_dir():
        inside = [each.name for each in sorted(path.iterdir()) if each.name.endswith(SUFFIXES)]
        hint = f"; it has {', '.join(inside[:5])}" if inside else ""
        raise ConfigError(f"{path} is a folder, not the file of a player{hint}", key=KEY)
    near = [each.name for each in path.parent.iterdir()] if path.parent.is_dir() else []
    there = did_you_mean(path.name, near) if near else f"; there is no folder {path.parent}"
    raise ConfigError(
        f"{path}: there is no such file{there}; write the path of the player that Unity built, or leave executable "
        "out to wait for the editor; for the id of another environment, write environment.type too, such as pettingzoo",
        key=KEY,
    )
