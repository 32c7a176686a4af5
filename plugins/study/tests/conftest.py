from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from studies import Study, study_in
from written_runs import results, write_run

from rlcore_devkit.fixtures import hook_calls, plugins, run_rlcore

__all__ = ["hook_calls", "plugins", "results", "run_rlcore", "write_run"]


@pytest.fixture
def study(tmp_path: Path) -> Iterator[Study]:
    yield from study_in(tmp_path)
