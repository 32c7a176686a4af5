"""Every mistake of a user is answered with one line that names the place and the solution."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pettingzoo
import pytest
import yaml

from rlcore import Actions, ConfigError, EnvironmentFailed, EpisodeSeeds, UnsupportedSpace
from rlcore_devkit.fixtures import RunRlcore, run_rlcore

__all__ = ["run_rlcore"]

Make = Callable[..., Any]
REFUSALS = yaml.safe_load((Path(__file__).parent / "data/refusals.yaml").read_text(encoding="utf-8"))


@pytest.mark.parametrize("case", REFUSALS["ids"])
def test_an_id_that_names_no_game_is_answered_with_the_nearest(make: Make, zoo_games: Any, case: str) -> None:
    env_id, message = REFUSALS["ids"][case]
    zoo_games.one_agent, zoo_games.number = lambda: gymnasium.make("CartPole-v1"), lambda: 3
    if "OpenSpiel" in case:
        pytest.importorskip("pyspiel")
    with pytest.raises(ConfigError) as caught:
        make(env_id)
    assert message in str(caught.value) and "\n" not in str(caught.value)
    assert caught.value.key == ("environment", "id")


@pytest.mark.parametrize("block", ["environment", "evaluation.environment"])
def test_validate_refuses_an_id_that_is_close_to_a_game(run_rlcore: RunRlcore, tmp_path: Path, block: str) -> None:
    config = tmp_path / "config.yaml"
    config.write_text(
        "environment: {type: pettingzoo, id: classic/tictactoe-v3}\nevaluation: {interval: 9}\nbehaviors: {A: {}}\n"
        "preset: none\n"
    )
    refused = run_rlcore("validate", str(config), "--set", f"{block}.id=tictacto_v3")
    assert f"--set {block}.id: 'tictacto_v3' is not registered with PettingZoo; did you mean" in refused.stdout
    for possible in ("no_such_module:game", "of_a_plugin"):
        assert run_rlcore("validate", str(config), "--set", f"{block}.id={possible}").exit_code == 0


@pytest.mark.parametrize("env_id", ["classic/tictactoe", "classic/tictactoe-v3", "pettingzoo.classic.tictactoe_v2"])
@pytest.mark.parametrize("block", ["environment", "evaluation.environment"])
def test_an_id_of_a_game_without_its_type_is_refused_with_the_type(
    run_rlcore: RunRlcore, tmp_path: Path, env_id: str, block: str
) -> None:
    config = tmp_path / "config.yaml"
    config.write_text("environment: {id: CartPole-v1}\nevaluation: {interval: 9}\nbehaviors: {A: {}}\npreset: none\n")
    refused = run_rlcore("validate", str(config), "--set", f"{block}.id={env_id}")
    advice = "is a game of PettingZoo; write environment: {type: pettingzoo, id: classic/tictactoe-v3}"
    assert refused.exit_code == 2 and f"--set {block}.id: {env_id!r} {advice}" in refused.stdout


def test_a_form_that_a_game_does_not_have_is_refused(make: Make) -> None:
    with pytest.raises(ConfigError, match="tictactoe-v3 has no parallel form; it has aec") as caught:
        make("tictactoe_v3", api="parallel")
    assert caught.value.key == ("environment", "options", "api")
    with pytest.raises(ConfigError, match="zoo_games:circle returned Circle, which is aec, not parallel"):
        make("zoo_games:circle", api="parallel")


def test_a_package_that_is_missing_is_named_with_the_command_that_installs_it(
    make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "chess", None)
    for module in [name for name in sys.modules if name.startswith("pettingzoo.classic.chess")]:
        monkeypatch.delitem(sys.modules, module)
    needs = (
        r"^classic/chess-v6: a package it needs is not installed; run: pip install 'rlcore-pettingzoo\[classic\]' \("
    )
    with pytest.raises(EnvironmentFailed, match=needs):
        make("chess_v6")
    monkeypatch.setitem(sys.modules, "pyspiel", None)
    monkeypatch.delitem(sys.modules, "rlcore_pettingzoo.openspiel", raising=False)
    with pytest.raises(EnvironmentFailed, match=r"pip install 'rlcore-pettingzoo\[openspiel\]'"):
        make("openspiel/kuhn_poker")


def test_a_game_that_has_no_window_is_refused_one(make: Make) -> None:
    pytest.importorskip("pyspiel")
    with pytest.raises(ConfigError, match="kuhn_poker: cannot be shown in a window; its render modes are ansi"):
        make("openspiel/kuhn_poker", arguments={"render_mode": "human"})


def test_what_a_game_does_not_take_is_shown(make: Make, zoo_games: Any) -> None:
    wrong = r"^classic/tictactoe-v3: cannot be made with arguments {'size': 4}: TypeError: [^\n]*$"
    with pytest.raises(EnvironmentFailed, match=wrong):
        make("tictactoe_v3", arguments={"size": 4})
    with pytest.raises(ConfigError, match=r"environment_parameters\.size: classic/tictactoe-v3 has no such parameter"):
        make("tictactoe_v3", parameters=("size",))
    zoo_games.anonymous = type("Anonymous", (pettingzoo.ParallelEnv,), {"metadata": {}})
    with pytest.raises(EnvironmentFailed, match="has no possible_agents"):
        make("zoo_games:anonymous")


@pytest.mark.parametrize(
    ("space", "message"),
    [
        (gymnasium.spaces.Discrete(5), "does not fit its actions; expected one entry for each of 5 options"),
        (gymnasium.spaces.Text(3), r"zoo_games:odd.*Text"),
    ],
)
def test_a_space_that_cannot_be_used_is_named_with_the_game(
    make: Make, zoo_games: Any, space: Any, message: str
) -> None:
    zoo_games.odd = type("Odd", (zoo_games.circle,), {"action_space": lambda self, agent: space})
    with pytest.raises(UnsupportedSpace, match=message):
        make("zoo_games:odd")


# ---------------------------------------------------------------- wrappers


class Halved(pettingzoo.utils.BaseWrapper):
    def __init__(self, env: Any, factor: float = 0.5) -> None:
        super().__init__(env)
        self.factor = factor


def test_wrappers_are_applied_from_the_inside_out(make: Make, zoo_games: Any) -> None:
    zoo_games.halved = Halved
    wrappers = ["zoo_games:halved", {"wrapper": "zoo_games:halved", "arguments": {"factor": 3.0}}]
    environment = make("tictactoe_v3", 2, wrappers=wrappers)
    assert all((game.factor, game.env.factor) == (3.0, 0.5) for game in environment.games)


@pytest.mark.parametrize("case", REFUSALS["wrappers"])
def test_a_wrapper_that_does_not_fit_is_refused(make: Make, zoo_games: Any, case: str) -> None:
    zoo_games.halved, zoo_games.nothing = Halved, lambda env: None
    wrapper, arguments, message = REFUSALS["wrappers"][case]
    with pytest.raises(ConfigError) as caught:
        make("tictactoe_v3", wrappers=[{"wrapper": wrapper, "arguments": arguments}])
    assert str(caught.value).startswith("environment.options.wrappers[0]") and message in str(caught.value)
    assert caught.value.key == ("environment", "options", "wrappers", 0) and "\n" not in str(caught.value)


# ---------------------------------------------------------------- games that break their contract


def play_first_actions(environment: Any) -> None:
    batches = environment.reset(EpisodeSeeds(1), np.zeros(environment.num_envs, np.int64))
    for _ in range(30):
        actions = {}
        for name, spec in environment.behaviors.items():
            mask = batches[name].action_mask
            choices = np.zeros((spec.slots, 1), np.int64) if mask is None else mask.argmax(1)[:, None]
            actions[name] = Actions(np.zeros((spec.slots, 1), np.float32), choices)
        batches = environment.step(actions)


@pytest.mark.parametrize(("game", "wrong", "message"), REFUSALS["games"])
def test_a_game_with_a_mistake_is_named_with_environment_and_episode(
    make: Make, game: str, wrong: str, message: str
) -> None:
    for masks in ({"masks": "observation"}, {"masks": "info"}) if game == "circle" else ({},):
        environment = make(f"zoo_games:{game}", 2, arguments={"wrong": wrong, **masks}, final_info=["age"])
        with pytest.raises(EnvironmentFailed) as caught:
            play_first_actions(environment)
        assert message in str(caught.value) and "\n" not in str(caught.value)
