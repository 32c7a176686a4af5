"""Code that the configuration of a run names, in a directory that another user wrote.

An environment id such as ``module:Name``, or a wrapper such as ``module:function``, has the module imported. Whoever
measures, resumes or plays a run of another user must allow this.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from rlcore.config.document import Document
from rlcore.errors import ConfigError

_TARGET = re.compile(r"[A-Za-z_][\w.]*:[A-Za-z_]\w*")


def refuse_code_of_others(document: Document, directory: Path, local: bool) -> None:
    """Raises ConfigError if another user wrote the run directory and its configuration names code to import.

    With ``local``, files and modules of plugins count too, not only those of environments.
    """
    if written_by_this_user(directory, Path(document.path or directory)):
        return
    named = [f"environment {each!r}" for each in environment_modules(document)]
    if local:
        from rlcore.config.plugins_block import local_references

        named += [f"plugin {name!r}" for name in local_references(document)]
    if named:
        raise ConfigError(
            f"{directory}: was written by another user, and its configuration has code imported: {', '.join(named)}; "
            "--allow-local allows it"
        )


def written_by_this_user(*paths: Path) -> bool:
    """Whether a run directory and its configuration belong to this user; true on systems without owners of files."""
    getuid = getattr(os, "getuid", None)
    if getuid is None:
        return True
    try:
        return all(path.stat().st_uid == getuid() for path in paths)
    except OSError:
        return False


def environment_modules(document: Document) -> list[str]:
    """The environment ids that name a module, as in ``module:Name``, and wrappers such as ``module:function``."""
    evaluation = document.data.get("evaluation")
    played = evaluation.get("environment") if isinstance(evaluation, Mapping) else None
    blocks: list[Any] = [document.data.get("environment"), played]
    named: dict[str, None] = {}
    for block in blocks:
        if isinstance(block, Mapping):
            env_id = str(block.get("id"))
            named |= dict.fromkeys([env_id] if ":" in env_id else [])
            named |= dict.fromkeys(_targets(block.get("options")))
    return list(named)


def _targets(value: Any) -> Iterator[str]:
    """The texts in nested options that are written as ``module:function``."""
    if isinstance(value, Mapping):
        for each in value.values():
            yield from _targets(each)
    elif isinstance(value, list):
        for each in value:
            yield from _targets(each)
    elif isinstance(value, str) and _TARGET.fullmatch(value):
        yield value
