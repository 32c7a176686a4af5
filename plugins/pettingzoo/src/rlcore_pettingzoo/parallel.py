"""Games in which all agents act at once: PettingZoo's Parallel environments."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rlcore_gymnasium.spaces.values import flag
from rlcore_pettingzoo.base import PettingZooEnvironment, Seat

_NO_INFO: Mapping[str, Any] = {}
_RESULTS = ("observations", "rewards", "terminations", "truncations")


class ParallelEnvironment(PettingZooEnvironment):
    """A step is one action of every agent that is in its game.

    An agent whose episode ends before those of others waits until its environment starts the next episode.
    """

    def __init__(self, *parts: Any) -> None:
        super().__init__(*parts)
        envs = range(self.num_envs)
        self._playing: list[dict[str, Seat]] = [{} for _ in envs]  # the agents in each game
        self._out: list[set[str]] = [set() for _ in envs]  # whose episode ended before that of others
        self._gone: list[set[str]] = [set() for _ in envs]  # those of them that the game has taken from its list
        self._first: list[tuple[Any, Any]] = [({}, {}) for _ in envs]  # the results of the last resets

    def _reset_game(self, env: int, seed: int) -> Mapping[str, Any]:
        game = self.games[env]
        observations, infos = game.reset(seed=seed)
        self._first[env] = observations, infos
        self._playing[env] = {name: self._seat(env, name) for name in game.agents}
        self._out[env] = set()
        self._gone[env] = set()
        return infos or _NO_INFO

    def _begun(self, env: int) -> Any:
        observations, _ = self._first[env]
        return observations

    def _show(self, env: int) -> None:
        observations, infos = self._first[env]
        infos = infos or _NO_INFO
        playing = self._playing[env]
        if not playing:
            raise self._wrong("no agent is in the game after a reset")
        for name, (arrays, slot) in self.seats[env].items():
            if name not in playing:
                arrays.waits(slot, None)
            elif name not in observations:
                raise self._wrong(f"reset returned no observation of {name!r}")
            else:
                arrays.first(slot, observations[name], infos.get(name, _NO_INFO))
        self._first[env] = {}, {}

    def _step_game(self, env: int) -> bool:
        game = self.games[env]
        playing = self._playing[env]
        actions = {name: arrays.action(slot) for name, (arrays, slot) in playing.items()}
        results = game.step(actions)
        observations, rewards, terminations, truncations, infos = results
        infos = infos or _NO_INFO
        ended: list[str] = []
        name = ""
        try:
            for name, (arrays, slot) in playing.items():
                terminated = terminations[name]
                truncated = truncations[name]
                # Most games return Python's own False; other values are checked.
                if terminated is not False or truncated is not False:
                    terminated = flag(terminated, "terminated")
                    truncated = flag(truncated, "truncated")
                    if terminated or truncated:
                        observation = observations.get(name)
                        info = infos.get(name)
                        arrays.end(slot, observation, rewards[name], terminated, truncated, info)
                        ended.append(name)
                        continue
                info = infos.get(name, _NO_INFO)
                arrays.turn(slot, observations[name], rewards[name], info)
        except KeyError:
            for kind, result in zip(_RESULTS, results, strict=False):
                if name not in result:
                    problem = f"step returned {kind} without {name!r}, which is in the game"
                    raise self._wrong(problem) from None
            raise
        for name in ended:
            del playing[name]
        if ended or len(game.agents) != len(playing):
            self._join_and_leave(env, game, observations, infos, ended)
        return not playing

    def _join_and_leave(self, env: int, game: Any, observations: Any, infos: Any, ended: list[str]) -> None:
        """Take in agents that have joined a game, and refuse a game that loses agents without ending their episodes."""
        playing = self._playing[env]
        out = self._out[env]
        here = set(game.agents)
        out.update(ended)
        back = sorted(self._gone[env] & here)
        if back:
            # As PettingZoo's own test: "agent cannot be revived once dead". Its episode would need a first observation.
            raise self._wrong(f"{back[0]!r} came back after its episode was over; agents come back at the next reset")
        self._gone[env] |= out - here
        lost = [name for name in playing if name not in here]
        if lost:
            raise self._wrong(f"{lost[0]!r} left the game without being terminated or truncated")
        for name in game.agents:
            if name not in playing and name not in out:
                arrays, slot = self._seat(env, name)
                playing[name] = (arrays, slot)
                if name not in observations:
                    raise self._wrong(f"step returned observations without {name!r}, which is in the game")
                info = infos.get(name, _NO_INFO)
                arrays.turn(slot, observations[name], 0.0, info)
