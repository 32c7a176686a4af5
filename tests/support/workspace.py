"""The distributions of this repository, as they stand on disk: what tests across them start from."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import attrs
from packaging.requirements import Requirement

ROOT = Path(__file__).parents[2]


@attrs.frozen
class Member:
    """One distribution."""

    directory: Path
    project: Mapping[str, Any]  # the [project] table of its pyproject.toml

    @property
    def name(self) -> str:
        return str(self.project["name"])

    @property
    def plugin(self) -> str:
        """The plugin with the name of the distribution: ``ppo`` of ``rlcore-ppo``."""
        return self.name.removeprefix("rlcore-") if self.name != "rlcore" else "core"

    @property
    def plugins(self) -> Mapping[str, str]:
        """Entry points of the member: the module of each plugin by name, such as ``{"ppo": "rlcore_ppo.plugin"}``."""
        found: Mapping[str, str] = self.project.get("entry-points", {}).get("rlcore", {})
        return found

    @property
    def extras_of_plugins(self) -> list[str]:
        """The extras with the name of a plugin: what this plugin needs, and others of the member do not."""
        return sorted(self.plugins.keys() & self.project.get("optional-dependencies", {}).keys())

    @property
    def module(self) -> str:
        return self.name.replace("-", "_")

    @property
    def package(self) -> Path:
        return self.directory / "src" / self.module

    @property
    def is_plugin(self) -> bool:
        """Whether rlcore loads it; a library is only imported by plugins."""
        return bool(self.plugins)

    @property
    def path(self) -> str:
        """From the root: ``plugins/gymnasium``."""
        return self.directory.relative_to(ROOT).as_posix()

    @property
    def requirements(self) -> list[str]:
        """The requirements that the distribution declares, extras included."""
        optional = self.project.get("optional-dependencies", {})
        return [*self.project.get("dependencies", []), *(each for extra in optional.values() for each in extra)]

    @property
    def in_torch(self) -> set[str]:
        """``{"rlcore-torch"}`` if the member or an extra of it, whose rules its tests prove too, requires that."""
        return {"rlcore-torch"} & {Requirement(text).name for text in self.requirements}

    def __str__(self) -> str:
        return self.name


def pyproject(directory: Path) -> dict[str, Any]:
    return tomllib.loads((directory / "pyproject.toml").read_text(encoding="utf-8"))


def members() -> list[Member]:
    """Every member, the core first."""
    found = [ROOT / "core"]
    for folder in ("builtin_trainers", "plugins"):
        found += sorted(path.parent for path in (ROOT / folder).glob("*/pyproject.toml"))
    return [Member(directory, pyproject(directory)["project"]) for directory in found]


MEMBERS = members()
CORE, *_OTHERS = MEMBERS
PLUGINS = [member for member in _OTHERS if member.is_plugin]


def required(*names: str) -> set[str]:
    """Return the members and all that they require, directly or not, without extras."""
    by_name = {member.name: member for member in MEMBERS}
    found: set[str] = set()
    waiting = {*names}
    while waiting:
        found |= waiting
        needs = {Requirement(text).name for name in waiting for text in by_name[name].project["dependencies"]}
        waiting = needs & by_name.keys() - found
    return found


def complete(wheels: Mapping[str, Path], name: str) -> str:
    """The requirement that installs the wheel of a member with the libraries of all its plugins."""
    extras = next(member.extras_of_plugins for member in MEMBERS if member.name == name)
    return f"{name}[{','.join(extras)}] @ {wheels[name].as_uri()}" if extras else str(wheels[name])
