"""The common parts of games that are played in turns and of games in which all agents act at once."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rlcore import (
    Actions,
    AgentBatch,
    BehaviorSpec,
    EnvironmentFailed,
    EpisodeSeeds,
    Parameters,
    RlcoreError,
    refuse_unknown_parameters,
    repeating,
)
from rlcore_gymnasium.episode_info import Wanted
from rlcore_gymnasium.repeated_resets import seed_each, tried
from rlcore_gymnasium.spaces import MismatchedValue
from rlcore_pettingzoo.agents import Cast
from rlcore_pettingzoo.arrays import ACTION_MASK, BehaviorArrays
from rlcore_pettingzoo.central import CentralState

Seat = tuple[BehaviorArrays, int]
"""The behavior and slot of an agent."""


class PettingZooEnvironment:
    """N games of PettingZoo, stepped one after another in this process.

    Environment i plays episode e with the seed ``seeds(i, e)``. A subclass says how a game is reset and stepped.
    """

    resume_limits: tuple[str, ...] = ()  # as in rlcore.Environment
    resume_notes: tuple[str, ...] = ()

    def __init__(
        self,
        game: str,
        games: Sequence[Any],
        casts: Sequence[Cast],
        reported: Wanted = None,
        state: type[CentralState] | None = None,
    ) -> None:
        """``games`` are N environments of PettingZoo; ``game`` is what messages call them.

        With ``state``, all agents are shown the state of their game.
        """
        self.game = game
        self.games = list(games)
        self.num_envs = len(self.games)
        self.episodes: NDArray[np.int64] = np.zeros(self.num_envs, np.int64)
        self._arrays: list[BehaviorArrays] = []
        for cast in casts:
            self._arrays.append(BehaviorArrays(cast, self.num_envs, game, reported))
        self._state = None if state is None else state(self.games, self._arrays, game)
        self.behaviors: Mapping[str, BehaviorSpec] = {arrays.name: arrays.spec for arrays in self._arrays}
        self.seats: list[dict[str, Seat]] = []  # [N] by the agent's name
        for env in range(self.num_envs):
            seats: dict[str, Seat] = {}
            for arrays, cast in zip(self._arrays, casts, strict=True):
                first = env * len(cast.agents)
                for slot, agent in enumerate(cast.agents, first):
                    seats[agent.name] = (arrays, slot)
            self.seats.append(seats)
        self._seeds = EpisodeSeeds(0)
        self._env = 0  # the environment that is reset or stepped

    # ------------------------------------------------------------ how a game is played

    def _reset_game(self, env: int, seed: int) -> Mapping[str, Any]:
        """Reset a game; return the info of each of its agents."""
        raise NotImplementedError

    def _begun(self, env: int) -> Any:
        """Return the observations of a game that was reset, by agent."""
        raise NotImplementedError

    def _show(self, env: int) -> None:
        """Write what the agents of a game that was reset see."""
        raise NotImplementedError

    def _step_game(self, env: int) -> bool:
        """Step a game with the actions of its agents; return whether its episode is over."""
        raise NotImplementedError

    def _show_state(self, env: int, final: bool) -> None:
        if self._state is not None:
            self._state.show(env, final)

    def try_resets(self) -> None:
        """Have the promise of a resume say if the resets of the first game do not repeat."""

        def reset(seed: int) -> Any:
            self._seed_spaces(0, seed)
            self._reset_game(0, seed)
            return self._begun(0)

        self.resume_limits, self.resume_notes = tried(reset, self.game)

    def _seed_spaces(self, env: int, seed: int) -> None:
        game = self.games[env]
        spaces = []
        for name in game.possible_agents:
            spaces += [game.observation_space(name), game.action_space(name)]
        seed_each(spaces, seed)

    # ------------------------------------------------------------ the contract

    def reset(self, seeds: EpisodeSeeds, episodes: NDArray[np.int64]) -> dict[str, AgentBatch]:
        self._seeds = seeds
        self.episodes = np.array(episodes, np.int64)
        infos: Mapping[str, Any] = {}
        with self._failures("reset"):
            for env in range(self.num_envs):
                self._env = env
                seed = seeds(env, int(self.episodes[env]))
                self._seed_spaces(env, seed)
                first = self._reset_game(env, seed)
                infos = infos or first
        # The first environment with infos decides for all: a batch has masks for all rows, or none.
        masked = set()
        for agent, info in infos.items():
            if info and ACTION_MASK in info:
                arrays, _ = self.seats[0][agent]
                masked.add(arrays.name)
        for arrays in self._arrays:
            arrays.forget(masked_by_info=arrays.name in masked)
        with self._failures("reset"):
            for env in range(self.num_envs):
                self._env = env
                self._show(env)
                self._show_state(env, final=False)
        return {arrays.name: arrays.batch() for arrays in self._arrays}

    def step(self, actions: Mapping[str, Actions]) -> dict[str, AgentBatch]:
        for arrays in self._arrays:
            arrays.begin(actions[arrays.name])
        over: list[int] = []
        with self._failures("step"):
            for env in range(self.num_envs):
                self._env = env
                is_over = self._step_game(env)
                self._show_state(env, final=True)  # before the reset replaces the state
                if is_over:
                    over.append(env)
        with self._failures("reset"):
            for env in over:
                self._env = env
                self.episodes[env] += 1
                seed = self._seeds(env, int(self.episodes[env]))
                self._reset_game(env, seed)
                self._show(env)
                self._show_state(env, final=False)
        return {arrays.name: arrays.batch() for arrays in self._arrays}

    def set_parameters(self, parameters: Parameters) -> None:
        refuse_unknown_parameters(parameters, (), self.game)

    def close(self) -> None:
        with self._failures("close"):
            for env, game in enumerate(self.games):
                self._env = env
                game.close()

    # ------------------------------------------------------------ errors

    @property
    def _place(self) -> str:
        return f"{self.game}: environment {self._seeds.first_env + self._env}, episode {self.episodes[self._env]}"

    @contextmanager
    def _failures(self, doing: str) -> Iterator[None]:
        """Raise an error of one line for an exception, or a wrong result, of ``doing`` in the environment ``_env``."""
        try:
            yield
        except RlcoreError:
            raise
        except MismatchedValue as error:
            raise EnvironmentFailed(f"{self._place}: {doing} returned {error}") from error
        except (Exception, SystemExit) as error:
            raise repeating(error, f"{self._place}: {doing} failed", EnvironmentFailed) from error

    def _wrong(self, problem: str) -> EnvironmentFailed:
        return EnvironmentFailed(f"{self._place}: {problem}; correct the game")

    def _seat(self, env: int, agent: Any) -> Seat:
        try:
            return self.seats[env][agent]
        except KeyError:
            raise self._wrong(f"there is an agent {agent!r}, which possible_agents does not have") from None
