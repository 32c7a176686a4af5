"""Behaviors and teams from the names of agents."""

from __future__ import annotations

from typing import Any

import pytest
from gymnasium import spaces

from rlcore import ConfigError
from rlcore_pettingzoo.agents import Agent, assign
from rlcore_pettingzoo.settings import BehaviorAgents

SMALL, LARGE = spaces.Box(-1.0, 1.0, (2,)), spaces.Box(-1.0, 1.0, (3,))


def agents(*names: str, large: str = "") -> list[Agent]:
    """Agents that do the same; those in ``large`` see more."""
    return [
        Agent(name, place, LARGE if name in large.split() else SMALL, spaces.Discrete(2))
        for place, name in enumerate(names)
    ]


def assigned(
    found: list[Agent],
    mapping: dict[str, dict[str, Any]] | None = None,
    in_turns: bool = False,
    names: tuple = ("A", "B"),
) -> dict[str, dict[str, int]]:
    blocks = None if mapping is None else {name: BehaviorAgents(**block) for name, block in mapping.items()}
    casts = assign(found, blocks, in_turns, "tag", names)
    return {cast.behavior: dict(zip((agent.name for agent in cast.agents), cast.teams, strict=True)) for cast in casts}


def test_agents_with_equal_spaces_are_one_behavior_named_by_what_they_have_in_common() -> None:
    found = agents("adversary_0", "adversary_1", "agent_0", large="agent_0")
    assert assigned(found) == {"adversary": {"adversary_0": 0, "adversary_1": 0}, "agent": {"agent_0": 1}}


def test_names_with_nothing_in_common_give_the_name_of_the_game() -> None:
    assert assigned(agents("black_0", "white_0")) == {"tag": {"black_0": 0, "white_0": 0}}


def test_two_groups_with_one_name_are_told_apart() -> None:
    found = agents("cat_0", "cat_1", "cat_2", large="cat_2")
    assert assigned(found) == {"cat": {"cat_0": 0, "cat_1": 0}, "cat_2": {"cat_2": 1}}


def test_a_single_behavior_has_the_only_name_in_the_file() -> None:
    assert list(assigned(agents("x_0", "x_1"), names=("Player",))) == ["Player"]
    assert list(assigned(agents("x_0", "y_0", large="y_0"), names=("Player",))) == ["x", "y"]


def test_in_a_game_played_in_turns_each_agent_is_a_team() -> None:
    assert assigned(agents("p_1", "p_2", "q_3"), in_turns=True) == {"tag": {"p_1": 0, "p_2": 1, "q_3": 2}}


def test_a_mapping_gives_behaviors_by_patterns_in_the_order_of_the_game() -> None:
    found = agents("red_0", "blue_0", "red_1", "keeper")
    mapping = {
        "Goalie": {"agents": ["keeper"], "team": 4},
        "Striker": {"agents": ["red_1", "blue_*", "red_*"], "team": {"red_*": 0, "blue_0": 7}},
    }
    assert assigned(found, mapping) == {"Goalie": {"keeper": 4}, "Striker": {"red_0": 0, "blue_0": 7, "red_1": 0}}


def test_teams_of_a_mapping_are_each_or_by_default() -> None:
    found = agents("a_0", "a_1", "b_0")
    mapping: dict[str, dict[str, Any]] = {"A": {"agents": ["a_*"], "team": "each"}, "B": {"agents": ["b_*"]}}
    assert assigned(found, mapping) == {"A": {"a_0": 0, "a_1": 1}, "B": {"b_0": 1}}
    assert assigned(found, mapping, in_turns=True) == {"A": {"a_0": 0, "a_1": 1}, "B": {"b_0": 2}}


PLACE = "environment.options.behaviors"
WRONG: dict[str, tuple[dict[str, Any], str, tuple[str, ...]]] = {
    "a name that is not there": (
        {"A": {"agents": ["a_1", "b_O"]}, "B": {"agents": ["b_*", "a_0"]}},
        f"{PLACE}.A.agents: no agent is called 'b_O'; there are 'a_0', 'a_1', 'b_0'; did you mean 'b_0'?",
        ("A", "agents"),
    ),
    "an agent twice": (
        {"A": {"agents": ["a_*"]}, "B": {"agents": ["*_0"]}},
        f"{PLACE}.B.agents: 'a_0' also belongs to behavior 'A'; an agent has one behavior",
        ("B", "agents"),
    ),
    "an agent left over": (
        {"A": {"agents": ["a_0"]}},
        f"{PLACE}: no behavior has the agents 'a_1', 'b_0' of tag; every agent needs a behavior",
        (),
    ),
    "no agents": ({"A": {"agents": []}}, f"{PLACE}.A.agents: is empty; there are the agents 'a_0'", ("A", "agents")),
    "other spaces": (
        {"A": {"agents": ["*"]}},
        f"{PLACE}.A: 'a_0' sees Box(-1.0, 1.0, (2,), float32), but 'b_0' sees Box(-1.0, 1.0, (3,), float32); agents of",
        ("A",),
    ),
    "an agent without a team": (
        {"A": {"agents": ["a_*"], "team": {"a_0": 1}}, "B": {"agents": ["b_0"]}},
        f"{PLACE}.A.team: 'a_1' has no team; an agent has one team",
        ("A", "team"),
    ),
    "an agent of two teams": (
        {"A": {"agents": ["a_*"], "team": {"a_*": 1, "a_1": 0}}, "B": {"agents": ["b_0"]}},
        f"{PLACE}.A.team: 'a_1' has the teams of 'a_*', 'a_1'; an agent has one team",
        ("A", "team"),
    ),
    "a team without agents": (
        {"A": {"agents": ["a_*"], "team": {"a_*": 1, "c_1": 0}}, "B": {"agents": ["b_0"]}},
        f"{PLACE}.A.team: no agent is called 'c_1'; there are 'a_0', 'a_1'; did you mean 'a_1'?",
        ("A", "team"),
    ),
}


@pytest.mark.parametrize("case", WRONG)
def test_a_mapping_that_does_not_fit_is_one_line_at_its_key(case: str) -> None:
    mapping, message, key = WRONG[case]
    with pytest.raises(ConfigError) as caught:
        assigned(agents("a_0", "a_1", "b_0", large="b_0"), mapping)
    assert str(caught.value).startswith(message) and "\n" not in str(caught.value)
    assert caught.value.key == ("environment", "options", "behaviors", *key)


@pytest.mark.parametrize("team", ["everyone", -1, {"a_0": -2}])
def test_a_team_is_a_number_each_or_a_mapping(team: Any) -> None:
    with pytest.raises(ConfigError, match="team"):
        BehaviorAgents(agents=["a_0"], team=team)


def test_slots_are_ordered_by_environment(make: Any) -> None:
    environment = make("zoo_games:fading", 3, behaviors={"G": {"agents": ["ghost_*"], "team": {"*_0": 5, "*_[12]": 6}}})
    spec = environment.behaviors["G"]
    assert spec.env_index.tolist() == [0, 0, 0, 1, 1, 1, 2, 2, 2]
    assert spec.team is not None and spec.team.tolist() == [5, 6, 6] * 3
