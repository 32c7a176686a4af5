from __future__ import annotations

import pytest
from written_runs import results, write_run

from rlcore_devkit.fixtures import hook_calls, plugins, run_rlcore

__all__ = ["hook_calls", "plugins", "results", "run_rlcore", "write_run"]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if "report/tests" in item.path.as_posix():
            item.add_marker("smoke")
