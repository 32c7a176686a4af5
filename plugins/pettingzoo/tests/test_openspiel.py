"""Games of OpenSpiel: OpenSpiel's own states and returns are the referee."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml

from rlcore import EnvironmentFailed

pyspiel = pytest.importorskip("pyspiel")

from rlcore_pettingzoo.openspiel import OpenSpielGame, game_names  # noqa: E402

CASES = yaml.safe_load((Path(__file__).parent / "data/openspiel.yaml").read_text(encoding="utf-8"))
GAMES = CASES["games"]
WRONG = CASES["refusals"]


def play(game: Any, seed: int) -> dict[str, float]:
    """Play at random as PettingZoo does; return what each agent was told as rewards."""
    generator = np.random.default_rng(seed)
    game.reset(seed=seed)
    rewards = dict.fromkeys(game.possible_agents, 0.0)
    for agent in game.agent_iter():
        _, reward, terminated, truncated, info = game.last()
        rewards[agent] += reward
        if terminated or truncated:
            game.step(None)
            continue
        game.step(int(generator.choice(np.flatnonzero(info["action_mask"]))))
    return rewards


@pytest.mark.parametrize("name", GAMES)
def test_agents_are_told_the_returns_of_the_game(name: str) -> None:
    game = OpenSpielGame(name, **GAMES[name])
    returns = Counter[tuple[float, ...]]()
    for seed in range(60):
        rewards = play(game, seed)
        assert game._state.is_terminal()
        np.testing.assert_allclose(list(rewards.values()), game._state.returns())
        returns[tuple(game._state.returns())] += 1
    assert len(returns) > 1


def test_players_see_what_openspiel_shows_them() -> None:
    game = OpenSpielGame("kuhn_poker")
    game.reset(seed=1)
    state = pyspiel.load_game("kuhn_poker").new_initial_state()
    for action in game._state.history():
        state.apply_action(action)
    for player, agent in enumerate(game.possible_agents):
        assert game.observe(agent).tolist() == state.information_state_tensor(player)
        assert game.text_for(agent) == state.information_state_string(player)
    observed = OpenSpielGame("kuhn_poker", observation="observation")
    observed.reset(seed=1)
    assert observed.observe("player_0").tolist() == state.observation_tensor(0)


def test_players_of_a_simultaneous_state_do_not_see_the_choices_of_others() -> None:
    game = OpenSpielGame("goofspiel", num_cards=4)
    game.reset(seed=0)
    before = game.observe("player_1")
    assert game.agent_selection == "player_0" and game.choices_are_hidden
    game.step(3)
    assert game.agent_selection == "player_1"
    assert (game.observe("player_1") == before).all()
    assert set(np.flatnonzero(game.infos["player_1"]["action_mask"])) == {0, 1, 2, 3}
    assert game.rewards == {"player_0": 0.0, "player_1": 0.0}


@pytest.mark.parametrize("case", WRONG)
def test_a_game_that_cannot_be_made_is_one_line(make: Callable[..., Any], case: str) -> None:
    name, arguments, message = WRONG[case]
    assert name in game_names()
    with pytest.raises(EnvironmentFailed) as caught:
        make(f"openspiel/{name}", arguments=arguments)
    assert message in str(caught.value) and "\n" not in str(caught.value)


def test_chance_moves_are_drawn_by_their_chances() -> None:
    """Kuhn poker deals each of the six pairs of cards equally often; pig's die shows each side equally often."""
    game = OpenSpielGame("kuhn_poker")
    deals = Counter[tuple[int, ...]]()
    for seed in range(3000):
        game.reset(seed=seed)
        deals[tuple(game._state.history()[:2])] += 1
    assert len(deals) == 6
    chi_squared = sum((count - 500) ** 2 / 500 for count in deals.values())
    assert chi_squared < 20.5  # the 99.9th percentile with 5 degrees of freedom
