"""The ghosts of a behavior: with which policies the agents act that do not learn, and when these policies change.

A snapshot of the trainer goes into the window of the :class:`Pool` every ``save_steps``. A *swap* draws the opponents
of the games that begin from then on.

With several ranks, each has the agents of its own environments. The pool, the opponents of all environments, and when
they change, are the same in all: whatever they depend on is exchanged.

Shapes: S slots of the behavior, N* environments in all ranks, T teams of the behavior.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import ceil
from typing import Any

import attrs
import numpy as np

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
from rlcore_ghost.arrays import Ints
from rlcore_ghost.selfplay.controller import Controller
from rlcore_ghost.selfplay.pool import Member, Pool
from rlcore_ghost.selfplay.samplers import Candidates, OpponentSampler, as_indices
from rlcore_ghost.selfplay.seats import copy_actions
from rlcore_ghost.settings import SelfPlaySettings

__all__ = ["LEARNER", "Ghosts", "Role"]

LEARNER = -1  # the place of the policy that learns
NO_PLAYER = -1  # the player at a place that is free
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
        purpose = f"{behavior.name}/self_play"
        self._seed = derive_seed(seed, purpose)
        self._generator = derive_generator(seed, purpose)
        self.team = np.searchsorted(controller.learning.numbers, behavior.team)
        env_index = np.asarray(behavior.env_index, np.int64)
        self.player = controller.join(behavior.name, env_index, self.team, lambda: trainer.steps)
        members = []
        for name, policy in fixed.items():
            members.append(Member(name, controller.player(name), policy))
        self.pool = Pool(settings.window, members, role.plays_itself)
        teams, self._own_team = np.unique(behavior.team, return_inverse=True)
        self._env = env_index + controller.first_env  # [S]
        self._share: SlotShare = controller.exchange.share_slots(env_index, controller.first_env)
        slots = behavior.slots
        self.place = np.full(slots, LEARNER)
        self.slots: Ints = np.empty(0, np.int64)
        envs_of_rank = len(controller.drawn)
        envs = controller.exchange.total(envs_of_rank)
        self.assigned = np.full((len(teams), envs), LEARNER)
        of_snapshots = getattr(trainer.policy, "memory_size", 0)
        memory_size = max(of_snapshots, self.pool.mix.memory_size)
        self._memory = np.zeros((slots, memory_size), np.float32)
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

    def drawn_for(self, slots: Ints) -> Ints:
        """The places [K] of the policies that were drawn for episodes that begin in these ``slots`` [K]."""
        team = self._own_team[slots]
        env = self._env[slots]
        drawn: Ints = self.assigned[team, env]
        return drawn

    def players_at(self, places: Ints) -> Ints:
        """The players [K], indices in the match log, of the policies at these ``places`` [K]."""
        players = [NO_PLAYER if member is None else member.player for member in self.pool.members]
        return np.array([*players, self.player])[places]  # the last one is at LEARNER, -1

    def report_drawn(self) -> None:
        """Report to the controller which players were drawn for episodes that begin from now on."""
        places = np.where(self.assigned == LEARNER, self.final, self.assigned)
        players = self.players_at(places[self._own_team, self._env])
        env_of_rank = self._env - self.controller.first_env
        self.controller.drawn[env_of_rank, self.team] = players

    def play(self, slots: Ints, places: Ints | int) -> None:
        """Let these ``slots`` act with the policies at these ``places``."""
        self.place[slots] = places
        self.slots = np.flatnonzero(self.place != LEARNER)

    def forget(self, slots: Ints) -> None:
        """An episode begins in these ``slots``."""
        self._memory[slots] = 0.0

    def act(self, batch: AgentBatch, actions: Actions) -> None:
        """Write the actions of the ghosts that need one into ``actions`` [S]."""
        ghosts = self.slots
        if batch.needs_action is not None:
            ghosts = ghosts[batch.needs_action[ghosts]]
        if ghosts.size:
            self._act(ghosts, batch, actions)
        self.unshared += len(ghosts)
        self.acts += 1

    def _act(self, ghosts: Ints, batch: AgentBatch, actions: Actions) -> None:
        mix = self.pool.mix
        mix.policy_index = self.place[ghosts]
        observations = {name: array[ghosts] for name, array in batch.observations.items()}
        mask = None if batch.action_mask is None else batch.action_mask[ghosts]
        if not self._deterministic:
            # By step and agent, so that a run in several ranks, and a resumed one, draw the same actions.
            seed = derive_seed(self._seed, "act", self.acts)
            numbers = self._share.numbers[ghosts]
            mix.seed_rows(seed, numbers, self._share.total)
        memory = self._memory[ghosts]
        remembered = memory if memory.size else None
        acted = mix.act(observations, mask, self._deterministic, remembered)
        self._memory[ghosts] = memory
        copy_actions(acted, ghosts, actions)

    def in_any_rank(self, places: Ints) -> list[int]:
        """The places that are among the ``places`` [K] of any rank, ascending."""
        occupied = places[places != LEARNER]
        counts = np.bincount(occupied, minlength=len(self.pool.members))
        counts_of_all = self.controller.exchange.sum(counts)
        return np.flatnonzero(counts_of_all).tolist()

    # ------------------------------------------------------------ snapshots

    def save_if_due(self) -> None:
        """Put a snapshot into the window if the trainer has taken ``save_steps``."""
        interval = self.settings.save_steps
        # At multiples of the interval, however many steps an update passes: the window covers equal stretches.
        if self.trainer.steps // interval > self.saved_at // interval:
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
        if place is not None:
            return place
        steps = self.trainer.steps
        name = f"{self._name}@{steps}"
        if name in self.controller.log.names:  # another snapshot of the same step, with other weights
            name = f"{name}.{self.version}"
        snapshot = self.trainer.snapshot()
        # A snapshot is as strong as the learner is now.
        player = self.controller.player(name, like=self.player)
        state = FrozenState(snapshot.state_dict())
        member = Member(name, player, snapshot, steps, self.version, state)
        return self.pool.add(member)

    # ------------------------------------------------------------ opponents

    def swap_if_due(self) -> None:
        """Draw other opponents if ghosts have taken ``swap_steps``, or if another team learns."""
        if self.acts >= self.look_at:
            self._share_ghost_steps()
        changes = self.controller.learning.changes
        steps_since_swap = self.ghost_steps - self.swapped_at
        if changes != self.changes_seen or steps_since_swap >= self.settings.swap_steps:
            self.changes_seen = changes
            self.swap()

    def _share_ghost_steps(self, swap: bool = False) -> None:
        """Add up the ghost steps of all ranks, and find out when they may be enough for a swap after this one."""
        self.ghost_steps += self.controller.exchange.total(self.unshared)
        self.unshared = 0
        if swap:
            self.swapped_at = self.ghost_steps
        steps_since_swap = self.ghost_steps - self.swapped_at
        missing = max(1, self.settings.swap_steps - steps_since_swap)
        # A slot takes at most one step in a call, so no rank needs to ask the others before.
        calls = ceil(missing / self._share.total)
        self.look_at = self.acts + calls

    def swap(self) -> None:
        """Choose other opponents for the games that begin from now on."""
        settings = self.settings
        self._share_ghost_steps(swap=True)
        self.swaps += 1
        # Guests are those of now: other trainers of a league have taken snapshots since the last swap.
        self.pool.invite(self.role.guests())
        teams, envs = self.assigned.shape
        columns = envs if settings.opponents_per == "env" else 1
        places = np.full((teams, columns), LEARNER)
        # As in ML-Agents, a coin decides between the latest policy and the stored ones, and then a sampler chooses.
        stored = self._generator.random(places.shape) >= settings.play_against_latest_model_ratio
        wanted = int(stored.sum())
        if wanted:
            places[stored] = self._sample(wanted)
        latest = places == LEARNER
        if settings.learn_from == "learning_team" and latest.any():
            # Who does not learn plays a snapshot, so that a game has one policy from its first step to its last.
            places[latest] = self.latest()
        self.assigned[:] = places
        self.report_drawn()
        self._free()

    def _sample(self, count: int) -> Ints:
        """The places [count] of opponents that the sampler chooses. Raises PluginError if its answer is wrong."""
        candidates = self.candidates()
        places = np.array([*self.pool.candidates, LEARNER])  # the last one for index -1, the latest policy
        sampler = self._sampler
        try:
            chosen = sampler.sample(candidates, count, self._generator)
            name = type(sampler).__name__
            indices = as_indices(chosen, count, len(candidates.names), name)
        except ValueError as error:
            key = f"behaviors.{self._name}.self_play.opponents"
            raise PluginError(f"{key} {self.settings.opponents!r}: {error}") from None
        return places[indices]

    def candidates(self) -> Candidates:
        """The policies that a sampler chooses from."""
        controller = self.controller
        controller.rate_games()
        elo = controller.elo
        members = [self.pool.member(place) for place in self.pool.candidates]
        players = [member.player for member in members]
        steps = [member.step for member in members]
        fixed = [member.fixed for member in members]
        ratings = [elo.rating(player) for player in players]
        games, score = controller.results_against(self._name, players)
        return Candidates(
            names=tuple(member.name for member in members),
            steps=np.array(steps),
            fixed=np.array(fixed),
            games=games,
            score=score,
            rating=np.array(ratings),
            learner_rating=elo.rating(self.player),
        )

    def _free(self) -> None:
        """Free the places of policies that no agent of any rank plays, or will play."""
        playing = self.in_any_rank(self.place)
        will_play = np.unique(self.assigned).tolist()
        self.pool.free({*playing, *will_play, self.final})

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
        self.report_drawn()
        self.play(np.arange(0), LEARNER)
