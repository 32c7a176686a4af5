"""Recordings of environments, for tests that learn from them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from rlcore import RecordingAbout
from rlcore_devkit.conformance.recordings import record
from rlcore_offline.minari_format import MinariFormat


def recorded(path: Path, environment: Any, steps: int, *policy: Any) -> str:
    """Write steps of random actions, or of those of a policy, to ``path`` if it is not there; return its folder."""
    if not path.exists():
        recording = record(environment, steps, *policy)
        writer = MinariFormat().writer(path, recording.behavior, RecordingAbout())
        writer.write(recording)
        writer.close()
    return str(path.parent)
