"""Adapts what a Python program gives to its run: ``Run(config, environment=...)``."""

from __future__ import annotations

import logging
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from copy import deepcopy
from functools import partial
from typing import Any

import gymnasium
from gymnasium.envs.registration import EnvSpec
from gymnasium.vector import SyncVectorEnv, VectorEnv, VectorWrapper

from rlcore import (
    ConfigError,
    Environment,
    EnvironmentSettings,
    RunContext,
    UnsupportedSpace,
)
from rlcore_gymnasium.atari import raw_screens
from rlcore_gymnasium.failures import failing_as
from rlcore_gymnasium.in_process import InProcessEnvironment
from rlcore_gymnasium.native import ADAPTERS, NativeEnvironment
from rlcore_gymnasium.parameters import WayFinder
from rlcore_gymnasium.repeated_resets import are_tried
from rlcore_gymnasium.saved_state import SavingEnvironment, is_known
from rlcore_gymnasium.saved_wrappers import are_known, chain

__all__ = ["adapt", "add_copies", "closing_on_error"]

log = logging.getLogger(__name__)

NUM_ENVS = ("environment", "num_envs")


def adapt(made: object, settings: EnvironmentSettings, run: RunContext) -> Environment | None:
    """Return the environment for objects of Gymnasium, None for an object of another kind.

    A vectorized object has all copies; it is used as it is. The behavior has the only name in the file, or that of the
    environment if the file has none. Raises ConfigError for several names, and if the number of copies does not fit.
    """
    if not isinstance(made, gymnasium.Env | VectorEnv):
        return None
    name = _name(made)
    if len(run.behavior_names) > 1:
        raise ConfigError(
            f"{name} has one behavior, which has the name of the only entry here; there must be one entry, not "
            f"{', '.join(run.behavior_names)}",
            key=("behaviors",),
        )
    made_so_far: list[Any] = [made]
    with closing_on_error(made_so_far, run):
        adapter = _vectorized if isinstance(made, VectorEnv) else _in_process
        try:
            adapted = adapter(made_so_far, name, settings, run)
        except UnsupportedSpace as error:
            advice = (
                "wrap it in the program, for example in FilterObservation or FlattenObservation of gymnasium.wrappers"
            )
            raise UnsupportedSpace(f"{error}; {advice}") from error
        adapted.require_parameters(run.config.environment_parameters)
    if are_tried(run):
        adapted.say_what_is_left_out()
    return adapted


def _in_process(envs: list[Any], name: str, settings: EnvironmentSettings, run: RunContext) -> InProcessEnvironment:
    add_copies(envs, run, name)
    if any(not isinstance(env, gymnasium.Env) for env in envs):
        raise ConfigError(
            f"Run(config, environment=...): the function made {name} first, and an object of another kind"
        )
    with failing_as(f"{name}: copies cannot be stepped together"):
        vector = SyncVectorEnv([lambda env=env: env for env in envs])  # type: ignore[misc]
    problem = raw_screens(envs[0], name)
    if problem is not None:
        log.warning("%s %s", name, problem)

    def make_env(arguments: Mapping[str, Any]) -> Any:
        if arguments:
            raise ConfigError(
                f"{name}: {', '.join(arguments)} can only be an argument of its constructor, and the program made it"
            )
        return run.given()

    spec = EnvSpec("Program-v0", f"{__name__}:_without_arguments")
    finder = WayFinder(spec, name, settings.parameters)
    kind = SavingEnvironment if is_known(envs[0]) else InProcessEnvironment
    *around, _ = chain(envs[0])
    unknown = [wrapper for wrapper in around if not are_known([wrapper])]
    # Only a function can make an environment whose wrappers remember nothing.
    afresh = callable(run.given) and bool(unknown)
    environment = kind(name, _behavior(name, run), vector, finder, make_env, None, afresh)
    environment.reported = settings.info
    make_another = run.given if callable(run.given) else partial(deepcopy, envs[0])
    environment.add_goal_rules(make_another)
    if unknown and not afresh:
        _limit_promise(environment, unknown)
    elif are_tried(run):
        environment.try_resets()
    return environment


def _limit_promise(environment: Any, wrappers: Sequence[object]) -> None:
    """Have the promise of a resume say that ``wrappers`` of an object may remember finished episodes."""
    names = ", ".join(type(wrapper).__name__ for wrapper in wrappers)
    environment.resume_limits = (
        f"the program gives one object, whose wrappers ({names}) may remember finished episodes",
    )


@contextmanager
def closing_on_error(made: Sequence[Any], run: RunContext) -> Iterator[None]:
    """Close what the function of the program made if the block fails; an object of the program stays open."""
    try:
        yield
    except BaseException:
        if callable(run.given):
            for env in made:
                with suppress(Exception, SystemExit):  # the first error is the one to report
                    env.close()
        raise


def add_copies(made: list[Any], run: RunContext, name: str) -> None:
    """Append objects that ``run.given`` makes to the first one, up to ``run.num_envs``. ``name`` begins messages.

    Raises ConfigError if there is one object only, and EnvironmentFailed if the function fails.
    """
    if run.num_envs > 1 and not callable(run.given):
        raise ConfigError(
            f"{name} is one environment, and {run.num_envs} are asked for; give a function that makes one, such as "
            "Run(config, environment=lambda: MyEnv())",
            key=NUM_ENVS,
        )
    while len(made) < run.num_envs:
        with failing_as(f"{name}: the function failed at copy {len(made) + 1}"):
            another = run.given()
        if any(another is other for other in made):
            raise ConfigError(
                f"{name}: the function of Run(config, environment=...) returned one object twice; create a new "
                "environment in each call"
            )
        made.append(another)


def _vectorized(envs: list[Any], name: str, settings: EnvironmentSettings, run: RunContext) -> NativeEnvironment:
    made: VectorEnv[Any, Any, Any] = envs[0]
    if made.num_envs != run.num_envs:
        block = "evaluation.environment" if run.purpose == "evaluate" else "environment"
        raise ConfigError(
            f"{name} has {made.num_envs} environments, and {run.num_envs} are asked for; set {block}.num_envs to "
            f"{made.num_envs}, or give a function that makes a single environment",
            key=NUM_ENVS,
        )
    mode: Any = getattr(made, "autoreset_mode", made.metadata.get("autoreset_mode"))
    adapter = ADAPTERS.get(mode)
    if adapter is None:
        raise ConfigError(f"{name}: does not declare when it resets; set metadata['autoreset_mode'] of its class")
    environment = adapter(name, _behavior(name, run), made)
    environment.reported = settings.info
    if isinstance(made, VectorWrapper):
        _limit_promise(environment, [made])
    elif are_tried(run):
        environment.try_resets()
    return environment


def _name(made: gymnasium.Env[Any, Any] | VectorEnv[Any, Any, Any]) -> str:
    """Return the id of an environment, or the name of its class."""
    return made.spec.id if made.spec is not None else type(made.unwrapped).__name__


def _behavior(name: str, run: RunContext) -> str:
    """Return the name of the behavior: ``Pong`` for an environment ``ALE/Pong-v5`` if the file has no name."""
    if run.behavior_names:
        return run.behavior_names[0]
    unversioned = re.sub(r"-v\d+$", "", name.rpartition("/")[2])
    return re.sub(r"[^A-Za-z0-9._-]", "_", unversioned)


def _without_arguments() -> Any:
    """Stand for the constructor of an environment that was made before."""
    raise NotImplementedError
