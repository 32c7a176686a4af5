"""The template of the games: N environments with P seats each, all arrays over [N, P].

A *seat* is the place of one agent in a game. A behavior has one or more seats, and the slots of a behavior go through
the environments in order: slot ``e * (seats of the behavior) + k`` is the behavior's k-th seat in environment e.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import attrs
import numpy as np
from numpy.typing import NDArray

from rlcore import (
    Actions,
    AgentBatch,
    BehaviorSpec,
    EpisodeSeeds,
    EpisodeTable,
    ObservationSpec,
    Parameters,
    refuse_unknown_parameters,
)

__all__ = ["Game", "Role", "roles"]

Array = NDArray[Any]


@attrs.frozen(eq=False)
class Role:
    """The seats of one behavior, with the team and the observation of each.

    Attributes:
        name: Name of the behavior.
        seats: The behavior's seats in a game, ascending.
        teams: Team of each of these seats.
        observation: What an agent of the behavior sees.
        discrete: Options of each discrete branch of an action.
    """

    name: str
    seats: tuple[int, ...]
    teams: tuple[int, ...]
    observation: ObservationSpec
    discrete: tuple[int, ...] = ()

    def behavior(self, num_envs: int) -> BehaviorSpec:
        """Return the behavior in ``num_envs`` games."""
        return BehaviorSpec(
            self.name,
            (self.observation,),
            discrete=self.discrete,
            env_index=np.repeat(np.arange(num_envs), len(self.seats)),
            team=np.tile(np.array(self.teams, np.int64), num_envs),
        )


def roles(names: tuple[str, ...], seats: int, observation: ObservationSpec, **parts: Any) -> tuple[Role, ...]:
    """Return one role for all ``seats``, or one for each if there are as many ``names``; the team of a seat is its
    number. ``parts`` are other arguments of :class:`Role`.

    Raises ValueError for any other number of names.
    """
    if len(names) == 1:
        return (Role(names[0], tuple(range(seats)), tuple(range(seats)), observation, **parts),)
    if len(names) != seats:
        raise ValueError(f"a game of {seats} seats has 1 or {seats} behaviors, not {len(names)}: {', '.join(names)}")
    return tuple(Role(name, (seat,), (seat,), observation, **parts) for seat, name in enumerate(names))


class Game:
    """N games with P seats. A subclass keeps arrays over [N, ...] and fills in the rules; this class does the rest.

    Where agents take turns, rewards come at the end of the game, when all transitions close. All seats end together.

    Attributes:
        state: Names of the attributes with the arrays [N, ...] that describe the games.
        draws: Uniform random numbers that an episode begins with; all randomness of a game is in them.
        roles: The behaviors with their seats; together they have the seats 0 to P - 1.
        behaviors: The behaviors by name.
        num_envs: N, the number of games.
        seats: P, the number of agents in a game.
        seeds: The seed of every episode.
        episodes: [N] number of the episode of each game.
    """

    state: ClassVar[tuple[str, ...]] = ()
    draws: ClassVar[int] = 0

    def __init__(self, num_envs: int, *behavior_roles: Role) -> None:
        self.num_envs = num_envs
        self.roles = behavior_roles
        self.seats = sum(len(role.seats) for role in behavior_roles)
        self.behaviors: Mapping[str, BehaviorSpec] = {role.name: role.behavior(num_envs) for role in behavior_roles}
        self.episodes: NDArray[np.int64] = np.zeros(num_envs, np.int64)  # [N]
        self._seats = {role.name: np.array(role.seats) for role in behavior_roles}
        self._draw_from(EpisodeSeeds(0))

    # ------------------------------------------------------------ the rules of a game

    def begin(self, envs: NDArray[np.bool_], uniforms: NDArray[np.float64]) -> None:
        """Start the games ``envs`` [N]; ``uniforms`` [N, draws] belong to the episodes."""

    def advance(self, actions: Mapping[str, Actions]) -> tuple[Array, Array]:
        """Move all games; return the rewards [N, P], and which games are over, broadcast to [N]."""
        raise NotImplementedError

    def observe(self, role: Role) -> Array:
        """Return what the seats of a behavior see, in a new array [N, seats of the behavior, *shape]."""
        raise NotImplementedError

    def acts(self) -> NDArray[np.bool_] | None:
        """Return which seats act next, [N, P]; None: all do."""
        return None

    def allowed(self, role: Role) -> NDArray[np.bool_] | None:
        """Return the allowed options of a behavior's seats, [N, seats of the behavior, options]; None: all are."""
        return None

    # ------------------------------------------------------------ actions by seat

    def choices(self, actions: Mapping[str, Actions]) -> Array:
        """Return the first branch of the actions of all seats, [N, P]."""
        own = [actions[name].discrete[:, 0].reshape(self.num_envs, -1) for name in self._seats]
        return np.concatenate(own, axis=1)[:, np.argsort(np.concatenate(list(self._seats.values())))]

    # ------------------------------------------------------------ the contract of environments

    def reset(self, seeds: EpisodeSeeds, episodes: NDArray[np.int64]) -> dict[str, AgentBatch]:
        """Start an episode in every game, as :meth:`rlcore.Environment.reset` says."""
        self._draw_from(seeds)
        self.episodes = np.array(episodes, np.int64)
        self.begin(np.ones(self.num_envs, np.bool_), self._uniforms())
        return self._current()

    def step(self, actions: Mapping[str, Actions]) -> dict[str, AgentBatch]:
        """Move all games, as :meth:`rlcore.Environment.step` says."""
        reward, over = self.advance(actions)
        over = np.broadcast_to(over, (self.num_envs,))
        final = {role.name: self.observe(role) for role in self.roles}
        self.episodes[over] += 1
        self.begin(over, self._uniforms())
        return {role.name: self._batch(role, reward.astype(np.float32), over, final[role.name]) for role in self.roles}

    def set_parameters(self, parameters: Parameters) -> None:
        """Refuse every parameter with a ConfigError: the games have none."""
        refuse_unknown_parameters(parameters, (), f"game {type(self).__name__}")

    def close(self) -> None:
        """Do nothing: nothing is open."""

    def state_dict(self) -> dict[str, Any]:
        """Return the state, as :meth:`rlcore.SavesState.state_dict` says."""
        return {
            "run_seed": self.seeds.run_seed,
            "first_env": self.seeds.first_env,
            "episodes": self.episodes.copy(),
            **{name: getattr(self, name).copy() for name in self.state},
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> dict[str, AgentBatch]:
        """Continue from ``state``, as :meth:`rlcore.SavesState.load_state_dict` says."""
        self._draw_from(EpisodeSeeds(int(state["run_seed"]), int(state["first_env"])))
        self.episodes = np.array(state["episodes"], np.int64)
        for name in self.state:
            getattr(self, name)[...] = state[name]
        return self._current()

    # ------------------------------------------------------------ parts of a batch

    def _current(self) -> dict[str, AgentBatch]:
        nothing, none = np.zeros((self.num_envs, self.seats), np.float32), np.zeros(self.num_envs, np.bool_)
        return {role.name: self._batch(role, nothing, none, np.empty(0)) for role in self.roles}

    def _batch(self, role: Role, reward: Array, over: Array, final: Array) -> AgentBatch:
        seats, slots = self._seats[role.name], self.behaviors[role.name].slots
        name, shape = role.observation.name, role.observation.shape
        terminated = np.repeat(over, len(seats))
        acts, allowed = self.acts(), self.allowed(role)
        return AgentBatch(
            {name: self.observe(role).reshape(slots, *shape)},
            reward[:, seats].reshape(slots),
            terminated,
            np.zeros(slots, np.bool_),
            final_observations={name: final.reshape(slots, *shape)[terminated]} if over.any() else None,
            needs_action=None if acts is None else acts[:, seats].reshape(slots),
            action_mask=None if allowed is None else allowed.reshape(slots, -1),
        )

    def _draw_from(self, seeds: EpisodeSeeds) -> None:
        self.seeds = seeds
        self._table = EpisodeTable(self.num_envs, (self.draws,), self._draw)

    def _draw(self, env_index: NDArray[np.int64], blocks: NDArray[np.int64]) -> NDArray[np.float64]:
        """The numbers of 256 episodes of an environment come from the seed of the first one."""
        firsts = blocks * EpisodeTable.BLOCK
        seeds = [self.seeds(env, first) for env, first in zip(env_index.tolist(), firsts.tolist(), strict=True)]
        shape = (EpisodeTable.BLOCK, self.draws)
        return np.stack([np.random.default_rng(seed).random(shape) for seed in seeds])

    def _uniforms(self) -> NDArray[np.float64]:
        if not self.draws:
            return np.empty((self.num_envs, 0))
        return self._table(np.arange(self.num_envs), self.episodes)
