"""Mistakes in the block ``self_play``, and files that do not fit the environment: one line with file and line."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import attrs
import numpy as np
import pytest
from selfplay_games import GAMES

from rlcore import Run
from rlcore_devkit.fixtures import CommandResult, RunRlcore, run_rlcore

__all__ = ["run_rlcore"]

ONE = """\
plugins: {local: [selfplay_games]}
environment:
  type: game
  id: biased_rps
  num_envs: 4
behaviors:
  Player:
    trainer_type: ppo
    hyperparameters: {buffer_size: 64, batch_size: 32}
    self_play:
      save_steps: 40
    max_steps: 128
checkpoint_settings: {run_id: run}
env_settings: {seed: 1}
stats: {console: false, tensorboard: false}
"""
TWO = ONE.replace("biased_rps", "skewed_pennies").replace(
    """\
  Player:
    trainer_type: ppo
    hyperparameters: {buffer_size: 64, batch_size: 32}
    self_play:
      save_steps: 40
    max_steps: 128
""",
    """\
  Row:
    self_play:
      save_steps: 40
  Column:
    self_play:
      save_steps: 40
default_settings:
  trainer_type: ppo
  hyperparameters: {buffer_size: 64, batch_size: 32}
  max_steps: 128
""",
)
OF_GHOST = "; section of plugin 'ghost' (rlcore-ghost 0.1.0)"
File = Callable[..., Path]


@pytest.fixture
def file(tmp_path: Path) -> File:
    """Writes c.yaml where ``run_rlcore`` runs, with some texts replaced."""

    def write(text: str, *changes: tuple[str, str]) -> Path:
        for old, new in changes:
            assert old in text
            text = text.replace(old, new)
        path = tmp_path / "working" / "c.yaml"
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
        return path

    return write


def refused(result: CommandResult, message: str, exit_code: int = 2) -> None:
    """One line on standard error and nothing else."""
    assert (result.stderr, result.stdout) == (f"error: {message}\n", "")
    assert result.exit_code == exit_code


def with_teams(name: str, monkeypatch: pytest.MonkeyPatch, **teams: Any) -> None:
    """Let the game ``name`` report other teams: by behavior, a number for all its agents or one for each, or None."""
    make = GAMES[name]

    def changed(num_envs: int) -> Any:
        game = make(num_envs)
        game.behaviors = {
            each: attrs.evolve(spec, team=None if teams[each] is None else np.zeros(spec.slots, np.int64) + teams[each])
            for each, spec in game.behaviors.items()
        }
        return game

    monkeypatch.setitem(GAMES, name, changed)  # type: ignore[misc]


# ---------------------------------------------------------------- what the file shows by itself

SELF_PLAY = "      save_steps: 40\n"
WRONG = {
    "the ratio": (
        "play_against_latest_model_ratio: 1.5",
        "play_against_latest_model_ratio: must be at most 1, not 1.5" + OF_GHOST,
    ),
    "an unknown key": ("windw: 3", "windw: unknown key; did you mean 'window'? (allowed: "),
    "an unknown sampler": (
        "opponents: pfps",
        "opponents: unknown opponent sampler 'pfps'; allowed: fixed, latest, pfsp, uniform; did you mean 'pfsp'?"
        + OF_GHOST,
    ),
    "a sampler's unknown key": (
        "opponents: pfsp\n      opponents_parameters: {powr: 3}",
        "opponents_parameters.powr: unknown key; did you mean 'power'? (allowed: weighting, power)" + OF_GHOST,
    ),
    "settings of a sampler without any": (
        "opponents: uniform\n      opponents_parameters: {power: 3}",
        "opponents_parameters.power: unknown key",
    ),
    "a sampler's value": (
        "opponents: pfsp\n      opponents_parameters: {weighting: easy}",
        "opponents_parameters.weighting: must be one of hard, variance, not 'easy'" + OF_GHOST,
    ),
    "no number": ("elo_k: 0", "elo_k: must be greater than 0, not 0" + OF_GHOST),
    "an unknown result": ("result: winner", "result: must be reward, return or info.NAME"),
}


@pytest.mark.parametrize("command", [("run",), ("validate", "--allow-local")])
@pytest.mark.parametrize("case", WRONG)
def test_a_wrong_setting_is_refused_with_its_line(
    run_rlcore: RunRlcore, file: File, case: str, command: tuple[str, ...]
) -> None:
    line, message = WRONG[case]
    file(ONE, (SELF_PLAY, f"{SELF_PLAY}      {line}\n"))
    result = run_rlcore(*command, "c.yaml")
    text = result.stdout or result.stderr.removeprefix("error: ")
    place = f"c.yaml:{12 + line.count(chr(10))}: behaviors.Player.self_play."
    assert result.exit_code == 2 and text.startswith(place + message) and text.count("\n") == 1


WRONG_PARAMETERS = "      opponents: pfsp\n      opponents_parameters: {p: 1}\n"


def test_all_mistakes_are_shown_at_once(run_rlcore: RunRlcore, file: File) -> None:
    file(
        TWO,
        ("  Column:\n    self_play:\n", "  Column:\n    self_play:\n      elo_k: 4\n      opponents: pfps\n"),
        ("  Row:\n    self_play:\n", f"  Row:\n    self_play:\n{WRONG_PARAMETERS}"),
    )
    result = run_rlcore("validate", "c.yaml", "--allow-local")
    assert [line.partition(": ")[0] for line in result.stdout.splitlines()] == ["c.yaml:10", "c.yaml:14", "c.yaml:15"]
    assert "behaviors.Column.self_play.elo_k: 4.0 differs from 16.0 of behavior 'Row'; all behaviors" in result.stdout


def test_a_mistake_in_default_settings_is_shown_once(run_rlcore: RunRlcore, file: File) -> None:
    file(TWO, ("default_settings:\n", "default_settings:\n  self_play: {opponents: pfps}\n"))
    result = run_rlcore("validate", "c.yaml", "--allow-local")
    assert result.stdout.startswith("c.yaml:14: default_settings.self_play.opponents: unknown opponent sampler")
    assert result.stdout.count("\n") == 1


def test_a_trainer_of_recorded_data_has_no_self_play(run_rlcore: RunRlcore, file: File) -> None:
    block = ("{buffer_size: 64, batch_size: 32}", "{demo_path: x}")
    file(ONE, ("trainer_type: ppo", "trainer_type: bc"), block)
    result = run_rlcore("validate", "c.yaml", "--allow-local")
    assert result.stdout == (
        "c.yaml:10: behaviors.Player.self_play: trainer 'bc' learns from recorded data and plays no games; remove the "
        f"block{OF_GHOST}\n"
    )


def test_without_the_plugin_the_file_is_refused_with_its_name(run_rlcore: RunRlcore, file: File) -> None:
    file(ONE)
    result = run_rlcore("run", "c.yaml", "-p", "no:ghost")
    assert result.exit_code == 2 and result.stderr.count("\n") == 1
    assert result.stderr.startswith("error: c.yaml:10: behaviors.Player.self_play: unknown block of a behavior 'self_p")
    assert "plugin 'ghost' (rlcore-ghost 0.1.0); -p ghost turns it on" in result.stderr


RIVAL = """
import attrs
from rlcore import BehaviorSection, hookimpl
from rlcore import setting

@attrs.frozen(kw_only=True)
class Settings:
    save_steps: int = setting(1, "Steps.")

@hookimpl
def rlcore_config_sections():
    return [BehaviorSection(name="self_play", target="rival_ghost:Settings", summary="self-play")]
"""


def test_two_plugins_that_claim_the_block(run_rlcore: RunRlcore, file: File) -> None:
    path = file(ONE, ("[selfplay_games]", "[selfplay_games, rival_ghost.py]"))
    (path.parent / "rival_ghost.py").write_text(RIVAL)
    message = (
        "c.yaml:10: behaviors.Player.self_play: the block of a behavior 'self_play' is claimed by plugin "
        "'rival_ghost' (local) and plugin 'ghost' (rlcore-ghost 0.1.0); turn one of them off with -p "
        "no:module:rival_ghost.py or -p no:rlcore-ghost/ghost"
    )
    refused(run_rlcore("run", "c.yaml"), message, 4)
    assert run_rlcore("run", "c.yaml", "-p", "no:rlcore-ghost/ghost").exit_code == 0


# ---------------------------------------------------------------- what only the environment shows


NO_TEAMS = "the agents of behavior 'Player' have no teams, so there are no opponents; remove the block, or use an "
NO_TEAMS += "environment with teams"
CARTPOLE = ("type: game\n  id: biased_rps", "type: gymnasium\n  id: CartPole-v1")
# The file, a change of it, the teams of its game, and the message, which begins with the line.
UNFIT: dict[str, tuple[str, tuple[str, str] | None, dict[str, Any], str]] = {
    "one agent": (ONE, CARTPOLE, {}, f"10: behaviors.Player.self_play: {NO_TEAMS}"),
    "no teams": (ONE, None, {"Player": None}, f"10: behaviors.Player.self_play: {NO_TEAMS}"),
    "a shared team": (
        TWO, None, {"Row": 1, "Column": 1},
        "8: behaviors.Row.self_play: team 1 has agents of the behaviors 'Column' and 'Row'; with self-play, each team "
        "has agents of one behavior",
    ),
    "a team is missing": (
        ONE, None, {"Player": np.array([0, 1, 0, 1, 0, 0, 0, 1])},
        "10: behaviors.Player.self_play: environment 2 has no agents of team 1, but another one has; with self-play, "
        "every environment has all teams",
    ),
    "a fixed opponent called like a behavior": (
        ONE, (SELF_PLAY, f"{SELF_PLAY}      fixed_opponents: {{Player: {{type: random}}}}\n"), {},
        "12: behaviors.Player.self_play.fixed_opponents.Player: an opponent is called 'Player' like a behavior with "
        "self-play, whose ratings have this name; choose another one",
    ),
    "a result that is not reported": (
        ONE, (SELF_PLAY, f"{SELF_PLAY}      result: info.winner\n"), {},
        "12: behaviors.Player.self_play.result: the environment reports no number 'winner' at the end of an episode; "
        "it reports none",
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", UNFIT)
def test_what_does_not_fit_the_environment_is_refused(
    run_rlcore: RunRlcore, file: File, monkeypatch: pytest.MonkeyPatch, case: str
) -> None:
    text, change, teams, message = UNFIT[case]
    if teams:
        with_teams("biased_rps" if text is ONE else "skewed_pennies", monkeypatch, **teams)
    file(text, *([] if change is None else [change]))
    refused(run_rlcore("run", "c.yaml"), f"c.yaml:{message}")


@pytest.mark.parametrize("listed", ["", "behaviors: {Player: {}}\n"])
def test_agents_without_teams_whose_block_is_inherited(
    run_rlcore: RunRlcore, file: File, monkeypatch: pytest.MonkeyPatch, listed: str
) -> None:
    with_teams("biased_rps", monkeypatch, Player=None)
    file(ONE.replace("    ", "  ") + listed, ("behaviors:\n  Player:\n", "default_settings:\n"))
    message = f"c.yaml:9: default_settings.self_play: {NO_TEAMS} (inherited by behaviors.Player)"
    refused(run_rlcore("run", "c.yaml"), message)


def test_all_agents_in_one_team(run_rlcore: RunRlcore, file: File, monkeypatch: pytest.MonkeyPatch) -> None:
    with_teams("biased_rps", monkeypatch, Player=3)
    path = file(ONE)
    message = (
        "behaviors.Player.self_play: all agents with self-play are in team 3, so there are no opponents; self-play "
        "needs two teams, of this behavior or of others that have the block too"
    )
    refused(run_rlcore("run", "c.yaml"), f"c.yaml:10: {message}")
    option = "--set", "behaviors.Player.self_play={save_steps: 50}"
    refused(run_rlcore("run", "c.yaml", *option), f"--set {message}")
    monkeypatch.chdir(path.parent)
    with pytest.raises(Exception, match=rf"^{path}:10: behaviors\.Player\.self_play: all agents"):
        Run(path).start()


def test_fixed_opponents_that_two_behaviors_have_are_rated_apart(run_rlcore: RunRlcore, file: File) -> None:
    fixed = f"{SELF_PLAY}      fixed_opponents: {{random: {{}}, %s: {{type: random}}}}\n"
    file(TWO, ("Row:\n    self_play:\n" + SELF_PLAY, "Row:\n    self_play:\n" + fixed % "row"),
         ("Column:\n    self_play:\n" + SELF_PLAY, "Column:\n    self_play:\n" + fixed % "column"))  # fmt: skip
    assert run_rlcore("run", "c.yaml").exit_code == 0
    ratings = json.loads(run_rlcore("ratings", "run", "--players", "100", "--json").stdout)
    assert {"Row/random", "Column/random", "row", "column"} <= {each["name"] for each in ratings["players"]}


# ---------------------------------------------------------------- resumed with another configuration


BLOCK = f"    self_play:\n{SELF_PLAY}"
FROM_ALL = (SELF_PLAY, f"{SELF_PLAY}      learn_from: all\n")
WITHOUT = (
    "results/run: behavior 'Player' learned with self_play, this configuration has no such block; resume with the "
    "block of the run, or start a new run with initialize_from"
)
# Changes of the resumed file, changes of the first one, and the message.
RESUMED: dict[str, tuple[tuple[str, str] | None, tuple[str, str] | None, str]] = {
    "a snapshot of another shape": (
        ("    max_steps", "    network_settings: {hidden_units: 16}\n    max_steps"), None,
        "behavior 'Player': the saved network does not fit this configuration: actor.layers.0.bias is (128,) in the "
        "checkpoint and (16,) in this run",
    ),
    "without the block": ((BLOCK, ""), None, WITHOUT),
    "without the block, and as many agents": ((BLOCK, ""), FROM_ALL, WITHOUT),
    "with a new block": (
        None, (BLOCK, ""),
        "checkpoint results/run/checkpoints/128: behavior 'Player': trainer 'ppo': the checkpoint was saved without "
        "self_play; remove the block, or start a new run with initialize_from",
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", RESUMED)
def test_a_run_resumed_with_another_block(run_rlcore: RunRlcore, file: File, case: str) -> None:
    change, start, message = RESUMED[case]
    file(ONE, *([] if start is None else [start]))
    assert run_rlcore("run", "c.yaml").exit_code == 0
    file(ONE, ("max_steps: 128", "max_steps: 256"), *([] if change is None else [change]))
    result = run_rlcore("run", "c.yaml", "--resume")
    assert result.exit_code == 5 and result.stderr.count("\n") == 1
    assert result.stderr.startswith(f"error: {message}")
