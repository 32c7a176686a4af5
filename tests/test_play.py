"""``rlcore play``: a person, here with piped input, plays against the policies of a run."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from made_once import made_once
from small_runs import small_run

import rlcore
from rlcore import ConfigError, RunStateError
from rlcore_pettingzoo.play import play_command


def trained(directory: Path, run_id: str, environment: dict[str, Any], **behavior: Any) -> Path:
    network = {"hidden_units": 8, "num_layers": 1, **behavior.pop("network_settings", {})}
    changes = {
        "environment": {"type": "pettingzoo", "num_envs": 4, **environment}, "behaviors.Agent": None,
        "behaviors.Player": {
            "trainer_type": "ppo", "hyperparameters": {"batch_size": 64, "buffer_size": 128}, "max_steps": 256,
            "network_settings": network, **behavior,
        },
    }  # fmt: skip
    rlcore.Run(small_run(directory, changes, run_id=run_id)).train()
    return directory / run_id


@pytest.fixture(scope="module")
def tictactoe(tmp_path_factory: pytest.TempPathFactory) -> Path:
    def make(directory: Path) -> None:
        trained(directory, "tictactoe", {"id": "classic/tictactoe-v3"})

    return made_once(tmp_path_factory, "a run of tic-tac-toe to play against", make) / "tictactoe"


def play(run: Path, *arguments: str, typed: str = "") -> Result:
    return CliRunner().invoke(play_command, [str(run), *arguments], input=typed)


def moves(output: str, agent: str) -> list[int]:
    return [int(line.removeprefix(f"{agent} plays ")) for line in output.splitlines() if line.startswith(agent)]


NUMBERS = "".join(f"{action}\n" for action in range(9)) * 9


def test_a_game_is_played_to_its_end_and_says_who_won(tictactoe: Path) -> None:
    result = play(tictactoe, "--seat", "player_2", "--seed", "5", typed=NUMBERS)
    assert result.exit_code == 0, result.output
    lines = result.output.splitlines()
    assert lines[0].startswith("classic/tictactoe-v3, checkpoint ") and lines[0].endswith("; you are player_2")
    assert lines[1].startswith("player_1 plays ")
    theirs = moves(result.output, "player_1")
    assert len(set(theirs)) == len(theirs) >= 3
    verdict, _, rewards = lines[-1].partition(" Rewards: ")
    by_agent = dict(each.split() for each in rewards.split(", "))
    assert by_agent["player_1"] == str(-int(by_agent["player_2"])) if by_agent["player_1"] != "0" else True
    assert verdict == {"1": "You won.", "0": "A draw.", "-1": "You lost."}[by_agent["player_2"]]


def test_fields_of_the_board_show_the_actions_that_take_them(tictactoe: Path) -> None:
    result = play(tictactoe, typed="4\nq\n")
    lines = result.output.splitlines()
    assert lines[1:5] == ["0 1 2", "3 4 5", "6 7 8", "(X is yours)"]
    (theirs,) = moves(result.output, "player_2")
    fields = ["X" if field == 4 else "O" if field == theirs else str(field) for field in range(9)]
    board = [" ".join(fields[row : row + 3]) for row in (0, 3, 6)]
    assert "\n".join(board) in result.output
    assert result.output.splitlines()[-1].endswith("You left the game.") and result.exit_code == 0


def test_what_is_no_action_is_asked_again_and_the_end_of_input_leaves(tictactoe: Path) -> None:
    result = play(tictactoe, typed="9\nhelp\n\n0\n")
    for answer in ("9", "help", "Nothing"):
        assert f"{answer} is not one of your actions; type a number, or q to leave." in result.output
    assert "You left the game." in result.output and result.exit_code == 0


def test_equal_seeds_play_equal_games_and_a_deterministic_policy_begins_alike(tictactoe: Path) -> None:
    outputs = {play(tictactoe, "--seed", "8", "--games", "3", typed=NUMBERS).output for _ in range(2)}
    (output,) = outputs
    assert output.count(" Rewards: ") == 3
    firsts = set()
    for seed in range(6):
        result = play(tictactoe, "--deterministic", "--seat", "1", "--seed", str(seed), typed="q\n")
        firsts.add(moves(result.output, "player_1")[0])
    assert len(firsts) == 1


def test_any_checkpoint_can_be_played(tictactoe: Path) -> None:
    step = rlcore.read_run(tictactoe).checkpoints[0].step
    assert f"checkpoint {step};" in play(tictactoe, "--checkpoint", str(step), typed="q\n").output
    with pytest.raises(RunStateError, match="there is no checkpoint '7'; there are"):
        play_error(tictactoe, "--checkpoint", "7")


def test_what_critics_alone_read_is_not_shown(tmp_path: Path) -> None:
    """The central state has what the other player sees."""
    network = {"critic_observations": ["state"]}
    game = {"id": "classic/connect_four-v3", "options": {"state": "agents"}}
    output = play(trained(tmp_path, "central", game, network_settings=network), typed="3\nq\n").output
    assert "Your actions: 0, 1, 2, 3, 4, 5, 6" in output and "You left the game." in output
    assert "state" not in output
    shared = play(trained(tmp_path, "shared", game), typed="q\n").output
    assert "state: 0 0 0" in shared, "policies read it, so the person may"


def play_error(run: Path, *arguments: str) -> None:
    result = play(run, *arguments)
    assert result.exception is not None
    raise result.exception


def test_what_cannot_be_played_is_refused(tictactoe: Path, tmp_path: Path) -> None:
    for seat in ("player_3", "2"):
        with pytest.raises(ConfigError, match=f"--seat {seat}: no agent is called so; there are player_1, player_2"):
            play_error(tictactoe, "--seat", seat)
    with pytest.raises(RunStateError, match="neither a run directory nor the id of a run"):
        play_error(tmp_path / "gone")
    at_once = trained(tmp_path, "rps", {"id": "classic/rps-v2"})
    with pytest.raises(ConfigError, match=r"in classic/rps-v2, all agents act at once; rlcore play needs a game that"):
        play_error(at_once)
    in_turns = trained(tmp_path, "turns", {"id": "classic/rps-v2", "options": {"api": "aec"}})
    assert "Your actions: 0, 1, 2" in play(in_turns, typed="q\n").output
    run = trained(tmp_path, "pole", {"type": "gymnasium", "id": "CartPole-v1"})
    with pytest.raises(ConfigError, match="is of type 'gymnasium'; rlcore play needs a game of type 'pettingzoo'"):
        play_error(run)


def test_hidden_cards_stay_hidden_until_the_end_and_actions_have_names(tmp_path: Path) -> None:
    pytest.importorskip("pyspiel")
    memory = {"memory": {"memory_size": 8, "sequence_length": 4}}
    run = trained(tmp_path, "kuhn", {"id": "openspiel/kuhn_poker"}, network_settings=memory)
    output = play(run, "--seed", "1", "--games", "4", typed="Pass\nBet\n1\n0\n" * 4).output
    assert output.count("Your actions: 0 = Pass, 1 = Bet") >= 4 and "player_1 plays" in output
    games = output.split(" Rewards: ")
    assert len(games) == 5
    for game in games[:-1]:
        cards = [line for line in game.splitlines() if line and line[0] in "012" and "=" not in line]
        assert len(cards[0].split()) == 1, "only the own card is shown before the end"
        assert len(cards[-1].split()[:2]) == 2, "both cards are shown at the end"
