"""The page needs nothing from outside, and no text in a run becomes markup or code."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from rlcore import Tag
from rlcore_devkit.fixtures import RunRlcore
from rlcore_study.report.render import value_text
from rlcore_study.tables import duration, number

HOSTILE = "</script><script>alert(1)</script><img src=x onerror='alert(2)'>\"&<!--"
BIDI = "a\u202eb\x1b[31m\ud800"


class Elements(HTMLParser):
    """The elements of a page with their attributes, and the text of each script."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str]]] = []
        self.scripts: list[tuple[dict[str, str], str]] = []
        self.words: list[str] = []
        self._in: str | None = None
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        named = {name: value or "" for name, value in attrs}
        self.found.append((tag, named))
        self._in = tag
        if tag == "script":
            self.scripts.append((named, ""))

    def handle_endtag(self, tag: str) -> None:
        self._in = None

    def handle_data(self, data: str) -> None:
        if self._in == "script":
            self.scripts[-1] = (self.scripts[-1][0], self.scripts[-1][1] + data)
        else:
            self.words.append(data)

    @property
    def text(self) -> str:
        return " ".join(" ".join(self.words).split())


@pytest.fixture
def page(run_rlcore: RunRlcore) -> Any:
    def make(*arguments: str) -> Elements:
        done = run_rlcore("report", *arguments)
        assert done.exit_code == 0, done.stderr
        return Elements(Path("report.html").read_text("utf-8"))

    return make


ALLOWED = {  # every element and attribute that a page may have
    "script": {"type", "id"},
    "a": {"href"},
    "meta": {"charset", "name", "content", "http-equiv"},
}


def require_harmless(found: Elements) -> None:
    """Only the scripts of the page itself, no event handler, and no address outside of the page."""
    assert [named for named, _ in found.scripts] == [{"type": "application/json", "id": "data"}, {}, {}]
    for tag, named in found.found:
        assert not any(name.startswith("on") for name in named), (tag, named)
        assert named.keys() <= ALLOWED.get(tag, named.keys()), (tag, named)
        for name in ("src", "href", "srcset", "action", "poster", "data"):
            assert re.match(r"#|data:|$", named.get(name, "")), (tag, named)
        assert tag not in ("link", "iframe", "object", "embed", "base", "form", "img", "svg"), tag


def test_hostile_texts_of_a_run_are_shown_as_they_are(write_run: Any, page: Any) -> None:
    first = write_run("a", behavior=HOSTILE, tag=f"Losses/{HOSTILE}", lr=HOSTILE)
    second = write_run("b", 2, behavior=HOSTILE, tag=f"Losses/{BIDI}", lr=BIDI.replace("\ud800", ""), **{"</th>": 1})
    result = json.loads((second / "result.json").read_text())
    result |= {
        "stop": {"reason": HOSTILE},
        "outcome": "interrupted",
        "evaluation": {"best_score": 1, "best_step": "<b>"},
    }
    result["exports"] = [{"behavior": HOSTILE, "problem": BIDI}]
    (second / "result.json").write_text(json.dumps(result))
    moved = first.rename(first.with_name("x<svg onload=alert(3)>"))
    found = page(str(moved), "b", "--title", HOSTILE, "--group", "<i>g</i>=x*")
    require_harmless(found)
    assert HOSTILE in found.text and "x<svg onload=alert(3)>" in found.text and "<i>g</i>" in found.text
    everything = Path("report.html").read_text("utf-8")
    own = everything.replace(found.scripts[1][1], "")
    assert not any(sign in own for sign in ("\u202e", "\x1b", "\ud800"))
    assert "a\\u202eb\\x1b[31m" in found.text


def test_the_policy_of_the_page_allows_its_own_scripts_and_no_request(write_run: Any, page: Any) -> None:
    write_run("a")
    found = page("a")
    require_harmless(found)
    (policy,) = (named["content"] for tag, named in found.found if named.get("http-equiv") == "Content-Security-Policy")
    rules = dict(rule.strip().split(" ", 1) for rule in policy.split(";"))
    assert rules.pop("default-src") == "'none'"
    digests = [hashlib.sha256(text.encode()).digest() for _, text in found.scripts[1:]]
    assert rules.pop("script-src").split() == [f"'sha256-{base64.b64encode(each).decode()}'" for each in digests]
    assert not any("http" in rule or "*" in rule for rule in rules.values())


def test_the_page_states_results_as_text(write_run: Any, page: Any) -> None:
    write_run("a-1", 1, mean_reward=2.0, lr=0.25)
    write_run("a-2", 2, mean_reward=4.0, lr=0.25)
    write_run("b", 1, mean_reward=7.0, lr=0.5)
    text = page("a-1", "a-2", "b").text
    assert "3 runs in 2 groups" in text
    assert "a 2 done 200 3.00 ± 1.41 2.00 to 4.00 - 1 min 30 s ± 0.0 s" in text
    assert "b done 200 7.00 - - 1 min 30 s" in text
    assert "behaviors.Agent.hyperparameters.lr 0.25 0.5" in text
    assert "environment 6.0 s 60% 6.0 s 60%" in text


@pytest.mark.parametrize(
    ("write", "value", "text"),
    [
        (number, 12.345, "12.35"),
        (number, 12345.6, "12,346"),
        (number, 1e-5, "1e-05"),
        (duration, 9.34, "9.3 s"),
        (duration, 7500, "2 h 5 min"),
        (duration, 3599.6, "1 h 0 min"),
        (value_text, [1, "a"], '[1, "a"]'),
        (value_text, "x" * 10_000, "x" * 297 + "..."),
    ],
)
def test_values_are_written_short(write: Any, value: Any, text: str) -> None:
    assert str(write(value)) == text


def test_final_values_are_those_of_the_last_step_that_all_runs_have(write_run: Any, page: Any) -> None:
    write_run("a-1", 1, points=[(100, 1.0), (200, 2.0)])
    write_run("a-2", 2, points=[(100, 3.0), (200, 6.0), (300, 9.0)])
    assert "a 200 4.00 ± 2.83 2.00 to 6.00 2" in page("a-1", "a-2").text


def test_what_a_run_did_not_measure_is_left_out(write_run: Any, page: Any) -> None:
    write_run("a", points=[(100, None), (200, 2.0)])
    write_run("b", tag="Losses/Nothing", points=[(100, None)], x=1)
    (chart,) = json.loads(page("a", "b").scripts[0][1])["charts"]
    assert chart["groups"][0]["levels"][0]["mean"] == [None, 2.0]


def test_the_numbers_of_lessons_are_not_smoothed(write_run: Any, page: Any) -> None:
    write_run("a", tag=f"{Tag.LESSON_NUMBER}pace", points=[(100, 0.0), (200, 1.0)])
    (chart,) = json.loads(page("a").scripts[0][1])["charts"]
    assert [level["runs"] for level in chart["groups"][0]["levels"]] == [[[0.0, 1.0]]] * 3
