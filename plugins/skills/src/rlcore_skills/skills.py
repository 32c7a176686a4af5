"""The skills in this package, and their installation to a folder of a project."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable
from importlib.metadata import version
from pathlib import Path
from typing import Literal

import attrs

from rlcore import ConfigError, did_you_mean, write_atomically

FILES = Path(__file__).parent / "files"
FILE = "SKILL.md"
_HEAD = re.compile(r"---\n(.*?)^---\n", re.DOTALL | re.MULTILINE)
_DESCRIPTION = re.compile(r"^description: (.*)$", re.MULTILINE)
# Written by the installation at the end of the front matter.
_STAMP = re.compile(r'^metadata:\n  rlcore-skills: "[^"]*"\n  sha256: "([0-9a-f]{64})"\n', re.MULTILINE)

State = Literal["wrote", "replaced", "up to date"]


@attrs.frozen
class Skill:
    """One skill.

    Attributes:
        name: The name, which is that of its folder.
        text: The content of its ``SKILL.md``.
    """

    name: str
    text: str

    @property
    def description(self) -> str:
        """The sentence by which an agent decides whether to read the skill."""
        found = _DESCRIPTION.search(self.text)
        assert found is not None
        return found[1]

    @property
    def stamped(self) -> str:
        """The file as it is installed: with the version of this package, and the SHA-256 of the text."""
        head = _HEAD.match(self.text)
        assert head is not None
        stamp = f'metadata:\n  rlcore-skills: "{version("rlcore-skills")}"\n  sha256: "{_digest(self.text)}"\n'
        end = head.end(1)
        return self.text[:end] + stamp + self.text[end:]


def skills() -> dict[str, Skill]:
    """All skills by name."""
    paths = sorted(FILES.glob(f"*/{FILE}"))
    return {path.parent.name: Skill(path.parent.name, path.read_text(encoding="utf-8")) for path in paths}


def named(names: Iterable[str]) -> list[Skill]:
    """The skills with these names; all if there are none. Raises ConfigError for an unknown name."""
    known = skills()
    for name in names:
        if name not in known:
            raise ConfigError(f"no skill {name!r}; skills: {', '.join(known)}{did_you_mean(name, known)}")
    return [known[name] for name in names] or list(known.values())


def is_unchanged(text: str) -> bool:
    """Whether ``text`` is a file that an installation wrote and that is unchanged since."""
    stamp = _STAMP.search(text)
    return stamp is not None and _digest(_STAMP.sub("", text, count=1)) == stamp[1]


def install(chosen: Iterable[Skill], folder: Path, force: bool) -> dict[Path, State]:
    """Write the skills to ``folder``, and return what was done with each file.

    Nothing is written if a file was changed after it was installed, or was never installed, unless ``force`` is given:
    ConfigError names these files.
    """
    states: dict[Path, State] = {}
    changed = []
    texts = {folder / skill.name / FILE: skill.stamped for skill in chosen}
    for path, text in texts.items():
        if not path.exists():
            states[path] = "wrote"
            continue
        present = path.read_text(encoding="utf-8")
        states[path] = "up to date" if present == text else "replaced"
        if present != text and not is_unchanged(present):
            changed.append(str(path))
    if changed and not force:
        advice = "--force replaces what was changed, and --folder or a name installs elsewhere or less"
        raise ConfigError(f"{', '.join(changed)}: was changed after it was installed; {advice}; nothing was written")
    for path, text in texts.items():
        if states[path] != "up to date":
            path.parent.mkdir(parents=True, exist_ok=True)
            write_atomically(path, text.encode("utf-8"))
    return states


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8")).hexdigest()
