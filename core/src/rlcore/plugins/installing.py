"""The command that installs a package, for messages: from the checkout that rlcore came from, or from an index.

While no version is released, ``pip install rlcore-ppo`` finds nothing, and afterwards it finds a version that may not
fit a checkout. So a message names the directory in the checkout where there is one.
"""

from __future__ import annotations

import json
import re
import shlex
import tomllib
from contextlib import suppress
from functools import cache
from pathlib import Path
from urllib.parse import urlsplit

import importlib_metadata as metadata

CONSTRAINTS = "constraints.txt"
_CORE = "rlcore"
_FOLDERS = ("plugins", "builtin_trainers")  # of a checkout, with a directory for each distribution
_REQUIREMENT = re.compile(r"\s*([\w.-]+)\s*(\[[^\]]*\])?(.*)")


def pip_install(*requirements: str, upgrade: bool = False) -> str:
    """Return the command that installs ``requirements``, such as ``rlcore-gymnasium[images]``, to be copied.

    If rlcore came from a checkout, distributions of rlcore are installed from there, with those that they need and that
    are not installed. The paths are relative in the checkout, and absolute outside.
    """
    words = ["pip", "install"]
    if upgrade:
        words.append("-U")
    root = checkout()
    if root is None:
        return shlex.join((*words, *dict.fromkeys(requirements)))
    directories = _directories(root, requirements)
    if any(directories.values()):
        constraints = _relative(root / CONSTRAINTS, root).removeprefix("./")
        words += ["-c", constraints]
    for requirement, directory in directories.items():
        if directory is None:
            words.append(requirement)
        else:
            words.append(_relative(directory, root) + _extras(requirement))
    return shlex.join(words)


def or_turn_on(package: str, plugin: str) -> str:
    """Return the advice about a plugin that is not loaded: how to install it, or how to turn it on."""
    return f"{pip_install(package)}, or turn it on with -p {plugin} if it is installed"


@cache
def checkout() -> Path | None:
    """The directory of the checkout that rlcore is imported or was installed from; None if it came from an index."""
    from urllib.request import url2pathname  # brings ssl and http: most processes never give this advice

    import rlcore

    members = [Path(rlcore.__file__).resolve().parents[2]]
    with suppress(metadata.PackageNotFoundError, ValueError, TypeError):
        source = json.loads(metadata.distribution(_CORE).read_text("direct_url.json") or "{}")
        if "dir_info" in source:
            members.insert(0, Path(url2pathname(urlsplit(source["url"]).path)))
    for member in members:
        root = member.parent
        if (member / "pyproject.toml").is_file() and (root / CONSTRAINTS).is_file():
            return root
    return None


def _directories(root: Path, requirements: tuple[str, ...]) -> dict[str, Path | None]:
    """The directory of each requirement in the checkout, and of what it needs of the checkout; None for others."""
    directories: dict[str, Path | None] = {}
    waiting = list(dict.fromkeys(requirements))
    for requirement in waiting:  # grows: what is needed may need more
        name = _name(requirement)
        directory = _directory(root, name)
        directories[requirement] = directory
        if directory is None or name == _CORE:
            continue
        listed = {_name(other) for other in waiting}
        for needed in _needs(directory):
            if needed not in listed and not _is_installed(needed):
                waiting.append(needed)
    return directories


def _extras(requirement: str) -> str:
    """``[images]`` of ``rlcore-gymnasium[images]``."""
    match = _REQUIREMENT.fullmatch(requirement)
    return "" if match is None else match[2] or ""


def _name(requirement: str) -> str:
    match = _REQUIREMENT.fullmatch(requirement)
    if match is None:
        return requirement
    return re.sub(r"[-_.]+", "-", match[1]).lower()


def _directory(root: Path, distribution: str) -> Path | None:
    if distribution == _CORE:
        return root / "core"
    for folder in _FOLDERS:
        directory = root / folder / distribution.removeprefix(f"{_CORE}-")
        if (directory / "pyproject.toml").is_file():
            return directory
    return None


def _needs(directory: Path) -> list[str]:
    """The distributions of rlcore that the one in ``directory`` requires."""
    project = tomllib.loads((directory / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    names = map(_name, project.get("dependencies", ()))
    return [name for name in names if name.startswith(f"{_CORE}-")]


def _is_installed(distribution: str) -> bool:
    try:
        metadata.distribution(distribution)
    except metadata.PackageNotFoundError:
        return False
    return True


def _relative(path: Path, root: Path) -> str:
    """The path as it is written here: relative in the checkout, absolute outside."""
    here = Path.cwd()
    if here.is_relative_to(root) and path.is_relative_to(here):
        return f"./{path.relative_to(here)}"
    return str(path)
