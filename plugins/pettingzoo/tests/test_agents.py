"""Behaviors and teams from the names of agents."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml
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


@pytest.mark.parametrize(
    ("found", "arguments", "expected"),
    [
        (
            agents("adversary_0", "adversary_1", "agent_0", large="agent_0"), {},
            {"adversary": {"adversary_0": 0, "adversary_1": 0}, "agent": {"agent_0": 1}},
        ),
        # Names with nothing in common give the name of the game; two groups with one name are told apart.
        (agents("black_0", "white_0"), {}, {"tag": {"black_0": 0, "white_0": 0}}),
        (agents("cat_0", "cat_1", large="cat_1"), {}, {"cat": {"cat_0": 0}, "cat_1": {"cat_1": 1}}),
        # A single behavior has the only name in the file.
        (agents("x_0", "x_1"), {"names": ("Player",)}, {"Player": {"x_0": 0, "x_1": 0}}),
        (agents("x_0", "y_0", large="y_0"), {"names": ("Player",)}, {"x": {"x_0": 0}, "y": {"y_0": 1}}),
        # In a game that is played in turns each agent is a team.
        (agents("p_1", "p_2", "q_3"), {"in_turns": True}, {"tag": {"p_1": 0, "p_2": 1, "q_3": 2}}),
    ],
)  # fmt: skip
def test_without_a_mapping_agents_with_equal_spaces_are_one_behavior(
    found: list[Agent], arguments: dict[str, Any], expected: Any
) -> None:
    assert assigned(found, **arguments) == expected


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


MAPPINGS = yaml.safe_load((Path(__file__).parent / "data/refusals.yaml").read_text(encoding="utf-8"))["mappings"]


@pytest.mark.parametrize("case", MAPPINGS)
def test_a_mapping_that_does_not_fit_is_one_line_at_its_key(case: str) -> None:
    mapping, key, message = MAPPINGS[case]
    with pytest.raises(ConfigError) as caught:
        assigned(agents("a_0", "a_1", "b_0", large="b_0"), mapping)
    assert caught.value.key == ("environment", "options", "behaviors", *key)
    assert str(caught.value).startswith(f"{'.'.join(caught.value.key)}: {message}") and "\n" not in str(caught.value)


@pytest.mark.parametrize("team", ["everyone", -1, {"a_0": -2}])
def test_a_team_is_a_number_each_or_a_mapping(team: Any) -> None:
    with pytest.raises(ConfigError, match="team"):
        BehaviorAgents(agents=["a_0"], team=team)


def test_slots_are_ordered_by_environment(make: Any) -> None:
    environment = make("zoo_games:fading", 3, behaviors={"G": {"agents": ["ghost_*"], "team": {"*_0": 5, "*_[12]": 6}}})
    spec = environment.behaviors["G"]
    assert spec.env_index.tolist() == [0, 0, 0, 1, 1, 1, 2, 2, 2]
    assert spec.team is not None and spec.team.tolist() == [5, 6, 6] * 3
