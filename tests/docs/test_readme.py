"""The README and the first page: commands, output, numbers, the table of trainers, and the trainer of twenty lines."""

from __future__ import annotations

import re
from pathlib import Path

import figures
import pytest
from pages import BLOCKS, blocks, commands_of, lines_of_code
from workspace import ROOT, pyproject

from rlcore import SavedRun, load_plugins
from rlcore.cli.main import main

pytestmark = pytest.mark.documentation

PAGE = "README.md"
README = (ROOT / PAGE).read_text("utf-8")
FIRST_PAGE = (ROOT / "docs/index.md").read_text("utf-8")
YES = {"yes": True, "no": False}


def test_they_are_short() -> None:
    assert len(README.split()) <= 900
    assert len(FIRST_PAGE.split()) <= 500


def test_the_shown_output_is_that_of_the_first_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Lines with the same words; the numbers are those of one run."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "examples").mkdir()
    (tmp_path / "examples/cartpole.yaml").write_text((ROOT / "examples/cartpole.yaml").read_text())
    first, second, _ = (block for block in blocks("sh") if block.page == PAGE and "rlcore run" in block.text)
    (words,) = commands_of(first)
    assert main(words) == 0
    printed = {without_numbers(line) for line in "".join(capsys.readouterr()).splitlines()}
    for page in (PAGE, "docs/index.md"):
        (shown,) = (block for block in blocks("text") if block.page == page)
        assert len(shown.text.splitlines()) == 6
        assert [line for line in shown.text.splitlines() if without_numbers(line) not in printed] == []
    for words in commands_of(second):
        extra = ["--max-steps", "2048"] if words[0] == "run" else []
        assert main([*words, *extra]) == 0, words


def without_numbers(line: str) -> str:
    return re.sub(r"\d+(?:[.,]\d+)*", "N", line)


def test_the_three_numbers_are_the_cited_ones() -> None:
    rows = re.findall(r"^\| \*\*(.+?)\*\* \| (.+?)<br>`(.+?)` \|$", README, re.MULTILINE)
    assert sorted(rows) == sorted((each.shown, each.front, each.command) for each in figures.cited() if each.front)


def test_the_badges_say_what_the_packages_say() -> None:
    project = pyproject(ROOT / "core")["project"]
    versions = [each.rpartition(" ")[2] for each in project["classifiers"] if re.search(r":: 3\.\d+$", each)]
    assert re.findall(r"!\[Python: (.+?)\]", README) == [", ".join(versions)]
    assert re.findall(r"badge/python-(.+?)-blue", README) == ["%20%7C%20".join(versions)]
    assert re.findall(r"badge/license-(\w+)-", README) == [project["license"]]


def test_the_table_of_trainers_says_what_their_records_say() -> None:
    trainers = {record.name: record for record in load_plugins().records("trainer")}
    table = README.split("## Trainers")[1].split("## ")[0]
    named = []
    for row in re.findall(r"^\| `.*\|$", table, re.MULTILINE)[1:]:
        names, source, continuous, discrete, memory, masks, several = map(str.strip, row.strip("|").split("|"))
        for name in re.findall(r"`(\w+)`", names):
            record = trainers[name]
            named.append(name)
            assert YES[continuous] == ("continuous" in record.spaces), name
            assert YES[discrete] == ("discrete" in record.spaces), name
            assert (YES[continuous] and YES[discrete]) == ("hybrid" in record.spaces), name
            assert YES[memory] == record.memory, name
            # TrainerConformance has each trainer of discrete actions play with masks.
            assert masks == ("yes" if YES[discrete] else ""), name
            assert several.startswith("yes") == record.turns, name
            assert several.endswith("central critic") == record.privileged_critic, name
            assert (source == "recordings") == record.offline, name
    assert sorted(named) == sorted(trainers)


def test_the_trainer_of_twenty_lines_learns(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    titled = {block.title: block for block in BLOCKS if block.page == PAGE and block.title}
    assert lines_of_code(titled["a2c.py"].text) == 20 and "Twenty lines" in README
    for title, block in titled.items():
        (tmp_path / title).write_text(block.text)
    (words,) = (
        words for block in blocks("sh") if block.page == PAGE for words in commands_of(block) if "a2c.yaml" in words
    )
    assert main([*words, "--seed", "2"]) == 0
    result = SavedRun.open("results/a2c", allow_local=True).evaluate(20)
    assert result.behaviors["CartPole"].mean_reward > 200  # random actions score 22
