"""Finds the recording format for a path or a name, and reads and writes recordings through it.

Errors name the format and its plugin. :mod:`rlcore.contracts.recordings` is the contract that a format implements.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Protocol, cast

import attrs

from rlcore.contracts.environment import BehaviorSpec
from rlcore.contracts.recordings import Recording, RecordingAbout, RecordingFormat, RecordingWriter, find_recording
from rlcore.errors import ConfigError, RunStateError
from rlcore.plugins.failures import blamed
from rlcore.plugins.known import DEMONSTRATION_FORMAT, PACKAGES, RECORDING_ADVICE
from rlcore.plugins.targets import require_protocol
from rlcore.recording.episode_recorder import EpisodeRecorder, one_slot
from rlcore.records import Record, RecordingFormatSpec
from rlcore.storage.files.paths import DEMONSTRATION, holds_demonstrations, user_path


class Formats(Protocol):
    """The part of :class:`rlcore.Plugins` that finds formats."""

    def records(self, kind: str) -> Sequence[Record]: ...

    def recording_format(self, reference: str | None = None) -> RecordingFormatSpec: ...


def read_recording(plugins: Formats, path: str | Path, behavior: str, start: Path = Path()) -> Recording:
    """The whole recording that ``path``, relative to ``start``, names; ConfigError if it is missing or unsound."""
    found, location, spec = _find(plugins, path, behavior, start)
    with _readable(spec, location):
        recording = found.read(location, behavior)
    problem = recording.problem()
    if problem:
        raise ConfigError(f"recording {str(location)!r}, read as {spec.name}: {problem}")
    return recording


def recorded_behavior(plugins: Formats, path: str | Path, behavior: str, start: Path = Path()) -> BehaviorSpec:
    """The behavior of the recording that ``path``, relative to ``start``, names, without reading its episodes."""
    found, location, spec = _find(plugins, path, behavior, start)
    with _readable(spec, location):
        return found.behavior(location, behavior)


@contextmanager
def recorded_to(
    plugins: Formats,
    directory: Path,
    behaviors: Mapping[str, BehaviorSpec],
    about: Mapping[str, RecordingAbout],
    reference: str | None = None,
) -> Iterator[dict[str, EpisodeRecorder]]:
    """Recorders, by behavior, for a block that plays episodes.

    When the block ends, ``directory/<behavior>`` are recordings; when it fails, nothing is left there. ``about`` is by
    behavior too. ``reference`` names the format; None takes the only installed one. Raises ConfigError if something
    exists there already, and RunStateError if a recording cannot be written.
    """
    spec = plugins.recording_format(reference)
    made = _format(spec)
    writers: dict[str, RecordingWriter] = {}
    recorders: dict[str, EpisodeRecorder] = {}
    try:
        for name, behavior in behaviors.items():
            path = directory / name
            with _written(spec, path):
                writers[name] = writer = made.writer(path, one_slot(behavior), about[name])
            require_protocol(writer, RecordingWriter, spec.described)
            recorders[name] = EpisodeRecorder(behavior, partial(_write, spec, path, writer))
        yield recorders
        for name, recorder in recorders.items():
            if recorder.episodes:
                with _written(spec, directory / name):
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


def _write(spec: Record, path: Path, writer: RecordingWriter, episode: Recording) -> None:
    with _written(spec, path):
        writer.write(episode)


@contextmanager
def _readable(spec: Record, path: Path) -> Iterator[None]:
    with blamed(spec.described, f"to read {path}"):
        try:
            yield
        except OSError as error:
            raise ConfigError(f"recording {str(path)!r} cannot be read: {error.strerror or error}") from error


@contextmanager
def _written(spec: Record, path: Path) -> Iterator[None]:
    with blamed(spec.described, f"to write {path}"):
        try:
            yield
        except OSError as error:
            raise RunStateError(
                f"recording {path} cannot be written: {error.strerror or error}; nothing was left there"
            ) from error


def _find(plugins: Formats, path: str | Path, behavior: str, start: Path) -> tuple[RecordingFormat, Path, Record]:
    specs = plugins.records("recording")
    if not specs:
        raise ConfigError(f"recording {str(path)!r}: no plugin that reads recordings is loaded; {RECORDING_ADVICE}")
    formats = [_Searched(_format(spec), spec) for spec in specs]
    try:
        found, location = find_recording(path, behavior, formats, start)
    except ConfigError as error:
        if not holds_demonstrations(start / user_path(path)):
            raise
        package = PACKAGES["recording", DEMONSTRATION_FORMAT]
        raise ConfigError(
            f"recording {str(path)!r}: demonstrations of ML-Agents ({DEMONSTRATION}) are read by the format "
            f"{DEMONSTRATION_FORMAT!r} of {package}, which is not loaded; {RECORDING_ADVICE}"
        ) from error
    return found.format, location, found.spec


@attrs.frozen
class _Searched:
    """A format during the search for a recording. Its errors name its plugin."""

    format: RecordingFormat
    spec: Record

    def reads(self, path: Path) -> bool:
        with blamed(self.spec.described, f"to look at {path}"):
            return self.format.reads(path)

    def stored(self) -> Mapping[str, Path]:
        with blamed(self.spec.described, "to list its recordings"):
            return self.format.stored()


def _format(spec: Record) -> RecordingFormat:
    target = spec.resolve()
    with blamed(spec.described, "to begin"):
        made = target()
    require_protocol(made, RecordingFormat, spec.described)
    return cast(RecordingFormat, made)
