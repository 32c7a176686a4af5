"""``rlcore validate`` and loading through the real plugin facade."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from rlcore import main
from rlcore.errors import ExitCode
from rlcore.plugins.known import PACKAGES

PPO = "behaviors:\n  B: {trainer_type: ppo}\n"


# ---------------------------------------------------------------- the command

CASES = yaml.safe_load((Path(__file__).parent / "data/validate.yaml").read_text(encoding="utf-8"))


@pytest.fixture
def write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.chdir(tmp_path)
    return Path("c.yaml").write_text


@pytest.mark.parametrize("case", CASES)
def test_validate_prints_every_error_on_its_line(write: Any, capsys: pytest.CaptureFixture[str], case: str) -> None:
    told = CASES[case]
    write(told["file"])
    words = ["validate", told.get("named", "c.yaml"), *told.get("options", ())]
    assert main(words) == told["code"]
    printed = capsys.readouterr().out.splitlines()
    assert len(printed) == len(told["lines"]), printed
    assert all(found.startswith(line) for found, line in zip(printed, told["lines"], strict=True)), printed
    assert main([*words, "--json"]) == told["code"]
    answer = capsys.readouterr().out
    if told["code"] != ExitCode.PLUGIN:
        assert json.loads(answer)["valid"] == (told["code"] == ExitCode.DONE)
        places = [place(each) for each in json.loads(answer)["errors"]]
        assert len(places) == (0 if told["code"] == ExitCode.DONE else len(printed))
        assert all(map(str.startswith, printed, places))


def place(record: dict[str, Any]) -> str:
    line = f":{record['line']}" if record["line"] else ""
    return f"{record['file'] or record['source'] or ''}{line}"


MISTAKES = """\
behaviors:
  B: {trainer_type: poo, max_stpes: 5, summary_freq: 0, max_steps: many}
stats: {acme: {}}
environment: {type: gymnasium}
acme_section: {}
"""


def test_each_error_is_a_record_with_its_code_place_key_and_fix(
    write: Any, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    write(MISTAKES)
    monkeypatch.setitem(PACKAGES, ("writer", "acme"), "acme-rl")
    assert main(["validate", "c.yaml", "--json", "--set", "env_settings.seed=x"]) == ExitCode.CONFIG
    answer = json.loads(capsys.readouterr().out)
    assert answer["valid"] is False
    found = [tuple(each[name] for name in ("code", "line", "source", "key")) for each in answer["errors"]]
    assert found == [
        ("unknown-name", 2, None, "behaviors.B.trainer_type"),
        ("unknown-key", 2, None, "behaviors.B.max_stpes"),
        ("invalid-value", 2, None, "behaviors.B.max_steps"),
        ("invalid-value", 2, None, "behaviors.B.summary_freq"),
        ("not-installed", 3, None, "stats.acme"),
        ("unknown-key", 5, None, "acme_section"),
        ("invalid-value", None, "--set env_settings.seed", "env_settings.seed"),
    ]
    fixes = [each["fix"] for each in answer["errors"]]
    assert fixes[:2] == ["write 'ppo'", "write 'max_steps'"] and fixes[3] is None
    assert fixes[4].startswith("pip install") and "acme-rl" in fixes[4]
    assert all(each["text"].endswith(each["message"]) for each in answer["errors"])


@pytest.mark.parametrize(
    ("words", "code", "exit_code"),
    [
        (["absent.yaml"], "unreadable-file", ExitCode.CONFIG),
        (["c.yaml", "-p", "nope"], "plugin-failed", ExitCode.PLUGIN),
    ],
)
def test_what_prevents_a_check_is_a_record_too(
    write: Any, capsys: pytest.CaptureFixture[str], words: list[str], code: str, exit_code: int
) -> None:
    write(PPO)
    assert main(["validate", *words, "--json"]) == exit_code
    (record,) = json.loads(capsys.readouterr().out)["errors"]
    assert record["code"] == code and record["key"] is None
    assert record["file"] == (words[0] if code == "unreadable-file" else None)
