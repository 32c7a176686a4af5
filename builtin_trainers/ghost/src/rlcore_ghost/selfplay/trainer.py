"""The ghost trainer: self-play around any trainer.

In each game, the agents of one team learn, and those of the other teams act as *ghosts*: with policies that do not
change, see :class:`Ghosts`. Who learns, and against whom, changes only where an agent begins an episode, so that an
episode has one policy from its first step to its last. Names and counting are those of ML-Agents: ``save_steps`` and
``team_change`` count agent steps of the trainer, ``swap_steps`` those of its ghosts.

Shapes: S slots of the behavior, R seats of the inner trainer, N environments, T teams.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, cast

import numpy as np

from rlcore import (
    Actions,
    AgentBatch,
    BehaviorSpec,
    ConfigError,
    PortableTrainer,
    SavedValueError,
    TrainerWrapper,
    did_you_mean,
    fill,
    saved_bool,
    saved_count,
    saved_mapping,
)
from rlcore_ghost.arrays import Bools, Floats, Ints
from rlcore_ghost.selfplay.ghosts import LEARNER, Ghosts
from rlcore_ghost.selfplay.match_log import STATE_ENTRY
from rlcore_ghost.selfplay.open_games import AgentResults
from rlcore_ghost.selfplay.pool import Member
from rlcore_ghost.selfplay.seats import Seats
from rlcore_ghost.selfplay.sides import Sides
from rlcore_ghost.settings import INFO

__all__ = ["GhostTrainer"]

ENTRY = "self_play"  # of a trainer's state
# Arrays and whole numbers of the state, attributes of the trainer with an underscore before.
ARRAYS = ("playing", "done", "fresh", "game", "returns")
COUNTS = ("resets", "changed_at")

TAGS = "Self-play/"  # before the names of statistics


class GhostTrainer(TrainerWrapper):
    """A trainer around another one, whose rows are the seats of the agents that learn.

    Attributes:
        controller: What all behaviors of the run share.
        learning: The learning team of the run.
        ghosts: The policies that agents act with while they do not learn.
        seats: Who sits in the rows of the inner trainer.
        teams: The behavior's teams, indices among those of the run.
    """

    learns_in_ranks = True

    def __init__(self, behavior: BehaviorSpec, seats: Seats, ghosts: Ghosts) -> None:
        """``ghosts`` are those of ``behavior``, and of the inner trainer, which learns ``seats.behavior(behavior)``."""
        super().__init__(ghosts.trainer)
        self.ghosts = ghosts
        self.seats = seats
        self.controller = ghosts.controller
        self.learning = self.controller.learning
        self.settings = ghosts.settings
        self.name = behavior.name
        self._player = ghosts.player
        self._team = ghosts.team
        self.teams = np.unique(self._team)
        slots = behavior.slots
        envs = len(self.learning.team)
        self._env = np.asarray(behavior.env_index, np.int64)  # [S]
        self._agents = np.bincount(self._env, minlength=envs)  # [N]
        self._playing = self._agents.copy()  # [N] agents that have not ended their episode of this game
        self._done = np.zeros(slots, np.bool_)  # those that have
        self._fresh = np.zeros(slots, np.bool_)  # slots that have not acted since their episode began
        self._game = np.zeros(envs, np.int64)  # [N]
        self._returns = np.zeros(slots)  # of the open episodes, if results are returns
        self._continuous = behavior.continuous
        self._branches = len(behavior.discrete)
        self._rows: AgentBatch | None = None  # the inner trainer's batch for `_rows_of`
        self._rows_of: AgentBatch | None = None
        self._sides: Sides | None = None
        if self.controller.many_games:
            # Nothing else says when one of the games of an environment is over.
            self._sides = Sides(behavior, len(self.learning.numbers))
        self._resets = 0
        self._awake = False  # whether the inner trainer acts and observes: in any rank, someone sits or may sit down
        self._changed_at = 0  # steps of the trainer
        self._stopped = False

    @property
    def learning_slots(self) -> Bools:
        """[S] the slots whose open episodes are learned from."""
        learning: Bools = self.ghosts.place == LEARNER
        return learning

    # ------------------------------------------------------------ the loop

    def begin(self, batch: AgentBatch) -> None:
        """Begin a new game in every environment; open games are not rated."""
        ghosts = self.ghosts
        if not ghosts.pool.window:
            # First observations of the learner, so that the first snapshot does not normalize without statistics.
            seated = batch.take(self.seats.slot)
            self.trainer.begin(seated)
            ghosts.save()
            ghosts.draw_at_begin = True
        if ghosts.draw_at_begin:
            ghosts.swap()
            ghosts.draw_at_begin = False
        self._resets += 1
        self.controller.reset(self._resets, self._game)
        self._done[:] = False
        self._playing[:] = self._agents
        everyone = np.arange(len(self._env))
        was_awake = self._awake
        self._forget(everyone)
        self._assign(everyone)
        if self._sides is not None:
            self._sides.reset()
        rows = self._take_rows(batch)
        self._awake = self._is_awake()
        if was_awake or self._awake:
            self.trainer.begin(rows)

    def act(self, batch: AgentBatch) -> Actions:
        """Actions of all slots: of those that learn by the inner trainer, of the others by their ghosts."""
        slots = len(self._env)
        actions = Actions()
        if self._continuous:
            actions.continuous = np.zeros((slots, self._continuous), np.float32)
        if self._branches:
            actions.discrete = np.zeros((slots, self._branches), np.int64)
        if self._awake:
            rows = self._rows
            if rows is None or self._rows_of is not batch:
                rows = self._take_rows(batch)
            seated = self.trainer.act(rows)
            self.seats.place(seated, actions)
        needed = slice(None) if batch.needs_action is None else batch.needs_action
        acted = self.learning.acting.acted
        if not acted.all():  # they have, in nearly all steps
            acted[self._team[needed]] = True
        self.ghosts.act(batch, actions)
        if self._sides is not None:
            self._sides.act(needed, lambda: self.controller.drawn[self._env])
        self._fresh[needed] = False
        return actions

    def observe(self, actions: Actions, batch: AgentBatch) -> None:
        """Pass on what the seats saw; where games ended, rate them and begin the next ones."""
        if self.settings.result == "return":
            self._add_rewards(batch)
        self.controller.observed(self.name)
        over = batch.ended
        if batch.aborted is not None:
            over = np.flatnonzero(batch.terminated | batch.truncated | batch.aborted)
        before = None
        if over.size:
            # The step belongs to those who sat during it, also where others sit down now.
            before = self.seats.copy()
            self._episodes_over(over, batch)
        was_awake = self._awake
        self._awake = self._is_awake()
        if was_awake or self._awake:
            rows = self._take_rows(batch, before)
            # An inner trainer that was asleep has no transition to learn from, only a first observation.
            if was_awake:
                sat = self.seats.slot if before is None else before[0]
                seated = actions.take(sat)
                self.trainer.observe(seated, rows)
            else:
                self.trainer.begin(rows)
        if self._stopped or not self.trainer.ready():  # else after the update, with the policy that it makes
            self._boundaries()

    def _take_rows(self, batch: AgentBatch, before: tuple[Ints, Bools] | None = None) -> AgentBatch:
        """The inner trainer's part of a batch, kept for the next :meth:`act`, which gets the same batch."""
        self._rows = self.seats.batch(batch, before)
        self._rows_of = batch
        return self._rows

    def _add_rewards(self, batch: AgentBatch) -> None:
        """Add the rewards of a step to the returns of the open episodes."""
        reward = batch.reward
        if batch.group_reward is not None:
            reward = reward + batch.group_reward
        if batch.transition_closed is not None:
            reward = np.where(batch.transition_closed, reward, 0)
        self._returns += reward

    def update(self) -> Mapping[str, float | Sequence[float]]:
        """Update the inner trainer, and report ratings beside its statistics."""
        stats = self.trainer.update()
        self.ghosts.version += 1
        self._boundaries()
        return {**stats, **self.statistics()}

    def statistics(self) -> dict[str, float]:
        """The statistics of self-play by tag, since the last call."""
        controller = self.controller
        controller.rate_games()
        ghosts = self.ghosts
        elo = controller.elo
        stats = {"ELO": elo.rating(self._player)}
        stats["Snapshots"] = float(ghosts.saves)
        stats["Swaps"] = float(ghosts.swaps)
        playing = ghosts.in_any_rank(ghosts.place[ghosts.slots])
        ratings = [elo.rating(ghosts.pool.member(place).player) for place in playing]
        if ratings:
            stats["Opponent ELO"] = float(np.mean(ratings))
        total, count = controller.results.totals.pop(self._player, (0.0, 0))
        if count:
            stats["Win Rate"] = total / count
        team = self.learning.current
        if team >= 0:
            stats["Learning Team"] = float(self.learning.numbers[team])
        return {f"{TAGS}{name}": value for name, value in stats.items()}

    @property
    def snapshots(self) -> list[Member]:
        """The snapshots in the window, oldest first."""
        pool = self.ghosts.pool
        return [pool.member(place) for place in pool.window]

    @property
    def versions(self) -> list[Member]:
        """The snapshots in the window, then the policy as it is."""
        place = self.ghosts.latest()
        latest = self.ghosts.pool.member(place)
        earlier = [member for member in self.snapshots if member is not latest]
        return [*earlier, latest]

    def restart(self, model: Mapping[str, Any]) -> None:
        """Keep a snapshot in the window, and continue with the weights ``model``. Call it after an update."""
        self.ghosts.save()
        self.trainer.load_model(model)
        self.ghosts.version += 1

    def stop_learning(self) -> None:
        """Let all agents play as ghosts from now on; the behavior has reached its ``max_steps``."""
        if self._stopped:
            return
        self._stopped = True
        # Other behaviors may learn on, so this one plays against them with the policy that it ends with.
        self.learning.retire(self.teams.tolist())
        self.ghosts.final = self.ghosts.latest()
        self.ghosts.report_drawn()
        self._awake = False
        learning = np.flatnonzero(self.learning_slots)
        self.seats.leave(learning)
        self.ghosts.play(learning, self.ghosts.final)

    # ------------------------------------------------------------ games

    def _episodes_over(self, over: Ints, batch: AgentBatch) -> None:
        """The episodes of the slots ``over`` [K] ended: rate games, and decide who learns in the next episodes."""
        value = self._value(over, batch)
        void = self._void(over, batch)
        skips_truncated = self.settings.truncated_games == "skip"
        cut_off = batch.truncated[over] & skips_truncated
        if self._sides is not None:
            sides = self._sides.end(over, value, void | cut_off)
            late = sides.void & batch.truncated[sides.slot]
            games_cut_off = int(np.count_nonzero(late))
            self.controller.report_sides(self.name, self._player, sides, games_cut_off)
            self._forget(over)
            self._assign(over)  # an agent's next episode waits for no other agent
            return
        # An agent that ended early may play on while others finish; only its first episode is part of the game.
        first = over[~self._done[over]]
        self._done[first] = True
        envs = len(self._playing)
        ended = np.bincount(self._env[first], minlength=envs)
        self._playing -= ended
        finished = (self._playing == 0) & (ended > 0)  # [N]
        played = self.ghosts.players_at(self.ghosts.place[over])
        results = AgentResults(over, played, value, void, cut_off)
        self.controller.report(self.name, results)
        if finished.any():
            self.learning.next_game(finished, self._game)
            self._playing[finished] = self._agents[finished]
            self._done[finished[self._env]] = False
        self._forget(over)
        # Agents that died early have waited for the end of the game.
        waiting = np.flatnonzero(self._fresh & finished[self._env])
        if not finished[self._env[over]].all():
            waiting = np.union1d(over, waiting)
        self._assign(waiting)

    def _void(self, over: Ints, batch: AgentBatch) -> Bools:
        """Whether the game of each of these slots [K] is not to be rated, however long it took."""
        if batch.aborted is None:
            return np.zeros(len(over), np.bool_)
        return batch.aborted[over]

    def _value(self, over: Ints, batch: AgentBatch) -> Floats:
        """The result [K] for each of the agents whose episode ended."""
        rule = self.settings.result
        if rule == "return":
            return self._returns[over].copy()
        if not rule.startswith(INFO):
            # As ML-Agents rates: the sign of the last reward and of the group's.
            final = batch.reward[over].astype(np.float64)
            if batch.group_reward is not None:
                final = final + batch.group_reward[over]
            return np.sign(final)
        reported = batch.final_info or {}
        name = rule.removeprefix(INFO)
        if name not in reported:
            numbers = ", ".join(sorted(reported)) or "none"
            problem = f"the environment reports no number {name!r} at the end of an episode; it reports {numbers}"
            hint = did_you_mean(name, reported)
            raise ConfigError(problem + hint, key=("behaviors", self.name, ENTRY, "result"))
        # Aborted episodes report nothing, and have no number.
        value = np.full(len(self._env), np.nan)
        value[batch.ended] = reported[name]
        return value[over]

    def _forget(self, slots: Ints) -> None:
        """An episode begins in these ``slots``."""
        self.ghosts.forget(slots)
        self._returns[slots] = 0.0
        self._fresh[slots] = True

    def _assign(self, slots: Ints) -> None:
        """Decide who learns, and who plays as which ghost, in the episodes that begin in these ``slots`` [K]."""
        self.seats.leave(slots)
        env = self._env[slots]
        of_learning_team = self.learning.team[env] == self._team[slots]
        ghost = self.ghosts.drawn_for(slots)
        as_learner = ghost == LEARNER
        learns = np.zeros(len(slots), np.bool_)
        if not self._stopped:
            learns = of_learning_team | as_learner
        # With learn_from: learning_team, an agent of the team that learned before may still sit in the seat.
        learns[learns] = self.seats.sit(slots[learns])
        # After max_steps, the policy as it is has a place like any other.
        ghost[as_learner] = self.ghosts.final
        places = np.where(learns, LEARNER, ghost)
        self.ghosts.play(slots, places)
        if self._sides is not None:
            rated = learns & of_learning_team
            self._sides.begin(slots, rated, self.controller.playing[env])

    def _is_awake(self) -> bool:
        """Whether an agent of any rank sits in a seat, or may sit down in the next game."""
        if self._stopped:
            return False
        if self.learning.current in self.teams:
            return True
        if (self.ghosts.assigned == LEARNER).any():
            return True
        if not self._awake:
            return False
        # The ranks ask each other only while the last games end in which agents of this behavior learn.
        sits = bool(self.seats.occupied.any())
        begun = self.learning.game > self._game  # by another behavior, when the team of this one learned
        next_teams = self.learning.team[begun]
        will_sit = bool(np.isin(next_teams, self.teams).any())
        return self.controller.exchange.any(sits or will_sit)

    def _boundaries(self) -> None:
        """Save a snapshot, change the team and swap opponents where they are due."""
        learning = self.learning
        steps = self.trainer.steps
        self.ghosts.save_if_due()
        if learning.current < 0 and not self._stopped:  # max_steps was raised after all had reached it
            learning.change()
        decides = self.ghosts.role.leads and learning.current in self.teams
        steps_since_change = steps - self._changed_at
        if decides and steps_since_change >= self.settings.team_change_steps:
            self._changed_at = steps
            learning.change()
        # After the team: its change is one of the reasons for a swap.
        self.ghosts.swap_if_due()

    # ------------------------------------------------------------ state

    def state_dict(self) -> dict[str, Any]:
        """The state of the inner trainer, and an entry for self-play; the first behavior has the controller too.

        Whether a behavior has reached its ``max_steps`` is not part of it: a run may be resumed with more steps.
        """
        return {**self.trainer.state_dict(), **self._self_play_state()}

    def _self_play_state(self) -> dict[str, Any]:
        ghosts = self.ghosts.state_dict()
        counts = {name: getattr(self, f"_{name}") for name in COUNTS}
        entry = {**ghosts, **self.seats.state_dict(), "awake": self._awake}
        entry["counts"] = {**ghosts["counts"], **counts}
        for name in ARRAYS:
            entry[name] = getattr(self, f"_{name}").copy()
        if self._sides is not None:
            entry["sides"] = self._sides.state_dict()
        state = {ENTRY: entry}
        if self.controller.first == self.name:
            state[STATE_ENTRY] = self.controller.state_dict()
        return state

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue from :meth:`state_dict`. Raises RunStateError, changing nothing, if the state does not fit."""
        with self._all_or_nothing():
            self._load(state)
            self.trainer.load_state_dict(state)

    def load_learned(self, state: Mapping[str, Any]) -> None:
        """Load what belongs to no agent: what the inner trainer has learned, the pool and the ratings.

        Games that were open, or over and not rated yet, are lost; opponents are drawn where the next games begin.
        """
        with self._all_or_nothing():
            self._load_learned(state)
            if STATE_ENTRY in state:
                self.controller.load_learned(saved_mapping(state, STATE_ENTRY))
            cast(PortableTrainer, self.trainer).load_learned(state)
        self.ghosts.unshared = 0
        self._awake = True
        self.ghosts.draw_at_begin = True

    @contextmanager
    def _all_or_nothing(self) -> Iterator[None]:
        """Take back what the block has loaded if it raises an error."""
        before = self._self_play_state()
        try:
            yield
        except Exception:
            self._load(before)
            raise

    def _load(self, state: Mapping[str, Any]) -> None:
        self._load_learned(state)
        if STATE_ENTRY in state:
            self.controller.load_state_dict(saved_mapping(state, STATE_ENTRY))
        entry = saved_mapping(state, ENTRY)
        self.ghosts.load_agents(entry)
        self.seats.load_state_dict(entry)
        if self._sides is not None:
            self._sides.load_state_dict(saved_mapping(entry, "sides"))
        self._awake = saved_bool(entry, "awake")
        for name in ARRAYS:
            fill(getattr(self, f"_{name}"), entry, name)

    def _load_learned(self, state: Mapping[str, Any]) -> None:
        """Load the pool and the counts, and check whether the ratings are where they belong."""
        if ENTRY not in state:
            raise SavedValueError(
                "the checkpoint was saved without self_play; remove the block, or start a new run with initialize_from"
            )
        has_ratings = STATE_ENTRY in state
        if has_ratings != (self.controller.first == self.name):
            raise SavedValueError("the run had self_play in other behaviors; resume with the blocks of the run")
        entry = saved_mapping(state, ENTRY)
        self.ghosts.load_learned(entry)
        counts = saved_mapping(entry, "counts")
        for name in COUNTS:
            setattr(self, f"_{name}", saved_count(counts, name))
