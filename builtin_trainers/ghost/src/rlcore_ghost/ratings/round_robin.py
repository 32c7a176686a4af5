"""Games of all pairs of players in a checkpoint: snapshots, fixed opponents and the current policies.

Training plays games of the policy that learns only. Ratings of snapshots then hang together by few games, or by none.
In a round robin, every pair meets equally often, and in each pair of teams. Games are played and decided as in
training: by the ghosts of a :class:`rlcore_ghost.selfplay.trainer.GhostTrainer` in which all agents are ghosts.

Shapes: N environments, T teams, G games.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from itertools import combinations, combinations_with_replacement, permutations, product
from typing import Any

import attrs
import numpy as np
from numpy.typing import NDArray

from rlcore import (
    AgentBatch,
    BehaviorSettings,
    BehaviorSpec,
    ConfigError,
    Environment,
    EpisodeSeeds,
    EvaluationSettings,
    Player,
    RunContext,
    RunStateError,
    SavedRun,
    SavedValueError,
    Trainer,
    TrainerSpec,
    derive_generator,
    derive_seed,
    saved_mapping,
)
from rlcore_ghost.opponents import create_opponents
from rlcore_ghost.records import NAME
from rlcore_ghost.selfplay.controller import Controller
from rlcore_ghost.selfplay.creation import behaviors_with_self_play, controller_of
from rlcore_ghost.selfplay.match_log import MatchLog
from rlcore_ghost.selfplay.pool import Member
from rlcore_ghost.selfplay.samplers import LatestSampler
from rlcore_ghost.selfplay.seats import Seats
from rlcore_ghost.selfplay.trainer import ENTRY, GhostTrainer
from rlcore_ghost.settings import NoParameters, SelfPlaySettings

__all__ = ["RoundRobin", "add_round_robin", "lineups"]

MOST_ENVS = 64  # environments that step together, unless the run trains in more
FILLER = -1  # the player of games that fill up environments until the last game is over


@attrs.frozen
class RoundRobin:
    """The size of a round robin that was played.

    Attributes:
        players: Number of players.
        games: G, the number of games.
        unrated: Games without a result, such as those that a time limit cut off.
    """

    players: int
    games: int
    unrated: int


def lineups(
    owners: Sequence[str], players: Mapping[str, Sequence[int]], games: int, generator: np.random.Generator
) -> NDArray[np.int64]:
    """Return the players of each team in each game, [G, T], in which every pair of players meets ``games`` times.

    ``owners`` [T] are the behaviors of the teams, and ``players`` those of each behavior. A pair plays each pair of
    teams that it can play equally often, up to one game. With three teams or more, the others are played by players
    that ``generator`` draws, others than the pair if there are any.
    """
    rows: list[list[int]] = []
    pairs = 0
    for one, other in combinations_with_replacement(sorted(players), 2):
        seatings = [
            seats for seats in permutations(range(len(owners)), 2) if [owners[seat] for seat in seats] == [one, other]
        ]
        met = combinations(players[one], 2) if one == other else product(players[one], players[other])
        for pair in met if seatings else ():
            for game in range(games):
                seats = seatings[(game + pairs) % len(seatings)]
                row = [
                    int(generator.choice([each for each in players[owner] if each not in pair] or players[owner]))
                    if seat not in seats
                    else pair[seats.index(seat)]
                    for seat, owner in enumerate(owners)
                ]
                rows.append(row)
            pairs += 1
    return np.array(rows, np.int64).reshape(len(rows), len(owners))


class Schedule:
    """Hands out the games: which lineup each environment plays, and which games are still to be played."""

    def __init__(self, games: NDArray[np.int64], num_envs: int) -> None:
        """``games`` [G, T] are the players of each game."""
        self._left = deque(games)
        self._filler = np.full(games.shape[1], FILLER)
        self._lineups: list[dict[int, NDArray[np.int64]]] = [{} for _ in range(num_envs)]  # by number of the game
        self.last = np.full(num_envs, -1)  # [N] number of the latest game that counts
        self.began = np.zeros(num_envs, np.int64)  # [N] the step in which it began
        self.steps = 0

    @property
    def left(self) -> bool:
        """Whether there are games that no environment has begun."""
        return bool(self._left)

    def lineup(self, env: int, game: int) -> NDArray[np.int64]:
        """The players [T] of the game numbered ``game`` of an environment; a new number is the next game to play."""
        known = self._lineups[env]
        if game not in known:
            if self._left:
                known[game] = self._left.popleft()
                self.last[env], self.began[env] = game, self.steps
            else:
                known[game] = self._filler
            known.pop(game - 2, None)
        return known[game]


class Contestants(GhostTrainer):
    """A ghost trainer in which all agents are ghosts, chosen by a schedule.

    Attributes:
        places: The place in the pool of each player of the log, by its index.
    """

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self._stopped = True
        self.places: dict[int, int] = {}
        self._schedule: Schedule | None = None

    @property
    def game(self) -> NDArray[np.int64]:
        """[N] number of the game that the behavior is in."""
        return self._game

    def take_up(self, state: Mapping[str, Any], model: Mapping[str, Any]) -> list[int]:
        """Take the policies of a checkpoint, and return their players. Raises RunStateError for a wrong ``state``."""
        self.pool.load(*self.pool.saved(saved_mapping(state, ENTRY), self.trainer.snapshot))
        self.trainer.load_model(model)
        self.places = {self.pool.member(place).player: place for place in self.pool.candidates}
        names = self.controller.log.names
        for player, place in self.places.items():
            if player >= len(names) or names[player] != self.pool.member(place).name:
                raise SavedValueError(f"the snapshot {self.pool.member(place).name!r} is not in the match log")
        current = self.trainer.snapshot()
        for player in (self._player, FILLER):
            self.places[player] = self.pool.add(Member(self.name, player, current))
        return [player for player in self.places if player != FILLER]

    def follow(self, schedule: Schedule) -> None:
        """Play the games of ``schedule``."""
        self._schedule = schedule

    def _assign(self, slots: NDArray[np.intp]) -> None:
        assert self._schedule is not None
        own = np.searchsorted(self.controller.teams, self.teams)
        for env in np.unique(self._env[slots]).tolist():
            lineup = self._schedule.lineup(env, int(self._game[env]))
            self._assigned[:, env] = [self.places[player] for player in lineup[own].tolist()]
        super()._assign(slots)

    def _void(self, over: NDArray[np.intp], batch: AgentBatch) -> NDArray[np.bool_]:
        void: NDArray[np.bool_] = super()._void(over, batch) | (self.place[over] == self.places[FILLER])
        return void

    def _boundaries(self) -> None:
        """Neither save snapshots nor choose opponents."""


def add_round_robin(
    saved: SavedRun, trainers: Mapping[str, Mapping[str, Any]], log: MatchLog, games: int, seed: int
) -> RoundRobin:
    """Play ``games`` games of each pair of players, and add them to ``log``.

    The players are the candidates of the pools in ``trainers``, the states in the checkpoint that ``saved`` is at, and
    the current policies. Equal seeds play equal games. Raises ConfigError or RunStateError if no games can be played.
    """
    num_envs = min(max(MOST_ENVS, saved.context.num_envs), games * _most_pairs(trainers))
    with saved.environment(num_envs, seed) as environment:
        context = attrs.evolve(saved.context, num_envs=num_envs, behaviors=dict(environment.behaviors))
        blocks = behaviors_with_self_play(context)
        controller = controller_of(context, blocks)
        _require_all_teams(environment, controller, blocks)
        controller.log = log
        contestants, players = {}, {}
        for name, (spec, block) in blocks.items():
            contestants[name] = _contestants(saved, context, spec, block, controller, seed)
            try:
                players[name] = contestants[name].take_up(saved_mapping(trainers, name), saved.models[name])
            except RunStateError as error:
                raise RunStateError(f"{saved.checkpoint}: behavior {name!r}: {error}") from error
        owners = [name for team in controller.teams for name, each in contestants.items() if team in each.teams]
        drawn = lineups(owners, players, games, derive_generator(seed, "round_robin"))
        others = _others(saved, context, blocks, seed)
        rated = _play(saved, environment, contestants, others, drawn, log, derive_seed(seed, "round_robin"))
    return RoundRobin(sum(map(len, players.values())), len(drawn), len(drawn) - rated)


def _most_pairs(trainers: Mapping[str, Mapping[str, Any]]) -> int:
    """No fewer than the pairs of players, at least one."""
    pools = [saved_mapping(state, ENTRY) for state in trainers.values() if ENTRY in state]
    players = sum(1 + sum(len(pool.get(part, ())) for part in ("fixed", "window", "guests")) for pool in pools)
    return max(1, players * (players - 1) // 2)


def _require_all_teams(environment: Environment, controller: Controller, blocks: Mapping[str, Any]) -> None:
    teams = [np.stack([spec.env_index, spec.team], 1) for spec, _ in blocks.values()]
    if len(np.unique(np.concatenate(teams), axis=0)) != environment.num_envs * len(controller.teams):
        names = ", ".join(map(str, controller.teams))
        raise ConfigError(f"not every environment has the teams {names}, so pairs cannot meet in each of them")


def _contestants(
    saved: SavedRun,
    context: RunContext,
    spec: BehaviorSpec,
    block: SelfPlaySettings,
    controller: Controller,
    seed: int,
) -> Contestants:
    fixed = create_opponents(block.fixed_opponents, spec, context, ("behaviors", spec.name, ENTRY, "fixed_opponents"))
    seats = Seats(spec, False)
    inner = _trainer(saved, context, seats.behavior(spec))
    deterministic = _settings(context, spec).network_settings.deterministic
    sampler = LatestSampler(NoParameters())
    return Contestants(inner, block, spec, seats, sampler, fixed, controller, seed, deterministic)


def _settings(context: RunContext, spec: BehaviorSpec) -> BehaviorSettings:
    settings = context.config.behaviors.get(spec.name, context.config.default_settings)
    assert settings is not None  # it was trained
    return settings


def _trainer(saved: SavedRun, context: RunContext, spec: BehaviorSpec) -> Trainer:
    settings = _settings(context, spec)
    record = saved.plugins.record(TrainerSpec, settings.trainer_type)
    return saved.plugins.create(record, settings=settings, behavior=spec, run=context, without=NAME)


def _others(saved: SavedRun, context: RunContext, blocks: Mapping[str, Any], seed: int) -> dict[str, Player]:
    """The agents without self-play, which act with their current policies."""
    players = {}
    for name, spec in context.behaviors.items():
        if name not in blocks:
            trainer = _trainer(saved, context, spec)
            trainer.load_model(saved.models[name])
            players[name] = Player(trainer.policy, spec.slots, derive_seed(seed, name))
    return players


def _play(
    saved: SavedRun,
    environment: Environment,
    contestants: Mapping[str, Contestants],
    others: Mapping[str, Player],
    games: NDArray[np.int64],
    log: MatchLog,
    seed: int,
) -> int:
    """Play the ``games`` [G, T], add those with a result to ``log``, and return their number."""
    controller = next(iter(contestants.values())).controller
    evaluation = saved.config.evaluation
    settings = EvaluationSettings(interval=None) if evaluation is None else evaluation
    steps = settings.max_episode_steps
    limit = np.inf if steps is None else steps
    schedule = Schedule(games, environment.num_envs)
    step, episodes, rated = max(saved.steps.values()), np.zeros(environment.num_envs, np.int64), 0
    while schedule.left:
        schedule.last[:] = -1
        batches = environment.reset(EpisodeSeeds(seed), episodes)
        for name, trainer in contestants.items():
            trainer.follow(schedule)
            trainer.begin(batches[name])
        for player in others.values():
            player.begin()
        while True:
            open_games = np.any([trainer.game <= schedule.last for trainer in contestants.values()], 0)
            if not (open_games & (schedule.steps - schedule.began < limit)).any():
                break  # all games that are left go on and on, or there are none
            actions = {name: trainer.act(batches[name]) for name, trainer in contestants.items()}
            actions |= {name: player.act(batches[name], deterministic=False) for name, player in others.items()}
            batches = environment.step(actions)
            for name, trainer in contestants.items():
                trainer.observe(actions[name], batches[name])
            for name, player in others.items():
                player.observe(batches[name])
            schedule.steps += 1
            finished = controller.take_games()
            log.add(step, finished.players, finished.ranks)
            rated += len(finished)
        episodes = environment.episodes + 1
    return rated
