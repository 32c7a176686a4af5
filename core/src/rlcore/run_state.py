"""Where a run is, behaviors and environment together: beginning episodes, writing the state down, taking it up again.

A checkpoint ends open episodes unless the environment can save itself, in the run that goes on as in the one that is
resumed; that is what makes the two equal.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rlcore.behavior_run import BehaviorRun
from rlcore.blame import environment_does, trainer_does
from rlcore.environment import Environment, SavesState
from rlcore.errors import RunStateError
from rlcore.run_curricula import RunCurricula
from rlcore.run_store import model_of, model_of_path
from rlcore.seeding import EpisodeSeeds

Behaviors = Mapping[str, BehaviorRun]


def begin_episodes(
    environment: Environment,
    behaviors: Behaviors,
    curricula: RunCurricula | None,
    seed: int,
    episodes: NDArray[np.int64],
) -> None:
    """Every copy c begins the episode numbered ``episodes[c]``."""
    if curricula is not None:
        curricula.before_reset(episodes)
    with environment_does(environment, "reset"):
        batches = environment.reset(EpisodeSeeds(seed), episodes)
    if curricula is not None:
        curricula.after_reset(episodes)
    for name, behavior in behaviors.items():
        behavior.check_finite(batches[name])
        with trainer_does(behavior, "begin"):
            behavior.begin(batches[name])


def cut_warning(behaviors: Behaviors, hidden: BehaviorRun) -> str:
    """What to say where checkpoints end the episodes of ``hidden`` before any of them ends by itself."""
    shortest = min(behaviors.values(), key=lambda behavior: behavior.checkpoint_interval)
    interval, slots, settings = shortest.checkpoint_interval, shortest.spec.slots, shortest.settings
    even = settings.even_checkpoints and settings.keep_checkpoints > 0
    advice = "lower keep_checkpoints, which even_checkpoints divides max_steps by" if even else "raise it"
    return (
        f"behavior {hidden.name!r}: no episode ended between two checkpoints, so there is no mean reward: this "
        "environment cannot save itself, and every checkpoint begins new episodes. "
        f"behaviors.{shortest.name}.checkpoint_interval is {interval} agent steps, {interval // slots} for each of "
        f"{slots} agents; {advice}, so that it is many times the length of an episode"
    )


def unlearned_warning(behavior: BehaviorRun) -> str:
    """What to say where ``max_steps`` came before the trainer's first update."""
    return (
        f"behavior {behavior.name!r}: nothing was learned: {behavior.steps} steps were taken and the trainer was still "
        "waiting for more before its first update; raise max_steps, or lower what it waits for, such as "
        "hyperparameters.buffer_size of ppo or buffer_init_steps of sac"
    )


def capture(
    environment: Environment | None,
    behaviors: Behaviors,
    curricula: RunCurricula | None,
    evaluation: Mapping[str, Any],
    seed: int,
    wall_seconds: float,
) -> dict[str, Any]:
    """The state of a checkpoint: an entry for each behavior's trainer, and ``run`` for the rest.

    ``evaluation`` is what the run's evaluations found.
    """
    state: dict[str, Any] = {}
    for name, behavior in behaviors.items():
        with trainer_does(behavior, "state_dict"):
            state[name] = behavior.trainer.state_dict()
    where = None
    if isinstance(environment, SavesState):
        with environment_does(environment, "state_dict"):
            where = environment.state_dict()
    state["run"] = {
        "seed": seed,
        "steps": {name: behavior.steps for name, behavior in behaviors.items()},
        "episodes": None if environment is None else environment.episodes.copy(),
        "environment": where,
        "behaviors": {name: behavior.state_dict() for name, behavior in behaviors.items()},
        "curricula": None if curricula is None else curricula.state_dict(),
        "evaluation": evaluation,
        "wall_seconds": wall_seconds,
    }
    return state


def restore(
    saved: Mapping[str, Any],
    environment: Environment | None,
    behaviors: Behaviors,
    curricula: RunCurricula | None,
    where: Path,
) -> None:
    """Puts everything where :func:`capture` found it. ``where`` is the run directory, for messages."""
    state = saved["run"]
    _require_behaviors(state, behaviors, where)
    _require_environment(state, environment, where)
    _require_curricula(state, curricula, where)
    if curricula is not None:
        curricula.load_state_dict(state["curricula"])
    for name, behavior in behaviors.items():
        with trainer_does(behavior, "load_state_dict"):
            behavior.trainer.load_state_dict(saved[name])
        behavior.load_state_dict(state["behaviors"][name])
    if environment is None:
        return
    if isinstance(environment, SavesState) and state["environment"] is not None:
        with environment_does(environment, "load_state_dict"):
            batches = environment.load_state_dict(state["environment"])
    else:
        if curricula is not None:
            curricula.begin_again()
        with environment_does(environment, "reset"):
            batches = environment.reset(EpisodeSeeds(int(state["seed"])), np.asarray(state["episodes"]))
    if curricula is not None:
        curricula.go_on()
    for name, behavior in behaviors.items():
        behavior.batch = batches[name]


def take_policies(saved: Mapping[str, Any], behaviors: Behaviors, curricula: RunCurricula | None, where: Path) -> None:
    """What acting needs of a checkpoint; the environment and its number of copies may be others."""
    if curricula is not None and saved["run"].get("curricula") is not None:
        curricula.load_curricula(saved["run"]["curricula"])
    _require_behaviors(saved["run"], behaviors, where)
    for name, behavior in behaviors.items():
        with trainer_does(behavior, "load_model"):
            behavior.trainer.load_model(saved[name]["model"])
        behavior.policy_steps = int(saved["run"]["steps"][name])


def take_initial_models(behaviors: Behaviors, models: Mapping[str, Any] | None, origin: str) -> None:
    """Weights from a behavior's ``init_path``, else from ``models``, which ``origin`` brought, if there are any."""
    for name, behavior in behaviors.items():
        path = behavior.settings.init_path
        if path is not None:
            model = model_of_path(Path(path), name, f"behaviors.{name}.init_path {path!r}")
        elif models is not None:
            model = model_of(models, name, origin)
        else:
            continue
        with trainer_does(behavior, "load_model"):
            behavior.trainer.load_model(model)


def _require_behaviors(state: Mapping[str, Any], behaviors: Behaviors, where: Path) -> None:
    if state["behaviors"].keys() != behaviors.keys():
        raise RunStateError(
            f"{where}: the checkpoint has behaviors {', '.join(sorted(state['behaviors']))}, this "
            f"configuration {', '.join(sorted(behaviors))}; resume with the configuration of the run"
        )


def _require_curricula(state: Mapping[str, Any], curricula: RunCurricula | None, where: Path) -> None:
    if (state.get("curricula") is None) != (curricula is None):
        then, now = ("without", "has") if curricula is not None else ("with", "has no")
        raise RunStateError(
            f"{where}: the checkpoint was learned {then} environment_parameters, this configuration {now} such block; "
            "resume with the configuration of the run"
        )


def _require_environment(state: Mapping[str, Any], environment: Environment | None, where: Path) -> None:
    """Raises RunStateError unless the checkpoint learned in as many copies, or as this run does in none."""
    if (state["episodes"] is None) != (environment is None):
        data, played = "from recorded data", "in an environment"
        then, now = (data, played) if environment is not None else (played, data)
        raise RunStateError(
            f"{where}: the run learned {then}, this configuration learns {now}; resume with the configuration of the "
            "run"
        )
    if environment is not None and len(state["episodes"]) != environment.num_envs:
        copies = len(state["episodes"])
        raise RunStateError(
            f"{where}: the checkpoint is of {copies} environment copies, this run has {environment.num_envs}; set "
            f"environment.num_envs to {copies}"
        )
