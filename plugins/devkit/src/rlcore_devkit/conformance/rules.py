"""The part that classes of rules share: skipped tests, and a directory for each test."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import ClassVar

import pytest

__all__ = ["Rules"]


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
