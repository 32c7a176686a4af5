from __future__ import annotations

import json
import math
from pathlib import Path
from types import SimpleNamespace

import pytest

from rlcore.cli.console import console_line
from rlcore.contracts.stats import StatSummary, StatsWriter, Tag
from rlcore.plugins.core import JsonlWriter


def stats(**extra: float) -> dict[str, StatSummary]:
    tags = {Tag.CUMULATIVE_REWARD: StatSummary.of([1.0, 3.0])}
    return tags | {tag: StatSummary(value, 0.0, value, value, 1) for tag, value in extra.items()}


def lines(path: Path) -> list[dict]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def steps(path: Path) -> list[int]:
    return [line["step"] for line in lines(path)]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "metrics.jsonl"


def write(path: Path, *steps: int, behavior: str = "Walker", resumed: dict[str, int] | None = None) -> None:
    """One writer that writes a line for each step."""
    writer = JsonlWriter(path, resumed or {})
    for step in steps:
        writer.write(behavior, step, stats())
    writer.close()


# ---------------------------------------------------------------- metrics.jsonl


def test_every_summary_is_one_line_on_disk_at_once(path: Path) -> None:
    run = SimpleNamespace(directory=path.parent, resumed_steps={}, behavior_names=(), behaviors={}, own_files=print)
    writer = JsonlWriter.create(None, run)
    assert isinstance(writer, StatsWriter)
    writer.write("Walker", 1000, stats(**{"Losses/Policy Loss": 0.5}))
    (line,) = lines(path)  # before close
    assert line["behavior"] == "Walker" and line["step"] == 1000 and line["time"] > 1.7e9
    assert line["stats"] == {Tag.CUMULATIVE_REWARD: 2.0, "Losses/Policy Loss": 0.5}
    writer.close()
    writer.close()


def test_means_that_are_not_finite_are_written_as_valid_json(path: Path) -> None:
    writer = JsonlWriter(path)
    writer.write("Walker", 1, stats(a=math.nan, b=math.inf))
    writer.close()
    text = path.read_text()
    assert "NaN" not in text and "Infinity" not in text
    assert json.loads(text)["stats"]["a"] is None and json.loads(text)["stats"]["b"] is None


def test_a_resumed_run_drops_the_lines_it_takes_again(path: Path) -> None:
    write(path, 1000, 2000, 3000)
    second = JsonlWriter(path, {"Walker": 2000})
    assert steps(path) == [1000, 2000]
    second.write("Walker", 3000, stats())
    second.close()
    assert steps(path) == [1000, 2000, 3000]
    assert list(path.parent.iterdir()) == [path]


def test_behaviors_resume_from_steps_of_their_own(path: Path) -> None:
    for behavior in ("Striker", "Goalie", "Gone"):
        write(path, 1000, 2000, 3000, behavior=behavior)
    write(path, resumed={"Striker": 1000, "Goalie": 2500})
    kept = [(line["behavior"], line["step"]) for line in lines(path)]
    of_gone = [("Gone", step) for step in (1000, 2000, 3000)]  # no one will write them again
    assert kept == [("Striker", 1000), ("Goalie", 1000), ("Goalie", 2000), *of_gone]


@pytest.mark.parametrize("torn", [b'{"behavior": "Walker", "st', b'{"behavior": "W\xc3', b"[]", b"\0\0\0", b"\n"])
def test_a_torn_last_line_is_dropped_without_a_word(path: Path, torn: bytes, caplog) -> None:
    write(path, 1000, behavior="Läufer")
    with path.open("ab") as file:
        file.write(torn)
    write(path, 6000, behavior="Läufer", resumed={"Läufer": 5000})
    assert [(line["behavior"], line["step"]) for line in lines(path)] == [("Läufer", 1000), ("Läufer", 6000)]
    assert not caplog.records and list(path.parent.iterdir()) == [path]


def test_damaged_lines_are_said_and_moved_aside(path: Path, caplog) -> None:
    whole = [json.dumps({"behavior": "Walker", "step": step, "time": 0, "stats": {}}).encode() for step in (1, 2, 3)]
    damaged = [b'{"behavior": "Walker", "st\xffp": 5}', b'{"behavior": ["Walker"], "step": 1}', b"[" * 100_000]
    for aside in ("metrics.jsonl.damaged", "metrics.jsonl.damaged-2"):  # what lies aside is never changed
        path.write_bytes(b"\n".join([whole[0], *damaged[:2], whole[1], *damaged[2:], whole[2], b'{"cut sh']))
        write(path, resumed={"Walker": 2})
        assert path.read_bytes().splitlines() == whole[:2]
        assert path.with_name(aside).read_bytes().splitlines() == damaged
        assert caplog.messages[-1] == f"{path}: 3 lines cannot be read (2, 3, 5); moved to {aside}"


# ---------------------------------------------------------------- console

START = "Walker. Step: 1000. Time Elapsed: 12.346 s. "
REWARD = "Mean Reward: 2.000. Std of Reward: 1.000. "
LESSONS = {"Environment/Lesson Number/length": 2.0, "Environment/Lesson Number/wind speed": 0.0}
SPEED = {Tag.STEPS_PER_SECOND: 4321.7}


@pytest.mark.parametrize(
    ("summary", "options", "line"),
    [
        (stats(**SPEED), {}, f"{REWARD}Training. 4322 steps/s."),
        ({"Is Training": StatSummary.of([0.0])}, {}, "No episode was completed since last summary. Not Training."),
        ({Tag.EVALUATION_REWARD: StatSummary.of([2.0, 5.0])}, {"plays": False}, "Training. Evaluation: 3.500."),
        (
            stats(**{Tag.GROUP_REWARD: 0.5, "Self-play/ELO": 1212.34567}),
            {},
            "Mean Reward: 2.000. Mean Group Reward: 0.500. Training. ELO: 1212.346.",
        ),
        (stats(**LESSONS, **SPEED), {}, f"{REWARD}Training. Lesson: length 2, wind speed 0. 4322 steps/s."),
        (stats(**LESSONS), {"silent": {"wind speed"}}, f"{REWARD}Training. Lesson: length 2."),
        (stats(**LESSONS), {"silent": {"wind speed", "length"}}, f"{REWARD}Training."),
    ],
)
def test_console_line_is_that_of_ml_agents_with_the_speed_at_its_end(summary, options, line: str) -> None:
    assert console_line("Walker", 1000, 12.3456, summary, **options) == START + line
