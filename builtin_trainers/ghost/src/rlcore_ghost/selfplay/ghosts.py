"""The ghosts of a behavior: with which policies the agents act that do not learn, and when these policies change.

A snapshot of the trainer goes into the window of the :class:`Pool` every ``save_steps``. A *swap* draws the opponents
of the games that begin from then on.

With several ranks, each has the agents of its own environments. The pool, the opponents of all environments, and when
they change, are the same in all: whatever they depend on is exchanged.

Shapes: S slots of the behavior, N* environments in all ranks, T teams of the behavior.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import attrs
import numpy as np
from numpy.typing import NDArray

from rlcore import (
    Actions,
    AgentBatch,
    BehaviorSpec,
    FrozenState,
    PluginError,
    Policy,
    SavedValueError,
    SlotShare,
    Trainer,
    derive_generator,
    derive_seed,
    fill,
    generator_state,
    restore_generator,
    saved_count,
    saved_mapping,
)
from rlcore_ghost.selfplay.controller import Controller
from rlcore_ghost.selfplay.pool import Member, Pool
from rlcore_ghost.selfplay.samplers import Candidates, OpponentSampler, as_indices
from rlcore_ghost.selfplay.seats import copy_actions
from rlcore_ghost.settings import SelfPlaySettings

__all__ = ["LEARNER", "Ghosts", "Role"]

LEARNER = -1  # the place of the policy that learns
# Whole numbers of the state.
COUNTS = (
    "acts",
    "ghost_steps",
    "unshared",
    "look_at",
    "swapped_at",
    "changes_seen",
    "swaps",
    "saves",
    "saved_at",
    "version",
)


@attrs.frozen
class Role:
    """The part of a trainer in a league.

    Attributes:
        leads: Whether its steps change the learning team of the run.
        plays_itself: Whether opponents are chosen from its own snapshots too.
        guests: Returns the policies of other trainers to choose from, at each swap.
    """

    leads: bool = True
    plays_itself: bool = True
    guests: Callable[[], Sequence[Member]] = list


MAIN = Role()


class Ghosts:
    """The policies that the agents of one behavior act with while they do not learn.

    Attributes:
        trainer: The inner trainer.
        settings: The block ``self_play``.
        controller: What all behaviors of the run share.
        role: The part of the trainer in a league.
        player: The player that learns, an index in the match log.
        team: [S] team of each slot, an index among those of the controller.
        pool: The policies.
        place: [S] place in the pool of the policy that each slot acts with; -1 for the policy that learns.
        slots: The slots that act as ghosts.
        assigned: [T, N*] place of the opponent of each team in games that begin from now on.
        final: Place of the policy that the behavior ends with, once it has stopped to learn.
        draw_at_begin: Whether opponents are drawn when the next episodes begin.
        version: Number of updates of the trainer.
    """

    def __init__(
        self,
        trainer: Trainer,
        settings: SelfPlaySettings,
        behavior: BehaviorSpec,
        sampler: OpponentSampler,
        fixed: Mapping[str, Policy],
        controller: Controller,
        seed: int,
        deterministic: bool,
        role: Role = MAIN,
    ) -> None:
        """``trainer`` is the inner one; ``fixed`` are the fixed opponents by name.

        The behavior joins the controller; its name is that of the player that learns.
        """
        assert behavior.team is not None
        self.trainer = trainer
        self.settings = settings
        self._sampler = sampler
        self.controller = controller
        self._name = behavior.name
        self._deterministic = deterministic
        self.role = role
        self._seed = derive_seed(seed, f"{behavior.name}/self_play")
        self._generator = derive_generator(seed, f"{behavior.name}/self_play")
        self.team = np.searchsorted(controller.teams, behavior.team)
        env_index = np.asarray(behavior.env_index, np.int64)
        self.player = controller.join(behavior.name, env_index, self.team, lambda: trainer.steps)
        members = [Member(name, controller.player(name), policy) for name, policy in fixed.items()]
        self.pool = Pool(settings.window, members, role.plays_itself)
        teams, self._own_team = np.unique(behavior.team, return_inverse=True)
        self._env = env_index + controller.first_env  # [S]
        self._share: SlotShare = controller.exchange.share_slots(env_index, controller.first_env)
        self.place = np.full(behavior.slots, LEARNER)
        self.slots: NDArray[np.int64] = np.empty(0, np.int64)
        envs = controller.exchange.total(len(controller.team))
        self.assigned = np.full((len(teams), envs), LEARNER)
        memory_size = max(getattr(trainer.policy, "memory_size", 0), self.pool.mix.memory_size)
        self._memory = np.zeros((behavior.slots, memory_size), np.float32)
        self.final = LEARNER
        self.draw_at_begin = False
        self.acts = 0  # calls of `act`
        self.ghost_steps = 0  # of all ranks, as far as they are known
        self.unshared = 0  # ghost steps of this rank that the others do not know
        self.look_at = 0  # the call of `act` after which ghost steps may be enough for a swap
        self.swapped_at = 0  # ghost steps
        self.changes_seen = 0  # of the learning team
        self.swaps = 0
        self.saves = 0
        self.saved_at = 0  # steps of the trainer
        self.version = 0

    # ------------------------------------------------------------ who plays as whom

    def drawn_for(self, slots: NDArray[np.intp]) -> NDArray[np.int64]:
        """The places [K] of the policies that were drawn for episodes that begin in these ``slots`` [K]."""
        drawn: NDArray[np.int64] = self.assigned[self._own_team[slots], self._env[slots]]
        return drawn

    def tell(self) -> None:
        """Tell the controller which players were drawn for episodes that begin from now on."""
        places = np.where(self.assigned == LEARNER, self.final, self.assigned)[self._own_team, self._env]
        players = np.array([self.player, *(-1 if each is None else each.player for each in self.pool.members)])
        self.controller.drawn[self._env - self.controller.first_env, self.team] = players[places + 1]

    def play(self, slots: NDArray[np.intp], places: NDArray[np.int64] | int) -> None:
        """Let these ``slots`` act with the policies at these ``places``."""
        self.place[slots] = places
        self.slots = np.flatnonzero(self.place != LEARNER)

    def forget(self, slots: NDArray[np.intp]) -> None:
        """An episode begins in these ``slots``."""
        self._memory[slots] = 0.0

    def act(self, batch: AgentBatch, actions: Actions) -> None:
        """Write the actions of the ghosts that need one into ``actions`` [S]."""
        ghosts = self.slots
        needed = batch.needs_action
        if needed is not None:
            ghosts = ghosts[needed[ghosts]]
        if ghosts.size:
            self._act(ghosts, batch, actions)
        self.unshared += len(ghosts)
        self.acts += 1

    def _act(self, ghosts: NDArray[np.int64], batch: AgentBatch, actions: Actions) -> None:
        mix = self.pool.mix
        mix.policy_index = self.place[ghosts]
        seen = {name: array[ghosts] for name, array in batch.observations.items()}
        mask = None if batch.action_mask is None else batch.action_mask[ghosts]
        if not self._deterministic:
            mix.seed_rows(derive_seed(self._seed, "act", self.acts), self._share.numbers[ghosts], self._share.total)
        memory = self._memory[ghosts]
        acted = mix.act(seen, mask, self._deterministic, memory if memory.shape[1] else None)
        self._memory[ghosts] = memory
        copy_actions(acted, ghosts, actions)

    def in_any_rank(self, places: NDArray[np.int64]) -> list[int]:
        """The places that are among the ``places`` [K] of any rank, ascending."""
        there = np.bincount(places[places >= 0], minlength=len(self.pool.members))
        return np.flatnonzero(self.controller.exchange.sum(there)).tolist()

    # ------------------------------------------------------------ snapshots

    def save_if_due(self) -> None:
        """Put a snapshot into the window if the trainer has taken ``save_steps``."""
        each = self.settings.save_steps
        if self.trainer.steps // each > self.saved_at // each:
            self.save()

    def save(self) -> None:
        """Put a snapshot into the window."""
        self.saves += 1
        self.saved_at = self.trainer.steps
        self.pool.push(self.latest())
        self._free()

    def latest(self) -> int:
        """The place of the current policy as a ghost."""
        place = self.pool.find(self.version)
        if place is None:
            steps = self.trainer.steps
            name = f"{self._name}@{steps}"
            if name in self.controller.log.names:  # another snapshot of the same step, with other weights
                name = f"{name}.{self.version}"
            snapshot = self.trainer.snapshot()
            player = self.controller.player(name, self.player)
            state = FrozenState(snapshot.state_dict())
            place = self.pool.add(Member(name, player, snapshot, steps, self.version, state))
        return place

    # ------------------------------------------------------------ opponents

    def swap_if_due(self) -> None:
        """Draw other opponents if ghosts have taken ``swap_steps``, or if another team learns."""
        if self.acts >= self.look_at:
            self._share_ghost_steps()
        changes = self.controller.changes
        if changes != self.changes_seen or self.ghost_steps - self.swapped_at >= self.settings.swap_steps:
            self.changes_seen = changes
            self.swap()

    def _share_ghost_steps(self, swap: bool = False) -> None:
        """Add up the ghost steps of all ranks, and find out when they may be enough for a swap after this one."""
        self.ghost_steps += self.controller.exchange.total(self.unshared)
        self.unshared = 0
        if swap:
            self.swapped_at = self.ghost_steps
        missing = max(1, self.settings.swap_steps - (self.ghost_steps - self.swapped_at))
        self.look_at = self.acts + -(-missing // self._share.total)  # a slot takes one step in a call, or none

    def swap(self) -> None:
        """Choose other opponents for the games that begin from now on."""
        settings = self.settings
        self._share_ghost_steps(swap=True)
        self.swaps += 1
        self.pool.invite(self.role.guests())
        columns = self.assigned.shape[1] if settings.opponents_per == "env" else 1
        places = np.full((len(self.assigned), columns), LEARNER)
        stored = self._generator.random(places.shape) >= settings.play_against_latest_model_ratio
        wanted = int(stored.sum())
        if wanted:
            candidates = self.candidates()
            try:
                chosen = self._sampler.sample(candidates, wanted, self._generator)
                indices = as_indices(chosen, wanted, len(candidates.names), type(self._sampler).__name__)
            except ValueError as error:
                raise PluginError(
                    f"behaviors.{self._name}.self_play.opponents {settings.opponents!r}: {error}"
                ) from None
            places[stored] = np.array([*self.pool.candidates, LEARNER])[indices]
        if (places == LEARNER).any() and settings.learn_from == "learning_team":
            places[places == LEARNER] = self.latest()
        self.assigned[:] = places
        self.tell()
        self._free()

    def candidates(self) -> Candidates:
        """The policies that a sampler chooses from."""
        controller = self.controller
        controller.settle()
        members = [self.pool.member(place) for place in self.pool.candidates]
        players = [member.player for member in members]
        games, score = controller.results_against(self._name, players)
        return Candidates(
            names=tuple(member.name for member in members),
            steps=np.array([member.step for member in members]),
            fixed=np.array([member.fixed for member in members]),
            games=games,
            score=score,
            rating=np.array([controller.elo.rating(player) for player in players]),
            learner_rating=controller.elo.rating(self.player),
        )

    def _free(self) -> None:
        playing = self.in_any_rank(self.place)
        self.pool.free((self.assigned, np.array([*playing, self.final], np.int64)))

    # ------------------------------------------------------------ state

    def state_dict(self) -> dict[str, Any]:
        """The pool, who plays as whom, and what decides about the next swaps."""
        return {
            **self.pool.state_dict(),
            "place": self.place.copy(),
            "assigned": self.assigned.copy(),
            "memory": self._memory.copy(),
            "generator": generator_state(self._generator),
            "counts": {name: getattr(self, name) for name in COUNTS},
        }

    def load_learned(self, state: Mapping[str, Any]) -> None:
        """Load of a :meth:`state_dict` what belongs to no agent. Raises RunStateError if it does not fit."""
        self.pool.load_state_dict(state, self.trainer.snapshot)
        counts = saved_mapping(state, "counts")
        for name in COUNTS:
            setattr(self, name, saved_count(counts, name))
        try:
            restore_generator(self._generator, saved_mapping(state, "generator"))
        except (ArithmeticError, LookupError, TypeError, ValueError) as error:
            raise SavedValueError("the entry 'generator' is not the state of a generator") from error

    def load_agents(self, state: Mapping[str, Any]) -> None:
        """Load the rest, after :meth:`load_learned`."""
        self.pool.fill_places(self.assigned, state, "assigned")
        self.pool.fill_places(self.place, state, "place")
        fill(self._memory, state, "memory")
        self.tell()
        self.play(np.arange(0), LEARNER)
