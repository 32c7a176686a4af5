"""``rlcore ratings --play``: who meets whom, and under whose name."""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Callable, Mapping
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from made_once import made_once

from rlcore import BehaviorSpec, ConfigError, Run, SavedRun, read_checkpoint
from rlcore.cli.main import main
from rlcore_ghost.ratings.round_robin import RoundRobin, add_round_robin
from rlcore_ghost.selfplay.match_log import STATE_ENTRY, Matches, MatchLog

SUPPORT = Path(__file__).parent.parent / "support"
QUICK = {
    "hyperparameters": {"batch_size": 64, "buffer_size": 256, "learning_rate": 1e-2, "num_epoch": 2},
    "network_settings": {"hidden_units": 16, "num_layers": 1},
    "summary_freq": 100_000,
    "max_steps": 1000,
    "self_play": {"save_steps": 250, "window": 3},
}
FIXED = {name: {"type": "always", "option": option} for option, name in enumerate(("low", "mid", "high"))}


def train(
    directory: Path,
    environment: dict[str, Any],
    names: tuple[str, ...] = ("Player",),
    evaluation: dict[str, Any] | None = None,
    **changes: Any,
) -> None:
    """A short run; ``changes`` are of the behaviors."""
    blocks = {name: {"trainer_type": "ppo", **QUICK, **changes} for name in names}
    config = {
        "plugins": {"local": [str(SUPPORT / f"{name}.py") for name in ("duels", "table_game")] + ["selfplay_games"]},
        "preset": "none",
        "environment": {"num_envs": 16, **environment},
        "behaviors": blocks,
        "evaluation": evaluation,
        "env_settings": {"seed": 1},
        "checkpoint_settings": {"run_id": "run", "results_dir": str(directory)},
    }
    Run(config).train()


@pytest.fixture
def trained(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Path]:
    """A run with these arguments of :func:`train`, made once."""

    def made(*arguments: Any, **changes: Any) -> Path:
        key = f"round robin {arguments} {changes}"
        return made_once(tmp_path_factory, key, lambda path: train(path, *arguments, **changes)) / "run"

    return made


def round_robin(run: Path, games: int, seed: int = 1) -> tuple[Matches, RoundRobin]:
    """The games of a round robin alone, without those of training."""
    checkpoint = read_checkpoint(run)
    entry = next(state[STATE_ENTRY] for state in checkpoint.trainers.values() if STATE_ENTRY in state)
    log = MatchLog(entry["log"]["teams"])
    for name in entry["log"]["names"]:
        log.player(name)
    played = add_round_robin(SavedRun.open(run, allow_local=True), checkpoint.trainers, log, games, seed)
    return log.matches(), played


def meetings(matches: Matches) -> Counter[tuple[str, ...]]:
    """How often each lineup was played."""
    counted: Counter[tuple[str, ...]] = Counter()
    for players, count in zip(matches.players.tolist(), matches.count.tolist(), strict=True):
        counted[tuple(matches.names[player] for player in players)] += count
    return counted


# ---------------------------------------------------------------- who meets whom


TICTACTOE = ({"type": "game", "id": "tictactoe"},)


def test_every_pair_meets_equally_often_in_each_seat(trained: Callable[..., Path]) -> None:
    matches, played = round_robin(trained(*TICTACTOE), 4)
    players = [name for name in matches.names if matches.games[matches.names.index(name)].any()]
    assert len(players) == played.players == 4 and played.unrated == 0
    assert meetings(matches) == {(one, other): 2 for one, other in product(players, players) if one != other}
    assert played.games == sum(meetings(matches).values()) == 4 * 6


def test_snapshots_of_two_behaviors_meet_in_their_own_teams(trained: Callable[..., Path]) -> None:
    matches, played = round_robin(trained({"type": "game", "id": "skewed_pennies"}, ("Row", "Column")), 3)
    rows, columns = ({name for names in meetings(matches) for name in names[at : at + 1]} for at in (0, 1))
    assert all(name.startswith("Row") for name in rows) and all(name.startswith("Column") for name in columns)
    assert meetings(matches) == dict.fromkeys(product(rows, columns), 3)
    assert played == RoundRobin(len(rows) + len(columns), 3 * len(rows) * len(columns), 0)


def test_of_three_teams_each_is_a_player_and_the_stronger_one_wins(trained: Callable[..., Path]) -> None:
    """The highest bid wins: of three fixed bidders, the order is known."""
    run = trained(
        {"type": "game", "id": "contest", "options": {"teams": 3}}, self_play={"window": 1, "fixed_opponents": FIXED}
    )
    matches, played = round_robin(run, 12)
    assert played == RoundRobin(5, 12 * 10, 0)
    assert all(len(set(names)) == 3 for names in meetings(matches))
    low, mid, high = (matches.names.index(name) for name in FIXED)
    for better, worse in ((mid, low), (high, low), (high, mid)):
        assert matches.games[better, worse] >= 12
        # Where the third team bids more than both, both lose.
        assert matches.wins[worse, better] == 0 < matches.wins[better, worse]
    assert matches.draws[high, low] == matches.draws[high, mid] == 0


# ---------------------------------------------------------------- what counts


def test_games_that_a_time_limit_cut_off_are_not_rated(trained: Callable[..., Path]) -> None:
    run = trained({"type": "duel", "options": {"agents": 2}})  # one game in seven has the longest time
    matches, played = round_robin(run, 20)
    assert 0 < played.unrated < played.games
    assert matches.count.sum() == played.games - played.unrated
    rated = trained({"type": "duel", "options": {"agents": 2}}, self_play={"truncated_games": "rate"})
    assert round_robin(rated, 20)[1].unrated == 0


def test_games_without_end_are_given_up(tmp_path: Path) -> None:
    train(tmp_path, *TICTACTOE, evaluation={"interval": 100_000, "max_episode_steps": 3})
    matches, played = round_robin(tmp_path / "run", 30)
    assert played == RoundRobin(4, 180, 180)  # a game of tic-tac-toe has five turns or more
    assert not matches.count.any()


def test_an_environment_of_many_games_is_refused(trained: Callable[..., Path], monkeypatch: pytest.MonkeyPatch) -> None:
    run = trained(*TICTACTOE)
    monkeypatch.setattr("selfplay_games.BehaviorSpec", partial(BehaviorSpec, many_games=True))
    with pytest.raises(ConfigError, match=r"^--play: .* holds several games .* rlcore evaluate RUN --opponent"):
        round_robin(run, 4)


def files(directory: Path) -> Mapping[Path, str]:
    return {path: hashlib.sha256(path.read_bytes()).hexdigest() for path in directory.rglob("*") if path.is_file()}


def test_equal_seeds_play_equal_games_and_no_file_changes(trained: Callable[..., Path]) -> None:
    run = trained(*TICTACTOE)
    before = files(run)
    first, again, other = (round_robin(run, 10, seed)[0] for seed in (1, 1, 2))
    assert all(np.array_equal(getattr(first, name), getattr(again, name)) for name in ("players", "ranks", "count"))
    assert not np.array_equal(first.wins, other.wins)
    assert files(run) == before


# ---------------------------------------------------------------- the command


def test_the_command_adds_the_games_to_the_matches_of_training(trained: Callable[..., Path], capsys: Any) -> None:
    run = trained(*TICTACTOE)
    capsys.readouterr()
    assert main(["ratings", str(run), "--json"]) == 0
    without = json.loads(capsys.readouterr().out)
    assert main(["ratings", str(run), "--json", "--allow-local", "--play", "6"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert report["round_robin"] == {"players": 4, "games": 36, "unrated": 0}
    assert report["matches"] == without["matches"] + 36
    before, after = ({each["name"]: each["elo"] for each in every["players"]} for every in (without, report))
    both = before.keys() & after.keys()
    assert both and all(after[name] == before[name] for name in both)
    assert main(["ratings", str(run), "--allow-local", "--play", "6", "--seed", "3"]) == 0
    assert "played now: 36 games of 4 players, which are part of all numbers but Elo" in capsys.readouterr().out
