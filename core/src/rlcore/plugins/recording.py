"""Recorded episodes read and written through the formats that plugins bring; errors name the format's owner."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any, Protocol, cast

import attrs

from rlcore.environment import BehaviorSpec
from rlcore.errors import ConfigError, PluginError, RlcoreError, RunStateError, one_line
from rlcore.plugins.lookup import Owned
from rlcore.plugins.records import Record, RecordingFormatSpec
from rlcore.plugins.targets import require_protocol
from rlcore.recording.episode_recorder import EpisodeRecorder, one_slot
from rlcore.recordings import (
    Recording,
    RecordingAbout,
    RecordingFormat,
    RecordingWriter,
    find_recording,
)


class Formats(Protocol):
    """Where formats are found: :class:`rlcore.plugins.Plugins`."""

    def records(self, kind: str) -> Sequence[Owned]: ...

    def recording_format(self, reference: str | None = None) -> RecordingFormatSpec: ...

    def resolve(self, record: Record, attribute: str = "target") -> Any: ...


def read_recording(plugins: Formats, path: str | Path, behavior: str, start: Path = Path()) -> Recording:
    """The whole recording that ``path``, relative to ``start``, names; ConfigError if it is not there or not sound."""
    found, location, owner = _find(plugins, path, behavior, start)
    with _readable(owner, location):
        recording = found.read(location, behavior)
    problem = recording.problem()
    if problem:
        raise ConfigError(f"recording {str(location)!r}, read as {owner.record.name}: {problem}")
    return recording


def recorded_behavior(plugins: Formats, path: str | Path, behavior: str, start: Path = Path()) -> BehaviorSpec:
    """The behavior of the recording that ``path``, relative to ``start``, names, without reading its episodes."""
    found, location, owner = _find(plugins, path, behavior, start)
    with _readable(owner, location):
        return found.behavior(location, behavior)


@contextmanager
def recorded_to(
    plugins: Formats,
    directory: Path,
    behaviors: Mapping[str, BehaviorSpec],
    about: Mapping[str, RecordingAbout],
    reference: str | None = None,
) -> Iterator[dict[str, EpisodeRecorder]]:
    """Taps for a block that plays: when it ends, ``directory/<behavior>`` are recordings; when it fails, nothing is.

    ``about`` is by behavior too. ``reference`` names the format; the only installed one need not be named. Raises
    ConfigError where something exists already, and RunStateError where a recording cannot be written.
    """
    spec = plugins.recording_format(reference)
    owner = next(owned for owned in plugins.records("recording") if owned.record is spec)
    made = _format(plugins, owner)
    writers: dict[str, RecordingWriter] = {}
    recorders: dict[str, EpisodeRecorder] = {}
    try:
        for name, behavior in behaviors.items():
            path = directory / name
            with _written(owner, path):
                writers[name] = writer = made.writer(path, one_slot(behavior), about[name])
            require_protocol(writer, RecordingWriter, owner.described)
            recorders[name] = EpisodeRecorder(behavior, partial(_write, owner, path, writer))
        yield recorders
        for name, recorder in recorders.items():
            if recorder.episodes:
                with _written(owner, directory / name):
                    writers[name].close()
                del writers[name]
            else:
                logging.getLogger("rlcore.recording").warning(
                    "behavior %r: no agent acted in any of its episodes, so nothing was recorded", name
                )
    finally:
        for writer in writers.values():
            with suppress(Exception, SystemExit):  # the first error is the one to report
                writer.discard()


def _write(owner: Owned, path: Path, writer: RecordingWriter, episode: Recording) -> None:
    with _written(owner, path):
        writer.write(episode)


@contextmanager
def _readable(owner: Owned, path: Path) -> Iterator[None]:
    try:
        with _blamed(owner, f"read {path}"):
            yield
    except OSError as error:
        raise ConfigError(f"recording {str(path)!r} cannot be read: {error.strerror or error}") from error


@contextmanager
def _written(owner: Owned, path: Path) -> Iterator[None]:
    try:
        with _blamed(owner, f"write {path}"):
            yield
    except OSError as error:
        raise RunStateError(
            f"recording {path} cannot be written: {error.strerror or error}; nothing was left there"
        ) from error


def _find(plugins: Formats, path: str | Path, behavior: str, start: Path) -> tuple[RecordingFormat, Path, Owned]:
    owners = plugins.records("recording")
    formats = [_Searched(_format(plugins, owned), owned) for owned in owners]
    found, location = find_recording(path, behavior, formats, start)
    return found.format, location, found.owner


@attrs.frozen
class _Searched:
    """A format while a recording is looked for: its errors name its owner."""

    format: RecordingFormat
    owner: Owned

    def reads(self, path: Path) -> bool:
        with _blamed(self.owner, f"look at {path}"):
            return self.format.reads(path)

    def stored(self) -> Mapping[str, Path]:
        with _blamed(self.owner, "list its recordings"):
            return self.format.stored()


def _format(plugins: Formats, owner: Owned) -> RecordingFormat:
    target = plugins.resolve(owner.record)
    with _blamed(owner, "begin"):
        made = target()
    require_protocol(made, RecordingFormat, owner.described)
    return cast(RecordingFormat, made)


@contextmanager
def _blamed(owner: Owned, doing: str) -> Iterator[None]:
    """A foreign error becomes a PluginError."""
    try:
        yield
    except (RlcoreError, OSError):
        raise
    except (Exception, SystemExit) as error:
        raise PluginError(f"{owner.described} failed to {doing}: {one_line(error)}") from error
