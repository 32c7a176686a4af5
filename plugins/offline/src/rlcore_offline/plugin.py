"""What rlcore-offline brings. Imported whenever rlcore starts: Minari enters when a recording is read or written."""

from __future__ import annotations

from rlcore import RecordingFormatSpec, hookimpl


@hookimpl
def rlcore_recording_formats() -> list[RecordingFormatSpec]:
    return [
        RecordingFormatSpec(
            name="minari",
            target="rlcore_offline.minari_format:MinariFormat",
            summary="datasets of the Minari library, D4RL's among them",
        )
    ]
