"""The page about JSON lists the keys of each event and answer, and every code of an error, and no other."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from workspace import ROOT

from rlcore.cli import error_records
from rlcore.config import problems
from rlcore_devkit.fixtures import RunRlcore

pytestmark = pytest.mark.documentation

PAGE = (ROOT / "docs/reference/json.md").read_text(encoding="utf-8")
ROWS = {name: tuple(cells.split("|")) for name, cells in re.findall(r"^\| `([^`]+)` \| (.*) \|$", PAGE, re.MULTILINE)}
SMALL = ("--set", "default_settings.max_steps=2000", "--set", "default_settings.summary_freq=1000")
EVALUATED = ("--set", "evaluation.interval=1000", "--set", "evaluation.episodes=2")


def named(cell: str) -> list[str]:
    return re.findall(r"`([a-z_]+)`", cell)


def test_the_events_have_the_documented_keys_in_their_order(run_rlcore: RunRlcore) -> None:
    done = run_rlcore("run", "--env", "CartPole-v1", "--run-id", "a", *SMALL, *EVALUATED, "--json")
    again = run_rlcore("run", "--env", "CartPole-v1", "--run-id", "a", *SMALL, "--json")
    assert (done.exit_code, again.exit_code) == (0, 5)
    events = [json.loads(line) for line in (done.stdout + again.stdout).splitlines()]
    assert {event["event"] for event in events} == {name for name in ROWS if name in EVENTS}
    for event in events:
        expected = [key for key in named(ROWS[event["event"]][1]) if key != "opponents"]
        assert [key for key in event if key not in ("event", "time")] == expected, event["event"]


EVENTS = ("start", "summary", "checkpoint", "evaluation", "end", "error")


def test_every_code_of_an_error_is_explained() -> None:
    codes = {value for name, value in vars(problems).items() if name.isupper() and isinstance(value, str)}
    codes |= set(error_records._CODES.values())
    assert codes == {name for name in ROWS if "-" in name} | {"internal"}
    example = json.loads(re.findall(r"^```json\n(.*?)^```", PAGE, re.DOTALL | re.MULTILINE)[0])
    (record,) = error_records.error_records(problems.ConfigErrors([problems.Problem("a.yaml:1", "b", "c")]))
    assert list(example["errors"][0]) == list(record)


@pytest.mark.parametrize(
    ("name", "words", "inner"),
    [
        ("plugins list", ["--provides"], "plugins"),
        ("plugins doctor", ["ppo", "--no-import"], "findings"),
        ("plugins new", ["mine", "--kind", "reward"], ""),
        ("status", ["a"], ""),
        ("export", ["a", "--format", "onnx"], ""),
        ("evaluate", ["a", "--episodes", "2"], ""),
        ("skills install", [], "files"),
    ],
)
def test_answers_have_the_documented_keys(run_rlcore: RunRlcore, name: str, words: list[str], inner: str) -> None:
    if "a" in words:
        assert run_rlcore("run", "--env", "CartPole-v1", "--run-id", "a", *SMALL).exit_code == 0
    done = run_rlcore(*name.split(), *words, "--json")
    assert done.exit_code == 0, done.stderr
    answer: dict[str, Any] = json.loads(done.stdout)
    rows: list[Any] = answer.get(inner, [])
    if name == "evaluate":
        rows = list(answer["behaviors"].values())
    found = {key for row in rows for key in row}
    documented = set(named(ROWS[name][0]))
    assert set(answer) <= documented
    if rows or not inner:
        assert documented <= set(answer) | found
