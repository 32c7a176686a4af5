"""The ghost trainer: self-play around any trainer.

In each game, the agents of one team learn, and those of the other teams act as *ghosts*: with policies that do not
change, see :class:`Ghosts`. Who learns, and against whom, changes only where an agent begins an episode. Names and
counting are those of ML-Agents: ``save_steps`` and ``team_change`` count agent steps of the trainer, ``swap_steps``
those of its ghosts.

Shapes: S slots of the behavior, R seats of the inner trainer, N environments, T teams.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

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
        ghosts: The policies that agents act with while they do not learn.
        seats: Who sits in the rows of the inner trainer.
        teams: The behavior's teams, indices among those of the controller.
    """

    learns_in_ranks = True

    def __init__(self, behavior: BehaviorSpec, seats: Seats, ghosts: Ghosts) -> None:
        """``ghosts`` are those of ``behavior``, and of the inner trainer, which learns ``seats.behavior(behavior)``."""
        super().__init__(ghosts.trainer)
        self.ghosts = ghosts
        self.seats = seats
        self.controller = ghosts.controller
        self.settings = ghosts.settings
        self.name = behavior.name
        self._player = ghosts.player
        self._team = ghosts.team
        self.teams = np.unique(self._team)
        slots = behavior.slots
        envs = len(self.controller.team)
        self._env = np.asarray(behavior.env_index, np.int64)  # [S]
        self._agents = np.bincount(self._env, minlength=envs)  # [N]
        self._playing = self._agents.copy()  # [N] agents that have not ended their episode of this game
        self._done = np.zeros(slots, np.bool_)  # those that have
        self._fresh = np.zeros(slots, np.bool_)  # slots that have not acted since their episode began
        self._game = np.zeros(envs, np.int64)  # [N]
        self._returns = np.zeros(slots)  # of the open episodes, if results are returns
        self._parts = (behavior.continuous, len(behavior.discrete))
        self._rows: AgentBatch | None = None  # the inner trainer's batch for `_rows_of`
        self._rows_of: AgentBatch | None = None
        # Where an environment holds several games, nothing else says when one of them is over.
        self._sides = Sides(behavior, len(self.controller.teams)) if self.controller.many_games else None
        self._resets = 0
        self._awake = False  # whether the inner trainer acts and observes: in any rank, someone sits or may sit down
        self._changed_at = 0  # steps of the trainer
        self._stopped = False

    @property
    def learning_slots(self) -> NDArray[np.bool_]:
        """[S] the slots whose open episodes are learned from."""
        learning: NDArray[np.bool_] = self.ghosts.place == LEARNER
        return learning

    # ------------------------------------------------------------ the loop

    def begin(self, batch: AgentBatch) -> None:
        """Begin a new game in every environment; open games are not rated."""
        ghosts = self.ghosts
        if not ghosts.pool.window:
            # First observations of the learner, so that the first snapshot does not normalize without statistics.
            self.trainer.begin(batch.take(self.seats.slot))
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
        learned = self._awake
        self._forget(everyone)
        self._assign(everyone)
        if self._sides is not None:
            self._sides.reset()
        self._rows = self.seats.batch(batch)
        self._rows_of = batch
        self._awake = self._is_awake()
        if learned or self._awake:
            self.trainer.begin(self._rows)

    def act(self, batch: AgentBatch) -> Actions:
        """Actions of all slots: of those that learn by the inner trainer, of the others by their ghosts."""
        slots = len(self._env)
        continuous, branches = self._parts
        actions = Actions(
            np.zeros((slots, continuous), np.float32) if continuous else None,
            np.zeros((slots, branches), np.int64) if branches else None,
        )
        if self._awake:
            if self._rows_of is not batch or self._rows is None:
                self._rows = self.seats.batch(batch)
                self._rows_of = batch
            self.seats.place(self.trainer.act(self._rows), actions)
        needed = slice(None) if batch.needs_action is None else batch.needs_action
        acted = self.controller.acting.acted
        if not acted.all():
            acted[self._team[needed]] = True
        self.ghosts.act(batch, actions)
        if self._sides is not None:
            self._sides.act(needed, lambda: self.controller.drawn[self._env])
        self._fresh[needed] = False
        return actions

    def observe(self, actions: Actions, batch: AgentBatch) -> None:
        """Pass on what the seats saw; where games ended, rate them and begin the next ones."""
        if self.settings.result == "return":
            closed = batch.transition_closed
            shared = batch.group_reward
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
        learned = self._awake
        self._awake = self._is_awake()
        if learned or self._awake:
            sat = self.seats.slot if before is None else before[0]
            self._rows = self.seats.batch(batch, before)
            self._rows_of = batch
            if learned:
                self.trainer.observe(actions.take(sat), self._rows)
            else:
                self.trainer.begin(self._rows)
        if self._stopped or not self.trainer.ready():  # else after the update, with the policy that it makes
            self._boundaries()

    def update(self) -> Mapping[str, float | Sequence[float]]:
        """Update the inner trainer, and report ratings beside its statistics."""
        stats = self.trainer.update()
        self.ghosts.version += 1
        self._boundaries()
        return {**stats, **self.statistics()}

    def statistics(self) -> dict[str, float]:
        """The statistics of self-play by tag, since the last call."""
        self.controller.settle()
        ghosts = self.ghosts
        elo = self.controller.elo
        total, count = self.controller.results.totals.pop(self._player, (0.0, 0))
        players = [ghosts.pool.member(place).player for place in ghosts.in_any_rank(ghosts.place[ghosts.slots])]
        team = self.controller.learning_team
        stats = {"ELO": elo.rating(self._player), "Snapshots": float(ghosts.saves), "Swaps": float(ghosts.swaps)}
        if players:
            stats["Opponent ELO"] = float(np.mean([elo.rating(player) for player in players]))
        if count:
            stats["Win Rate"] = total / count
        if team >= 0:
            stats["Learning Team"] = float(self.controller.teams[team])
        return {f"{TAGS}{name}": value for name, value in stats.items()}

    @property
    def snapshots(self) -> list[Member]:
        """The snapshots in the window, oldest first."""
        return [self.ghosts.pool.member(place) for place in self.ghosts.pool.window]

    @property
    def versions(self) -> list[Member]:
        """The snapshots in the window, then the policy as it is."""
        latest = self.ghosts.pool.member(self.ghosts.latest())
        return [*(member for member in self.snapshots if member is not latest), latest]

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
        self.controller.retire(self.teams.tolist())
        self.ghosts.final = self.ghosts.latest()
        self.ghosts.tell()
        self._awake = False
        learning = np.flatnonzero(self.learning_slots)
        self.seats.leave(learning)
        self.ghosts.play(learning, self.ghosts.final)

    # ------------------------------------------------------------ games

    def _episodes_over(self, over: NDArray[np.intp], batch: AgentBatch) -> None:
        """The episodes of the slots ``over`` [K] ended: rate games, and decide who learns in the next episodes."""
        if self._sides is not None:
            self._sides_over(self._sides, over, batch)
            return
        first = over[~self._done[over]]
        self._done[first] = True
        ended = np.bincount(self._env[first], minlength=len(self._playing))
        self._playing -= ended
        finished = (self._playing == 0) & (ended > 0)  # [N]
        pool = self.ghosts.pool.members
        players = np.array([self._player, *(-1 if each is None else each.player for each in pool)])
        cut_off = batch.truncated[over] & (self.settings.truncated_games == "skip")
        value = self._value(over, batch)
        void = self._void(over, batch)
        played = players[self.ghosts.place[over] + 1]
        self.controller.report(self.name, AgentResults(over, played, value, void, cut_off))
        if finished.any():
            self.controller.next_game(finished, self._game)
            self._playing[finished] = self._agents[finished]
            self._done[finished[self._env]] = False
        self._forget(over)
        # Agents that died early have waited for the end of the game.
        waiting = self._fresh & finished[self._env]
        self._assign(np.flatnonzero(waiting) if waiting[over].all() else np.union1d(over, np.flatnonzero(waiting)))

    def _sides_over(self, sides: Sides, over: NDArray[np.intp], batch: AgentBatch) -> None:
        """As :meth:`_episodes_over`, where each side is a game: its next episode waits for no other agent."""
        cut_off = batch.truncated[over] & (self.settings.truncated_games == "skip")
        finished = sides.end(over, self._value(over, batch), self._void(over, batch) | cut_off)
        late = finished.void & batch.truncated[finished.slot]
        self.controller.report_sides(self.name, self._player, finished, int(np.count_nonzero(late)))
        self._forget(over)
        self._assign(over)

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
        reported = batch.final_info or {}
        name = rule.removeprefix(INFO)
        if name not in reported:
            there = ", ".join(sorted(reported)) or "none"
            problem = f"the environment reports no number {name!r} at the end of an episode; it reports {there}"
            raise ConfigError(problem + did_you_mean(name, reported), key=("behaviors", self.name, ENTRY, "result"))
        value = np.full(len(self._env), np.nan)
        value[batch.ended] = reported[name]
        return value[over]

    def _forget(self, slots: NDArray[np.intp]) -> None:
        """An episode begins in these ``slots``."""
        self.ghosts.forget(slots)
        self._returns[slots] = 0.0
        self._fresh[slots] = True

    def _assign(self, slots: NDArray[np.intp]) -> None:
        """Decide who learns, and who plays as which ghost, in the episodes that begin in these ``slots`` [K]."""
        self.seats.leave(slots)
        ghost = self.ghosts.drawn_for(slots)
        learns = np.zeros(len(slots), np.bool_)
        if not self._stopped:
            learns = (self.controller.team[self._env[slots]] == self._team[slots]) | (ghost == LEARNER)
        learns[learns] = self.seats.sit(slots[learns])
        ghost[ghost == LEARNER] = self.ghosts.final
        self.ghosts.play(slots, np.where(learns, LEARNER, ghost))
        if self._sides is not None:
            env = self._env[slots]
            rated = learns & (self.controller.team[env] == self._team[slots])
            self._sides.begin(slots, rated, self.controller.playing[env])

    def _is_awake(self) -> bool:
        """Whether an agent of any rank sits in a seat, or may sit down in the next game."""
        if self._stopped:
            return False
        controller = self.controller
        if controller.learning_team in self.teams or (self.ghosts.assigned == LEARNER).any():
            return True
        if not self._awake:
            return False
        # The ranks ask each other only while the last games end in which agents of this behavior learn.
        begun = controller.game > self._game  # by another behavior, when the team of this one learned
        will = bool(np.isin(controller.team[begun], self.teams).any())
        return controller.exchange.any(bool(self.seats.taken.any()) or will)

    def _boundaries(self) -> None:
        """Save a snapshot, change the team and swap opponents where they are due."""
        controller = self.controller
        steps = self.trainer.steps
        self.ghosts.save_if_due()
        if controller.learning_team < 0 and not self._stopped:  # max_steps was raised after all had reached it
            controller.change_team()
        learning = self.ghosts.role.leads and controller.learning_team in self.teams
        if learning and steps - self._changed_at >= self.settings.team_change_steps:
            self._changed_at = steps
            controller.change_team()
        self.ghosts.swap_if_due()

    # ------------------------------------------------------------ state

    def state_dict(self) -> dict[str, Any]:
        """The state of the inner trainer, and an entry for self-play; the first behavior has the controller too.

        Whether a behavior has reached its ``max_steps`` is not part of it: a run may be resumed with more steps.
        """
        return {**self.trainer.state_dict(), **self._own_state()}

    def _own_state(self) -> dict[str, Any]:
        ghosts = self.ghosts.state_dict()
        own = {
            **ghosts,
            **self.seats.state_dict(),
            **({} if self._sides is None else {"sides": self._sides.state_dict()}),
            **{name: getattr(self, f"_{name}").copy() for name in ARRAYS},
            "awake": self._awake,
            "counts": {**ghosts["counts"], **{name: getattr(self, f"_{name}") for name in COUNTS}},
        }
        leads = self.controller.first == self.name
        return {ENTRY: own, **({STATE_ENTRY: self.controller.state_dict()} if leads else {})}

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
        self._awake = self.ghosts.draw_at_begin = True

    @contextmanager
    def _all_or_nothing(self) -> Iterator[None]:
        """Take back what the block has loaded if it raises an error."""
        before = self._own_state()
        try:
            yield
        except Exception:
            self._load(before)
            raise

    def _load(self, state: Mapping[str, Any]) -> None:
        self._load_learned(state)
        if STATE_ENTRY in state:
            self.controller.load_state_dict(saved_mapping(state, STATE_ENTRY))
        own = saved_mapping(state, ENTRY)
        self.ghosts.load_agents(own)
        self.seats.load_state_dict(own)
        if self._sides is not None:
            self._sides.load_state_dict(saved_mapping(own, "sides"))
        self._awake = saved_bool(own, "awake")
        for name in ARRAYS:
            fill(getattr(self, f"_{name}"), own, name)

    def _load_learned(self, state: Mapping[str, Any]) -> None:
        """Load the pool and the counts, and check whether the ratings are where they belong."""
        if ENTRY not in state:
            raise SavedValueError(
                "the checkpoint was saved without self_play; remove the block, or start a new run with initialize_from"
            )
        if (self.controller.first == self.name) != (STATE_ENTRY in state):
            raise SavedValueError("the run had self_play in other behaviors; resume with the blocks of the run")
        own = saved_mapping(state, ENTRY)
        self.ghosts.load_learned(own)
        counts = saved_mapping(own, "counts")
        for name in COUNTS:
            setattr(self, f"_{name}", saved_count(counts, name))
