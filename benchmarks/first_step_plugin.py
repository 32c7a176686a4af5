"""A plugin for startup.py: writes down when the environment takes its first step.

The file is named by RLCORE_BENCHMARK_FIRST_STEP; the time is that of ``time.monotonic``.
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
