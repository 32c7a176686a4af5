"""Games of all pairs of players in a checkpoint: snapshots, fixed opponents and the current policies.

Training plays games of the policy that learns only. Ratings of snapshots then hang together by few games, or by none.
In a round robin, every pair meets equally often, and in each pair of teams. Games are played and decided as in
training: by the ghosts of a :class:`rlcore_ghost.selfplay.trainer.GhostTrainer` in which all agents are ghosts.

Shapes: N environments, T teams, G games.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import combinations, permutations
from typing import Any

import attrs
import numpy as np

from rlcore import (
    AgentBatch,
    BehaviorSettings,
    BehaviorSpec,
    ConfigError,
    Environment,
    EpisodeSeeds,
    Player,
    RunStateError,
    SavedRun,
    SavedValueError,
    TrainerSpec,
    derive_generator,
    derive_seed,
    saved_mapping,
)
from rlcore_ghost.arrays import Bools, Ints
from rlcore_ghost.records import NAME
from rlcore_ghost.selfplay.creation import behaviors_with_self_play, controller_of, fixed_opponents, ghost_around
from rlcore_ghost.selfplay.match_log import MatchLog
from rlcore_ghost.selfplay.pool import Member
from rlcore_ghost.selfplay.samplers import LatestSampler
from rlcore_ghost.selfplay.trainer import ENTRY, GhostTrainer
from rlcore_ghost.settings import NoParameters

__all__ = ["RoundRobin", "add_round_robin", "lineups"]

LATEST = LatestSampler(NoParameters())
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
) -> Ints:
    """Return the players of each team in each game, [G, T], in which every pair of players meets ``games`` times.

    ``owners`` [T] are the behaviors of the teams, and ``players`` those of each behavior. A pair plays each pair of
    teams that it can play equally often, up to one game. With three teams or more, the others are played by players
    that ``generator`` draws, others than the pair if there are any.
    """
    owner_of = {player: name for name, of_behavior in players.items() for player in of_behavior}
    rows: list[list[int]] = []
    for number, pair in enumerate(combinations(owner_of, 2)):
        first_owner, second_owner = (owner_of[player] for player in pair)
        seatings = []
        for first, second in permutations(range(len(owners)), 2):
            if owners[first] == first_owner and owners[second] == second_owner:
                seatings.append((first, second))
        if not seatings:  # players of one team never meet
            continue
        candidates = []
        for owner in owners:
            others = [player for player in players[owner] if player not in pair]
            candidates.append(others or players[owner])
        for game in range(games):
            row = [int(generator.choice(others)) for others in candidates]
            # Pairs begin with different teams, so that no team has the odd game of all pairs.
            first, second = seatings[(game + number) % len(seatings)]
            row[first], row[second] = pair
            rows.append(row)
    shape = (len(rows), len(owners))  # also without rows
    return np.array(rows, np.int64).reshape(shape)


class Contestants(GhostTrainer):
    """A ghost trainer in which all agents are ghosts: game r of each environment has the players in row r of a table.

    Attributes:
        table: [rounds, N, T] the players of each game.
    """

    table: Ints

    def take_up(self, state: Mapping[str, Any], model: Mapping[str, Any]) -> list[int]:
        """Take the policies of a checkpoint, and return their players. Raises RunStateError for a wrong ``state``."""
        self._stopped = True
        pool = self.ghosts.pool
        names = self.controller.log.names
        pool.load_state_dict(saved_mapping(state, ENTRY), self.trainer.snapshot)
        self.trainer.load_model(model)
        self._places: dict[int, int] = {}
        for place in pool.candidates:
            member = pool.member(place)
            logged = names[member.player] if member.player < len(names) else None
            if logged != member.name:
                raise SavedValueError(f"the snapshot {member.name!r} is not in the match log")
            self._places[member.player] = place
        current = self.trainer.snapshot()
        for player in (self._player, FILLER):
            member = Member(self.name, player, current)
            self._places[player] = pool.add(member)
        return [player for player in self._places if player != FILLER]

    @property
    def game(self) -> Ints:
        """[N] number of the row that each environment plays, from 0."""
        return self._game - 1

    def _assign(self, slots: Ints) -> None:
        envs = np.unique(self._env[slots])
        last = len(self.table) - 1  # the last row has fillers only
        rows = np.minimum(self.game[envs], last)
        players = self.table[rows, envs][:, self.teams]
        place_of = np.vectorize(self._places.get)
        self.ghosts.assigned[:, envs] = place_of(players).T
        super()._assign(slots)

    def _void(self, over: Ints, batch: AgentBatch) -> Bools:
        filled: Bools = self.ghosts.place[over] == self._places[FILLER]
        return filled | super()._void(over, batch)

    def _boundaries(self) -> None:
        """Neither save snapshots nor choose opponents."""


def add_round_robin(
    saved: SavedRun, trainers: Mapping[str, Mapping[str, Any]], log: MatchLog, games: int, seed: int
) -> RoundRobin:
    """Play ``games`` games of each pair of players, and add them to ``log``.

    The players are the candidates of the pools in ``trainers``, the states in the checkpoint that ``saved`` is at, and
    the current policies. Equal seeds play equal games. Raises ConfigError or RunStateError if no games can be played.
    """
    with saved.environment(saved.context.num_envs, seed) as environment:
        _require_whole_games(environment)
        context = attrs.evolve(saved.context, seed=seed, behaviors=dict(environment.behaviors))
        blocks = behaviors_with_self_play(context)
        controller = controller_of(context, blocks)
        # The players of the run keep their indices, and games are added to theirs.
        controller.log = log
        contestants = {}
        players = {}
        for name, (spec, block) in blocks.items():
            settings, record = _trained_with(saved, spec)
            opponents = fixed_opponents(spec, blocks, context)
            contestant = ghost_around(
                Contestants, record, settings, context, controller, spec, block, LATEST, opponents
            )
            try:
                state = saved_mapping(trainers, name)
                players[name] = contestant.take_up(state, saved.models[name])
            except RunStateError as error:
                raise RunStateError(f"{saved.checkpoint}: behavior {name!r}: {error}") from error
            contestants[name] = contestant
        owners = []
        for team in range(log.teams):
            owners += [name for name, contestant in contestants.items() if team in contestant.teams]
        generator = derive_generator(seed, "round_robin")
        table = lineups(owners, players, games, generator)
        others = {}  # the agents without self-play, which act with their current policies
        for name, spec in context.behaviors.items():
            if name not in blocks:
                settings, record = _trained_with(saved, spec)
                trainer = saved.plugins.create(record, settings=settings, behavior=spec, run=context, without=NAME)
                trainer.load_model(saved.models[name])
                seed_of_behavior = derive_seed(seed, name)
                others[name] = Player(trainer.policy, spec.slots, seed_of_behavior)
        seed_of_games = derive_seed(seed, "round_robin")
        rated = _play(saved, environment, contestants, others, table, seed_of_games)
    count = sum(map(len, players.values()))
    return RoundRobin(count, len(table), len(table) - rated)


def _require_whole_games(environment: Environment) -> None:
    """Raise ConfigError where nothing tells which agents play with one another, so no pair can be given a game."""
    for name, spec in environment.behaviors.items():
        if spec.many_games:
            raise ConfigError(
                f"--play: an environment of behavior {name!r} holds several games that nothing tells apart, so a pair "
                'of players cannot meet in one; use rlcore evaluate RUN --opponent "old={type: run, path: RUN, '
                'checkpoint: STEP}", which plays in all of them'
            )


def _trained_with(saved: SavedRun, behavior: BehaviorSpec) -> tuple[BehaviorSettings, TrainerSpec]:
    """The settings and the kind of trainer that the policy of ``behavior`` was trained with."""
    config = saved.context.config
    settings = config.behaviors.get(behavior.name, config.default_settings)
    assert settings is not None  # it was trained
    return settings, saved.plugins.record(TrainerSpec, settings.trainer_type)


def _play(
    saved: SavedRun,
    environment: Environment,
    contestants: Mapping[str, Contestants],
    others: Mapping[str, Player],
    games: Ints,
    seed: int,
) -> int:
    """Play the ``games`` [G, T], add those with a result to the log, and return their number."""
    controller = next(iter(contestants.values())).controller
    evaluation = saved.config.evaluation
    envs = environment.num_envs
    limit: float = np.inf
    if evaluation is not None and evaluation.max_episode_steps is not None:
        limit = evaluation.max_episode_steps
    count, teams = games.shape
    rounds = count // envs + 2
    table = np.full((rounds, envs, teams), FILLER)
    table.reshape(-1, teams)[:count] = games
    last = (count - 1 - np.arange(envs)) // envs  # [N] row of the last game that counts
    for trainer in contestants.values():
        trainer.table = table

    def row() -> Ints:
        """[N] the row that each environment plays."""
        rows = [trainer.game for trainer in contestants.values()]
        least: Ints = np.min(rows, axis=0)
        return least

    finished = []
    episodes = np.zeros(envs, np.int64)
    while (row() < last).any():
        batches = environment.reset(EpisodeSeeds(seed), episodes)
        for name, trainer in contestants.items():
            trainer.begin(batches[name])
        for player in others.values():
            player.begin()
        # of the open games
        played = row()
        steps = np.zeros(envs, np.int64)
        while ((played <= last) & (steps < limit)).any():  # else all games that are left go on and on
            actions = {}
            for name, trainer in contestants.items():
                actions[name] = trainer.act(batches[name])
            for name, player in others.items():
                actions[name] = player.act(batches[name], deterministic=False)
            batches = environment.step(actions)
            for name, trainer in contestants.items():
                trainer.observe(actions[name], batches[name])
            for name, player in others.items():
                player.observe(batches[name])
            finished.append(controller.finished.take())
            before = played
            played = row()
            steps = np.where(played == before, steps + 1, 0)
        episodes = environment.episodes + 1
    rated = np.concatenate(finished) if finished else controller.finished.take()
    step = max(saved.steps.values())
    controller.log.add(step, rated["players"], rated["ranks"])
    return len(rated)
