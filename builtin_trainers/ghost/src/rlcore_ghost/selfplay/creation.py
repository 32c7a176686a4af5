"""From the block ``self_play`` to a ghost trainer, and the checks that need the environment."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any, NoReturn, TypeVar

import attrs
import numpy as np

from rlcore import BehaviorSettings, BehaviorSpec, ConfigError, Policy, RunContext, StashKey, Trainer, TrainerSpec
from rlcore_ghost.arrays import Ints
from rlcore_ghost.match_games import teams_in
from rlcore_ghost.opponents import create_opponents
from rlcore_ghost.records import NAME
from rlcore_ghost.selfplay.controller import CONTROLLER, Controller
from rlcore_ghost.selfplay.ghosts import MAIN, Ghosts, Role
from rlcore_ghost.selfplay.league import League, MainExploiterSampler, shares
from rlcore_ghost.selfplay.pool import Member
from rlcore_ghost.selfplay.samplers import OpponentSampler, PrioritizedSampler
from rlcore_ghost.selfplay.seats import Seats
from rlcore_ghost.selfplay.trainer import ENTRY, GhostTrainer
from rlcore_ghost.settings import SHARED, LeagueSettings, PrioritizedParameters, SelfPlaySettings

Ghost = TypeVar("Ghost", bound=GhostTrainer)
CONTROLLED = StashKey[Mapping[str, BehaviorSpec]]()  # the behaviors of the environment that have the controller
NEWEST = 20  # opponents in the training status

Blocks = Mapping[str, tuple[BehaviorSpec, SelfPlaySettings]]
"""The behaviors of the environment with self-play, by name."""


def create_ghost_trainer(
    spec: TrainerSpec, settings: BehaviorSettings, behavior: BehaviorSpec, run: RunContext
) -> Trainer:
    """The trainer that the other plugins create, for the seats of those who learn, within a ghost trainer."""
    block: SelfPlaySettings = settings.sections[ENTRY]
    blocks = behaviors_with_self_play(run)
    # The environment's behaviors are replaced when it gets other slots (rlcore.AddsSlots), and all trainers with them.
    if run.stash.get(CONTROLLED) is not run.behaviors:
        run.stash[CONTROLLED] = run.behaviors
        run.stash[CONTROLLER] = controller_of(run, blocks)
    controller = run.stash[CONTROLLER]
    parameters, _ = block.read_sampler(run.plugins)
    create_sampler = block.sampler_spec(run.plugins).resolve("target")
    sampler: OpponentSampler = create_sampler(settings=parameters)
    fixed = fixed_opponents(behavior, blocks, run)
    ghost = partial(ghost_around, GhostTrainer, spec, settings, run, controller)
    if block.league is None:
        return ghost(behavior, block, sampler, fixed)
    slots = _shares(behavior, block.league, run)
    trainers: dict[str, GhostTrainer] = {}

    def snapshots_of_others(learner: str) -> list[Member]:
        snapshots = []
        for name, trainer in trainers.items():
            if name != learner:
                snapshots += trainer.snapshots
        return snapshots

    role = Role(guests=partial(snapshots_of_others, "main"))
    of_main = behavior.take(slots[0])
    trainers["main"] = ghost(of_main, block, sampler, fixed, role)
    # Exploiters play stored policies only: there is nothing to learn from games against themselves.
    exploiter_block = attrs.evolve(
        block, play_against_latest_model_ratio=0.0, opponents="pfsp", learn_from="learning_team"
    )
    main_names = _numbered("main_exploiter", block.league.main_exploiters)
    league_names = _numbered("league_exploiter", block.league.league_exploiters)
    for name, part in zip([*main_names, *league_names], slots[1:], strict=True):
        if name in main_names:
            sampler = MainExploiterSampler()
            role = Role(leads=False, plays_itself=False, guests=lambda: trainers["main"].versions)
        else:
            sampler = PrioritizedSampler(PrioritizedParameters())
            role = Role(leads=False, guests=partial(snapshots_of_others, name))
        learner = attrs.evolve(behavior.take(part), name=f"{behavior.name}.{name}")
        trainers[name] = ghost(learner, exploiter_block, sampler, {}, role)
    return League(trainers, slots, block.league, block.save_steps)


def _numbered(kind: str, count: int) -> list[str]:
    return [f"{kind}_{number}" for number in range(1, count + 1)]


def ghost_around(
    kind: type[Ghost],
    spec: TrainerSpec,
    settings: BehaviorSettings,
    run: RunContext,
    controller: Controller,
    behavior: BehaviorSpec,
    block: SelfPlaySettings,
    sampler: OpponentSampler,
    opponents: Mapping[str, Policy],
    role: Role = MAIN,
) -> Ghost:
    """A ghost trainer of this ``kind`` around the trainer that the other plugins create."""
    seats = Seats(behavior, block.learn_from == "all")
    of_seats = seats.behavior(behavior)
    inner = run.plugins.create(spec, settings=settings, behavior=of_seats, run=run, without=NAME)
    deterministic = settings.network_settings.deterministic
    ghosts = Ghosts(inner, block, behavior, sampler, opponents, controller, run.seed, deterministic, role)
    return kind(behavior, seats, ghosts)


def _shares(behavior: BehaviorSpec, settings: LeagueSettings, run: RunContext) -> list[Ints]:
    """The slots of the main policy of a league, and of each exploiter. Raises ConfigError for a run without room."""
    envs = np.unique(behavior.env_index)
    parts = shares(settings, len(envs))
    teams, _ = teams_in({behavior.name: behavior})
    problem = ""
    if run.ranks.size > 1:
        problem = "a league does not learn in several ranks; run it in one process, without torchrun"
    elif parts is None:
        problem = (
            f"{settings.main_exploiters + settings.league_exploiters} exploiters with a share of {settings.share:g} "
            f"leave no environment of {len(envs)} for the main policy; raise environment.num_envs"
        )
    elif len(teams) < 2:
        problem = (
            f"all agents of behavior {behavior.name!r} are in one team; exploiters need a behavior that plays against "
            "itself"
        )
    if problem or parts is None:
        raise ConfigError(problem, key=("behaviors", behavior.name, ENTRY, "league"))
    slots = []
    for part in parts:
        in_part = np.isin(behavior.env_index, envs[part])
        slots.append(np.flatnonzero(in_part))
    return slots


def behaviors_with_self_play(run: RunContext) -> Blocks:
    """The behaviors of the environment that have the block, sorted by name."""
    blocks = {}
    for name, spec in sorted(run.behaviors.items()):
        settings = run.config.behaviors.get(name, run.config.default_settings)
        block = None if settings is None else settings.sections.get(ENTRY)
        if block is not None:
            blocks[name] = (spec, block)
    return blocks


def fixed_opponents(behavior: BehaviorSpec, blocks: Blocks, run: RunContext) -> dict[str, Policy]:
    """The fixed opponents of a behavior by their names in ratings; those that others have too are BEHAVIOR/NAME.

    Raises ConfigError if a fixed opponent is called like a behavior.
    """
    key = ("behaviors", behavior.name, ENTRY, "fixed_opponents")
    _, block = blocks[behavior.name]
    for name in block.fixed_opponents:
        if name in blocks:
            raise ConfigError(
                f"an opponent is called {name!r} like a behavior with self-play, whose ratings have this name; choose "
                "another one",
                key=(*key, name),
            )
    # Ratings have one namespace for the run; two behaviors may give one name to different opponents.
    elsewhere: set[str] = set()
    for other, (_, other_block) in blocks.items():
        if other != behavior.name:
            elsewhere.update(other_block.fixed_opponents)
    opponents = {}
    for name, policy in create_opponents(block.fixed_opponents, behavior, run, key).items():
        rated_as = f"{behavior.name}/{name}" if name in elsewhere else name
        opponents[rated_as] = policy
    return opponents


def controller_of(run: RunContext, blocks: Blocks) -> Controller:
    """A new controller for the behaviors with self-play.

    Raises ConfigError unless they are in two teams or more, each of one behavior, and every environment has all teams.
    """
    owners = _owners(blocks)
    first, (_, settings) = next(iter(blocks.items()))
    agents = np.zeros(run.num_envs, np.int64)
    for name, (spec, block) in blocks.items():
        for shared in SHARED:
            problem = block.shared_problem(shared, first, settings)
            if problem is not None:
                raise ConfigError(problem, key=("behaviors", name, ENTRY, shared))
        agents += np.bincount(spec.env_index, minlength=run.num_envs)
    # Teams of one behavior are one side: the same players have them, which tells an advantage from strength.
    sides = []
    if settings.elo_advantage:
        names = list(blocks)
        sides = [names.index(owners[team]) for team in sorted(owners)]
    many = any(spec.many_games for spec, _ in blocks.values())
    return Controller(owners, agents, settings.initial_elo, settings.elo_k, sides, run.ranks, run.first_env, many)


def _owners(blocks: Blocks) -> dict[int, str]:
    """The behavior of each team."""
    owners: dict[int, str] = {}

    def refuse(problem: str, name: str) -> NoReturn:
        raise ConfigError(problem, key=("behaviors", name, ENTRY))

    for name, (spec, _) in blocks.items():
        if spec.team is None:
            refuse(
                f"the agents of behavior {name!r} have no teams, so there are no opponents; remove the block, or use "
                "an environment with teams",
                name,
            )
        for team in np.unique(spec.team).tolist():
            if owners.setdefault(team, name) != name:
                refuse(
                    f"team {team} has agents of the behaviors {owners[team]!r} and {name!r}; with self-play, each team "
                    "has agents of one behavior",
                    name,
                )
    if len(owners) < 2:
        refuse(
            f"all agents with self-play are in team {next(iter(owners))}, so there are no opponents; self-play needs "
            "two teams, of this behavior or of others that have the block too",
            next(iter(blocks)),
        )
    specs = {name: spec for name, (spec, _) in blocks.items()}
    _, everywhere = teams_in(specs)
    if not everywhere:
        teams = ", ".join(map(str, sorted(owners)))
        refuse(f"not every environment has the teams {teams}; with self-play, each has all of them", next(iter(blocks)))
    return owners


def status(run: RunContext) -> dict[str, Any] | None:
    """The section of the training status: who learns, and live ratings; ``elo`` has those of the learning policies.

    The match log has all opponents; the section has the newest ones. A behavior's own section has its ``elo``, where
    ML-Agents writes it.
    """
    if CONTROLLER not in run.stash:
        return None
    controller = run.stash[CONTROLLER]
    learning = controller.learning
    learners = controller.behaviors
    ratings = {}
    for index, name in enumerate(controller.log.names):
        ratings[name] = round(controller.elo.rating(index), 1)
    opponents = [name for name in ratings if name not in learners]
    of_learners = {name: rating for name, rating in ratings.items() if name in learners}
    newest = {name: ratings[name] for name in opponents[-NEWEST:]}
    behaviors = {name: {"elo": ratings[name]} for name in learners}
    section = {
        "learning_team": None if learning.current < 0 else learning.numbers[learning.current],
        "team_changes": learning.changes,
        "rated_games": controller.rated,
        "elo": of_learners,
        "opponents": {"elo": newest},
    }
    return {**behaviors, ENTRY: section}
