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

from rlcore import Actions, ConfigError, EnvironmentFailed, EpisodeSeeds, UnsupportedSpace
from rlcore_devkit.fixtures import RunRlcore, run_rlcore
from rlcore_pettingzoo.games import find_game

__all__ = ["run_rlcore"]

Make = Callable[..., Any]

IDS = {
    "nothing": (None, "environment.id: missing; name a game, such as classic/tictactoe-v3"),
    "a typing error": (
        "tictaktoe_v3",
        "environment.id: 'tictaktoe_v3' is not registered with PettingZoo; did you mean 'classic/tictactoe-v3'?",
    ),
    "another version": (
        "classic/connect_four-v2",
        "'classic/connect_four-v2' is not registered with PettingZoo; did you mean 'classic/connect_four-v3'?",
    ),
    "no version": ("connect_four", "is not registered with PettingZoo; did you mean 'classic/connect_four-v3'?"),
    "one agent": ("CartPole-v1", "; it has one agent: set environment.type: gymnasium to run CartPole-v1"),
    "no such module": ("zoo_game:circle", "environment.id: 'zoo_game:circle': cannot import 'zoo_game': Module"),
    "no such function": ("zoo_games:circel", "zoo_games has no 'circel'; did you mean 'circle'?"),
    "no function": ("zoo_games:__name__", "zoo_games has no function '__name__'"),
    "no game of OpenSpiel": ("openspiel/kuhn_pocker", "OpenSpiel has no such game; did you mean 'kuhn_poker'?"),
}


@pytest.mark.parametrize("case", IDS)
def test_an_id_that_names_no_game_is_answered_with_the_nearest(make: Make, case: str) -> None:
    env_id, message = IDS[case]
    if case == "no game of OpenSpiel":
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
    )
    refused = run_rlcore("validate", str(config), "--set", f"{block}.id=tictacto_v3")
    assert f"--set {block}.id: 'tictacto_v3' is not registered with PettingZoo; did you mean" in refused.stdout
    for possible in ("no_such_module:game", "of_a_plugin"):
        assert run_rlcore("validate", str(config), "--set", f"{block}.id={possible}").exit_code == 0


def test_a_name_with_underscore_and_without_namespace_is_the_registered_one() -> None:
    assert {find_game(name, None).id for name in ("tictactoe_v3", "tictactoe-v3", "classic/tictactoe_v3")} == {
        "classic/tictactoe-v3"
    }


def test_a_form_that_a_game_does_not_have_is_refused(make: Make) -> None:
    with pytest.raises(ConfigError, match="tictactoe-v3 has no parallel form; it has aec") as caught:
        make("tictactoe_v3", api="parallel")
    assert caught.value.key == ("environment", "options", "api")
    with pytest.raises(ConfigError, match="zoo_games:circle returned a Circle, which is aec, not parallel"):
        make("zoo_games:circle", api="parallel")


def test_a_package_that_is_missing_is_named_with_the_command_that_installs_it(
    make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "chess", None)
    for module in [name for name in sys.modules if name.startswith("pettingzoo.classic.chess")]:
        monkeypatch.delitem(sys.modules, module)
    with pytest.raises(EnvironmentFailed) as caught:
        make("chess_v6")
    assert str(caught.value).startswith(
        "classic/chess-v6: a package it needs is not installed; run: pip install 'rlcore-pettingzoo[classic]' ("
    )
    monkeypatch.setitem(sys.modules, "pyspiel", None)
    monkeypatch.delitem(sys.modules, "rlcore_pettingzoo.openspiel", raising=False)
    with pytest.raises(EnvironmentFailed, match=r"pip install 'rlcore-pettingzoo\[openspiel\]'"):
        make("openspiel/kuhn_poker")
    with pytest.raises(ConfigError, match=r"cannot import 'nosuchzoo.tag': .*; run: pip install nosuchzoo"):
        make("nosuchzoo.tag:env")


def test_arguments_that_a_game_does_not_take_are_shown(make: Make) -> None:
    with pytest.raises(EnvironmentFailed) as caught:
        make("tictactoe_v3", arguments={"size": 4})
    message = str(caught.value)
    assert message.startswith("classic/tictactoe-v3: cannot be made with arguments {'size': 4}: TypeError: ")
    assert "\n" not in message


def one_agent(**arguments: Any) -> Any:
    return gymnasium.make("CartPole-v1")


def test_a_function_that_returns_something_else_is_refused(make: Make, zoo_games: Any) -> None:
    zoo_games.one_agent, zoo_games.number = one_agent, lambda: 3
    with pytest.raises(ConfigError, match=r"not an AECEnv or ParallelEnv .*set environment\.type: gymnasium"):
        make("zoo_games:one_agent")
    with pytest.raises(ConfigError, match="'zoo_games:number' returned an int, not an AECEnv or ParallelEnv of Pett"):
        make("zoo_games:number")


def test_a_game_without_possible_agents_is_refused(make: Make, zoo_games: Any) -> None:
    class Anonymous(pettingzoo.ParallelEnv):
        metadata: dict[str, Any] = {}

    zoo_games.anonymous = Anonymous
    with pytest.raises(EnvironmentFailed, match="has no possible_agents"):
        make("zoo_games:anonymous")


def test_environment_parameters_are_refused(make: Make) -> None:
    with pytest.raises(ConfigError, match=r"environment_parameters\.size: classic/tictactoe-v3 has no such parameter"):
        make("tictactoe_v3", parameters=("size",))


# ---------------------------------------------------------------- wrappers


class Halved(pettingzoo.utils.BaseWrapper):
    def __init__(self, env: Any, factor: float = 0.5) -> None:
        super().__init__(env)
        self.factor = factor

    def last(self, observe: bool = True) -> Any:
        observation, reward, *more = super().last(observe)
        return (observation, self.factor * reward, *more)


def test_wrappers_are_applied_from_the_inside_out(make: Make, zoo_games: Any) -> None:
    zoo_games.halved = Halved
    wrappers = ["zoo_games:halved", {"wrapper": "zoo_games:halved", "arguments": {"factor": 3.0}}]
    environment = make("tictactoe_v3", 2, wrappers=wrappers)
    for game in environment.games:
        assert game.factor == 3.0 and game.env.factor == 0.5


WRAPPERS = {
    "not there": (
        "zoo_games:halfed",
        {},
        "wrappers[0]: 'zoo_games:halfed': zoo_games has no 'halfed'; did you mean 'h",
    ),
    "other arguments": ("zoo_games:halved", {"facto": 1}, "zoo_games:halved cannot wrap an OrderEnforcingWrapper with"),
    "no environment": ("zoo_games:nothing", {}, "zoo_games:nothing returned a NoneType, not an environment of Petting"),
    "for the other form": (
        "pettingzoo.utils:BaseParallelWrapper",
        {"oops": 1},
        "pettingzoo.utils:BaseParallelWrapper cannot wrap an OrderEnforcingWrapper",
    ),
}


@pytest.mark.parametrize("case", WRAPPERS)
def test_a_wrapper_that_does_not_fit_is_refused(make: Make, zoo_games: Any, case: str) -> None:
    zoo_games.halved, zoo_games.nothing = Halved, lambda env: None
    wrapper, arguments, message = WRAPPERS[case]
    with pytest.raises(ConfigError) as caught:
        make("tictactoe_v3", wrappers=[{"wrapper": wrapper, "arguments": arguments}])
    assert str(caught.value).startswith("environment.options.wrappers[0]") and message in str(caught.value)
    assert caught.value.key == ("environment", "options", "wrappers", 0) and "\n" not in str(caught.value)


def test_a_wrapper_is_a_module_and_a_function(make: Make) -> None:
    with pytest.raises(ConfigError, match="must be module:function"):
        make("tictactoe_v3", wrappers=["supersuit.frame_stack_v1"])


# ---------------------------------------------------------------- games that break their contract


def failure_of(environment: Any, steps: int = 30) -> str:
    batches = environment.reset(EpisodeSeeds(1), np.zeros(environment.num_envs, np.int64))

    def step(batches: Any) -> Any:
        actions = {}
        for name, spec in environment.behaviors.items():
            mask = batches[name].action_mask
            choices = np.zeros((spec.slots, 1), np.int64) if mask is None else mask.argmax(1)[:, None]
            actions[name] = Actions(np.zeros((spec.slots, 1), np.float32), choices)
        return environment.step(actions)

    with pytest.raises(EnvironmentFailed) as caught:  # noqa: PT012
        for _ in range(steps):
            batches = step(batches)
    assert "\n" not in str(caught.value)
    return str(caught.value)


FADING = {
    "vanish": "environment 0, episode 0: 'ghost_0' left the game without being terminated or truncated; correct the",
    "rewards": "step returned rewards without 'ghost_0', which is in the game",
    "terminations": "step returned terminations without 'ghost_0', which is in the game",
    "observations": "step returned observations without 'ghost_0', which is in the game",
    "flag": "environment 0, episode 0: step returned terminated as 'no' (str); expected a boolean",
    "reward": "environment 0, episode 0: step returned the reward as '1' (str); expected a number",
    "raise": "environment 0, episode 0: step failed: ZeroDivisionError: division by zero",
    "shape": "step returned observation 'observation' as an array of float32 of shape [3]; expected shape [2]",
    "info": "step returned the info 'age' as 'old' (str); expected a number, because environment.options.final_info",
}


@pytest.mark.parametrize("wrong", FADING)
def test_a_parallel_game_with_a_mistake_is_named_with_environment_and_episode(make: Make, wrong: str) -> None:
    environment = make("zoo_games:fading", 2, arguments={"wrong": wrong}, final_info=["age"])
    assert FADING[wrong] in failure_of(environment)


CIRCLE = {
    "stays": "whose episode is over, stays in the game after step(None); correct the game",
    "nothing": "returned an action_mask that allows nothing for an agent that acts next",
}


@pytest.mark.parametrize("masks", ["observation", "info"])
@pytest.mark.parametrize("wrong", CIRCLE)
def test_a_game_in_turns_with_a_mistake_is_named(make: Make, wrong: str, masks: str) -> None:
    environment = make("zoo_games:circle", 2, arguments={"wrong": wrong, "masks": masks})
    assert CIRCLE[wrong] in failure_of(environment)


def test_a_mask_of_another_size_is_refused(make: Make, zoo_games: Any) -> None:
    class Misfit(zoo_games.circle):  # type: ignore[misc, name-defined]
        def action_space(self, agent: str) -> gymnasium.Space[Any]:
            return gymnasium.spaces.Discrete(5)

    zoo_games.misfit = Misfit
    with pytest.raises(UnsupportedSpace, match="does not fit its actions; expected one entry for each of 5 options"):
        make("zoo_games:misfit")


def test_an_unsupported_space_is_named_with_the_game(make: Make, zoo_games: Any) -> None:
    class Talking(zoo_games.circle):  # type: ignore[misc, name-defined]
        def action_space(self, agent: str) -> gymnasium.Space[Any]:
            return gymnasium.spaces.Text(3)

    zoo_games.talking = Talking
    with pytest.raises(UnsupportedSpace, match=r"zoo_games:talking.*Text"):
        make("zoo_games:talking")
