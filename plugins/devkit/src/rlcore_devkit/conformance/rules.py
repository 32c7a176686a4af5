"""The part that classes of rules share: skipped tests, and a directory for each test."""

from __future__ import annotations

import contextlib
import io
import json
from collections.abc import Mapping
from pathlib import Path
from typing import ClassVar

import pytest

from rlcore import Plugins, load_plugins, main, selection_from

__all__ = ["Rules", "doctor", "installed"]


class Rules:
    """Tests for authors of plugins to inherit.

    Attributes:
        skip: Names of tests that cannot hold, with the reason.
        directory: An empty directory for each test.
    """

    skip: ClassVar[Mapping[str, str]] = {}
    directory: Path

    @pytest.fixture(autouse=True)
    def _skip_and_place(self, request: pytest.FixtureRequest, tmp_path: Path) -> None:
        reason = self.skip.get(request.node.originalname)
        if reason:
            pytest.skip(reason)
        self.directory = tmp_path


def doctor(plugin: str, rule: str, imported: bool = False) -> list[str]:
    """Return what ``rlcore plugins doctor`` says about one rule of a plugin, and every error.

    With ``imported``, the targets of its records are imported. What needs an extra that is not installed is left out.
    """
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        main(["plugins", "doctor", plugin, "--json", "--import" if imported else "--no-import"])
    found = json.loads(printed.getvalue())["findings"]
    return [each["message"] for each in found if each["level"] == "error" or each["rule"] == rule != "targets"]


def installed(name: str) -> Plugins:
    """Return the installed plugins, with that of ``name``, NAME or DIST/NAME, turned on."""
    return load_plugins(selection_from(None, {}, (), False, used=(name,)))
