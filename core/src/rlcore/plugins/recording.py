"""Recorded episodes read and written through the formats that plugins bring; errors name the format's owner."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import cast

from rlcore.environment import BehaviorSpec
from rlcore.errors import ConfigError, PluginError, RlcoreError, one_line
from rlcore.plugins.calls import Plugins
from rlcore.plugins.lookup import Owned
from rlcore.plugins.records import RecordingFormatSpec
from rlcore.plugins.targets import require_protocol
from rlcore.recordings import (
    Recording,
    RecordingAbout,
    RecordingFormat,
    RecordingWriter,
    find_recording,
)


def read_recording(plugins: Plugins, path: str | Path, behavior: str) -> Recording:
    """The whole recording that ``path`` names; ConfigError if it is not there or not sound."""
    found, location, owner = _find(plugins, path, behavior)
    with _blamed(owner, f"read {location}"):
        recording = found.read(location, behavior)
    problem = recording.problem()
    if problem:
        raise ConfigError(f"recording {str(location)!r}, read as {owner.record.name}: {problem}")
    return recording


def recorded_behavior(plugins: Plugins, path: str | Path, behavior: str) -> BehaviorSpec:
    """The behavior of the recording that ``path`` names, without reading its episodes."""
    found, location, owner = _find(plugins, path, behavior)
    with _blamed(owner, f"read {location}"):
        return found.behavior(location, behavior)


def recording_writer(
    plugins: Plugins, spec: RecordingFormatSpec, path: Path, behavior: BehaviorSpec, about: RecordingAbout
) -> RecordingWriter:
    """A writer for a new recording of a behavior; nothing may be at ``path`` yet."""
    owner = next(owned for owned in plugins.records("recording") if owned.record is spec)
    with _blamed(owner, f"begin {path}"):
        writer = _format(plugins, owner).writer(path, behavior, about)
    require_protocol(writer, RecordingWriter, owner.described)
    return writer


def _find(plugins: Plugins, path: str | Path, behavior: str) -> tuple[RecordingFormat, Path, Owned]:
    owners = plugins.records("recording")
    formats = [_format(plugins, owned) for owned in owners]
    found, location = find_recording(path, behavior, formats)
    return found, location, next(owner for owner, each in zip(owners, formats, strict=True) if each is found)


def _format(plugins: Plugins, owner: Owned) -> RecordingFormat:
    target = plugins.resolve(owner.record)
    with _blamed(owner, "begin"):
        made = target()
    require_protocol(made, RecordingFormat, owner.described)
    return cast(RecordingFormat, made)


@contextmanager
def _blamed(owner: Owned, doing: str) -> Iterator[None]:
    """A foreign error becomes a PluginError; OSErrors speak for themselves."""
    try:
        yield
    except (RlcoreError, OSError):
        raise
    except Exception as error:
        raise PluginError(f"{owner.described} failed to {doing}: {one_line(error)}") from error
