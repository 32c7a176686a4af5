"""The extras of the workspace: those of pyproject.toml, and ``all``, which has each member that is a folder here."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

from hatchling.metadata.plugin.interface import MetadataHookInterface

FOLDERS = ("builtin_trainers", "plugins")


class WorkspaceExtras(MetadataHookInterface):
    """``pip install ".[all]"`` needs no list of members. ``[tool.hatch.metadata.hooks.custom]`` has the exceptions."""

    def update(self, metadata: dict[str, Any]) -> None:
        """Add the extras to the table ``project``."""
        root = Path(self.root)
        left_out: list[str] = self.config["left-out"]
        extras: dict[str, list[str]] = self.config["extras-of-all"]
        every = []
        for folder in (path.parent for parent in FOLDERS for path in sorted(root.glob(f"{parent}/*/pyproject.toml"))):
            name = tomllib.loads((folder / "pyproject.toml").read_text(encoding="utf-8"))["project"]["name"]
            if name not in left_out:
                place = f"{{root:uri}}/{folder.relative_to(root).as_posix()}"
                # Also without extras: else the pip of Python 3.11 does not find it for members that require it.
                every.append(f"{name} @ {place}")
                if name in extras:
                    every.append(f"{name}[{','.join(extras[name])}] @ {place}")
        metadata["optional-dependencies"] = {**self.config["optional-dependencies"], "all": every}
