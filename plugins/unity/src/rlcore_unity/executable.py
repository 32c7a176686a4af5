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
    candidates = _candidates(Path(text).expanduser())
    if any(map(os.path.isfile, candidates)):  # Path.is_file raises for a text that is too long
        return True
    if text.endswith(SUFFIXES):
        return True
    if _GYMNASIUM_ID.fullmatch(text):  # an id may have a slash too, as ALE/Pong-v5 has
        return False
    return os.sep in text or text.startswith(("~", "."))


def _candidates(path: Path) -> list[Path]:
    """The files that a user may mean: Unity builds ``Game.x86_64``, and a folder ``Game.app`` on macOS."""
    candidates = [path]
    if path.name:
        candidates += [path.with_name(path.name + suffix) for suffix in SUFFIXES]
    for bundle in [candidate for candidate in candidates if candidate.suffix == ".app"]:
        programs = bundle / "Contents" / "MacOS"
        candidates += [programs / bundle.stem, *sorted(programs.glob("*"))]
    return candidates


def find_player(path: Path) -> Path:
    """Return the file to start for ``path``. Raises ConfigError with the place of the key."""
    for candidate in _candidates(path):
        if not candidate.is_file():
            continue
        if not os.access(candidate, os.X_OK):
            raise ConfigError(f"{candidate} may not be executed; chmod +x {candidate}", key=KEY)
        return candidate
    if path.is_dir():
        players = sorted(file.name for file in path.iterdir() if file.name.endswith(SUFFIXES))
        hint = f"; it has {', '.join(players[:5])}" if players else ""
        raise ConfigError(f"{path} is a folder, not the file of a player{hint}", key=KEY)
    near = [file.name for file in path.parent.iterdir()] if path.parent.is_dir() else []
    there = did_you_mean(path.name, near) if near else f"; there is no folder {path.parent}"
    raise ConfigError(
        f"{path}: there is no such file{there}; write the path of the player that Unity built, or leave executable "
        "out to wait for the editor; for the id of another environment, write environment.type too, such as pettingzoo",
        key=KEY,
    )
