"""Event files are read back with TensorBoard's own reader."""

from __future__ import annotations

import os
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from rlcore import RunStateError, StatSummary, StatsWriter, Tag, config_from_mapping, load_plugins
from rlcore_tensorboard import event_file
from rlcore_tensorboard.settings import TensorBoardSettings
from rlcore_tensorboard.writer import TensorBoardWriter, histogram

CONFIG = config_from_mapping({"behaviors": {"Walker": {"max_steps": 1234}}}, load_plugins())


def stats(reward: float = 1.0) -> dict[str, StatSummary]:
    return {
        Tag.CUMULATIVE_REWARD: StatSummary.of([reward, reward + 2.0], keep_values=True),
        "Losses/Policy Loss": StatSummary.of([0.25]),
        "Is Training": StatSummary.of([1.0]),
        "Step": StatSummary.of([1.0]),
    }


def run(directory: Path, **resumed_steps: int) -> SimpleNamespace:
    return SimpleNamespace(directory=directory, resumed_steps=resumed_steps, own_files=print, config=CONFIG)


def read(directory: Path) -> EventAccumulator:
    events = EventAccumulator(str(directory), size_guidance={"histograms": 0})  # 0: all of them
    events.Reload()
    return events


def points(events: EventAccumulator, tag: str) -> list[tuple[int, float]]:
    return [(event.step, pytest.approx(event.value)) for event in events.Scalars(tag)]


def written(directory: Path, reward: float, *steps: int, **resumed_steps: int) -> None:
    """Write a summary of each step, as a run does."""
    writer = TensorBoardWriter(directory, resumed_steps)
    for step in steps:
        writer.write("Walker", step, stats(reward))
    writer.close()


def test_the_settings_of_a_behavior_are_a_text_of_its_file(tmp_path: Path) -> None:
    """Under ML-Agents' tag."""
    writer = TensorBoardWriter.create(TensorBoardSettings(), run(tmp_path))
    writer.write("Walker", 1000, stats())
    writer.close()
    (event,) = read(tmp_path / "Walker").Tensors("Hyperparameters/text_summary")
    (text,) = event.tensor_proto.string_val
    assert '"max_steps": 1234' in text.decode()


def test_summaries_are_readable_before_the_writer_is_closed(tmp_path) -> None:
    writer = TensorBoardWriter.create(TensorBoardSettings(), run(tmp_path))
    assert isinstance(writer, StatsWriter)
    writer.write("Walker", 1000, stats())
    writer.write("Walker", 2000, stats(3.0))
    events = read(tmp_path / "Walker")
    assert set(events.Tags()["scalars"]) == {Tag.CUMULATIVE_REWARD, "Losses/Policy Loss"}
    assert points(events, Tag.CUMULATIVE_REWARD) == [(1000, 2.0), (2000, 4.0)]
    assert points(events, "Losses/Policy Loss") == [(1000, 0.25), (2000, 0.25)]
    value = events.Histograms(f"{Tag.CUMULATIVE_REWARD}_hist")[0].histogram_value
    assert (value.min, value.max, value.num, value.sum, value.sum_squares) == (1.0, 3.0, 2.0, 4.0, 10.0)
    assert not [p for p in (tmp_path / "Walker").iterdir() if not p.name.startswith("events.out.tfevents.")]
    writer.close()
    writer.close()


def test_a_resumed_run_replaces_the_points_it_takes_again(tmp_path) -> None:
    written(tmp_path, 1.0, 1000, 2000, 3000)
    written(tmp_path, 7.0, 3000, Walker=2000)
    events = read(tmp_path / "Walker")
    assert points(events, Tag.CUMULATIVE_REWARD) == [(1000, 2.0), (2000, 2.0), (3000, 8.0)]
    assert [event.step for event in events.Histograms(f"{Tag.CUMULATIVE_REWARD}_hist")] == [1000, 2000, 3000]
    written(tmp_path, 7.0, 500)  # a fresh run hides the points of an older one
    assert points(read(tmp_path / "Walker"), Tag.CUMULATIVE_REWARD) == [(500, 8.0)]


def test_a_clock_that_was_set_back_hides_nothing_of_a_resumed_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = 1_790_000_000.25
    monkeypatch.setattr(event_file.time, "time", lambda: now)
    written(tmp_path, 1.0, 1000, 2000, 3000)
    for file in (tmp_path / "Walker").iterdir():
        os.utime(file, (now, now))
    now -= 86_400.0
    written(tmp_path, 7.0, 3000, Walker=2000)
    events = read(tmp_path / "Walker")
    assert points(events, Tag.CUMULATIVE_REWARD) == [(1000, 2.0), (2000, 2.0), (3000, 8.0)]
    times = [event.wall_time for event in events.Scalars(Tag.CUMULATIVE_REWARD)]
    assert times == sorted(times)
    for file in (tmp_path / "Walker").iterdir():
        os.utime(file, (times[-1], times[-1]))
    now += 2 * 86_400.0
    written(tmp_path, 1.0, 4000, Walker=3000)
    assert read(tmp_path / "Walker").Scalars(Tag.CUMULATIVE_REWARD)[-1].wall_time == now


@pytest.mark.parametrize("now", [0.0, 98.0, 1_790_000_000.0, 1_790_000_009.0])
@pytest.mark.parametrize(
    "earlier",
    [
        "events.out.tfevents.1790000000.host.12.0",  # as TensorFlow and PyTorch name their files
        "events.out.tfevents.1790000000.999999999.host.12",
        "events.out.tfevents.99.000000000.host.12",  # seconds with another number of digits
        "of another program.tfevents",
    ],
)
def test_a_new_file_sorts_after_all_that_are_there(earlier: str, now: float) -> None:
    names = [earlier, event_file.new_name([earlier], now)]
    names.append(event_file.new_name(names, now))
    assert names[0] < names[1] < names[2]
    # Names with seconds are counted on; they must not grow with each resume.
    assert (len(names[1]) == len(names[2])) == earlier.startswith("events.out.tfevents.1")


def test_events_that_are_removed_while_the_run_writes_them_are_written_again(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    TensorBoardWriter(tmp_path).write("Walker", 500, stats())
    writer = TensorBoardWriter(tmp_path, {"Walker": 500})
    writer.write("Walker", 1000, stats())
    _, newest = sorted((tmp_path / "Walker").iterdir())
    newest.unlink()
    writer.write("Walker", 2000, stats(3.0))
    assert points(read(tmp_path / "Walker"), Tag.CUMULATIVE_REWARD) == [(500, 2.0), (2000, 4.0)]
    (record,) = caplog.records
    assert record.getMessage().startswith(
        f"{newest}: was removed while the run was writing to it; summaries from step 2000 on are in events.out."
    )
    writer.close()


@pytest.mark.filterwarnings("error::ResourceWarning")  # of a file that is left open
def test_only_the_files_that_were_made_are_the_runs_and_a_backup_by_hard_links_gets_no_event(tmp_path: Path) -> None:
    declared: list[str] = []
    context = SimpleNamespace(directory=tmp_path / "run", resumed_steps={}, own_files=declared.append, config=CONFIG)
    writer = TensorBoardWriter.create(None, context)
    (tmp_path / "run/Walker").mkdir()
    (tmp_path / "run/Walker/events.out.tfevents.mine").write_bytes(b"")
    writer.write("Walker", 1000, stats())
    (made,) = declared
    (tmp_path / "backup").hardlink_to(tmp_path / "run" / made)
    before = (tmp_path / "backup").read_bytes()
    writer.write("Walker", 2000, stats(3.0))
    writer.write("Walker", 3000, stats(5.0))
    writer.write("Walker[2]", 3000, stats())
    writer.close()
    assert [*(tmp_path / "run").glob(declared.pop())] == [*(tmp_path / "run/Walker[2]").iterdir()]
    assert (tmp_path / "backup").read_bytes() == before
    assert points(read(tmp_path / "run/Walker"), Tag.CUMULATIVE_REWARD) == [(1000, 2.0), (2000, 4.0), (3000, 6.0)]
    there = {f"Walker/{path.name}" for path in (tmp_path / "run/Walker").iterdir()}
    assert len(declared) == 2 and {*declared, "Walker/events.out.tfevents.mine"} == there


def test_a_run_directory_that_was_moved_takes_its_events_along(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    at = tmp_path / "run"
    moved = tmp_path / "moved"
    writer = TensorBoardWriter(at)
    writer.write("Walker", 1000, stats())
    at.rename(moved)
    writer.write("Walker", 2000, stats())
    assert not at.exists()
    at.mkdir()  # the directory of another run
    writer.write("Walker", 3000, stats())
    assert points(read(moved / "Walker"), Tag.CUMULATIVE_REWARD) == [(1000, 2.0), (2000, 2.0), (3000, 2.0)]
    with pytest.raises(RunStateError, match=r"/run: was moved or removed while the run was writing to it$"):
        writer.write("Runner", 3000, stats())  # a behavior without a file so far
    writer.close()
    assert list(at.iterdir()) == [] and not caplog.records


def test_histogram_counts_every_finite_value() -> None:
    values = np.random.default_rng(0).normal(size=500)
    proto = histogram((*values.tolist(), float("nan"), float("inf")))
    assert sum(proto.bucket) == proto.num == 500
    for edge, count in zip(proto.bucket_limit[1:-1], np.cumsum(proto.bucket)[1:-1], strict=True):
        assert (values < edge).sum() == count
    assert histogram(()).num == histogram((float("nan"),)).num == 0
    assert sum(histogram((3.0,)).bucket) == 1


def test_histograms_can_be_turned_off(tmp_path) -> None:
    writer = TensorBoardWriter.create(TensorBoardSettings(histograms=False), run(tmp_path))
    writer.write("Walker", 1000, stats())
    writer.close()
    assert not read(tmp_path / "Walker").Tags()["histograms"]
