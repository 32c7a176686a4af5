"""The part that all trainers of a run share: the team that learns, the games that are open, and the ratings.

The trainers of all behaviors with self-play share one controller. They call it in a fixed order, so a run that was
resumed continues with the same calls.

A *game* of an environment is over when every agent with self-play has ended its episode. Its result is a number for
each team, the mean over those of its agents that have a number; more is better, and equal numbers are a draw. A game
is not rated if an agent's episode was aborted or cut, or, by default, truncated, or if a team has no number.

In environments with ``many_games``, nothing says which agents play with one another, and each side of the learning team
is a game of its own: see :mod:`rlcore_ghost.selfplay.sides`.

With several ranks, each has the games of its own N environments. The learning team, the match log and the ratings are
the same in all: games are exchanged where they are rated.

Shapes: N environments, T teams, B behaviors, S slots of a behavior, M games that ended in one environment step. An
exploiter of a league is a behavior here.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import permutations
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rlcore import (
    IdleGroups,
    Ranks,
    SavedValueError,
    StashKey,
    fill,
    saved_bool,
    saved_count,
    saved_entry,
    saved_mapping,
)
from rlcore_ghost.selfplay.elo import EloTable
from rlcore_ghost.selfplay.finished_games import FinishedGames
from rlcore_ghost.selfplay.learner_results import LearnerResults
from rlcore_ghost.selfplay.match_log import MatchLog
from rlcore_ghost.selfplay.open_games import AgentResults, EndedGames, OpenGames
from rlcore_ghost.selfplay.sides import FinishedSides

__all__ = ["CONTROLLER", "Controller"]

log = logging.getLogger("rlcore.plugin.ghost")

ARRAYS = ("team", "game")  # attributes [N] of the state
COUNTS = ("changes", "resets", "rated")  # attributes of the state that are whole numbers
ZERO_SUM = "zero-sum"
UNRATED_GAMES = 100  # of a game that is not zero-sum, or that a time limit ends, before the run says so


class Controller:
    """The learning team, the open games and the ratings of a run.

    Attributes:
        teams: The T teams, ascending.
        learning_team: Index in ``teams`` of the team that learns in games that begin from now on; -1: none of them.
        changes: How often the learning team changed.
        team: [N] index of the team that learns in the latest game of each environment.
        log: The match log.
        elo: The live ratings.
        exchange: The processes of the run.
        acting: Which teams act. A team that is idle does not learn while another one can.
        finished: The games that are over since :meth:`settle`.
        open_games: The games that are not over.
        results: How the policies that learn did.
        first: The behavior whose trainer saves the controller.
        first_env: Number, in the run, of the first of the N environments.
        many_games: Whether environments hold several games each.
        drawn: [N, T] the player of each team, unless it learns, in games that begin from now on.
        playing: ``drawn`` of the games that begin in the step that behaviors observe now.
    """

    def __init__(
        self,
        teams: Iterable[int],
        agents: NDArray[np.int64],
        initial_elo: float,
        elo_k: float,
        sides: Sequence[int] = (),
        exchange: Ranks | None = None,
        first_env: int = 0,
        many_games: bool = False,
    ) -> None:
        """``agents`` [N] is the number of agents with self-play of each environment.

        With ``sides`` [T], the live ratings estimate advantages of teams: see :class:`EloTable`.
        ``exchange`` has the other processes of the run, None without any; ``first_env`` is the number, in the run, of
        the first environment.
        """
        self.exchange: Ranks = exchange or Ranks()
        self.first_env = first_env
        self.many_games = many_games
        self.teams = tuple(sorted(teams))
        self.learning_team = 0
        self.changes = 0
        self.retired: set[int] = set()  # indices of teams whose trainers have reached max_steps
        envs = len(agents)
        count = len(self.teams)
        self.acting = IdleGroups(self.exchange, count)
        self.first = ""
        self.team = np.zeros(envs, np.int64)  # [N]
        self.game = np.zeros(envs, np.int64)  # [N] number of the latest game
        self.resets = 0  # of all environments at once
        self.drawn = np.zeros((envs, count), np.int64)
        self.playing = self.drawn
        self._behaviors_observed = 0  # in the step that is observed now
        self.log = MatchLog(count)
        self.elo = EloTable(initial_elo, elo_k, sides)
        self._steps: dict[int, Callable[[], int]] = {}  # agent steps of the trainer of each player that learns
        self.finished = FinishedGames(count, self.exchange, first_env)  # games since `settle`
        self.results = LearnerResults()
        self.open_games = OpenGames(agents, count)
        self.rated = 0  # games
        self._warned: set[str] = set()  # of what the log has a warning
        self._cut_off = 0  # games of this process that a time limit ended, so that they were not rated

    def join(self, name: str, env_index: NDArray[np.int64], team: NDArray[np.int64], steps: Callable[[], int]) -> int:
        """Add the behavior called ``name``, whose slots have these environments [S]. Returns its player.

        ``team`` [S] are indices in :attr:`teams`; ``steps`` returns the agent steps of its trainer.
        """
        self.open_games.join(name, env_index, team)
        self.first = self.behaviors[0]
        self.results.begin(len(self.behaviors))
        player = self.player(name)
        self._steps[player] = steps
        return player

    @property
    def behaviors(self) -> list[str]:
        """The B behaviors by name, sorted; each is a player that learns."""
        return self.open_games.behaviors

    def player(self, name: str, like: int | None = None) -> int:
        """The index of a player in the log; a new one begins with the rating of the player ``like``.

        All ranks add it at the same step.
        """
        if name in self.log.names:
            return self.log.player(name)
        self.settle()
        index = self.log.player(name)
        self.elo.add(None if like is None else self.elo.rating(like))
        self.results.add_player()
        return index

    # ------------------------------------------------------------ who learns

    def change_team(self) -> None:
        """Let the next team that acts learn, in games that begin from now on."""
        left = [team for team in range(len(self.teams)) if team not in self.retired]
        left = [team for team in left if not self.acting.idle[team]] or left
        after = [team for team in left if team > self.learning_team]
        following = after or left or [-1]
        self.learning_team = following[0]
        self.changes += 1

    def retire(self, teams: Iterable[int]) -> None:
        """Leave out the teams with these indices, which learn nothing any more."""
        self.retired.update(teams)
        if self.learning_team in self.retired:
            self.change_team()

    def reset(self, resets: int, game: NDArray[np.int64]) -> None:
        """All environments were reset, for the time ``resets`` as one of the behaviors counts; nothing is rated.

        ``game`` [N], the number of the game that the behavior is in, is overwritten.
        """
        if resets > self.resets:  # the first behavior to say so
            self.resets = resets
            self.game += 1
            self.team[:] = self.learning_team
            self.open_games.clear(np.ones(len(self.game), np.bool_))
        game[:] = self.game

    def next_game(self, over: NDArray[np.bool_], game: NDArray[np.int64]) -> None:
        """All agents of one behavior have ended their game in the environments ``over`` [N].

        ``game`` [N], the number of the game that the behavior is in, is counted up. If no other behavior has begun the
        next game, the team that learns in it is decided here.
        """
        game[over] += 1
        begun = game > self.game
        self.game[begun] = game[begun]
        self.team[begun] = self.learning_team

    # ------------------------------------------------------------ results

    def observed(self, name: str) -> None:
        """The behavior ``name`` observed a step of the environments; games that end in it are reported after this."""
        self.finished.step += 1
        if self.many_games:
            self._begin_step()
        if name != self.first or not self.acting.after_step():
            return
        idle = self.acting.idle
        if self.learning_team >= 0 and idle[self.learning_team] and not idle.all():
            self.change_team()
        for team in set(np.flatnonzero(idle).tolist()) - self.retired:
            self._warn_once(
                f"team {team}",
                "the agents of team %d, behavior %r, have not acted for %d steps of the environments; other teams "
                "learn until they act",
                self.teams[team],
                self.open_games.behavior_of(team),
                self.acting.window,
            )

    def _begin_step(self) -> None:
        """Decide, for all behaviors alike, who plays in the games that begin in the step that they observe now.

        What one of them changes after it has observed the step is for games that begin later.
        """
        if not self._behaviors_observed:
            self.team[:] = self.learning_team
            self.playing = self.drawn.copy()
        self._behaviors_observed = (self._behaviors_observed + 1) % len(self.behaviors)

    def _warn_once(self, about: str, message: str, *arguments: Any) -> None:
        if about not in self._warned and not self.exchange.rank:
            log.warning(f"self-play: {message} (reported once)", *arguments)
        self._warned.add(about)

    def report(self, name: str, results: AgentResults) -> None:
        """Episodes of a behavior ended with these ``results``. Games that are over wait for :meth:`settle`."""
        ended = self.open_games.end_episodes(name, results)
        if ended is not None:
            self._note_cut_off(ended.cut_off)
            self._wait_for_rating(ended)

    def report_sides(self, name: str, player: int, sides: FinishedSides, cut_off: int) -> None:
        """The games of these M sides of a behavior ended, whose ``player`` learns; ``cut_off`` more by a time limit.

        Each is a game against every other team, whose results are not known: it has lost what the side has won.
        """
        self._note_cut_off(cut_off)
        for games in self.open_games.of_sides(name, player, sides):
            self._wait_for_rating(games)

    def _wait_for_rating(self, games: EndedGames) -> None:
        if len(games.env):
            self.finished.add(games.env, **games.columns)

    def _note_cut_off(self, games: int) -> None:
        """A time limit ended this many ``games``, so that they are not rated."""
        self._cut_off += games
        if self._cut_off >= UNRATED_GAMES and not self.rated and not len(self.finished):
            self._warn_once(
                "time limit",
                "no game has been rated: a time limit ended %d games, and such games are not rated; set "
                "self_play.truncated_games: rate if their results are to count",
                self._cut_off,
            )

    def _note_zero_sum(self, uneven: NDArray[np.bool_]) -> None:
        self.rated += len(uneven)
        self.log.not_zero_sum += int(np.count_nonzero(uneven))
        if self.log.not_zero_sum >= UNRATED_GAMES and 2 * self.log.not_zero_sum > self.rated:
            self._warn_once(
                ZERO_SUM,
                "in %d of %d games, the results of the teams do not add up to 0. Ratings compare who got more, and "
                "cannot tell a better policy in a game in which all teams may win",
                self.log.not_zero_sum,
                self.rated,
            )

    def settle(self) -> None:
        """Rate and log the games that are over, and remember how learning policies did against each opponent.

        Called where a trainer was updated, and before players are added: many games at once cost little more than one.
        All ranks call it at the same step, and rate the games of all.
        """
        finished = self.finished.take_of_all()
        if not len(finished):
            return
        players = finished["players"]
        ranks = finished["ranks"]
        owners = finished["owners"]
        self._note_zero_sum(finished["uneven"])
        self.elo.update(players, ranks)
        learns = np.isin(players, list(self._steps))  # [M, T]
        self._log(players, ranks, learns)
        for us, them in permutations(range(players.shape[1]), 2):
            chosen = learns[:, us] & ~learns[:, them]
            if chosen.any():
                better = np.sign(ranks[chosen, them] - ranks[chosen, us])
                result = 0.5 * (1 + better)
                self.results.add(players[chosen, us], players[chosen, them], owners[chosen, them], result)

    def _log(self, players: NDArray[np.int64], ranks: NDArray[np.int64], learns: NDArray[np.bool_]) -> None:
        """Log these games [M, T], each at the step of the player that learns; without one, at the latest of all."""
        first = learns.argmax(1)  # the first one that learns, where there is one
        learner = players[np.arange(len(players)), first]
        for player in np.unique(learner).tolist():
            of_player = learner == player
            learning = [self._steps[player]] if player in self._steps else self._steps.values()
            self.log.add(max(steps() for steps in learning), players[of_player], ranks[of_player])

    def results_against(self, name: str, players: list[int]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Rated games [K] of learning policies against these K ``players`` as ghosts of the behavior ``name``.

        Returns their number, where later games count more, and the mean result, from 0 to 1; 0.5 without games.
        """
        return self.results.against(self.behaviors.index(name), players)

    # ------------------------------------------------------------ state

    def state_dict(self) -> dict[str, Any]:
        """Everything, ratings included, and the games that :meth:`settle` has not rated yet."""
        return {
            "pending": self.finished.state_dict(),
            "log": self.log.state_dict(),
            "elo": self.elo.state_dict(),
            "teams": list(self.teams),
            "learning_team": self.learning_team + 1,
            **{name: getattr(self, name) for name in COUNTS},
            **{name: getattr(self, name).copy() for name in ARRAYS},
            **self.open_games.state_dict(),
            **self.results.state_dict(),
            "warned": ZERO_SUM in self._warned,
            "acting": self.acting.state_dict(),
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue from :meth:`state_dict`. Raises SavedValueError if it does not fit, and is in no use then."""
        self.load_learned(state)
        players = len(self.log.names)
        self.finished.load_state_dict(saved_mapping(state, "pending"), len(self.behaviors), players)
        for name in ARRAYS:
            fill(getattr(self, name), state, name)
        self.open_games.load_state_dict(state, players)
        self.acting.load_state_dict(saved_mapping(state, "acting"))

    def load_learned(self, state: Mapping[str, Any]) -> None:
        """As :meth:`load_state_dict`, of what does not belong to environments and agents."""
        teams = saved_entry(state, "teams")
        if teams != list(self.teams):
            raise SavedValueError(
                f"the games of the run have the teams {teams}, and those of this environment {list(self.teams)}"
            )
        behaviors = sorted(saved_mapping(state, "reported"))
        if behaviors != self.behaviors:
            raise SavedValueError(
                f"the run had self_play in the behaviors {', '.join(behaviors)}, this configuration in "
                f"{', '.join(self.behaviors)}; resume with the blocks of the run"
            )
        self.log.load_state_dict(saved_mapping(state, "log"))
        self.elo.load_state_dict(saved_mapping(state, "elo"))
        players = len(self.log.names)
        learners = [self.log.names[player] for player in self._steps if player < players]
        if learners != self.open_games.joined:
            raise SavedValueError(f"the players {', '.join(self.log.names)} are not those of this configuration")
        if len(self.elo) != players:
            raise SavedValueError(f"there are {len(self.elo)} ratings for {players} players")
        self.learning_team = saved_count(state, "learning_team") - 1
        if self.learning_team >= len(self.teams):
            raise SavedValueError(f"the entry 'learning_team' names team {self.learning_team + 1} of {len(self.teams)}")
        for name in COUNTS:
            setattr(self, name, saved_count(state, name))
        self.results.load_state_dict(state, players)
        self._warned = {ZERO_SUM} if saved_bool(state, "warned") else set()


CONTROLLER = StashKey[Controller]()
