"""The ghost trainer: self-play around any trainer.

In each game, the agents of one team learn, and those of the other teams act as *ghosts*: with policies that do not
change, drawn from a :class:`Pool`. Who learns, and against whom, changes only where an agent begins an episode. Names
and counting are those of ML-Agents: ``save_steps`` and ``team_change`` count agent steps of the trainer, ``swap_steps``
those of its ghosts.

With several ranks, each has the agents of its own environments. The pool, the opponents of all environments, and when
they change, are the same in all: whatever they depend on is exchanged.

Shapes: S slots of the behavior, R seats of the inner trainer, N environments, N* in all ranks, T teams.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, cast

import attrs
import numpy as np
from numpy.typing import NDArray

from rlcore import (
    Actions,
    AgentBatch,
    BehaviorSpec,
    ConfigError,
    FrozenState,
    PluginError,
    PortableTrainer,
    SavedValueError,
    SlotShare,
    Trainer,
    TrainerWrapper,
    derive_generator,
    derive_seed,
    did_you_mean,
    generator_state,
    restore_generator,
    saved_array,
    saved_bool,
    saved_count,
    saved_mapping,
)
from rlcore_ghost.selfplay.controller import Controller
from rlcore_ghost.selfplay.match_log import STATE_ENTRY
from rlcore_ghost.selfplay.pool import Member, Pool, saved_places
from rlcore_ghost.selfplay.samplers import Candidates, OpponentSampler, as_indices
from rlcore_ghost.selfplay.seats import Seats, copy_actions
from rlcore_ghost.settings import INFO, SelfPlaySettings

__all__ = ["GhostTrainer", "Role"]

LEARNER = -1  # the place of the policy that learns
ENTRY = "self_play"  # of a trainer's state

RATING = "Self-play/ELO"
OPPONENT_RATING = "Self-play/Opponent ELO"
RESULT = "Self-play/Win Rate"
LEARNING_TEAM = "Self-play/Learning Team"
SNAPSHOTS = "Self-play/Snapshots"
SWAPS = "Self-play/Swaps"


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


class _Saved(NamedTuple):
    """What a state says of the pool, the controller, the ``COUNTS`` and the generator."""

    pool: tuple[list[Member | None], list[int], list[int]]
    controller: dict[str, Any]
    counts: dict[str, int]
    generator: np.random.Generator


class GhostTrainer(TrainerWrapper):
    """A trainer around another one, whose rows are the seats of the agents that learn.

    Attributes:
        controller: What all behaviors of the run share.
        pool: The policies of the ghosts.
        seats: Who sits in the rows of the inner trainer.
        place: [S] place in the pool of the policy that each slot acts with; -1 for the policy that learns.
    """

    learns_in_ranks = True

    def __init__(
        self,
        trainer: Trainer,
        settings: SelfPlaySettings,
        behavior: BehaviorSpec,
        seats: Seats,
        sampler: OpponentSampler,
        fixed: Mapping[str, Any],
        controller: Controller,
        seed: int,
        deterministic: bool,
        role: Role = MAIN,
    ) -> None:
        """``trainer`` learns ``seats.behavior(behavior)``; ``fixed`` are the fixed opponents by name.

        The behavior's name is that of the player that learns.
        """
        super().__init__(trainer)
        assert behavior.team is not None
        self.settings, self.controller, self.seats, self._sampler = settings, controller, seats, sampler
        self.name, self._deterministic, self._role = behavior.name, deterministic, role
        self._seed = derive_seed(seed, f"{behavior.name}/self_play")
        self._generator = derive_generator(seed, f"{behavior.name}/self_play")
        slots, envs = behavior.slots, len(controller.team)
        self._env = np.asarray(behavior.env_index, np.int64)  # [S]
        self.teams = tuple(np.unique(behavior.team).tolist())
        self._team = np.searchsorted(controller.teams, behavior.team)  # [S] index among all teams
        self._team_indices = np.unique(self._team)
        self._own_team = np.searchsorted(self.teams, behavior.team)  # [S] index among those of the behavior
        exchange = controller.exchange
        self._share: SlotShare = exchange.share_slots(self._env, controller.first_env)
        self._own = slice(controller.first_env, controller.first_env + envs)  # of the N* environments
        self._player = controller.join(self.name, self._env, self._team, lambda: self.trainer.steps)
        self.pool = Pool(
            settings.window,
            [Member(name, controller.player(name), policy) for name, policy in fixed.items()],
            role.plays_itself,
        )
        self.place = np.full(slots, LEARNER)
        # [T, N*] place of each team of the behavior in games that begin from now on
        self._assigned = np.full((len(self.teams), exchange.total(envs)), LEARNER)
        self._agents = np.bincount(self._env, minlength=envs)  # [N]
        self._playing = self._agents.copy()  # [N] agents that have not ended their episode of this game
        self._done = np.zeros(slots, np.bool_)  # those that have
        self._fresh = np.zeros(slots, np.bool_)  # slots that have not acted since their episode began
        self._game = np.zeros(envs, np.int64)  # [N]
        self._returns = np.zeros(slots)  # of the open episodes, if results are returns
        memory_size = max(getattr(trainer.policy, "memory_size", 0), self.pool.mix.memory_size)
        self._memory = np.zeros((slots, memory_size), np.float32)  # of ghosts
        self._parts = (behavior.continuous, len(behavior.discrete))
        self._ghosts: NDArray[np.int64] = np.empty(0, np.int64)  # slots that do not learn
        self._rows: AgentBatch | None = None  # the inner trainer's batch for `_rows_of`
        self._rows_of: AgentBatch | None = None
        self._acts = 0  # calls of `act`
        self._resets = 0
        self._draw_at_begin = False  # opponents are drawn when the next episodes begin
        self._ghost_steps = 0  # of all ranks, as far as they are known
        self._unshared = 0  # ghost steps of this rank that the others do not know
        self._look_at = 0  # the call of `act` after which ghost steps may be enough for a swap
        self._awake = False  # whether the inner trainer acts and observes: in any rank, someone sits or may sit down
        self._swapped_at = 0  # ghost steps
        self._changed_at = 0  # steps of the trainer
        self._changes_seen = 0
        self._saves = 0
        self._saved_at = 0  # steps of the trainer
        self._swaps = 0
        self._version = 0  # updates of the trainer
        self._stopped = False
        self._final = LEARNER  # place of the policy that the behavior ends with, once it has stopped to learn

    @property
    def learning_slots(self) -> NDArray[np.bool_]:
        """[S] the slots whose open episodes are learned from."""
        learning: NDArray[np.bool_] = self.place == LEARNER
        return learning

    # ------------------------------------------------------------ the loop

    def begin(self, batch: AgentBatch) -> None:
        """Begin a new game in every environment; open games are not rated."""
        if not self.pool.window:
            # First observations of the learner, so that the first snapshot does not normalize without statistics.
            self.trainer.begin(batch.take(self.seats.slot))
            self._save()
            self._draw_at_begin = True
        if self._draw_at_begin:
            self._swap()
            self._draw_at_begin = False
        self._resets += 1
        self.controller.reset(self._resets, self._game)
        self._done[:] = False
        self._playing[:] = self._agents
        everyone, learned = np.arange(len(self.place)), self._awake
        self._forget(everyone)
        self._assign(everyone)
        self._rows, self._rows_of = self.seats.batch(batch), batch
        self._awake = self._is_awake()
        if learned or self._awake:
            self.trainer.begin(self._rows)

    def act(self, batch: AgentBatch) -> Actions:
        """Actions of all slots: of those that learn by the inner trainer, of the others by their ghosts."""
        slots = len(self.place)
        continuous, branches = self._parts
        actions = Actions(
            np.zeros((slots, continuous), np.float32) if continuous else None,
            np.zeros((slots, branches), np.int64) if branches else None,
        )
        if self._awake:
            if self._rows_of is not batch or self._rows is None:
                self._rows, self._rows_of = self.seats.batch(batch), batch
            self.seats.place(self.trainer.act(self._rows), actions)
        ghosts, needed = self._ghosts, batch.needs_action
        if not self.controller.acting.acted.all():
            self.controller.acting.acted[self._team if needed is None else self._team[needed]] = True
        if needed is not None:
            ghosts = ghosts[needed[ghosts]]
        if ghosts.size:
            self._act_as_ghosts(ghosts, batch, actions)
            self._unshared += len(ghosts)
        self._acts += 1
        if needed is None:
            self._fresh[:] = False
        else:
            self._fresh &= ~needed
        return actions

    def _act_as_ghosts(self, ghosts: NDArray[np.int64], batch: AgentBatch, actions: Actions) -> None:
        mix = self.pool.mix
        mix.policy_index = self.place[ghosts]
        seen = {name: array[ghosts] for name, array in batch.observations.items()}
        mask = None if batch.action_mask is None else batch.action_mask[ghosts]
        if not self._deterministic:
            mix.seed_rows(derive_seed(self._seed, "act", self._acts), self._share.numbers[ghosts], self._share.total)
        if self._memory.shape[1]:
            memory = self._memory[ghosts]
            acted = mix.act(seen, mask, self._deterministic, memory)
            self._memory[ghosts] = memory
        else:
            acted = mix.act(seen, mask, self._deterministic)
        copy_actions(acted, ghosts, actions)

    def observe(self, actions: Actions, batch: AgentBatch) -> None:
        """Pass on what the seats saw; where games ended, rate them and begin the next ones."""
        if self.settings.result == "return":
            closed, shared = batch.transition_closed, batch.group_reward
            reward = batch.reward if shared is None else batch.reward + shared
            self._returns += reward if closed is None else np.where(closed, reward, 0)
        self.controller.observed(self.name)
        over = batch.ended
        if batch.aborted is not None:
            over = np.flatnonzero(batch.terminated | batch.truncated | batch.aborted)
        before = None
        if over.size:
            before = self.seats.copy()
            self._episodes_over(over, batch)
        learned, self._awake = self._awake, self._is_awake()
        if learned or self._awake:
            sat = self.seats.slot if before is None else before[0]
            rows = self._rows = self.seats.batch(batch, before)
            self._rows_of = batch
            if learned:
                self.trainer.observe(actions.take(sat), rows)
            else:
                self.trainer.begin(rows)
        if self._stopped or not self.trainer.ready():  # else after the update, with the policy that it makes
            self._boundaries()

    def update(self) -> Mapping[str, float | Sequence[float]]:
        """Update the inner trainer, and report ratings beside its statistics."""
        stats = self.trainer.update()
        self._version += 1
        self._boundaries()
        return {**stats, **self.statistics()}

    def statistics(self) -> dict[str, float]:
        """The statistics of self-play by tag, since the last call."""
        self.controller.settle()
        elo, (total, count) = self.controller.elo, self.controller.results(self._player)
        players = [self.pool.member(place).player for place in self._in_any_rank(self.place[self._ghosts])]
        team = self.controller.learning_team
        return {
            RATING: elo.rating(self._player),
            **({OPPONENT_RATING: float(np.mean([elo.rating(player) for player in players]))} if players else {}),
            **({RESULT: total / count} if count else {}),
            **({} if team < 0 else {LEARNING_TEAM: float(self.controller.teams[team])}),
            SNAPSHOTS: float(self._saves),
            SWAPS: float(self._swaps),
        }

    @property
    def latest(self) -> Member:
        """The current policy as a ghost."""
        return self.pool.member(self._latest())

    @property
    def snapshots(self) -> list[Member]:
        """The snapshots in the window, oldest first."""
        return [self.pool.member(place) for place in self.pool.window]

    def restart(self, model: Mapping[str, Any]) -> None:
        """Keep a snapshot in the window, and continue with the weights ``model``. Call it after an update."""
        self._save()
        self.trainer.load_model(model)
        self._version += 1

    def stop_learning(self) -> None:
        """Let all agents play as ghosts from now on; the behavior has reached its ``max_steps``."""
        if self._stopped:
            return
        self._stopped = True
        self.controller.retire(self.teams)
        self._final, self._awake = self._latest(), False
        learning = np.flatnonzero(self.place == LEARNER)
        self.seats.leave(learning)
        self.place[learning] = self._final
        self._roles_changed()

    # ------------------------------------------------------------ games

    def _episodes_over(self, over: NDArray[np.intp], batch: AgentBatch) -> None:
        """The episodes of the slots ``over`` [K] ended: rate games, and decide who learns in the next episodes."""
        first = over[~self._done[over]]
        self._done[first] = True
        ended = np.bincount(self._env[first], minlength=len(self._playing))
        self._playing -= ended
        finished = (self._playing == 0) & (ended > 0)  # [N]
        self._rate(over, batch)
        if finished.any():
            self.controller.next_game(finished, self._game)
            self._playing[finished] = self._agents[finished]
            self._done[finished[self._env]] = False
        self._forget(over)
        # Agents that died early have waited for the end of the game.
        waiting = self._fresh & finished[self._env]
        self._assign(np.flatnonzero(waiting) if waiting[over].all() else np.union1d(over, np.flatnonzero(waiting)))

    def _rate(self, over: NDArray[np.intp], batch: AgentBatch) -> None:
        names = np.array([self._player, *(-1 if each is None else each.player for each in self.pool.members)])
        self.controller.report(
            self.name, over, self._team[over], names[self.place[over] + 1], self._value(over, batch),
            self._void(over, batch), batch.truncated[over] & (self.settings.truncated_games == "skip"),
        )  # fmt: skip

    def _void(self, over: NDArray[np.intp], batch: AgentBatch) -> NDArray[np.bool_]:
        """Whether the game of each of these slots [K] is not to be rated, however long it took."""
        return np.zeros(len(over), np.bool_) if batch.aborted is None else batch.aborted[over]

    def _value(self, over: NDArray[np.intp], batch: AgentBatch) -> NDArray[np.float64]:
        """The result [K] for each of the agents whose episode ended."""
        rule = self.settings.result
        if rule == "return":
            return self._returns[over].copy()
        if not rule.startswith(INFO):
            final = batch.reward[over].astype(np.float64)
            return np.sign(final if batch.group_reward is None else final + batch.group_reward[over])
        reported, name = batch.final_info or {}, rule.removeprefix(INFO)
        if name not in reported:
            there = f"it reports {', '.join(sorted(reported))}" if reported else "it reports none"
            raise ConfigError(
                f"the environment reports no number {name!r} at the end of an "
                f"episode; {there}{did_you_mean(name, reported)}",
                key=("behaviors", self.name, ENTRY, "result"),
            )
        value = np.full(len(self.place), np.nan)
        value[batch.ended] = reported[name]
        return value[over]

    def _forget(self, slots: NDArray[np.intp]) -> None:
        """An episode begins in these ``slots``."""
        self._memory[slots] = 0.0
        self._returns[slots] = 0.0
        self._fresh[slots] = True

    def _assign(self, slots: NDArray[np.intp]) -> None:
        """Decide who learns, and who plays as which ghost, in the episodes that begin in these ``slots`` [K]."""
        self.seats.leave(slots)
        env = self._env[slots]
        ghost = self._assigned[:, self._own][self._own_team[slots], env]
        learns = np.zeros(len(slots), np.bool_)
        if not self._stopped:
            learns = (self.controller.team[env] == self._team[slots]) | (ghost == LEARNER)
        learns[learns] = self.seats.sit(slots[learns])
        ghost[ghost == LEARNER] = self._final
        self.place[slots] = np.where(learns, LEARNER, ghost)
        self._roles_changed()

    def _roles_changed(self) -> None:
        self._ghosts = np.flatnonzero(self.place != LEARNER)

    def _is_awake(self) -> bool:
        """Whether an agent of any rank sits in a seat, or may sit down in the next game."""
        if self._stopped:
            return False
        controller = self.controller
        if controller.learning_team in self._team_indices or (self._assigned == LEARNER).any():
            return True
        if not self._awake:
            return False
        # The ranks ask each other only while the last games end in which agents of this behavior learn.
        begun = controller.game > self._game  # by another behavior, when the team of this one learned
        will = bool(np.isin(controller.team[begun], self._team_indices).any())
        return controller.exchange.any(self.seats.any_taken or will)

    def _in_any_rank(self, places: NDArray[np.int64]) -> list[int]:
        """The places that are among the ``places`` [K] of any rank, ascending."""
        there = np.bincount(places[places >= 0], minlength=len(self.pool.members))
        return np.flatnonzero(self.controller.exchange.sum(there)).tolist()

    # ------------------------------------------------------------ snapshots and opponents

    def _boundaries(self) -> None:
        """Save a snapshot, change the team and swap opponents where they are due."""
        settings, controller, steps = self.settings, self.controller, self.trainer.steps
        if steps // settings.save_steps > self._saved_at // settings.save_steps:
            self._save()
        if (
            controller.learning_team < 0 and not self._stopped
        ):  # max_steps was raised after every behavior had reached it
            controller.change_team()
        learning = controller.learning_team >= 0 and controller.teams[controller.learning_team] in self.teams
        if learning and self._role.leads and steps - self._changed_at >= settings.team_change_steps:
            self._changed_at = steps
            controller.change_team()
        if self._acts >= self._look_at:
            self._share_ghost_steps()
            self._look_again()
        if controller.changes != self._changes_seen or self._ghost_steps - self._swapped_at >= settings.swap_steps:
            self._changes_seen = controller.changes
            self._swap()

    def _share_ghost_steps(self) -> None:
        """Add up the ghost steps of all ranks."""
        self._ghost_steps += self.controller.exchange.total(self._unshared)
        self._unshared = 0

    def _look_again(self) -> None:
        missing = max(1, self.settings.swap_steps - (self._ghost_steps - self._swapped_at))
        self._look_at = self._acts + -(-missing // self._share.total)  # a slot takes one step in a call, or none

    def _save(self) -> None:
        """Put a snapshot into the window."""
        self._saves += 1
        self._saved_at = self.trainer.steps
        self.pool.push(self._latest())
        self._free()

    def _latest(self) -> int:
        """The place of the current policy as a ghost."""
        place = self.pool.find(self._version)
        if place is None:
            steps, names = self.trainer.steps, self.controller.log.names
            name = f"{self.name}@{steps}"
            if name in names:  # another snapshot of the same step, with other weights
                name = f"{name}.{self._version}"
            snapshot = self.trainer.snapshot()
            player = self.controller.player(name, self._player)
            state = FrozenState(snapshot.state_dict())
            place = self.pool.add(Member(name, player, snapshot, steps, self._version, state))
        return place

    def _swap(self) -> None:
        """Choose other opponents for the games that begin from now on."""
        settings = self.settings
        self._share_ghost_steps()
        self._swapped_at = self._ghost_steps
        self._look_again()
        self._swaps += 1
        self.pool.invite(self._role.guests())
        columns = self._assigned.shape[1] if settings.opponents_per == "env" else 1
        places = np.full((len(self.teams), columns), LEARNER)
        stored = self._generator.random(places.shape) >= settings.play_against_latest_model_ratio
        wanted = int(stored.sum())
        if wanted:
            candidates = self._candidates()
            try:
                chosen = self._sampler.sample(candidates, wanted, self._generator)
                indices = as_indices(chosen, wanted, len(candidates.names), type(self._sampler).__name__)
            except ValueError as error:
                raise PluginError(
                    f"behaviors.{self.name}.self_play.opponents {settings.opponents!r}: {error}"
                ) from None
            places[stored] = np.array([*self.pool.candidates, LEARNER])[indices]
        if (places == LEARNER).any() and settings.learn_from == "learning_team":
            places[places == LEARNER] = self._latest()
        self._assigned[:] = places
        self._free()

    def _candidates(self) -> Candidates:
        self.controller.settle()
        members = [self.pool.member(place) for place in self.pool.candidates]
        controller, players = self.controller, [member.player for member in members]
        games, score = controller.results_against(self.name, players)
        return Candidates(
            names=tuple(member.name for member in members),
            steps=np.array([member.step for member in members]),
            fixed=np.array([member.fixed for member in members]),
            games=games,
            score=score,
            rating=np.array([controller.elo.rating(player) for player in players]),
            learner_rating=controller.elo.rating(self._player),
        )

    def _free(self) -> None:
        playing = self._in_any_rank(self.place)
        self.pool.free((self._assigned, np.array([*playing, self._final], np.int64)))

    # ------------------------------------------------------------ state

    def state_dict(self) -> dict[str, Any]:
        """The state of the inner trainer, and an entry for self-play; the first behavior has the controller too.

        Whether a behavior has reached its ``max_steps`` is not part of it: a run may be resumed with more steps.
        """
        own = {
            **self.pool.state_dict(),
            **self.seats.state_dict(),
            "place": self.place.copy(),
            "assigned": self._assigned.copy(),
            **{name: getattr(self, f"_{name}").copy() for name in ARRAYS},
            "generator": generator_state(self._generator),
            "awake": self._awake,
            "counts": {name: getattr(self, f"_{name}") for name in COUNTS},
        }
        state = {**self.trainer.state_dict(), ENTRY: own}
        if self.controller.first == self.name:
            state[STATE_ENTRY] = self.controller.state_dict()
        return state

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue from :meth:`state_dict`. Raises RunStateError, changing nothing, if the state does not fit."""
        if ENTRY not in state:
            raise SavedValueError(
                "the checkpoint was saved without self_play; remove the block, or start a new run with initialize_from"
            )
        own, learned = saved_mapping(state, ENTRY), self._saved_learned(state, self.controller.saved)
        seats, members = self.seats.saved(own), learned.pool[0]
        place = saved_places(own, "place", self.place.shape, members)
        assigned = saved_places(own, "assigned", self._assigned.shape, members)
        mine = {name: getattr(self, f"_{name}") for name in ARRAYS}
        arrays = {name: saved_array(own, name, array.dtype, array.shape) for name, array in mine.items()}
        awake = saved_bool(own, "awake")
        self.trainer.load_state_dict(state)
        self._load_learned(learned)
        self._awake = awake
        self.seats.load(seats)
        self.place[:], self._assigned[:] = place, assigned
        for name, array in arrays.items():
            mine[name][...] = array
        self._roles_changed()

    def load_learned(self, state: Mapping[str, Any]) -> None:
        """Load what belongs to no agent: what the inner trainer has learned, the pool and the ratings.

        Games that were open, or over and not rated yet, are lost; opponents are drawn where the next games begin.
        """
        learned = self._saved_learned(state, self.controller.saved_learned)
        cast(PortableTrainer, self.trainer).load_learned(state)
        self._load_learned(learned)
        self._unshared = 0
        self._awake = self._draw_at_begin = True

    def _saved_learned(self, state: Mapping[str, Any], shared: Callable[[Mapping[str, Any]], dict[str, Any]]) -> _Saved:
        """Check and return what belongs to no agent. Raises RunStateError.

        ``shared`` reads what the trainer of the first behavior loads into the controller.
        """
        own = saved_mapping(state, ENTRY)
        pool = self.pool.saved(own, self.trainer.snapshot)
        if (self.controller.first == self.name) != (STATE_ENTRY in state):
            raise SavedValueError("the run had self_play in other behaviors; resume with the blocks of the run")
        controller = shared(saved_mapping(state, STATE_ENTRY)) if STATE_ENTRY in state else {}
        counts = saved_mapping(own, "counts")
        return _Saved(pool, controller, {name: saved_count(counts, name) for name in COUNTS}, _saved_generator(own))

    def _load_learned(self, saved: _Saved) -> None:
        self.pool.load(*saved.pool)
        self.controller.load(saved.controller)
        self._generator = saved.generator
        for name, count in saved.counts.items():
            setattr(self, f"_{name}", count)


def _saved_generator(state: Mapping[str, Any]) -> np.random.Generator:
    generator = derive_generator(0, ENTRY)
    try:
        restore_generator(generator, saved_mapping(state, "generator"))
    except (ArithmeticError, LookupError, TypeError, ValueError) as error:
        raise SavedValueError("the entry 'generator' is not the state of a generator") from error
    return generator


# Arrays and whole numbers of the state, attributes of the trainer with an underscore before.
ARRAYS = ("playing", "done", "fresh", "game", "returns", "memory")
COUNTS = (
    "acts", "resets", "ghost_steps", "swapped_at", "changed_at", "changes_seen", "saves", "saved_at", "swaps",
    "version", "unshared", "look_at",
)  # fmt: skip
