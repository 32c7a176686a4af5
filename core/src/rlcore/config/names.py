"""The rule for names that become part of a path: a run id, a behavior's name."""

from __future__ import annotations

import re

from rlcore.config.problems import shown

NAME_PATTERN = r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}"


def name_problem(what: str, name: str) -> str | None:
    """What is wrong with a name that becomes part of a path, or None."""
    if re.fullmatch(NAME_PATTERN, name) and ".." not in name:
        return None
    return (
        f"{what} is 1 to 100 letters, digits, '.', '_' or '-', begins with a letter or digit and has no '..', "
        f"not {shown(name)}"
    )
