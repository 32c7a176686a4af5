"""The process of a player: how it ended, the last lines of its files, and its environment."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from rlcore_workers import PlayerProcess

if sys.platform == "win32":
    pytest.skip("signals are those of POSIX", allow_module_level=True)


def started(folder: Path, program: str, log: Path | None = None) -> PlayerProcess:
    return PlayerProcess([sys.executable, "-c", program], folder, folder / "logs" / "output.log", log)


def test_last_lines_are_those_of_the_output_and_of_the_own_log_without_control_characters(tmp_path: Path) -> None:
    log = tmp_path / "game.log"
    log.write_text("of an earlier player")
    program = (
        f"print('first'); print('\\x1b[31m\\x07tab\\there' + 'x' * 400); open({str(log)!r}, 'w').write('last\\n\\n')"
    )
    process = started(tmp_path, program, log)
    assert process.wait(30)
    assert process.ended == "ended with exit code 0"
    first, second, last = process.last_lines()
    assert (first, last) == ("first", "last")
    assert second == ("[31mtab\there" + "x" * 400)[:300]


def test_a_killed_player_says_so_and_one_that_runs_has_not_ended(tmp_path: Path) -> None:
    process = started(tmp_path, "import time; time.sleep(600)")
    assert process.ended is None
    assert not process.wait(0.01)
    process.kill()
    assert process.ended == "was killed by SIGKILL"


def test_a_player_has_no_proxies(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HTTP_PROXY", "http://proxy.example:3128")
    monkeypatch.setenv("GAME_LEVEL", "3")
    process = started(tmp_path, "import os; print(os.environ.get('HTTP_PROXY'), os.environ['GAME_LEVEL'])")
    assert process.wait(30)
    assert process.last_lines() == ["None 3"]


def test_a_player_that_cannot_be_started_is_an_error_of_the_system(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        PlayerProcess([tmp_path / "none"], tmp_path, tmp_path / "output.log")
