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

CASES = yaml.safe_load((Path(__file__).parent / "data/agents.yaml").read_text(encoding="utf-8"))
SMALL = spaces.Box(-1.0, 1.0, (2,))
LARGE = spaces.Box(-1.0, 1.0, (3,))


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


@pytest.mark.parametrize("case", CASES["assignments"])
def test_agents_are_assigned_to_behaviors_and_teams(case: str) -> None:
    given = dict(CASES["assignments"][case])
    found = agents(*given.pop("agents").split(), large=given.pop("large", ""))
    expected = given.pop("behaviors")
    assert assigned(found, **given) == expected


@pytest.mark.parametrize("case", CASES["mappings"])
def test_a_mapping_that_does_not_fit_is_one_line_at_its_key(case: str) -> None:
    mapping, key, message = CASES["mappings"][case]
    with pytest.raises(ConfigError) as caught:
        assigned(agents("a_0", "a_1", "b_0", large="b_0"), mapping)
    assert caught.value.key == ("environment", "options", "behaviors", *key)
    assert str(caught.value).startswith(f"{'.'.join(caught.value.key)}: {message}") and "\n" not in str(caught.value)


@pytest.mark.parametrize("team", ["everyone", -1, {"a_0": -2}])
def test_a_team_is_a_number_each_or_a_mapping(team: Any) -> None:
    with pytest.raises(ConfigError, match="team"):
        BehaviorAgents(agents=["a_0"], team=team)


def test_slots_are_ordered_by_environment(make: Any) -> None:
    environment = make(
        "zoo_games:fading", 3, behaviors={"G": {"agents": ["ghost_*"], "team": {"*_0": 5, "*_[12]": 6, "*_2": 6}}}
    )
    spec = environment.behaviors["G"]
    assert spec.env_index.tolist() == [0, 0, 0, 1, 1, 1, 2, 2, 2]
    assert spec.team is not None and spec.team.tolist() == [5, 6, 6] * 3
