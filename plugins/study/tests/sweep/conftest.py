from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from sweeps import Place


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    """A directory for a sweep, none of whose processes is left at the end."""
    made = Place(tmp_path)
    yield made
    made.close()
