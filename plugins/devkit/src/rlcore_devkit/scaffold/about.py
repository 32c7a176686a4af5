"""The authors, the license and the pages of a new package, for its metadata."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from urllib.parse import urlsplit

import attrs

from rlcore import ConfigError, did_you_mean

# The license expression of each choice: https://spdx.org/licenses/
LICENSES: Mapping[str, str | None] = {
    "MIT": "MIT",
    "Apache-2.0": "Apache-2.0",
    "BSD-3-Clause": "BSD-3-Clause",
    "proprietary": "LicenseRef-Proprietary",
    "none": None,
}
DEFAULT_LICENSE = "MIT"
_LONGEST_LABEL = 32  # https://packaging.python.org/en/latest/specifications/well-known-project-urls/


@attrs.frozen(kw_only=True)
class About:
    """Authors, license and pages of a package; :func:`new_about` checks them.

    Attributes:
        license: A key of :data:`LICENSES`.
        author: Name of the author; "" if it is not known.
        email: Address of the author; "" if it is not known.
        urls: Pages by their labels.
        description: One line for package indexes; "" for a description of what the templates do.
    """

    license: str = DEFAULT_LICENSE
    author: str = ""
    email: str = ""
    urls: Mapping[str, str] = attrs.field(factory=dict)
    description: str = ""

    @property
    def expression(self) -> str | None:
        """The license expression of the metadata; None without a license."""
        return LICENSES[self.license]


def new_about(
    directory: Path,
    *,
    license: str = DEFAULT_LICENSE,
    author: str | None = None,
    email: str | None = None,
    urls: Sequence[str] = (),
    description: str = "",
) -> About:
    """Check the options and return them. Without ``author`` or ``email``, ask git's configuration in ``directory``.

    ``urls`` are addresses or ``LABEL=ADDRESS``. Raises ConfigError for text that metadata cannot have.
    """
    names = {name.lower(): name for name in LICENSES}
    if license.lower() not in names:
        hint = did_you_mean(license, LICENSES)
        raise ConfigError(f"unknown license {license!r}; allowed: {', '.join(LICENSES)}{hint}")
    for option, text in (("author", author), ("email", email), ("description", description)):
        if text and not text.isprintable():
            raise ConfigError(f"the {option} {text!r} has characters that cannot be printed")
    if email and not _is_address(email):
        raise ConfigError(f"{email!r} is not an email address")
    return About(
        license=names[license.lower()],
        author=_from_git("user.name", directory) if author is None else author.strip(),
        email=_from_git("user.email", directory) if email is None else email.strip(),
        urls=dict(map(_labeled, urls)),
        description=description.strip(),
    )


def toml_text(text: str) -> str:
    """Return printable text as a string of TOML."""
    return json.dumps(text, ensure_ascii=False)


def _is_address(text: str) -> bool:
    return re.fullmatch(r"[^\s@<>,\"]+@[^\s@<>,\"]+", text.strip()) is not None


def _labeled(text: str) -> tuple[str, str]:
    label, separator, address = text.partition("=")
    if not separator or "/" in label or ":" in label:  # the equals sign is part of the address
        label = "Source"
        address = text
    label = label.strip()
    address = address.strip()
    if not label or len(label) > _LONGEST_LABEL or not label.isprintable():
        raise ConfigError(f"url {text!r}: a label has 1 to {_LONGEST_LABEL} characters")
    try:
        parts = urlsplit(address)
    except ValueError:
        parts = urlsplit("")
    usable = address.isprintable() and " " not in address
    if parts.scheme not in ("http", "https") or not parts.hostname or not usable:
        raise ConfigError(f"url {text!r}: must be an address such as https://example.com, or LABEL=ADDRESS")
    return label, address


def _from_git(key: str, directory: Path) -> str:
    """The value in git's configuration; empty if it is not there or cannot be used."""
    existing = [path for path in (directory, *directory.absolute().parents) if path.is_dir()]
    nearest = existing[0] if existing else None
    command = ["git", "config", "--get", key]
    try:
        answer = subprocess.run(command, cwd=nearest, capture_output=True, encoding="utf-8", timeout=5, check=False)
    except (OSError, ValueError, subprocess.SubprocessError):
        return ""
    value = answer.stdout.strip()
    if answer.returncode or not value.isprintable():
        return ""
    if key == "user.email" and not _is_address(value):
        return ""
    return value
