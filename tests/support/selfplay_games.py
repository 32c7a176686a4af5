"""Vectorized games of two and more teams with known solutions, also for configurations, as a local plugin::

    plugins: {local: [selfplay_games]}
    environment: {type: game, id: contest, num_envs: 16, options: {teams: 3}}

``id`` is a name in :data:`GAMES`; ``options`` contains the other arguments of the game. Nothing is drawn.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from rlcore import (
    Actions,
    AgentBatch,
    BehaviorSpec,
    Environment,
    EnvironmentSettings,
    EnvironmentSpec,
    EpisodeSeeds,
    ObservationSpec,
    Parameters,
    RunContext,
    hookimpl,
    refuse_unknown_parameters,
)

Array = NDArray[Any]


class Game:
    """N games with P seats, each a team of its own. A subclass fills in the rules. All seats end together.

    One name is one behavior for all seats; as many names as seats are a behavior each. Where agents take turns, rewards
    come at the end of the game, when all transitions close.
    """

    state: ClassVar[tuple[str, ...]] = ()  # attributes with arrays [N, ...]
    seen: ClassVar[ObservationSpec] = ObservationSpec("constant", (1,), np.float32, low=0.0, high=1.0)

    def __init__(self, num_envs: int, names: Sequence[str], options: Sequence[int]) -> None:
        """``options`` [P] are those of each seat."""
        self.num_envs, self.seats = num_envs, len(options)
        everyone = list(range(self.seats))
        self.own = {names[0]: everyone} if len(names) == 1 else {names[seat]: [seat] for seat in everyone}
        self.behaviors: Mapping[str, BehaviorSpec] = {
            name: BehaviorSpec(
                name, (self.seen,), discrete=(options[own[0]],), team=np.tile(own, num_envs),
                env_index=np.repeat(np.arange(num_envs), len(own)),
            )
            for name, own in self.own.items()
        }  # fmt: skip
        self.episodes: NDArray[np.int64] = np.zeros(num_envs, np.int64)
        self.seeds = EpisodeSeeds(0)

    def begin(self, envs: NDArray[np.bool_]) -> None:
        """Start the games ``envs`` [N]."""

    def advance(self, chosen: NDArray[np.int64]) -> tuple[Array, Array]:
        """Move all games by the options [N, P]; return the rewards [N, P], and which games are over [N]."""
        raise NotImplementedError

    def observe(self) -> Array:
        """Return what all seats see, in a new array [N, P, size]."""
        return np.ones((self.num_envs, self.seats, 1), np.float32)

    def turns(self) -> tuple[Array, Array] | None:
        """Return which seats act next [N, P], and their allowed options [N, P, options]; None: all do anything."""
        return None

    def reset(self, seeds: EpisodeSeeds, episodes: NDArray[np.int64]) -> dict[str, AgentBatch]:
        self.seeds, self.episodes = seeds, np.array(episodes, np.int64)
        self.begin(np.ones(self.num_envs, np.bool_))
        return self._first()

    def step(self, actions: Mapping[str, Actions]) -> dict[str, AgentBatch]:
        chosen = np.zeros((self.num_envs, self.seats), np.int64)
        for name, own in self.own.items():
            chosen[:, own] = actions[name].discrete.reshape(self.num_envs, len(own))  # type: ignore[union-attr]
        reward, over = self.advance(chosen)
        final = self.observe()
        self.episodes += over
        self.begin(over)
        return self._batches(reward, over, final)

    def _first(self) -> dict[str, AgentBatch]:
        seen = self.observe()
        return self._batches(np.zeros(seen.shape[:2]), np.zeros(self.num_envs, np.bool_), seen)

    def _batches(self, reward: Array, over: Array, final: Array) -> dict[str, AgentBatch]:
        seen = self.observe()
        turns = self.turns()
        made = {}
        for name, own in self.own.items():
            ended = np.repeat(over, len(own))

            def rows(part: Array, own: list[int] = own) -> Array:
                return part[:, own].reshape(-1, *part.shape[2:])

            made[name] = AgentBatch(
                {self.seen.name: rows(seen)}, rows(reward).astype(np.float32), ended, np.zeros_like(ended),
                final_observations={self.seen.name: rows(final)[ended]} if over.any() else None,
                needs_action=None if turns is None else rows(turns[0]),
                action_mask=None if turns is None else rows(turns[1]),
            )  # fmt: skip
        return made

    def set_parameters(self, parameters: Parameters) -> None:
        refuse_unknown_parameters(parameters, (), f"game {type(self).__name__}")

    def close(self) -> None:
        """Do nothing: nothing is open."""

    def state_dict(self) -> dict[str, Any]:
        arrays = {name: getattr(self, name).copy() for name in ("episodes", *self.state)}
        return {"run_seed": self.seeds.run_seed, "first_env": self.seeds.first_env, **arrays}

    def load_state_dict(self, state: Mapping[str, Any]) -> dict[str, AgentBatch]:
        self.seeds = EpisodeSeeds(int(state["run_seed"]), int(state["first_env"]))
        for name in ("episodes", *self.state):
            setattr(self, name, np.array(state[name]))
        return self._first()


# Payoffs of the row player; rock, paper, scissors. Nash (1/16, 10/16, 5/16), value 0. OpenSpiel's matrix_brps / 50.
BIASED_RPS: NDArray[np.float64] = np.array([[0.0, -25.0, 50.0], [25.0, 0.0, -5.0], [-50.0, 5.0, 0.0]]) / 50.0
# Payoffs of the row player. Nash: both play their first action with probability 0.4; value 0.2.
SKEWED_PENNIES: NDArray[np.float64] = np.array([[2.0, -1.0], [-1.0, 1.0]])


class Matrix(Game):
    """A two-player zero-sum game of one step: seat 0 chooses a row of the ``payoffs`` [A, A'], seat 1 a column."""

    def __init__(self, num_envs: int, payoffs: NDArray[np.float64], names: Sequence[str]) -> None:
        self.payoffs = payoffs
        super().__init__(num_envs, names, payoffs.shape)

    def advance(self, chosen: NDArray[np.int64]) -> tuple[Array, Array]:
        reward = self.payoffs[chosen[:, 0], chosen[:, 1]]
        return np.stack([reward, -reward], axis=1), np.ones(self.num_envs, np.bool_)


class Contest(Game):
    """A zero-sum contest of T teams in one step: the one that bids most, 0, 1 or 2, takes the prize.

    One of the n highest bidders gets 1 / n - 1 / T, any other one -1 / T. So bidding 2 is dominant.
    """

    def __init__(self, num_envs: int, teams: int = 2) -> None:
        super().__init__(num_envs, ("Player",), (3,) * teams)

    def advance(self, chosen: NDArray[np.int64]) -> tuple[Array, Array]:
        best = chosen == chosen.max(1, keepdims=True)
        return best / best.sum(1, keepdims=True) - 1 / self.seats, np.ones(self.num_envs, np.bool_)


LINES = np.array([(0, 1, 2), (3, 4, 5), (6, 7, 8), (0, 3, 6), (1, 4, 7), (2, 5, 8), (0, 4, 8), (2, 4, 6)])


class TicTacToe(Game):
    """Seat 0 plays X and begins, seat 1 plays O; 1 for three in a line, -1 for the other, 0 for a draw.

    An action is a cell, row by row. An agent sees its own, the other's and the empty cells.
    """

    state = ("board", "moves")
    seen = ObservationSpec("board", (27,), np.float32, low=0.0, high=1.0)

    def __init__(self, num_envs: int) -> None:
        self.board: NDArray[np.int64] = np.zeros((num_envs, 9), np.int64)  # [N, 9] 1 is X, -1 is O
        self.moves: NDArray[np.int64] = np.zeros(num_envs, np.int64)  # [N] moves so far
        super().__init__(num_envs, ("Player",), (9, 9))

    def begin(self, envs: NDArray[np.bool_]) -> None:
        self.board[envs], self.moves[envs] = 0, 0

    def advance(self, chosen: NDArray[np.int64]) -> tuple[Array, Array]:
        envs = np.arange(self.num_envs)
        mover = self.moves % 2
        mark = 1 - 2 * mover
        self.board[envs, chosen[envs, mover]] = mark
        self.moves += 1
        won = (self.board[:, LINES] == mark[:, None, None]).all(2).any(1)
        score = np.where(won, mark, 0)
        return np.stack([score, -score], axis=1), won | (self.moves == 9)

    def observe(self) -> Array:
        own = self.board[:, None] * np.array([1, -1])[:, None]  # [N, 2, 9]
        return np.concatenate([own == 1, own == -1, own == 0], axis=2).astype(np.float32)

    def turns(self) -> tuple[Array, Array]:
        return np.arange(2) == (self.moves % 2)[:, None], np.repeat((self.board == 0)[:, None], 2, axis=1)


GAMES: Mapping[str, Callable[..., Game]] = {
    "biased_rps": lambda num_envs: Matrix(num_envs, BIASED_RPS, ("Player",)),
    "contest": Contest,
    "skewed_pennies": lambda num_envs: Matrix(num_envs, SKEWED_PENNIES, ("Row", "Column")),
    "tictactoe": TicTacToe,
}


@hookimpl
def rlcore_environments() -> list[EnvironmentSpec]:
    return [EnvironmentSpec(name="game", target="selfplay_games:make", summary="games with known solutions")]


def make(settings: EnvironmentSettings, run: RunContext) -> Environment:
    return GAMES[settings.id or ""](run.num_envs, **settings.options)
