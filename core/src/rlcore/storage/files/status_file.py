"""Core's own answers to the hooks that write and read the training status: a file in the directory of logs.

The status is a view of the newest checkpoint; see :mod:`rlcore.storage.status`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rlcore.contracts.saved_values import plain
from rlcore.storage.files.access import failing_as, read_object, write_atomically

FILE_NAME = "training_status.json"


def write_status_file(status: Mapping[str, Any], directory: Path) -> bool:
    """Core's own ``rlcore_write_status``. Raises RunStateError."""
    text = json.dumps(plain(status), indent=4, allow_nan=False) + "\n"
    with failing_as(f"{directory / FILE_NAME}"):
        write_atomically(directory / FILE_NAME, text.encode())
    return True


def read_status_file(directory: Path) -> Mapping[str, Any] | None:
    """Core's own ``rlcore_read_status``: None if there is no file. Raises DamagedFile: checkpoints have the status."""
    try:
        return read_object(directory / FILE_NAME)
    except FileNotFoundError:
        return None
