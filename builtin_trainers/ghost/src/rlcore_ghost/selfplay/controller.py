"""The learning team, the games and the ratings, which the trainers of all behaviors with self-play share.

The trainers call their controller in a fixed order, so a run that was resumed continues with the same calls.

With several ranks, each has the games of its own N environments. The learning team, the match log and the ratings are
the same in all: games are exchanged where they are rated.

Shapes: N environments, T teams, B behaviors, S slots of a behavior, M games. An exploiter of a league is a behavior
here.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import permutations
from typing import Any

import numpy as np

from rlcore import Ranks, SavedValueError, StashKey, saved_bool, saved_count, saved_mapping
from rlcore_ghost.arrays import Bools, Floats, Ints
from rlcore_ghost.selfplay.elo import EloTable
from rlcore_ghost.selfplay.finished_games import FinishedGames
from rlcore_ghost.selfplay.learner_results import LearnerResults
from rlcore_ghost.selfplay.learning_team import LearningTeam
from rlcore_ghost.selfplay.match_log import MatchLog
from rlcore_ghost.selfplay.open_games import AgentResults, OpenGames
from rlcore_ghost.selfplay.sides import FinishedSides

__all__ = ["CONTROLLER", "Controller"]

logger = logging.getLogger("rlcore.plugin.ghost")

ZERO_SUM = "zero-sum"
UNRATED_GAMES = 100  # of a game that is not zero-sum, or that a time limit ends, before the run says so


class Controller:
    """The learning team, the games and the ratings of a run.

    Attributes:
        learning: The learning team.
        log: The match log.
        elo: The live ratings.
        exchange: The processes of the run.
        finished: The games that are over since :meth:`rate_games`.
        open_games: The games that are not over.
        results: How the policies that learn did.
        rated: Number of rated games.
        first: The behavior whose trainer saves the controller.
        first_env: Number, in the run, of the first of the N environments.
        many_games: Whether environments hold several games each.
        drawn: [N, T] the player of each team, unless it learns, in games that begin from now on.
        playing: ``drawn`` of the games that begin in the step that behaviors observe now.
    """

    def __init__(
        self,
        teams: Iterable[int],
        agents: Ints,
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
        envs = len(agents)
        self.learning = LearningTeam(teams, envs, self.exchange)
        team_count = len(self.learning.numbers)
        self.first = ""
        self.drawn = np.zeros((envs, team_count), np.int64)
        self.playing = self.drawn
        self._behaviors_observed = 0  # in the step that is observed now
        self.log = MatchLog(team_count)
        self.elo = EloTable(initial_elo, elo_k, sides)
        self._steps: dict[int, Callable[[], int]] = {}  # agent steps of the trainer of each player that learns
        self.finished = FinishedGames(team_count, self.exchange, first_env)
        self.results = LearnerResults()
        self.open_games = OpenGames(agents, team_count)
        self.rated = 0
        self._warned: set[str] = set()  # of what the log has a warning
        self._cut_off = 0  # games of this process that a time limit ended, so that they were not rated

    def join(self, name: str, env_index: Ints, team: Ints, steps: Callable[[], int]) -> int:
        """Add the behavior called ``name``, whose slots have these environments [S]. Returns its player.

        ``team`` [S] are indices in ``learning.numbers``; ``steps`` returns the agent steps of its trainer.
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
        # Games that are over belong to the players, and to the versions of learners, that there were.
        self.rate_games()
        index = self.log.player(name)
        rating = None if like is None else self.elo.rating(like)
        self.elo.add(rating)
        self.results.add_player()
        return index

    # ------------------------------------------------------------ steps

    def reset(self, resets: int, game: Ints) -> None:
        """All environments were reset: see :meth:`LearningTeam.reset`. Open games are not rated."""
        if self.learning.reset(resets, game):
            every_env = np.ones(len(game), np.bool_)
            self.open_games.clear(every_env)

    def observed(self, name: str) -> None:
        """The behavior ``name`` observed a step of the environments; games that end in it are reported after this."""
        self.finished.step += 1
        if self.many_games:
            self._begin_step()
        if name != self.first:
            return
        learning = self.learning
        for team in learning.after_step():
            self._warn_once(
                f"team {team}",
                "the agents of team %d, behavior %r, have not acted for %d steps of the environments; other teams "
                "learn until they act",
                learning.numbers[team],
                self.open_games.behavior_of(team),
                learning.acting.window,
            )

    def _begin_step(self) -> None:
        """Decide, for all behaviors alike, who plays in the games that begin in the step that they observe now.

        What one of them changes after it has observed the step is for games that begin later.
        """
        if not self._behaviors_observed:
            self.learning.team[:] = self.learning.current
            self.playing = self.drawn.copy()
        self._behaviors_observed = (self._behaviors_observed + 1) % len(self.behaviors)

    # ------------------------------------------------------------ results

    def report(self, name: str, results: AgentResults) -> None:
        """Episodes of a behavior ended with these ``results``. Games that are over wait for :meth:`rate_games`."""
        ended = self.open_games.end_episodes(name, results)
        if ended is not None:
            self._note_cut_off(ended.cut_off)
            self.finished.add(ended.env, **ended.columns)

    def report_sides(self, name: str, player: int, sides: FinishedSides, cut_off: int) -> None:
        """The games of these M sides of a behavior ended, whose ``player`` learns; ``cut_off`` more by a time limit."""
        self._note_cut_off(cut_off)
        for games in self.open_games.of_sides(name, player, sides):
            self.finished.add(games.env, **games.columns)

    def rate_games(self) -> None:
        """Rate and log the games that are over, and remember how learning policies did against each opponent.

        Called where a trainer was updated, and before players are added: many games at once cost little more than one.
        All ranks call it at the same step, and rate the games of all.
        """
        games = self.finished.take_of_all()
        if not len(games):
            return
        players = games["players"]
        ranks = games["ranks"]
        owners = games["owners"]
        self._note_zero_sum(games["uneven"])
        self.elo.update(players, ranks)
        learns = np.isin(players, list(self._steps))  # [M, T]
        self._log(players, ranks, learns)
        for learner, opponent in permutations(range(players.shape[1]), 2):
            # Games of two learners say nothing about a ghost.
            chosen = learns[:, learner] & ~learns[:, opponent]
            if not chosen.any():
                continue
            better = np.sign(ranks[chosen, opponent] - ranks[chosen, learner])
            result = 0.5 * (1 + better)
            ghosts = players[chosen, opponent]
            self.results.add(players[chosen, learner], ghosts, owners[chosen, opponent], result)

    def _log(self, players: Ints, ranks: Ints, learns: Bools) -> None:
        """Log these games [M, T], each at the step of the player that learns; without one, at the latest of all."""
        first_learning = learns.argmax(1)  # team 0 where none learns
        learner = players[np.arange(len(players)), first_learning]
        latest = max(steps() for steps in self._steps.values())
        for player in np.unique(learner).tolist():
            rows = learner == player
            step = self._steps[player]() if player in self._steps else latest
            self.log.add(step, players[rows], ranks[rows])

    def results_against(self, name: str, players: list[int]) -> tuple[Floats, Floats]:
        """Rated games [K] of learning policies against these K ``players`` as ghosts of the behavior ``name``.

        Returns their number, where later games count more, and the mean result, from 0 to 1; 0.5 without games.
        """
        owner = self.behaviors.index(name)
        return self.results.against(owner, players)

    # ------------------------------------------------------------ warnings

    def _note_cut_off(self, games: int) -> None:
        """A time limit ended this many ``games``, so that they are not rated."""
        self._cut_off += games
        any_rated = self.rated or len(self.finished)
        if self._cut_off >= UNRATED_GAMES and not any_rated:
            self._warn_once(
                "time limit",
                "no game has been rated: a time limit ended %d games, and such games are not rated; set "
                "self_play.truncated_games: rate if their results are to count",
                self._cut_off,
            )

    def _note_zero_sum(self, uneven: Bools) -> None:
        """Count the games [M], and those of them whose results do not add up to 0."""
        self.rated += len(uneven)
        self.log.not_zero_sum += int(np.count_nonzero(uneven))
        most = 2 * self.log.not_zero_sum > self.rated
        if most and self.log.not_zero_sum >= UNRATED_GAMES:
            self._warn_once(
                ZERO_SUM,
                "in %d of %d games, the results of the teams do not add up to 0. Ratings compare who got more, and "
                "cannot tell a better policy in a game in which all teams may win",
                self.log.not_zero_sum,
                self.rated,
            )

    def _warn_once(self, about: str, message: str, *arguments: Any) -> None:
        if about not in self._warned and not self.exchange.rank:
            logger.warning(f"self-play: {message} (reported once)", *arguments)
        self._warned.add(about)

    # ------------------------------------------------------------ state

    def state_dict(self) -> dict[str, Any]:
        """Everything, ratings included, and the games that :meth:`rate_games` has not rated yet."""
        return {
            "pending": self.finished.state_dict(),
            "log": self.log.state_dict(),
            "elo": self.elo.state_dict(),
            "rated": self.rated,
            **self.learning.state_dict(),
            **self.open_games.state_dict(),
            **self.results.state_dict(),
            "warned": ZERO_SUM in self._warned,
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue from :meth:`state_dict`. Raises SavedValueError if it does not fit, and is in no use then."""
        self.load_learned(state)
        players = len(self.log.names)
        pending = saved_mapping(state, "pending")
        self.finished.load_state_dict(pending, len(self.behaviors), players)
        self.learning.load_games(state)
        self.open_games.load_state_dict(state, players)

    def load_learned(self, state: Mapping[str, Any]) -> None:
        """As :meth:`load_state_dict`, of what does not belong to environments and agents."""
        self.learning.require_teams(state)
        behaviors = sorted(saved_mapping(state, "reported"))
        if behaviors != self.behaviors:
            raise SavedValueError(
                f"the run had self_play in the behaviors {', '.join(behaviors)}, this configuration in "
                f"{', '.join(self.behaviors)}; resume with the blocks of the run"
            )
        self.log.load_state_dict(saved_mapping(state, "log"))
        self.elo.load_state_dict(saved_mapping(state, "elo"))
        players = len(self.log.names)
        # Results and games name players by index, so learners must have those of the run.
        learners = [self.log.names[player] for player in self._steps if player < players]
        if learners != self.open_games.joining_order:
            raise SavedValueError(f"the players {', '.join(self.log.names)} are not those of this configuration")
        if len(self.elo) != players:
            raise SavedValueError(f"there are {len(self.elo)} ratings for {players} players")
        self.learning.load_learned(state)
        self.rated = saved_count(state, "rated")
        self.results.load_state_dict(state, players)
        self._warned = {ZERO_SUM} if saved_bool(state, "warned") else set()


CONTROLLER = StashKey[Controller]()
