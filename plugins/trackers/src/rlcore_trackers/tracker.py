"""The contract between the sender and a tracker's library: :class:`Tracker`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, Protocol

import attrs

from rlcore_trackers.git_state import GitState

SummaryKey = tuple[str, int]
"""Behavior and agent steps of a summary."""


@attrs.frozen(kw_only=True)
class Tracked:
    """A run as a tracker sees it.

    Attributes:
        id: Random name of the run in the tracker's store, 16 hexadecimal digits; a resumed run has the same.
        name: The name to show: the id of the run, with the sweep and the trial before it if it belongs to a trial.
        group: The group of ``settings``, or else the study or sweep that the run belongs to; None for a run of its own.
        job_type: What the run is in its study or sweep; None for a run of its own.
        labels: The seed in a study or sweep, and the trial and the environment in a sweep.
        git: The code that the run began with; None if it is not known, or not to be sent.
        process: The process that trains now, for system metrics; None if none are to be sent.
        directory: The run directory.
        place: Directory inside the run directory for files of the tracker; it may not exist.
        settings: The tracker's block under ``stats``, as plain data.
        configuration: The complete configuration of the run, as plain data.
    """

    id: str
    name: str
    group: str | None = None
    job_type: Literal["seed", "trial"] | None = None
    labels: Mapping[str, str] = attrs.field(factory=dict)
    git: GitState | None = None
    process: int | None = None
    directory: Path
    place: Path
    settings: Mapping[str, Any]
    configuration: Mapping[str, Any]

    @property
    def described(self) -> dict[str, Any]:
        """The configuration, and :attr:`about` as its block ``rlcore``."""
        return {**self.configuration, "rlcore": self.about}

    @property
    def about(self) -> dict[str, str | bool]:
        """The labels, ``job_type``, ``commit`` and ``dirty`` that are known, for stores without fields of them."""
        found: dict[str, str | bool] = dict(self.labels)
        if self.job_type is not None:
            found["job_type"] = self.job_type
        if self.git is not None:
            found |= attrs.asdict(self.git)
        return found


@attrs.frozen(kw_only=True)
class Task:
    """A run for a sender, with the store that gets it, by the process of the run or by the user.

    No file in the run directory has it, because the directory may be another person's.

    Attributes:
        tracker: The class of the tracker, as ``"package.module:Name"``.
        settings: The tracker's block under ``stats``, as plain data.
        configuration: The complete configuration of the run, as plain data.
    """

    tracker: str
    settings: Mapping[str, Any]
    configuration: Mapping[str, Any]


@attrs.frozen(kw_only=True)
class TrackedSummary:
    """One summary of a behavior.

    Attributes:
        behavior: Name of the behavior.
        step: Agent steps of the behavior.
        time: Seconds since 1970.
        means: Mean of each tag; means that are not finite are left out.
        stds: Population standard deviation of each tag that has several values.
        index: The number of summaries of the run before this one, over all behaviors.
    """

    behavior: str
    step: int
    time: float
    means: Mapping[str, float]
    stds: Mapping[str, float] = attrs.field(factory=dict)
    index: int

    @property
    def key(self) -> SummaryKey:
        """Behavior and step."""
        return self.behavior, self.step

    @property
    def values(self) -> dict[str, float]:
        """The numbers to send by name: each mean by its tag, its standard deviation by the tag and ``Std``."""
        return {f"{tag} Std": std for tag, std in self.stds.items()} | dict(self.means)

    @property
    def named(self) -> dict[str, float]:
        """The numbers of :attr:`values`, with the behavior before each name."""
        return {f"{self.behavior}/{tag}": value for tag, value in self.values.items()}


@attrs.frozen(kw_only=True)
class TrackedFile:
    """A file or a directory to keep as an artifact.

    Attributes:
        kind: The kind of content.
        path: Where it is; it exists when it is sent.
        step: Agent steps of the run, over all behaviors.
    """

    kind: Literal["checkpoint", "video", "report"]
    path: Path
    step: int


class Tracker(Protocol):
    """A connection to a tracker's store, open for one run. The class is called with a :class:`Tracked`.

    Any method may raise any exception: the sender then calls :meth:`close`, opens the tracker again after a while, asks
    :meth:`sent`, and sends what is missing.
    """

    def sent(self) -> set[SummaryKey]:
        """Return the summaries of this run that are safe in the store, and cannot be lost by a kill any more."""

    def send(self, summaries: Sequence[TrackedSummary]) -> None:
        """Send summaries that the store does not have."""

    def send_file(self, file: TrackedFile) -> None:
        """Keep a file as an artifact. Called again for the same file after a kill: the store must not have it twice."""

    def finish(self, outcome: str) -> str:
        """Note the outcome of the run: ``"done"``, ``"interrupted"``, ``"environment ended"`` or ``"failed"``.

        All that was sent is then in the store.
        Returns a line for the user: where the store is, and what shows or uploads it.
        """

    def close(self) -> None:
        """Free what the tracker holds, after an error too."""


def flat(configuration: Mapping[str, Any], before: str = "") -> dict[str, Any]:
    """Return nested mappings as one, with dotted keys. Empty mappings and None are left out; lists stay values."""
    values: dict[str, Any] = {}
    for name, value in configuration.items():
        key = f"{before}{name}"
        if isinstance(value, Mapping):
            values |= flat(value, f"{key}.")
        elif value is not None:
            values[key] = value
    return values


def add_content(artifact: Any, path: Path) -> None:
    """Add a file, or all files of a directory, to an artifact of W&B or Trackio."""
    add = artifact.add_dir if path.is_dir() else artifact.add_file
    add(str(path))


def text(error: BaseException) -> str:
    """Return an exception as one line of at most 300 characters."""
    kind = type(error).__name__
    line = " ".join(str(error).split())
    if not line:
        return kind
    return f"{kind}: {line}"[:300]
