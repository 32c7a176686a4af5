"""onnxruntime tells its makers nothing about a user's exports, unless the user wants it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path


def test_nothing_is_noted_for_the_makers_of_onnxruntime(tmp_path: Path) -> None:
    """Statistics to be sent are kept in a database below the home directory, with an identifier of the machine."""
    environment = {name: value for name, value in os.environ.items() if name != "ORT_DISABLE_TELEMETRY"}
    environment |= {"HOME": str(tmp_path), "XDG_CACHE_HOME": str(tmp_path)}
    subprocess.run([sys.executable, "-c", "import rlcore_onnx.session"], env=environment, check=True)
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []
