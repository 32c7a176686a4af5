"""Reads and writes recordings through the formats that plugins provide. Errors name the format and its plugin."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path

import attrs

from rlcore import (
    BehaviorSpec,
    ConfigError,
    PluginError,
    Plugins,
    Record,
    Recording,
    RecordingAbout,
    RunStateError,
    blamed,
    did_you_mean,
    one_slot,
    require_protocol,
    user_path,
)
from rlcore_offline.formats import RecordingFormat, RecordingWriter, actions_outside, recording_problem
from rlcore_offline.records import RecordingFormatSpec
from rlcore_offline.slot_recorder import SlotRecorder

__all__ = ["InstalledRecordings", "read_recording"]

log = logging.getLogger("rlcore.recording")

# The format to ask for if none is installed.
MINARI = "minari"


Found = tuple[RecordingFormat, Path, Record]
"""A recording: the format that reads it, where it is, and the record of the format."""


@attrs.frozen
class InstalledRecordings:
    """Recordings of all installed formats; implements :class:`rlcore.Recordings`.

    Attributes:
        plugins: The plugins that provide the formats.
    """

    plugins: Plugins

    def read(self, path: str | Path, behavior: str, start: Path = Path()) -> Recording:
        """Return a recording, as :meth:`rlcore.Recordings.read` says. Raises ConfigError for one that is unsound."""
        found, location, spec = self._find(path, behavior, start)
        with _readable(spec, location):
            recording = found.read(location, behavior)
        problem = recording_problem(recording)
        if problem:
            raise ConfigError(f"recording {str(location)!r}, read as {spec.name}: {problem}")
        outside = actions_outside(recording)
        if outside:
            log.warning("recording %r, read as %s: %s", str(location), spec.name, outside)
        return recording

    def behavior(self, path: str | Path, behavior: str, start: Path = Path()) -> BehaviorSpec:
        """Return the behavior of a recording, as :meth:`rlcore.Recordings.behavior` says."""
        found, location, spec = self._find(path, behavior, start)
        with _readable(spec, location):
            return found.behavior(location, behavior)

    @contextmanager
    def record(
        self,
        directory: Path,
        behaviors: Mapping[str, BehaviorSpec],
        about: Mapping[str, RecordingAbout],
        reference: str | None = None,
    ) -> Iterator[dict[str, SlotRecorder]]:
        """Return recorders, as :meth:`rlcore.Recordings.record` says."""
        spec = self.format(reference)
        made = _format(spec)
        writers: dict[str, RecordingWriter] = {}
        recorders: dict[str, SlotRecorder] = {}
        try:
            for name, behavior in behaviors.items():
                path = directory / name
                with _written(spec, path):
                    writers[name] = writer = made.writer(path, one_slot(behavior), about[name])
                require_protocol(writer, RecordingWriter, spec.described)
                recorders[name] = SlotRecorder(behavior, partial(_write, spec, path, writer))
            yield recorders
            for name, recorder in recorders.items():
                if recorder.episodes:
                    with _written(spec, directory / name):
                        writers[name].close()
                    del writers[name]
                else:
                    log.warning("behavior %r: no agent acted in any of its episodes, so nothing was recorded", name)
        finally:
            for writer in writers.values():
                with suppress(Exception, SystemExit):  # the first error is the one to report
                    writer.discard()

    def format(self, reference: str | None = None) -> RecordingFormatSpec:
        """Return the record of the format called NAME or DIST/NAME.

        Without ``reference``, return the only installed format that is not written ``on_request``. Raises PluginError
        if there are several.
        """
        found = (record for record in self.plugins.records("recording") if isinstance(record, RecordingFormatSpec))
        records = [record for record in found if not record.on_request]
        if reference is None and len(records) > 1:
            choices = " or ".join(record.reference for record in records)
            raise PluginError(f"several recording formats are installed; choose one with --record-format: {choices}")
        if reference is None:
            reference = records[0].reference if records else MINARI
        return self.plugins.record(RecordingFormatSpec, reference)

    def _find(self, path: str | Path, behavior: str, start: Path) -> Found:
        """Find the recording of a behavior: at ``path``, at ``path/behavior``, or stored by a format under this name.

        A relative path is relative to ``start``. Raises ConfigError with the existing recordings if there is none.
        """
        formats = [(spec, _format(spec)) for spec in self.plugins.records("recording")]

        def reader(place: Path) -> Found | None:
            for spec, each in formats:
                with blamed(spec.described, f"to look at {place}"):
                    if each.reads(place):
                        return each, place, spec
            return None

        given = start / user_path(path)
        found = reader(given) or reader(given / behavior)
        if found is not None:
            return found
        stored: dict[str, Found] = {}
        for spec, each in formats:
            with blamed(spec.described, "to list its recordings"):
                stored |= {name: (each, place, spec) for name, place in each.stored().items()}
        if str(path) in stored:
            return stored[str(path)]
        raise ConfigError(f"recording {str(path)!r}: {_what_is_there(given, Path(path), behavior, reader, stored)}")


def read_recording(plugins: Plugins, path: str | Path, behavior: str, start: Path = Path()) -> Recording:
    """Return the recording of a behavior that ``path``, relative to ``start``, names.

    Raises ConfigError if it is missing or unsound.
    """
    return InstalledRecordings(plugins).read(path, behavior, start)


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


def _what_is_there(
    path: Path, written: Path, behavior: str, reader: Callable[[Path], Found | None], stored: Iterable[str]
) -> str:
    """Return what exists instead. ``written`` is the user's spelling of ``path``, for the message."""
    if path.is_dir() and (inside := [place.name for place in _shown(path) if reader(place)]):
        return (
            f"it contains no recording of behavior {behavior!r}; its recordings are: "
            f"{', '.join(str(written / each) for each in inside)}{did_you_mean(behavior, inside)}"
        )
    if path.exists():
        return "no installed format can read it"
    beside = [each for each in _shown(path.parent) if reader(each) or reader(each / behavior)]
    known = [*stored, *(str(written.parent / each.name) for each in beside)]
    there = f"; there are {', '.join(known)}" if known else ""
    return f"no such path or name{there}{did_you_mean(str(written), known)}"


def _shown(directory: Path) -> list[Path]:
    """What is in a directory, by name, without unfinished recordings."""
    entries = sorted(directory.iterdir()) if directory.is_dir() else []
    return [entry for entry in entries if not entry.name.startswith(".")]


def _format(spec: Record) -> RecordingFormat:
    made: RecordingFormat = spec.create()
    return made
