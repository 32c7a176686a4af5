"""From the block ``self_play`` to a ghost trainer, and the checks that need the environment."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any, NoReturn, TypeVar

import attrs
import numpy as np

from rlcore import BehaviorSettings, BehaviorSpec, ConfigError, Policy, RunContext, StashKey, Trainer, TrainerSpec
from rlcore_ghost.games import teams_in
from rlcore_ghost.opponents import create_opponents
from rlcore_ghost.records import NAME
from rlcore_ghost.selfplay.controller import CONTROLLER, Controller
from rlcore_ghost.selfplay.ghosts import MAIN, Ghosts, Role
from rlcore_ghost.selfplay.league import League, MainExploiterSampler, shares
from rlcore_ghost.selfplay.pool import Member
from rlcore_ghost.selfplay.samplers import OpponentSampler, PrioritizedSampler
from rlcore_ghost.selfplay.seats import Seats
from rlcore_ghost.selfplay.trainer import ENTRY, GhostTrainer
from rlcore_ghost.settings import SHARED, PrioritizedParameters, SelfPlaySettings

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
    if run.stash.get(CONTROLLED) is not run.behaviors:  # others have other slots: see rlcore.AddsSlots
        run.stash[CONTROLLED] = run.behaviors
        run.stash[CONTROLLER] = controller_of(run, blocks)
    controller = run.stash[CONTROLLER]
    parameters, _ = block.read_sampler(run.plugins)
    sampler: OpponentSampler = block.sampler_spec(run.plugins).resolve("target")(settings=parameters)
    fixed = fixed_opponents(behavior, blocks, run)
    ghost = partial(ghost_around, GhostTrainer, spec, settings, run, controller)
    if block.league is None:
        return ghost(behavior, block, sampler, fixed)

    parts = _shares(behavior, block, run)
    of_main, *of_exploiters = (behavior.take(part) for part in parts)
    trainers: dict[str, GhostTrainer] = {}

    def snapshots_of_others(own: str) -> list[Member]:
        return [member for name, trainer in trainers.items() if name != own for member in trainer.snapshots]

    trainers["main"] = ghost(of_main, block, sampler, fixed, Role(guests=partial(snapshots_of_others, "main")))
    against_others = attrs.evolve(
        block, play_against_latest_model_ratio=0.0, opponents="pfsp", learn_from="learning_team"
    )
    kinds = {"main_exploiter": block.league.main_exploiters, "league_exploiter": block.league.league_exploiters}
    names = [(kind, f"{kind}_{number}") for kind, count in kinds.items() for number in range(1, count + 1)]
    for (kind, name), part in zip(names, of_exploiters, strict=True):
        if kind == "main_exploiter":
            sampler = MainExploiterSampler()
            role = Role(leads=False, plays_itself=False, guests=lambda: trainers["main"].versions)
        else:
            sampler = PrioritizedSampler(PrioritizedParameters())
            role = Role(leads=False, guests=partial(snapshots_of_others, name))
        learner = attrs.evolve(part, name=f"{behavior.name}.{name}")
        trainers[name] = ghost(learner, against_others, sampler, {}, role)
    return League(trainers, parts, block.league, block.save_steps)


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
    inner = run.plugins.create(spec, settings=settings, behavior=seats.behavior(behavior), run=run, without=NAME)
    deterministic = settings.network_settings.deterministic
    ghosts = Ghosts(inner, block, behavior, sampler, opponents, controller, run.seed, deterministic, role)
    return kind(behavior, seats, ghosts)


def _shares(behavior: BehaviorSpec, block: SelfPlaySettings, run: RunContext) -> list[Any]:
    """The slots of the main policy of a league, and of each exploiter. Raises ConfigError for a run without room."""
    settings = block.league
    envs = np.unique(behavior.env_index)
    assert settings is not None
    parts = shares(settings, len(envs))
    problem = None
    if run.ranks.size > 1:
        problem = "a league does not learn in several ranks; run it in one process, without torchrun"
    elif parts is None:
        problem = (
            f"{settings.main_exploiters + settings.league_exploiters} exploiters with a share of {settings.share:g} "
            f"leave no environment of {len(envs)} for the main policy; raise environment.num_envs"
        )
    elif len(teams_in({behavior.name: behavior})[0]) < 2:
        problem = (
            f"all agents of behavior {behavior.name!r} are in one team; exploiters need a behavior that plays against "
            "itself"
        )
    if problem is not None or parts is None:
        raise ConfigError(problem or "", key=("behaviors", behavior.name, ENTRY, "league"))
    return [np.flatnonzero(np.isin(behavior.env_index, envs[part])) for part in parts]


def behaviors_with_self_play(run: RunContext) -> Blocks:
    """The behaviors of the environment that have the block."""
    settings = {name: run.config.behaviors.get(name, run.config.default_settings) for name in run.behaviors}
    found = {name: None if each is None else each.sections.get(ENTRY) for name, each in settings.items()}
    return {name: (run.behaviors[name], block) for name, block in sorted(found.items()) if block is not None}


def fixed_opponents(behavior: BehaviorSpec, blocks: Blocks, run: RunContext) -> dict[str, Policy]:
    """The fixed opponents of a behavior by their names in ratings; those that others have too are BEHAVIOR/NAME.

    Raises ConfigError if a fixed opponent is called like a behavior.
    """
    key = ("behaviors", behavior.name, ENTRY, "fixed_opponents")
    block = blocks[behavior.name][1]
    for name in block.fixed_opponents:
        if name in blocks:
            raise ConfigError(
                f"an opponent is called {name!r} like a behavior with self-play, whose ratings have this name; choose "
                "another one",
                key=(*key, name),
            )
    created = create_opponents(block.fixed_opponents, behavior, run, key)
    elsewhere = {name for other, (_, each) in blocks.items() if other != behavior.name for name in each.fixed_opponents}
    return {f"{behavior.name}/{name}" if name in elsewhere else name: policy for name, policy in created.items()}


def controller_of(run: RunContext, blocks: Blocks) -> Controller:
    """A new controller for the behaviors with self-play.

    Raises ConfigError unless they are in two teams or more, each of one behavior, and every environment has all teams.
    """
    (first, (_, settings)), owners = next(iter(blocks.items())), _owners(blocks)
    agents = np.zeros(run.num_envs, np.int64)
    for name, (spec, block) in blocks.items():
        for shared in SHARED:
            problem = block.shared_problem(shared, first, settings)
            if problem is not None:
                raise ConfigError(problem, key=("behaviors", name, ENTRY, shared))
        agents += np.bincount(spec.env_index, minlength=run.num_envs)
    sides = [list(blocks).index(owners[team]) for team in sorted(owners)] if settings.elo_advantage else []
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
    if not teams_in({name: spec for name, (spec, _) in blocks.items()})[1]:
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
    team = controller.learning_team
    learners = controller.behaviors
    ratings = {name: round(controller.elo.rating(index), 1) for index, name in enumerate(controller.log.names)}
    opponents = [name for name in ratings if name not in learners][-NEWEST:]
    return {
        **{name: {"elo": ratings[name]} for name in learners},
        ENTRY: {
            "learning_team": None if team < 0 else controller.teams[team],
            "team_changes": controller.changes,
            "rated_games": controller.rated,
            "elo": {name: rating for name, rating in ratings.items() if name in learners},
            "opponents": {"elo": {name: ratings[name] for name in opponents}},
        },
    }
