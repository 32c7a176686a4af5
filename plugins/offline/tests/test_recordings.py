"""Recordings: their arrays, where they are found, and who is told what is wrong with them."""

from __future__ import annotations

import errno
import json
import os
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import attrs
import numpy as np
import pytest
import yaml

from rlcore import Plugins, hookimpl
from rlcore.contracts.batches import Actions
from rlcore.contracts.behavior_spec import BehaviorSpec, ObservationSpec
from rlcore.contracts.recordings import Recording, RecordingAbout
from rlcore.errors import ConfigError, PluginError, RunStateError
from rlcore_devkit.fixtures import plugins
from rlcore_offline import InstalledRecordings, RecordingFormatSpec, SlotRecorder, hookspecs, recording_problem

__all__ = ["plugins"]

WALKER = BehaviorSpec("Walker", (ObservationSpec("observation", (1,), np.float32),), discrete=(3,))


def recording(*lengths: int, behavior: BehaviorSpec = WALKER) -> Recording:
    """Episodes of the walker that see 0, 1, 2, ... in a row and are rewarded with what they see; all terminate."""
    n = sum(lengths)
    e = len(lengths)
    last = np.zeros(n, np.bool_)
    last[np.cumsum(lengths) - 1] = True
    seen = np.arange(n + e, dtype=np.float32)[:, None]
    return Recording(
        behavior, {"observation": seen}, Actions(discrete=np.zeros((n, 1), np.int64)),
        np.arange(n, dtype=np.float32), last, np.zeros(n, np.bool_), np.array(lengths),
    )  # fmt: skip


@attrs.define
class CountsWriter:
    """Writes the lengths of episodes."""

    path: Path
    calls: list[str]
    lengths: list[int] = attrs.field(factory=list)

    def write(self, recording: Recording) -> None:
        self.calls.append("write")
        self.lengths += recording.lengths.tolist()

    def close(self) -> None:
        self.calls.append("close")
        self.path.parent.mkdir(parents=True, exist_ok=True)
        self.path.write_text(json.dumps(self.lengths))

    def discard(self) -> None:
        self.calls.append("discard")


class CountsFormat:
    """A format whose files, those that begin with ``[``, hold the lengths of episodes."""

    def __init__(self) -> None:
        self.calls: list[str] = []
        self.kept: dict[str, Path] = {}

    def reads(self, path: Path) -> bool:
        return path.is_file() and path.read_text().startswith("[")

    def stored(self) -> Mapping[str, Path]:
        return self.kept

    def behavior(self, path: Path, name: str) -> BehaviorSpec:
        return attrs.evolve(WALKER, name=name)

    def read(self, path: Path, name: str) -> Recording:
        return recording(*json.loads(path.read_text()), behavior=self.behavior(path, name))

    def writer(self, path: Path, behavior: BehaviorSpec, about: RecordingAbout) -> CountsWriter:
        return CountsWriter(path, self.calls)


@attrs.frozen
class Brings:
    """A plugin of one format."""

    spec: RecordingFormatSpec

    @hookimpl
    def rlcore_recording_formats(self) -> list[RecordingFormatSpec]:
        return [self.spec]


@pytest.fixture
def counts() -> CountsFormat:
    return CountsFormat()


Record = Callable[..., Any]


@pytest.fixture
def record(tmp_path: Path, brings_counts: Any) -> Record:
    """``record("A", "B")``: the block in which these behaviors are recorded to the directory ``to``."""
    return lambda *names: InstalledRecordings(brings_counts("counts")).record(
        tmp_path / "to", dict.fromkeys(names, WALKER), ABOUT
    )


@pytest.fixture
def brings_counts(plugins: Plugins, counts: CountsFormat, monkeypatch: Any) -> Callable[..., Plugins]:
    """``brings_counts("name", ...)``: plugins that bring the format, each under a name of its own."""

    plugins._manager.add_hookspecs(hookspecs)  # the hook of rlcore-offline, without its formats

    def bring(*names: str) -> Plugins:
        for name in names:
            spec = RecordingFormatSpec(name=name, target=f"acme_{name}:Format", on_request=name == "rare")
            plugins.register(Brings(spec), name, f"acme-{name}", "1")
            monkeypatch.setitem(sys.modules, f"acme_{name}", SimpleNamespace(Format=lambda: counts))
        return plugins

    return bring


# ------------------------------------------------------------ the arrays


DATA = yaml.safe_load((Path(__file__).parent / "data/recordings.yaml").read_text(encoding="utf-8"))
TYPES: dict[str, Any] = {"reward": np.float32, "lengths": np.int64}  # others are of truth values


def from_data(field: str, value: Any) -> Any:
    if field == "observations":
        return {name: np.array(rows, np.float32) for name, rows in value.items()}
    return Actions(discrete=np.array(value)) if field == "actions" else np.array(value, TYPES.get(field, np.bool_))


@pytest.mark.parametrize("name", DATA["arrays"])
def test_arrays_that_do_not_fit_are_told_apart(name: str) -> None:
    case = DATA["arrays"][name]
    changes = {field: from_data(field, value) for field, value in case["change"].items()}
    assert case["problem"] in str(recording_problem(attrs.evolve(recording(2, 1), **changes)))


def test_actions_outside_their_bounds_are_counted_once(
    tmp_path: Path, counts: CountsFormat, brings_counts: Any, monkeypatch: Any, caplog: pytest.LogCaptureFixture
) -> None:
    bounds = np.array([-2.0, -np.inf]), np.array([2.0, np.inf])
    reacher = attrs.evolve(WALKER, discrete=(), continuous=2, low=bounds[0], high=bounds[1])
    moved = np.array([[2.0, 1e9], [2.0000004, 0.0], [-2.5, 0.0], [7.0, -1e9], [0.0, 0.0]], np.float32)
    recorded = attrs.evolve(recording(2, 3, behavior=reacher), actions=Actions(continuous=moved))
    monkeypatch.setattr(counts, "read", lambda path, name: recorded)
    (tmp_path / "Walker").write_text("[2, 3]")
    read = InstalledRecordings(brings_counts("counts")).read(tmp_path, "Walker")
    assert read.actions.continuous is moved
    (line,) = [each.getMessage() for each in caplog.records]
    assert "2 of 5 transitions have continuous actions outside their bounds" in line
    assert "the first -2.5 at [0] of transition 2, outside -2 to 2" in line


# ------------------------------------------------------------ where they are found


def test_a_path_is_a_recording_or_holds_one_of_the_behavior_or_names_one_that_is_kept(
    tmp_path: Path, counts: CountsFormat, brings_counts: Any, monkeypatch: Any
) -> None:
    plugins = brings_counts("counts")
    monkeypatch.chdir(tmp_path)
    for name, text in (("Walker", "[9]"), ("runs/Walker", "[2, 1]"), ("runs/Other", "[5]"), ("store", "[7]")):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    counts.kept = {"ours/walks-v0": tmp_path / "store", "runs": tmp_path / "store"}
    for path, lengths in {
        "runs": [2, 1], tmp_path / "runs": [2, 1], "runs/Other": [5], ".": [9], "ours/walks-v0": [7],
    }.items():  # fmt: skip
        found = InstalledRecordings(plugins).read(path, "Walker")
        assert (found.lengths.tolist(), found.behavior.name) == (lengths, "Walker")
        assert InstalledRecordings(plugins).behavior(path, "Walker").name == "Walker"


def test_a_path_that_names_nothing_says_what_there_is(
    tmp_path: Path, counts: CountsFormat, brings_counts: Any, plugins: Plugins, monkeypatch: Any
) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("Striker", "Goalie", "notes"):
        (tmp_path / name).write_text("some words" if name == "notes" else "[1]")
    for name in ("empty", "many"):
        (tmp_path / name).mkdir()
    (tmp_path / "many" / "Strikr").write_text("[1]")
    (tmp_path / ".rlcore-tmp-recording-0123abcd-Striker").write_text("[1]")  # is being written
    with pytest.raises(ConfigError, match=r"recording 'Striker': no plugin that reads.*pip install rlcore-offline, or"):
        plugins.recordings("recording 'Striker'")
    brings_counts("counts")
    counts.kept = {"ours/walks-v0": tmp_path / "Goalie"}
    for path, expected in DATA["paths"].items():
        with pytest.raises(ConfigError) as caught:
            InstalledRecordings(plugins).behavior(path, "Strikr")
        assert str(caught.value) == expected
        with monkeypatch.context() as patch:  # what was written, also where the working directory is another
            patch.chdir("/")
            with pytest.raises(ConfigError) as caught:
                InstalledRecordings(plugins).behavior(path, "Strikr", tmp_path)
            assert str(caught.value) == expected


# ------------------------------------------------------------ several as one, and names


def test_only_nameless_observations_that_fit_take_the_names_of_a_behavior() -> None:
    named = recording(2)
    [spec] = named.behavior.observations
    other = attrs.evolve(named.behavior, observations=(attrs.evolve(spec, name="place"),))
    wider = attrs.evolve(other, observations=(ObservationSpec("place", (7,), np.float32),))
    nameless = attrs.evolve(named, nameless=True)
    assert named.named_as(other) is named and nameless.named_as(wider) is nameless
    fitted = nameless.named_as(other)
    assert recording_problem(fitted) is None and list(fitted.observations) == ["place"]
    assert fitted.observations["place"] is named.observations[spec.name]


# ------------------------------------------------------------ writing them


ABOUT = {name: RecordingAbout() for name in ("A", "B", "Idle")}


def hand_over(recorder: SlotRecorder, *lengths: int) -> None:
    recorder._write(recording(*lengths))
    recorder.episodes += len(lengths)


def test_every_behavior_that_acted_has_a_recording_when_the_block_ends(
    tmp_path: Path, counts: CountsFormat, record: Record, caplog: pytest.LogCaptureFixture
) -> None:
    with record("A", "B", "Idle") as recorders:
        hand_over(recorders["A"], 3)
        hand_over(recorders["B"], 2, 1)
        assert not (tmp_path / "to").exists()
    assert {path.name: json.loads(path.read_text()) for path in (tmp_path / "to").iterdir()} == {"A": [3], "B": [2, 1]}
    assert counts.calls == ["write", "write", "close", "close", "discard"]
    assert "behavior 'Idle': no agent acted in any of its episodes" in caplog.text


def test_a_block_that_fails_leaves_nothing(tmp_path: Path, counts: CountsFormat, record: Record) -> None:
    with pytest.raises(KeyboardInterrupt), record("A", "B") as recorders:  # noqa: PT012
        hand_over(recorders["A"], 3)
        raise KeyboardInterrupt
    assert counts.calls == ["write", "discard", "discard"] and not os.listdir(tmp_path)


def test_a_full_disk_is_one_line(counts: CountsFormat, record: Record, monkeypatch: Any) -> None:
    def full(self: CountsWriter, recording: Recording) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(CountsWriter, "write", full)
    told = r"recording .*to/A cannot be written: No space left on device"
    with pytest.raises(RunStateError, match=told), record("A") as recorders:
        hand_over(recorders["A"], 3)
    assert counts.calls == ["discard"]


@pytest.mark.parametrize(
    ("names", "told"),
    [
        (("counts", "tallies"), "choose one with --record-format: acme-counts/counts or acme-tallies/tallies"),
        ((), "no recording format is installed; pip install rlcore-offline"),
    ],
)
def test_without_a_name_there_must_be_one_format(
    tmp_path: Path, brings_counts: Any, names: tuple[str, ...], told: str
) -> None:
    recordings = InstalledRecordings(brings_counts(*names))
    with pytest.raises((PluginError, ConfigError), match=told), recordings.record(tmp_path, {"A": WALKER}, ABOUT):
        pass
    for name in names[1:]:
        with recordings.record(tmp_path, {"A": WALKER}, ABOUT, name) as recorders:
            hand_over(recorders["A"], 3)
        assert os.listdir(tmp_path) == ["A"]


@pytest.mark.parametrize("method", ["reads", "stored", "read", "behavior"])
def test_a_format_that_fails_or_leaves_is_named_whatever_it_was_asked(
    brings_counts: Callable[..., Plugins], counts: CountsFormat, tmp_path: Path, method: str
) -> None:
    def fail(*given: Any) -> Any:
        raise SystemExit(0)

    path = tmp_path / "walker"
    if method in ("read", "behavior"):
        path.write_text("[1]")
    setattr(counts, method, fail)
    recordings = InstalledRecordings(brings_counts("counts"))
    asked = recordings.behavior if method == "behavior" else recordings.read
    who = r"recording 'counts' of plugin 'counts' \(acme-counts 1\) failed to "
    with pytest.raises(PluginError, match=who):
        asked(path, "Walker")
