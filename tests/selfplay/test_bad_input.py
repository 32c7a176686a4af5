"""Mistakes in the block ``self_play``, and files that do not fit the environment: one line with file and line."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import attrs
import numpy as np
import pytest
import yaml
from selfplay_games import GAMES

from rlcore_devkit.fixtures import CommandResult, RunRlcore, run_rlcore

__all__ = ["run_rlcore"]

RULES = yaml.safe_load((Path(__file__).parent / "data/refusals.yaml").read_text(encoding="utf-8"))
ONE = RULES["one"]
TWO = RULES["two"]
SELF_PLAY = "      save_steps: 40\n"
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


@pytest.mark.parametrize("case", RULES["settings"])
def test_a_wrong_setting_is_refused_with_its_line(run_rlcore: RunRlcore, file: File, case: str) -> None:
    text, line, message = RULES["settings"][case]
    file(ONE, (SELF_PLAY, f"{SELF_PLAY}      {text}\n"))
    result = run_rlcore("validate", "--allow-local", "c.yaml")
    assert result.stdout.startswith(f"c.yaml:{line}: behaviors.Player.self_play.{message}")
    assert result.exit_code == 2 and result.stdout.count("\n") == 1


# ---------------------------------------------------------------- what only the environment shows


@pytest.mark.parametrize("case", RULES["unfit"])
def test_what_does_not_fit_the_environment_is_refused(
    run_rlcore: RunRlcore, file: File, monkeypatch: pytest.MonkeyPatch, case: str
) -> None:
    name, teams, added, message = RULES["unfit"][case]
    if teams:
        with_teams("biased_rps" if name == "one" else "skewed_pennies", monkeypatch, **teams)
    file(RULES[name], *([(SELF_PLAY, f"{SELF_PLAY}      {added}\n")] if added else []))
    refused(run_rlcore("run", "c.yaml"), f"c.yaml:{message}")


def test_an_inherited_block_is_named_where_it_stands(
    run_rlcore: RunRlcore, file: File, monkeypatch: pytest.MonkeyPatch
) -> None:
    with_teams("biased_rps", monkeypatch, Player=None)
    message = RULES["unfit"]["no teams"][3].partition(": behaviors.Player.self_play: ")[2]
    file(ONE.replace("    ", "  "), ("behaviors:\n  Player:\n", "default_settings:\n"))
    inherited = f"c.yaml:9: default_settings.self_play: {message} (inherited by behaviors.Player)"
    refused(run_rlcore("run", "c.yaml"), inherited)


def test_fixed_opponents_that_two_behaviors_have_are_rated_apart(run_rlcore: RunRlcore, file: File) -> None:
    fixed = f"{SELF_PLAY}      fixed_opponents: {{random: {{}}, %s: {{type: random}}}}\n"
    file(TWO, ("Row:\n    self_play:\n" + SELF_PLAY, "Row:\n    self_play:\n" + fixed % "row"),
         ("Column:\n    self_play:\n" + SELF_PLAY, "Column:\n    self_play:\n" + fixed % "column"))  # fmt: skip
    assert run_rlcore("run", "c.yaml").exit_code == 0
    ratings = json.loads(run_rlcore("ratings", "run", "--players", "100", "--json").stdout)
    assert {"Row/random", "Column/random", "row", "column"} <= {each["name"] for each in ratings["players"]}


# ---------------------------------------------------------------- resumed with another configuration


@pytest.mark.parametrize("case", RULES["resumed"])
def test_a_run_resumed_with_another_block(run_rlcore: RunRlcore, file: File, case: str) -> None:
    start, changes, message = RULES["resumed"][case]
    file(ONE, *start.items())
    assert run_rlcore("run", "c.yaml").exit_code == 0
    file(ONE, ("max_steps: 128", "max_steps: 256"), *changes.items())
    result = run_rlcore("run", "c.yaml", "--resume")
    assert result.exit_code == 5 and result.stderr.count("\n") == 1
    assert result.stderr.startswith(f"error: {message}")
