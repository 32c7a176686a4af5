"""Creates the environment of a run from ``environment: {type: gymnasium, id: ..., options: {...}}``."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from functools import partial
from traceback import extract_tb
from typing import TYPE_CHECKING, Any

import gymnasium
from gymnasium.envs.classic_control.cartpole import CartPoleVectorEnv
from gymnasium.vector import SyncVectorEnv
from gymnasium.wrappers import HumanRendering

from rlcore import (
    ConfigError,
    Environment,
    EnvironmentFailed,
    EnvironmentSettings,
    RlcoreError,
    one_line,
    pip_install,
    repeating,
)
from rlcore_gymnasium.atari import AtariOnFilm, raw_screens, vector_options, with_lives
from rlcore_gymnasium.cartpole import CartPoleEnvironment, native_parameters
from rlcore_gymnasium.failures import failing_as
from rlcore_gymnasium.in_process import InProcessEnvironment
from rlcore_gymnasium.mujoco_warnings import warn_once
from rlcore_gymnasium.native import ADAPTERS, NativeEnvironment
from rlcore_gymnasium.parameter_settings import ParameterRoute
from rlcore_gymnasium.parameters import WayFinder
from rlcore_gymnasium.plugin import HUMAN, registered
from rlcore_gymnasium.repeated_resets import are_tried
from rlcore_gymnasium.saved_state import SavingEnvironment, is_known
from rlcore_gymnasium.saved_wrappers import Env, are_known, chain
from rlcore_gymnasium.spaces import Observations
from rlcore_gymnasium.video import filming
from rlcore_gymnasium.worlds import known_problem
from rlcore_gymnasium.wrappers import WrapperEntry, wrapper_entries

if TYPE_CHECKING:
    from rlcore import RunContext

ATARI = "ale_py.vector_env:AtariVectorEnv"  # the vectorized form of the games of ale-py


def make_environment(settings: EnvironmentSettings, run: RunContext) -> Environment:
    """Create ``run.num_envs`` environments with the id ``settings.id``, natively vectorized if possible.

    Environments are created one by one if they have wrappers, if ``run.video`` is a directory, because each one records
    its episodes there, if ``options.render_mode`` is ``human``, and if the run has environment parameters that the
    vectorized form does not support per environment.

    Raises :class:`rlcore.ConfigError` for an id that is not registered, unknown parameters, and wrappers or
    observations that do not fit, and :class:`rlcore.EnvironmentFailed` if the environment cannot be constructed.
    """
    spec = registered(settings.id)
    env_id = str(settings.id)
    options = dict(settings.options or {})
    if "wrappers" in options:
        raise ConfigError("belongs beside options: environment.wrappers", key=("environment", "options", "wrappers"))
    listed = getattr(settings, "wrappers", ())
    wrappers = wrapper_entries(listed) if listed else ()
    observations: Observations = getattr(settings, "observations", {})
    (behavior,) = run.behavior_names  # the record says that there must be one
    parameters = tuple(run.config.environment_parameters)
    vectorized = spec.vector_entry_point is not None and not spec.additional_wrappers
    is_atari = spec.vector_entry_point == ATARI
    window = options.get("render_mode") == HUMAN
    if vectorized and run.video is None and not window and not wrappers:
        options_of_all = vector_options(options) if is_atari else options
        native = _native(env_id, behavior, run.num_envs, options_of_all, parameters, settings.parameters, observations)
        if native is not None:
            if isinstance(native, NativeEnvironment):
                native.reported = settings.info
                if are_tried(run):
                    native.try_resets()
                    native.say_what_is_left_out()
            return with_lives(native, options) if is_atari else native
    if spec.entry_point is None:
        raise EnvironmentFailed(f"{env_id}: has only a vectorized form, {_unusable(run, parameters, wrappers)}")
    film = {} if run.video is None else filming(env_id, run.video)
    if (film or window) and is_atari and not parameters and not wrappers:
        make_game = partial(gymnasium.make_vec, env_id, num_envs=1, vectorization_mode="vector_entry_point")
        camera: Callable[..., Env] = HumanRendering if window else film["wrappers"][0]
        options.pop("render_mode", None)  # the vectorized form has none

        def make_film() -> Env:
            game = AtariOnFilm(make_game, vector_options(options))
            return camera(game)

        vector = _made(env_id, options, lambda: SyncVectorEnv([make_film] * run.num_envs))
    else:
        # The camera is outermost: a new environment is put behind it.
        film_and_wrappers = {**film, "wrappers": [*wrappers, *film.get("wrappers", ())]}
        vector = _one_by_one(env_id, run.num_envs, options, film_and_wrappers)
    assert isinstance(vector, SyncVectorEnv)
    problem = raw_screens(vector.envs[0], env_id)
    if problem is not None:
        vector.close()
        raise ConfigError(f"{env_id} {problem}", key=("environment", "id"))

    def make_env(arguments: Mapping[str, Any]) -> Env:
        """Create one more environment without video."""
        return _one(env_id, {**options, **arguments}, wrappers, film)

    finder = WayFinder(spec, env_id, settings.parameters)
    # A video is of an evaluation, which saves nothing.
    saves = run.video is None and is_known(vector.envs[0])
    kind = SavingEnvironment if saves else InProcessEnvironment
    *around, _ = chain(vector.envs[0])
    afresh = bool(wrappers) and not are_known(around)
    environment = kind(env_id, behavior, vector, finder, make_env, observations, afresh)
    environment.reported = settings.info
    environment.add_goal_rules(partial(_one, env_id, options, wrappers))
    if parameters:
        try:
            environment.require_parameters(parameters)
        except BaseException:
            with suppress(Exception, SystemExit):  # report the first error
                environment.close()
            raise
    if are_tried(run):
        environment.try_resets()
        environment.say_what_is_left_out()
    return environment


def _unusable(run: RunContext, parameters: Collection[str], wrappers: Collection[object]) -> str:
    """Return why the vectorized form cannot be used."""
    if wrappers:
        return "which cannot have wrappers; delete environment.wrappers"
    if run.video is not None:
        return "which cannot be filmed"
    if parameters:
        return f"which supports no environment parameters ({', '.join(parameters)})"
    return "which does not declare when it resets (metadata['autoreset_mode'])"


def _native(
    env_id: str,
    behavior: str,
    num_envs: int,
    options: Mapping[str, Any],
    parameters: Collection[str],
    routes: Mapping[str, ParameterRoute],
    observations: Observations,
) -> Environment | None:
    """Create the vectorized form.

    Returns None if the form does not support these parameters, or does not declare when it resets: a wrong guess would
    mix two episodes.
    """
    mode = "vector_entry_point"
    vector = _made(env_id, options, lambda: gymnasium.make_vec(env_id, num_envs, vectorization_mode=mode, **options))
    if type(vector) is CartPoleVectorEnv:
        attributes = native_parameters(parameters, routes)
        if attributes is not None:
            return CartPoleEnvironment(env_id, behavior, vector, attributes, observations)
    # Of the object first: ale-py writes its mode into a mapping that all vectorized forms share.
    autoreset = getattr(vector, "autoreset_mode", vector.metadata.get("autoreset_mode"))
    adapter = ADAPTERS.get(autoreset)
    if adapter is None or parameters:
        with failing_as(f"{env_id}: its vectorized form failed to close"):
            vector.close()
        return None
    return adapter(env_id, behavior, vector, observations)


def _one(
    env_id: str, options: Mapping[str, Any], wrappers: Sequence[WrapperEntry], film: Mapping[str, Any] | None = None
) -> Env:
    """Create one environment, in any process of the run."""
    registered(env_id)
    around = {**(film or {}), "wrappers": wrappers}
    vector = _one_by_one(env_id, 1, options, around)
    env: Env = vector.envs[0]
    return env


def _one_by_one(env_id: str, num_envs: int, options: Mapping[str, Any], around: Mapping[str, Any]) -> Any:
    """Create environments that are stepped one by one, with ``around`` them what records and wraps them."""
    arguments = {"disable_env_checker": True, **options, **around}
    return _made(env_id, options, lambda: gymnasium.make_vec(env_id, num_envs, vectorization_mode="sync", **arguments))


def _made(env_id: str, options: Mapping[str, Any], make: Callable[[], Any]) -> Any:
    """Call a constructor. An exception becomes an error of one line with the solution."""
    try:
        warn_once(env_id)
        return make()
    except RlcoreError:
        raise
    except (gymnasium.error.DependencyNotInstalled, ImportError) as error:
        hint = _install_hint(error)
        reason = one_line(error)
        if hint and "pip install" in reason:  # two commands would leave a choice: Gymnasium's own has other versions
            reason = reason.partition(", ")[0]
        raise EnvironmentFailed(f"{env_id}: a package it needs is not installed{hint} ({reason})") from error
    except (Exception, SystemExit) as error:
        with_options = f" with options {dict(options)}" if options else ""
        more = _place_of(error) + known_problem(error)
        what = f"{env_id}: cannot be made{with_options}"
        raise repeating(error, what, lambda text: EnvironmentFailed(text + more)) from error


def _place_of(error: BaseException) -> str:
    """Return the file and the line of an error without a text, such as that of a bare ``assert``."""
    if str(error):
        return ""
    *_, last = extract_tb(error.__traceback__)
    return f" ({last.filename}:{last.lineno}: {last.line})"


def _install_hint(error: BaseException) -> str:
    text = str(error).lower()
    extras = {"moviepy": "video", "mujoco": "mujoco", "box2d": "box2d", "pygame": "video"}
    for word, extra in extras.items():
        if word in text:
            return f"; run: {pip_install(f'rlcore-gymnasium[{extra}]')}"
    return "; run: pip install 'gymnasium[jax]'" if "jax" in text else ""
