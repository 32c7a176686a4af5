"""Paths on the command line: read with ``~``, and shown relative to the directory where the command was started."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

import click

from rlcore.storage.files.paths import user_path, working_directory


class UserPath(click.Path):
    """A path whose ``~`` is expanded if the shell did not do it, as in ``--record=~/films``."""

    def __init__(self, **options: Any) -> None:
        super().__init__(path_type=Path, **options)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        return super().convert(user_path(value), param, ctx)


class ShownPaths:
    """Shortens messages: paths below the directory where the command was started become relative to it.

    A run knows its files by absolute paths, because an environment may change the working directory.
    """

    def __init__(self) -> None:
        start = str(working_directory())
        # Only where a path starts: `/w/` stays in `/other/w/results`.
        known = os.path.isabs(start) and start != os.path.dirname(start)
        self._start = re.compile(rf"(?<![^\s'\"(\[=:,;]){re.escape(start + os.sep)}(?=[^\s'\"])") if known else None

    def __call__(self, text: str) -> str:
        return text if self._start is None else self._start.sub("", text)
