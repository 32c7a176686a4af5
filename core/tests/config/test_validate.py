"""``rlcore validate`` and loading through the real plugin facade."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from rlcore import main
from rlcore.errors import ExitCode

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
        places = [each["place"] for each in json.loads(answer)["errors"]]
        assert len(places) == (0 if told["code"] == ExitCode.DONE else len(printed))
        assert all(map(str.startswith, printed, places))
