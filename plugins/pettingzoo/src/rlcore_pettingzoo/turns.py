"""Games in which one agent acts at a time: PettingZoo's AEC environments."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rlcore_pettingzoo.base import PettingZooEnvironment, Seat


class TurnEnvironment(PettingZooEnvironment):
    """A step is one action of one agent in every game.

    ``last()`` of a game has the reward of the agent whose turn it is, summed since its last action. An agent whose
    episode is over has its last turn, with no action, at once or when the game comes to it.

    Attributes:
        acting: [N] the behavior and slot of the agent whose turn it is.
    """

    def __init__(self, *parts: Any) -> None:
        super().__init__(*parts)
        self.acting: list[Seat] = [(self._arrays[0], 0)] * self.num_envs

    def _reset_game(self, env: int, seed: int) -> Mapping[str, Any]:
        game = self.games[env]
        game.reset(seed=seed)
        infos: Mapping[str, Any] = game.infos
        return infos

    def _begun(self, env: int) -> Any:
        game = self.games[env]
        return {name: game.observe(name) for name in game.agents}

    def _show(self, env: int) -> None:
        game = self.games[env]
        playing = set(game.agents)
        if not playing:
            raise self._wrong("no agent is in the game after a reset")
        acting = game.agent_selection
        for name, (arrays, slot) in self.seats[env].items():
            if name not in playing:
                arrays.waits(slot, None)
            elif name != acting:
                arrays.waits(slot, game.observe(name))
        observation, _, terminated, truncated, info = game.last()
        if terminated or truncated:
            raise self._wrong(f"the episode of {acting!r} is over after a reset")
        arrays, slot = self._seat(env, acting)
        arrays.first(slot, observation, info)
        self.acting[env] = arrays, slot

    def _step_game(self, env: int) -> bool:
        game = self.games[env]
        seats = self.seats[env]
        arrays, slot = self.acting[env]
        game.step(arrays.action(slot))
        turns = 0
        while game.agents:
            agent = game.agent_selection
            observation, reward, terminated, truncated, info = game.last()
            arrays, slot = self._seat(env, agent)
            if not (terminated or truncated):
                arrays.turn(slot, observation, reward, info)
                self.acting[env] = arrays, slot
                return False
            arrays.end(slot, observation, reward, terminated, truncated, info)
            game.step(None)  # PettingZoo's rule: an agent whose episode is over takes one turn more, without an action
            turns += 1
            # Each agent leaves once; a game that keeps one would be stepped without end.
            if turns > len(seats):
                raise self._wrong(f"{agent!r}, whose episode is over, stays in the game after step(None)")
        return True
