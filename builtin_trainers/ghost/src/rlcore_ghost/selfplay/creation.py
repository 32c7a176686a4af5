"""From the block ``self_play`` to a ghost trainer, and the checks that need the environment."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import attrs
import numpy as np

from rlcore import BehaviorSettings, BehaviorSpec, ConfigError, Policy, RunContext, Trainer, TrainerSpec
from rlcore_ghost.opponents import create_opponents
from rlcore_ghost.records import NAME
from rlcore_ghost.selfplay.controller import CONTROLLER, Controller
from rlcore_ghost.selfplay.ghosts import Role
from rlcore_ghost.selfplay.league import League, MainExploiterSampler, main_exploiter_guests, shares
from rlcore_ghost.selfplay.pool import Member
from rlcore_ghost.selfplay.samplers import OpponentSampler, PrioritizedSampler
from rlcore_ghost.selfplay.seats import Seats
from rlcore_ghost.selfplay.trainer import ENTRY, GhostTrainer
from rlcore_ghost.settings import SHARED, PrioritizedParameters, SelfPlaySettings

NEWEST = 20  # opponents in the training status


def create_ghost_trainer(
    spec: TrainerSpec, settings: BehaviorSettings, behavior: BehaviorSpec, run: RunContext
) -> Trainer:
    """The trainer that the other plugins create, for the seats of those who learn, within a ghost trainer."""
    block: SelfPlaySettings = settings.sections[ENTRY]
    with_self_play = behaviors_with_self_play(run)
    _require_teams(behavior, with_self_play)
    if CONTROLLER not in run.stash:
        run.stash[CONTROLLER] = controller_of(run, with_self_play)
    controller = run.stash[CONTROLLER]
    key = ("behaviors", behavior.name, ENTRY)
    record = block.sampler_spec(run.plugins)
    try:
        parameters = block.sampler_settings(run.plugins)
    except ConfigError as error:
        raise ConfigError(error.message, key=(*key, *error.key)) from None
    players = _fixed_players(behavior.name, with_self_play)
    created = create_opponents(block.fixed_opponents, behavior, run, (*key, "fixed_opponents"))
    fixed = {players[name]: policy for name, policy in created.items()}

    def ghost(
        learner: BehaviorSpec,
        own: SelfPlaySettings,
        sampler: OpponentSampler,
        opponents: Mapping[str, Policy],
        role: Role,
    ) -> GhostTrainer:
        seats = Seats(learner, own.learn_from == "all")
        inner = run.plugins.create(spec, settings=settings, behavior=seats.behavior(learner), run=run, without=NAME)
        deterministic = settings.network_settings.deterministic
        return GhostTrainer(inner, own, learner, seats, sampler, opponents, controller, run.seed, deterministic, role)

    sampler: OpponentSampler = record.resolve("target")(settings=parameters)
    if block.league is None:
        return ghost(behavior, block, sampler, fixed, Role())
    return _league(behavior, block, sampler, fixed, ghost, key, run.ranks.size > 1)


def _league(
    behavior: BehaviorSpec,
    block: SelfPlaySettings,
    sampler: OpponentSampler,
    fixed: Mapping[str, Policy],
    ghost: Callable[..., GhostTrainer],
    key: tuple[str, ...],
    in_ranks: bool,
) -> League:
    """The main policy and its exploiters; ``ghost`` makes a trainer of each."""
    settings = block.league
    assert settings is not None
    if in_ranks:
        raise ConfigError(
            "a league does not learn in several ranks; run it in one process, without torchrun", key=(*key, "league")
        )
    envs = np.unique(behavior.env_index)
    parts = shares(settings, len(envs))
    if parts is None:
        raise ConfigError(
            f"{settings.main_exploiters + settings.league_exploiters} exploiters with a share of "
            f"{settings.share:g} leave no environment of {len(envs)} for the main policy; raise environment.num_envs",
            key=(*key, "league"),
        )
    if behavior.team is None or len(np.unique(behavior.team)) < 2:
        raise ConfigError(
            f"all agents of behavior {behavior.name!r} are in one team; exploiters need a behavior that plays "
            "against itself",
            key=(*key, "league"),
        )
    slots = [np.flatnonzero(np.isin(behavior.env_index, envs[part])) for part in parts]
    specs = [behavior.take(part) for part in slots]
    exploiters: dict[str, GhostTrainer] = {}
    main = ghost(
        specs[0], block, sampler, fixed,
        Role(guests=lambda: [member for other in exploiters.values() for member in other.snapshots]),
    )  # fmt: skip
    against_others = attrs.evolve(
        block, play_against_latest_model_ratio=0.0, opponents="pfsp", learn_from="learning_team"
    )
    kinds = ["main_exploiter"] * settings.main_exploiters + ["league_exploiter"] * settings.league_exploiters
    for number, (kind, spec) in enumerate(zip(kinds, specs[1:], strict=True)):
        name = f"{kind}_{number + 1 - (settings.main_exploiters if kind == 'league_exploiter' else 0)}"
        learner = attrs.evolve(spec, name=f"{behavior.name}.{name}")
        if kind == "main_exploiter":
            role = Role(False, False, lambda: main_exploiter_guests(main))
            exploiters[name] = ghost(learner, against_others, MainExploiterSampler(), {}, role)
        else:
            role = Role(False, True, _others(exploiters, main, name))
            exploiters[name] = ghost(learner, against_others, PrioritizedSampler(PrioritizedParameters()), {}, role)
    reset_steps = 10 * block.save_steps if settings.reset_steps is None else settings.reset_steps
    return League(main, exploiters, slots, settings, reset_steps)


def _others(exploiters: Mapping[str, GhostTrainer], main: GhostTrainer, name: str) -> Callable[[], list[Member]]:
    """Returns the snapshots of all but the exploiter called ``name``."""

    def guests() -> list[Member]:
        others = [main, *(trainer for other, trainer in exploiters.items() if other != name)]
        return [member for trainer in others for member in trainer.snapshots]

    return guests


def behaviors_with_self_play(run: RunContext) -> dict[str, tuple[BehaviorSpec, SelfPlaySettings]]:
    """The behaviors of the environment that have the block."""
    found = {}
    for name, spec in run.behaviors.items():
        settings = run.config.behaviors.get(name, run.config.default_settings)
        block = None if settings is None else settings.sections.get(ENTRY)
        if block is not None:
            found[name] = (spec, block)
    return found


def _fixed_players(behavior: str, others: Mapping[str, tuple[BehaviorSpec, SelfPlaySettings]]) -> dict[str, str]:
    """The names in ratings of the fixed opponents of a behavior; those that others have too are BEHAVIOR/NAME.

    Raises ConfigError if a fixed opponent is called like a behavior.
    """
    players = {}
    for name in others[behavior][1].fixed_opponents:
        if name in others:
            raise ConfigError(
                f"an opponent is called {name!r} like a behavior with self-play, whose ratings have this name; choose "
                "another one",
                key=("behaviors", behavior, ENTRY, "fixed_opponents", name),
            )
        also = [other for other, (_, block) in others.items() if name in block.fixed_opponents]
        players[name] = name if also == [behavior] else f"{behavior}/{name}"
    return players


def _require_teams(behavior: BehaviorSpec, others: Mapping[str, tuple[BehaviorSpec, SelfPlaySettings]]) -> None:
    """Raise ConfigError unless the agents with self-play are in two teams or more, each of one behavior."""
    key = ("behaviors", behavior.name, ENTRY)
    if behavior.team is None:
        raise ConfigError(
            f"the agents of behavior {behavior.name!r} have no teams, so there are no opponents; remove the block, or "
            "use an environment with teams",
            key=key,
        )
    owners: dict[int, str] = {}
    for name, (spec, _) in sorted(others.items()):
        for team in [] if spec.team is None else np.unique(spec.team).tolist():
            other = owners.setdefault(team, name)
            if other != name:
                raise ConfigError(
                    f"team {team} has agents of the behaviors {other!r} and {name!r}; with self-play, each team has "
                    "agents of one behavior",
                    key=key,
                )
    if len(owners) < 2:
        raise ConfigError(
            f"all agents with self-play are in team {next(iter(owners))}, so there are no opponents; self-play needs "
            "two teams, of this behavior or of others that have the block too",
            key=key,
        )
    places = {(env, team) for spec, _ in others.values() for env, team in _places(spec)}
    envs = {env for env, _ in places}
    missing = next(((env, team) for env in sorted(envs) for team in sorted(owners) if (env, team) not in places), None)
    if missing is not None:
        raise ConfigError(
            f"environment {missing[0]} has no agents of team {missing[1]}, but another one has; with self-play, every "
            "environment has all teams",
            key=key,
        )


def _places(spec: BehaviorSpec) -> list[tuple[int, int]]:
    """The pairs of environment and team that have agents of the behavior."""
    if spec.team is None:
        return []
    pairs = np.unique(np.stack([spec.env_index, spec.team], axis=1), axis=0)
    return [(env, team) for env, team in pairs.tolist()]


def controller_of(run: RunContext, behaviors: Mapping[str, tuple[BehaviorSpec, SelfPlaySettings]]) -> Controller:
    """A new controller for the ``behaviors`` with self-play."""
    first, (_, settings) = next(iter(sorted(behaviors.items())))
    agents = np.zeros(run.num_envs, np.int64)
    side: dict[int, int] = {}  # number of the behavior of each team
    for number, (name, (spec, block)) in enumerate(sorted(behaviors.items())):
        for shared in SHARED:
            problem = block.shared_problem(shared, first, settings)
            if problem is not None:
                raise ConfigError(problem, key=("behaviors", name, ENTRY, shared))
        agents += np.bincount(spec.env_index, minlength=run.num_envs)
        side.update(dict.fromkeys([] if spec.team is None else np.unique(spec.team).tolist(), number))
    sides = [side[team] for team in sorted(side)] if settings.elo_advantage else []
    return Controller(side, agents, settings.initial_elo, settings.elo_k, sides, run.ranks, run.first_env)


def status(run: RunContext) -> dict[str, Any] | None:
    """The section of the training status: who learns, and live ratings; ``elo`` has those of the learning policies.

    The match log has all opponents; the section has the newest ones. A behavior's own section has its ``elo``, where
    ML-Agents writes it.
    """
    if CONTROLLER not in run.stash:
        return None
    controller = run.stash[CONTROLLER]
    team, learners = controller.learning_team, controller.behaviors
    ratings = {name: round(controller.elo.rating(index), 1) for index, name in enumerate(controller.log.names)}
    opponents = [name for name in ratings if name not in learners][-NEWEST:]
    return {
        **{name: {"elo": ratings[name]} for name in controller.behaviors},
        ENTRY: {
            "learning_team": None if team < 0 else controller.teams[team],
            "team_changes": controller.changes,
            "rated_games": controller.rated,
            "elo": {name: rating for name, rating in ratings.items() if name in learners},
            "opponents": {"elo": {name: ratings[name] for name in opponents}},
        },
    }
