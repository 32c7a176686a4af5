"""The ends of episodes as a game reports them: the flags, and the final observations if it sends them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import attrs
import numpy as np
from numpy.typing import NDArray

from rlcore_godot.connection import BadGame, short
from rlcore_godot.spaces import Policy

FINAL = "terminal_observation"
TRUNCATED = "TimeLimit.truncated"


@attrs.define(eq=False)
class Ends:
    """The ends of episodes in one answer of a game with A agents.

    Attributes:
        terminated: [A] the episode ended by the task's own rule.
        truncated: [A] the episode was cut off.
        observed: The final observation of each agent that has one, as the game sent it.
        numbers: Numbers that the game reports of each ended episode, by agent.
        untold: Whether the game says of an end neither whether it was cut off nor the final observation.
        without_final: Whether an episode was cut off as the game says, without its final observation.
        finals: The final observations by behavior and by row among its agents in this game.
    """

    terminated: NDArray[np.bool_]
    truncated: NDArray[np.bool_]
    observed: dict[int, Any] = attrs.field(factory=dict)
    numbers: dict[int, dict[str, float]] = attrs.field(factory=dict)
    untold: bool = False
    without_final: bool = False
    finals: dict[str, dict[int, dict[str, NDArray[Any]]]] = attrs.field(factory=dict)

    def read_finals(self, policy: Policy) -> dict[int, dict[str, NDArray[Any]]]:
        """Return the final observations, each [*shape], of the agents of a policy by their rows. Raises BadGame."""
        finals = {}
        for row, agent in enumerate(policy.agents):
            if agent in self.observed:
                policy_of_agent = attrs.evolve(policy, agents=(agent,))
                observations = policy_of_agent.read({agent: self.observed[agent]}, FINAL)
                finals[row] = {name: values[0] for name, values in observations.items()}
        return finals


def read_ends(message: Mapping[str, Any], done: list[Any], means_truncated: bool) -> Ends | None:
    """Return the ends that an answer reports; None if no episode ended. Raises BadGame.

    ``done`` has one entry for each agent. ``means_truncated`` says what an end means of which the game says no more.
    """
    agents = len(done)
    if done.count(False) == agents:
        return None
    ends = Ends(np.zeros(agents, np.bool_), np.zeros(agents, np.bool_))
    for agent, value in enumerate(done):
        if value is not False and value is not True and value not in (0, 1):
            raise BadGame(f"sent {short(value)} as done of agent {agent}, which must be true or false")
    infos = message.get("info") or [None] * agents
    if not isinstance(infos, list) or len(infos) != agents:
        raise BadGame(f"sent {short(infos)} as 'info', which must be a list with one entry for each of {agents} agents")
    for agent in np.flatnonzero(done).tolist():
        info = infos[agent] or {}
        if not isinstance(info, dict):
            raise BadGame(f"sent {short(info)} as the info of agent {agent}, which must be an object")
        cut = info.get(TRUNCATED)
        if cut not in (None, False, True):
            raise BadGame(f"sent {short(cut)} as {TRUNCATED} of agent {agent}, which must be true or false")
        final = info.get(FINAL)
        is_told = cut is not None or final is not None
        # A game that sends final observations, and does not say that it cut the episode off, means a terminal state.
        is_truncated = bool(cut) if is_told else means_truncated
        if is_truncated:
            ends.truncated[agent] = True
        else:
            ends.terminated[agent] = True
        ends.untold |= not is_told
        ends.without_final |= bool(cut) and final is None
        if final is not None:
            ends.observed[agent] = final
        numbers = {key: float(value) for key, value in info.items() if _is_number(key, value)}
        if numbers:
            ends.numbers[agent] = numbers
    return ends


def _is_number(key: str, value: Any) -> bool:
    return key not in (TRUNCATED, FINAL) and isinstance(value, (bool, int, float)) and abs(value) < 1e300
