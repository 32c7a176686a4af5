"""The settings ``environment.options`` of PettingZoo environments."""

from __future__ import annotations

import re
from typing import Any, Literal

import attrs

from rlcore import setting

EACH = "each"
_TARGET = re.compile(r"[A-Za-z_][\w.]*:[A-Za-z_]\w*")


def _is_target(text: Any) -> str | None:
    if isinstance(text, str) and not _TARGET.fullmatch(text):
        return "must be module:function, such as supersuit:frame_stack_v1"
    return None


def _is_team(team: Any) -> str | None:
    if isinstance(team, str) and team != EACH:
        return f"must be a number, {EACH!r} or a mapping of agent names to numbers"
    numbers = team.values() if hasattr(team, "values") else [team]
    for number in numbers:
        if isinstance(number, int) and number < 0:
            return "must not be negative"
    return None


@attrs.frozen(kw_only=True)
class WrapperSettings:
    """A wrapper around each environment; ``module:function`` alone is a wrapper without arguments."""

    wrapper: str = setting(
        description="module:function, called with the environment and the arguments; returns the wrapped one.",
        check=_is_target,
    )
    arguments: dict[str, Any] = setting(factory=dict, description="Arguments of the function after the environment.")


@attrs.frozen(kw_only=True)
class BehaviorAgents:
    """The agents of one behavior, and their teams."""

    agents: list[str] = setting(description="Names of agents, or patterns such as player_*.", foreign=True)
    team: int | str | dict[str, int] | None = setting(
        None,
        "Number of the team of these agents; each: every agent is a team of its own, numbered by its place in the "
        "game's list of agents; or a mapping of names or patterns to numbers. By default, each in a game that is "
        "played in turns, else one team for each behavior.",
        check=_is_team,
        foreign=True,
    )


@attrs.frozen(kw_only=True)
class PettingZooSettings:
    """Options of a PettingZoo environment."""

    api: Literal["aec", "parallel"] | None = setting(
        None,
        "Which form of a registered environment is played: aec (one agent acts at a time) or parallel (all agents act "
        "in every step); by default parallel if there is that form.",
    )
    arguments: dict[str, Any] = setting(factory=dict, description="Arguments of the environment's constructor.")
    wrappers: list[WrapperSettings | str] = setting(
        factory=list, description="Wrappers around each environment, the innermost first.", check=_is_target
    )
    behaviors: dict[str, BehaviorAgents] | None = setting(
        None,
        "The agents and teams of each behavior, by its name. By default, agents with equal spaces are one behavior, "
        "named after what their names have in common, or as in the file if it has a single behavior.",
    )
    state: Literal["game", "agents"] | None = setting(
        None,
        "An observation called state, equal for all agents of a game, for a critic that reads it: the state() of the "
        "game, or the observations of all agents side by side.",
    )
    final_info: list[str] = setting(
        factory=list,
        description="Numbers of an agent's last info that belong to the result of its episode, by name.",
        foreign=True,
    )
