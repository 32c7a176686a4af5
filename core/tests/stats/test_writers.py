from __future__ import annotations

import io
import json
import math
from pathlib import Path
from types import SimpleNamespace

import pytest

from rlcore.cli.terminal import ConsoleWriter, console_line
from rlcore.contracts.stats import (
    CUMULATIVE_REWARD,
    EVALUATION_REWARD,
    GROUP_REWARD,
    STEPS_PER_SECOND,
    StatSummary,
    StatsWriter,
)
from rlcore.plugins.metrics_file import JsonlWriter


def stats(**extra: float) -> dict[str, StatSummary]:
    tags = {CUMULATIVE_REWARD: StatSummary.of([1.0, 3.0])}
    return tags | {tag: StatSummary(value, 0.0, value, value, 1) for tag, value in extra.items()}


def lines(path: Path) -> list[dict]:
    return [json.loads(line) for line in path.read_text().splitlines()]


# ---------------------------------------------------------------- metrics.jsonl


def test_every_summary_is_one_line_on_disk_at_once(tmp_path) -> None:
    run = SimpleNamespace(directory=tmp_path, resumed_steps={}, behavior_names=(), behaviors={}, own_files=print)
    writer = JsonlWriter.create(None, run)
    assert isinstance(writer, StatsWriter)
    writer.write("Walker", 1000, stats(**{"Losses/Policy Loss": 0.5}))
    (line,) = lines(tmp_path / "metrics.jsonl")  # before close
    assert line["behavior"] == "Walker" and line["step"] == 1000 and line["time"] > 1.7e9
    assert line["stats"] == {CUMULATIVE_REWARD: 2.0, "Losses/Policy Loss": 0.5}
    writer.close()
    writer.close()


def test_means_that_are_not_finite_are_written_as_valid_json(tmp_path) -> None:
    writer = JsonlWriter(tmp_path / "metrics.jsonl")
    writer.write("Walker", 1, stats(a=math.nan, b=math.inf))
    writer.close()
    text = (tmp_path / "metrics.jsonl").read_text()
    assert "NaN" not in text and "Infinity" not in text
    assert json.loads(text)["stats"]["a"] is None and json.loads(text)["stats"]["b"] is None


def test_a_resumed_run_drops_the_lines_it_takes_again(tmp_path) -> None:
    path = tmp_path / "metrics.jsonl"
    first = JsonlWriter(path)
    for step in (1000, 2000, 3000):
        first.write("Walker", step, stats())
    first.close()
    second = JsonlWriter(path, {"Walker": 2000})
    assert [line["step"] for line in lines(path)] == [1000, 2000]
    second.write("Walker", 3000, stats())
    second.close()
    assert [line["step"] for line in lines(path)] == [1000, 2000, 3000]
    assert list(tmp_path.iterdir()) == [path]


def test_behaviors_resume_from_steps_of_their_own(tmp_path) -> None:
    path = tmp_path / "metrics.jsonl"
    first = JsonlWriter(path)
    for step in (1000, 2000, 3000):
        for behavior in ("Striker", "Goalie", "Gone"):
            first.write(behavior, step, stats())
    first.close()
    JsonlWriter(path, {"Striker": 1000, "Goalie": 2500}).close()
    kept = [(line["behavior"], line["step"]) for line in lines(path)]
    assert [each for each in kept if each[0] != "Gone"] == [("Striker", 1000), ("Goalie", 1000), ("Goalie", 2000)]
    assert kept.count(("Gone", 3000)) == 1 and len(kept) == 6, "no one will write the lines of Gone again"


@pytest.mark.parametrize("torn", [b'{"behavior": "Walker", "st', b'{"behavior": "W\xc3', b"[]", b"\0\0\0", b"\n"])
def test_a_torn_last_line_is_dropped_without_a_word(tmp_path, torn: bytes, caplog) -> None:
    path = tmp_path / "metrics.jsonl"
    first = JsonlWriter(path)
    first.write("Läufer", 1000, stats())
    first.close()
    with path.open("ab") as file:
        file.write(torn)
    second = JsonlWriter(path, {"Läufer": 5000})
    second.write("Läufer", 6000, stats())
    second.close()
    assert [(line["behavior"], line["step"]) for line in lines(path)] == [("Läufer", 1000), ("Läufer", 6000)]
    assert not caplog.records and list(tmp_path.iterdir()) == [path]


def test_a_whole_last_line_that_lost_only_its_end_is_kept(tmp_path) -> None:
    """As an editor, or a crash between two bytes, leaves it."""
    path = tmp_path / "metrics.jsonl"
    text = '{"behavior": "Walker", "step": 5, "time": 0, "stats": {}}'
    path.write_text(text)
    JsonlWriter(path, {"Walker": 5}).close()
    assert path.read_text() == text + "\n"


def test_damaged_lines_are_said_and_moved_aside(tmp_path, caplog) -> None:
    path = tmp_path / "metrics.jsonl"
    whole = [json.dumps({"behavior": "Walker", "step": step, "time": 0, "stats": {}}).encode() for step in (1, 2, 3)]
    damaged = [
        b'{"behavior": "Walker", "st\xffp": 5}',
        b'{"behavior": "Walker", "step": NaN}',
        b'{"behavior": ["Walker"], "step": 1}',
        b"[" * 100_000,
        b"\0\0\0",
        b"[1]",
    ]
    path.write_bytes(b"\n".join([whole[0], *damaged[:3], whole[1], *damaged[3:], whole[2], b'{"cut sh']))
    JsonlWriter(path, {"Walker": 2}).close()
    assert path.read_bytes().splitlines() == whole[:2]
    aside = tmp_path / "metrics.jsonl.damaged"
    assert aside.read_bytes().splitlines() == damaged
    (record,) = caplog.records
    assert record.getMessage() == (
        f"{path}: 6 lines cannot be read (2, 3, 4, 6, 7, ...); moved to metrics.jsonl.damaged"
    )
    with path.open("ab") as file:
        file.write(b"{}\n")
    JsonlWriter(path, {"Walker": 2}).close()  # what lies aside, perhaps a user's, is never changed
    assert aside.read_bytes().splitlines() == damaged
    assert (tmp_path / "metrics.jsonl.damaged-2").read_bytes() == b"{}\n"
    assert caplog.records[-1].getMessage() == f"{path}: line 3 cannot be read; moved to metrics.jsonl.damaged-2"


def test_metrics_that_are_removed_while_the_run_writes_them_are_written_again(tmp_path, caplog) -> None:
    path = tmp_path / "metrics.jsonl"
    writer = JsonlWriter(path)
    writer.write("Walker", 1, stats())
    path.unlink()
    writer.write("Walker", 2, stats())
    writer.write("Walker", 3, stats())
    assert [line["step"] for line in lines(path)] == [2, 3]
    (record,) = caplog.records
    assert record.getMessage() == (
        f"{path}: was removed or replaced while the run was writing to it; the file that is there now has the "
        "summaries from step 2 of 'Walker' on"
    )
    edited = tmp_path / "edited"
    edited.write_bytes(path.read_bytes().splitlines(keepends=True)[0])
    edited.replace(path)  # as `sed -i` and editors do
    writer.write("Walker", 4, stats())
    writer.close()
    assert [line["step"] for line in lines(path)] == [2, 4]
    assert len(caplog.records) == 2


def test_a_run_directory_that_was_moved_takes_its_metrics_along(tmp_path, caplog) -> None:
    run, moved = tmp_path / "run", tmp_path / "moved"
    writer = JsonlWriter(run / "metrics.jsonl")
    writer.write("Walker", 1, stats())
    run.rename(moved)
    writer.write("Walker", 2, stats())
    assert not run.exists()
    run.mkdir()  # of another run
    writer.write("Walker", 3, stats())
    writer.close()
    assert [line["step"] for line in lines(moved / "metrics.jsonl")] == [1, 2, 3]
    assert list(run.iterdir()) == [] and not caplog.records


def test_a_backup_by_hard_links_gets_no_line_of_a_resumed_or_a_running_run(tmp_path) -> None:
    path, backup = tmp_path / "metrics.jsonl", tmp_path / "backup.jsonl"
    JsonlWriter(path).close()
    for step in (1, 2):
        backup.unlink(missing_ok=True)
        backup.hardlink_to(path)
        before = backup.read_bytes()
        writer = JsonlWriter(path, {"Walker": step})
        writer.write("Walker", step, stats())
        assert backup.read_bytes() == before
        backup.unlink()
        backup.hardlink_to(path)
        before = backup.read_bytes()
        writer.write("Walker", step, stats())
        writer.close()
        assert backup.read_bytes() == before
    assert [line["step"] for line in lines(path)] == [1, 1, 2, 2]


def test_a_link_in_the_place_of_the_metrics_is_not_followed(tmp_path) -> None:
    (tmp_path / "mine").write_text("")
    (tmp_path / "metrics.jsonl").symlink_to("mine")
    with pytest.raises(OSError, match="symbolic link"):
        JsonlWriter(tmp_path / "metrics.jsonl")
    assert (tmp_path / "mine").read_text() == ""


# ---------------------------------------------------------------- console


def test_console_line_is_that_of_ml_agents_with_the_speed_at_its_end() -> None:
    line = console_line("Walker", 1000, 12.3456, stats(**{STEPS_PER_SECOND: 4321.7}))
    assert line == (
        "Walker. Step: 1000. Time Elapsed: 12.346 s. Mean Reward: 2.000. Std of Reward: 1.000. Training. 4322 steps/s."
    )


def test_console_line_says_when_no_episode_ended() -> None:
    line = console_line("Walker", 5, 1.0, {"Is Training": StatSummary.of([0.0])})
    assert line == "Walker. Step: 5. Time Elapsed: 1.000 s. No episode was completed since last summary. Not Training."


def test_console_line_of_what_learns_from_recorded_data_says_nothing_of_episodes() -> None:
    line = console_line("Walker", 5, 1.0, {EVALUATION_REWARD: StatSummary.of([2.0, 5.0])}, plays=False)
    assert line == "Walker. Step: 5. Time Elapsed: 1.000 s. Training. Evaluation: 3.500."


def test_console_line_names_group_reward_and_elo() -> None:
    line = console_line("Striker", 5, 1.0, stats(**{GROUP_REWARD: 0.5, "Self-play/ELO": 1212.34567}))
    assert line == (
        "Striker. Step: 5. Time Elapsed: 1.000 s. Mean Reward: 2.000. Mean Group Reward: 0.500. Training."
        " ELO: 1212.346."
    )


LESSONS = {"Environment/Lesson Number/length": 2.0, "Environment/Lesson Number/wind speed": 0.0}


def test_console_line_names_the_lesson_of_each_parameter() -> None:
    line = console_line("Walker", 5, 1.0, stats(**LESSONS, **{STEPS_PER_SECOND: 7.0}))
    assert line.endswith(" Training. Lesson: length 2, wind speed 0. 7 steps/s.")


def test_console_line_is_silent_about_what_stays_in_one_lesson() -> None:
    some = console_line("Walker", 5, 1.0, stats(**LESSONS), silent={"wind speed"})
    none = console_line("Walker", 5, 1.0, stats(**LESSONS), silent={"wind speed", "length"})
    assert some.endswith(" Training. Lesson: length 2.") and none.endswith(" Training.")


def test_console_prints_to_the_stream_that_is_current(capsys) -> None:
    writer = ConsoleWriter()
    assert isinstance(writer, StatsWriter)
    writer.write("Walker", 5, stats())
    assert capsys.readouterr().out.startswith("Walker. Step: 5. Time Elapsed: ")
    stream = io.StringIO()
    ConsoleWriter(stream).write("Walker", 6, stats())
    assert stream.getvalue().count("\n") == 1
    assert capsys.readouterr().out == ""
