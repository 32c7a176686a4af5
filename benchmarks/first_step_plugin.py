"""A plugin for startup.py that writes the time of the first environment step to a file.

RLCORE_BENCHMARK_FIRST_STEP names the file; the time comes from ``time.monotonic``.
"""

from __future__ import annotations

import os
import time
from collections.abc import Generator, Mapping
from pathlib import Path
from typing import Any

from rlcore import hookimpl

FILE_VARIABLE = "RLCORE_BENCHMARK_FIRST_STEP"


@hookimpl(wrapper=True)
def rlcore_create_environment() -> Generator[None, Any, Any]:
    environment = yield
    step = environment.step

    def first_step(actions: Mapping[str, Any]) -> Any:
        batches = step(actions)
        Path(os.environ[FILE_VARIABLE]).write_text(repr(time.monotonic()))
        environment.step = step
        return batches

    environment.step = first_step
    return environment
