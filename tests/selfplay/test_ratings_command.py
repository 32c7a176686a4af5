"""``rlcore ratings``: the table, JSON and the picture of a run's match log."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import matplotlib.image
import numpy as np
import pytest
import yaml
from playing_bots import play, self_play

from rlcore import save_checkpoint
from rlcore.cli.main import main
from rlcore_ghost.selfplay.elo import EloTable
from rlcore_ghost.selfplay.match_log import STATE_ENTRY, MatchLog

MISTAKES = yaml.safe_load((Path(__file__).parent / "data/ratings_mistakes.yaml").read_text(encoding="utf-8"))


def save_run(path: Path, step: int, log: MatchLog, elo: EloTable, changes: Mapping[str, Any] | None = None) -> None:
    """A checkpoint of a run with two behaviors, of which the first by name has the log."""
    entry = {"log": log.state_dict(), "elo": elo.state_dict(), **(changes or {})}
    state = {
        "run": {"seed": 1, "steps": {"Watcher": step, "Player": step}, "factories": []},
        "Watcher": {"model": {}},
        "Player": {"model": {}, STATE_ENTRY: entry},
    }
    save_checkpoint(path / "checkpoints", step, state)


def rps() -> tuple[MatchLog, EloTable]:
    log = MatchLog(2)
    elo = EloTable(initial=1500.0)
    for name in ("rock", "scissors", "paper"):
        log.player(name)
        elo.add()
    for one, other in (("rock", "scissors"), ("scissors", "paper"), ("paper", "rock")):
        play(log, one, other, 90, 10)
    return log, elo


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "160")
    return tmp_path / "results/duel"


def test_the_table_shows_players_by_strength_with_all_ratings(run: Path, capsys: Any) -> None:
    log, elo = self_play([60.0] * 6)
    save_run(run, 6000, log, elo)
    assert main(["ratings", "duel"]) == 0
    out = capsys.readouterr().out
    assert "duel: step 6000: 1200 matches" in out
    rows = [line.split("│")[1:-1] for line in out.splitlines() if line.startswith("│")]
    table = [[cell.strip() for cell in row] for row in rows if len(row) == 6]
    names = [row[0] for row in table]
    assert {"Player@0", "Player@5000", "Player@5000+"} <= set(names)
    fitted = [float(row[2]) for row in table]
    assert fitted == sorted(fitted, reverse=True)
    at = names.index("Player@0")
    assert table[at][2] == "1200"
    assert table[at][1] == f"{elo.rating(log.player('Player@0')):.0f}"
    assert "Bradley-Terry ratings: Player@0 is fixed at 1200" in out
    assert "cycle" not in out and "not zero-sum" not in out


def test_json_has_everything_and_cycles_and_the_mixture_are_pointed_out(run: Path, capsys: Any) -> None:
    log, elo = rps()
    log.not_zero_sum = 4
    save_run(run, 100, log, elo)
    save_run(run, 200, MatchLog(2), EloTable())
    assert main(["ratings", str(run), "--checkpoint", "100", "--anchor", "paper", "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert (report["step"], report["matches"], report["not_zero_sum"], report["anchor"]) == (100, 300, 4, "paper")
    assert (report["initial"], report["players"][0]["bradley_terry"]) == (1500, pytest.approx(1500))
    assert report["pay_off"]["wins"] == [[0, 90, 10], [10, 0, 90], [90, 10, 0]]
    assert report["pay_off"]["shares"][0] == [None, 0.9, 0.1]
    shares = pytest.approx([0.9, 0.9, 0.9])
    assert report["cycles"] == [{"players": ["rock", "scissors", "paper"], "shares": shares}]
    assert report["nash"] == pytest.approx({"rock": 1 / 3, "scissors": 1 / 3, "paper": 1 / 3})
    names = ("rock", "scissors", "paper")
    assert {each["name"]: each["elo"] for each in report["players"]} == dict.fromkeys(names, 1500)
    assert all(each["games"] == 200 and each["share"] == 0.5 for each in report["players"])

    assert main(["ratings", "duel", "--checkpoint", "100", "--players", "2"]) == 0
    out = capsys.readouterr().out
    for text in (
        "cycle: rock beats scissors (90%), scissors paper (90%), paper rock (90%)",
        "no player beats this mixture (Nash averaging): rock 33%, scissors 33%, paper 33%",
        "not zero-sum: the results of 4 matches did not add up to zero",
        "weaker players that are not shown: 1;",
        "90/0/10",
    ):
        assert text in out


def test_a_run_before_its_first_match(run: Path, capsys: Any) -> None:
    save_run(run, 10, MatchLog(2), EloTable())
    assert main(["ratings", "duel", "--plot", "early.png"]) == 0
    assert "no matches between different players yet" in capsys.readouterr().out
    assert Path("early.png").is_file()
    assert main(["ratings", "duel", "--plot", "early.png"]) == 2
    assert "--plot early.png: exists; replace it with --force" in capsys.readouterr().err
    assert main(["ratings", "duel", "--plot", "early.png", "--force"]) == 0


def test_the_picture_shows_the_matrix_in_color(run: Path, capsys: Any) -> None:
    log, elo = self_play([30.0] * 40, games=100)
    play(log, "\x1b[31mred", "[bold]$x$ \\frac", 30, 10)  # names cannot control the terminal or the picture
    elo.add()
    elo.add()
    save_run(run, 10, log, elo)
    assert main(["ratings", "duel", "--plot", "picture.png", "--players", "99"]) == 0
    out = capsys.readouterr().out
    assert "the picture is in picture.png" in out
    assert "\x1b" not in out and "\\x1b[31mred" in out and "[bold]$x$" in out
    pixels = matplotlib.image.imread("picture.png")
    assert pixels.shape[1] > pixels.shape[0] > 500
    right = pixels[:, pixels.shape[1] // 2 :, :3]
    assert (np.ptp(right, axis=2) > 0.3).mean() > 0.01  # colored cells, not only black and white


@pytest.mark.parametrize(("arguments", "message"), MISTAKES.items())
def test_errors_are_one_line_that_says_what_to_do(run: Path, capsys: Any, arguments: str, message: str) -> None:
    log, elo = rps()
    save_run(run, 10, log, elo)
    state = {"run": {"seed": 1, "steps": {"A": 20}, "factories": []}, "A": {"model": {}}}
    save_checkpoint(run / "checkpoints", 20, state)
    save_run(run, 30, log, elo, {"elo": 5})
    assert main(["ratings", *arguments.split()]) != 0
    printed = capsys.readouterr()
    assert message in printed.err and printed.err.count("\n") == 1 and printed.out == ""


def test_a_picture_without_matplotlib_names_the_extra(run: Path, capsys: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    log, elo = rps()
    save_run(run, 10, log, elo)
    monkeypatch.setitem(__import__("sys").modules, "matplotlib.backends.backend_agg", None)
    assert main(["ratings", "duel", "--plot", "picture.png"]) != 0
    assert "--plot needs matplotlib: pip install 'rlcore-ghost[league]'" in capsys.readouterr().err
