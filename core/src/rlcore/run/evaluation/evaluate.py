"""Measuring policies: whole episodes in an environment of their own, learning nothing."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from functools import partial
from pathlib import Path
from typing import Any

import attrs

from rlcore.contracts.behavior_spec import BehaviorSpec, spec_mismatch
from rlcore.contracts.curriculum import PlayedParameters
from rlcore.contracts.environment import Environment
from rlcore.contracts.policy import Policy
from rlcore.contracts.recordings import EpisodeRecorder
from rlcore.contracts.results import EvaluationPlan, EvaluationResult, Lineup
from rlcore.contracts.seeding import ProcessGenerators, derive_seed
from rlcore.errors import ConfigError, EnvironmentFailed, KeyPath, NonFiniteError
from rlcore.plugins.call import Plugins
from rlcore.plugins.context import RunContext
from rlcore.plugins.known import ENVIRONMENT_OPTIONS_EXAMPLE
from rlcore.records import EnvironmentSpec, EvaluationSection
from rlcore.run.components import closing
from rlcore.run.environments import environment_name, make_environment
from rlcore.run.evaluation.episodes import PlayedEnvironment, play, shares, target_parameters
from rlcore.settings import EnvironmentParameter, EnvironmentSettings, RunConfig
from rlcore.settings.blocks import MAX_EPISODE_STEPS

log = logging.getLogger(__name__)

# Environments stepped together; more would only help an evaluation of very many episodes.
MAX_ENVS = 16


PoliciesFor = Callable[[Mapping[str, BehaviorSpec]], Mapping[str, Policy]]
RecordersFor = Callable[[Mapping[str, BehaviorSpec]], AbstractContextManager[Mapping[str, EpisodeRecorder]]]


@contextmanager
def _of_an_evaluation() -> Iterator[None]:
    """Say of an environment that failed that it is an evaluation's: training may have another."""
    try:
        yield
    except NonFiniteError:  # which says so by itself
        raise
    except EnvironmentFailed as error:
        error.args = (f"evaluation: {error}",)
        raise


@attrs.define(eq=False)
class Evaluator:
    """Play whole episodes with the policies of one run, and return their results.

    Evaluations within a run, :meth:`rlcore.Run.evaluate` and ``rlcore evaluate`` use it. The environment is
    created on first use, and again for evaluations with another number of environments. ``specs`` are the behaviors
    that the policies were created for, which the environment must fit; None if the policies are created for the
    environment. ``video`` is a directory for a film of every episode.
    """

    _config: RunConfig
    _plugins: Plugins
    _context: RunContext
    _specs: Mapping[str, BehaviorSpec] | None = None
    _video: Path | None = None
    _warned_of_cuts: bool = attrs.field(default=False, init=False)
    _environment: PlayedEnvironment | None = attrs.field(default=None, init=False)
    _plan: EvaluationPlan | None = attrs.field(default=None, init=False)

    @property
    def _max_episode_steps(self) -> int | None:
        settings = self._config.evaluation
        return MAX_EPISODE_STEPS if settings is None else settings.max_episode_steps

    @ProcessGenerators.kept()
    def evaluate(
        self,
        policies_for: PoliciesFor,
        episodes: int,
        seed: int | None = None,
        deterministic: bool = True,
        recorders_for: RecordersFor | None = None,
        stop_requested: Callable[[], bool] | None = None,
    ) -> EvaluationResult:
        """Play ``episodes`` episodes. Equal seeds play equal episodes; None is the run's seed.

        ``policies_for`` and ``recorders_for`` are called with the environment's behaviors, before the first reset; they
        return the policies that play and the recorders of what is played. Raises
        :class:`rlcore.run.evaluation.episodes.Abandoned` soon after ``stop_requested`` returns True.
        """
        if episodes < 1:
            raise ValueError("episodes must be at least 1")
        run_seed = self._context.seed if seed is None else seed
        seed = derive_seed(run_seed, "evaluation")  # no episode of it is one of the training
        environment, lineups = self.open(episodes)
        behaviors = environment.behaviors
        policies = policies_for(behaviors)
        recording = nullcontext({}) if recorders_for is None else recorders_for(behaviors)
        with _of_an_evaluation(), recording as recorders:
            measure = partial(
                play,
                policies,
                environment,
                episodes,
                seed,
                deterministic,
                recorders,
                self._max_episode_steps,
                stop_requested,
            )
            results = []
            for lineup in lineups or (None,):
                environment.feed = self._feed(environment, seed)  # every line-up plays the same task
                results.append(measure(lineup))
        result = results[0]
        if self._plan is not None and lineups:
            result = self._plan.result(lineups, results)
        self._warn_of_cuts(result)
        return result

    def _lineups(self, environment: PlayedEnvironment, episodes: int) -> Sequence[Lineup]:
        """Who plays beside the policies, by the plugin whose keys the evaluation block has. Raises ConfigError."""
        block = self._config.evaluation
        if self._plan is None and block is not None and block.sections:
            name, *_ = block.sections
            section = self._plugins.record(EvaluationSection, name)
            context = attrs.evolve(self._context, purpose="evaluate")
            self._plan = self._plugins.create(section, settings=block.sections[name], run=context)
        if self._plan is None:
            return ()
        share = shares(environment.num_envs, episodes)
        return self._plan.lineups(environment.behaviors, share)

    def _warn_of_cuts(self, result: EvaluationResult) -> None:
        """Once."""
        behaviors = result.behaviors.values()
        cut = sum(behavior.cut for behavior in behaviors)
        if cut and not self._warned_of_cuts:
            self._warned_of_cuts = True
            log.warning(
                "evaluation: %d of %d episodes had not ended after %d environment steps and count as truncated there; "
                "evaluation.max_episode_steps sets the limit",
                cut,
                sum(behavior.episodes for behavior in behaviors),
                self._max_episode_steps,
            )

    @ProcessGenerators.kept()
    @_of_an_evaluation()
    def open(self, episodes: int) -> tuple[PlayedEnvironment, Sequence[Lineup]]:
        """Create what an evaluation of ``episodes`` episodes needs: the environment, and who plays in it."""
        settings = self._settings()
        num_envs = settings.num_envs or min(episodes, MAX_ENVS)
        if self._video is not None:
            num_envs = 1  # a film shows one environment
        if self._environment is not None and self._environment.num_envs != num_envs:
            with closing(self._environment, self._environment.named, EnvironmentFailed):
                self._environment = None
        if self._environment is None:
            name = environment_name(settings, self._plugins)
            environment = self._make(settings, num_envs)
            self._environment = PlayedEnvironment(environment, name, info=settings.info)
        return self._environment, self._lineups(self._environment, episodes)

    @property
    def close_seconds(self) -> float:
        """How long :meth:`close` may take; 0 if the environment does not say."""
        return 0.0 if self._environment is None else self._environment.close_seconds

    def close(self) -> None:
        """Close the environment; a later evaluation creates another one."""
        environment = self._environment
        self._environment = None
        if environment is not None:
            environment.close()

    def _feed(self, environment: PlayedEnvironment, seed: int) -> PlayedParameters | None:
        """Draw the parameters of the task that training is for; values in the evaluation block have priority."""
        context = attrs.evolve(self._context, seed=seed, num_envs=environment.num_envs, purpose="evaluate")
        return target_parameters(self._parameters(), context, environment, environment.named, environment.drawing)

    def _parameters(self) -> dict[str, EnvironmentParameter]:
        parameters = {**self._config.environment_parameters}
        if self._config.evaluation is not None:
            parameters |= self._config.evaluation.environment_parameters
        return parameters

    def _settings(self) -> EnvironmentSettings:
        settings = self._config.evaluation_environment
        if settings is None:
            raise ConfigError(
                "missing, so there is nowhere to measure the policies; name one in the configuration, or "
                f"with {ENVIRONMENT_OPTIONS_EXAMPLE} of rlcore evaluate",
                key=("environment",),
            )
        if self._video is not None:
            spec = self._plugins.record(EnvironmentSpec, settings.type)
            if not spec.video:
                raise ConfigError(f"--video: environments of type {settings.type!r} cannot record video")
        return settings

    def _make(self, settings: EnvironmentSettings, num_envs: int) -> Environment:
        played = attrs.evolve(self._config, environment=settings, environment_parameters=self._parameters())
        environment_settings = attrs.evolve(settings, num_envs=num_envs)
        config = attrs.evolve(played, environment=environment_settings)
        context = attrs.evolve(self._context, config=config, num_envs=num_envs, video=self._video, purpose="evaluate")
        try:
            environment = make_environment(config, self._plugins, context)
        except ConfigError as error:
            if _value(played, error.key) != _value(self._config, error.key):  # only the evaluation block has it
                raise ConfigError(error.message, key=("evaluation", *error.key)) from error
            raise
        problem = None
        if self._specs is not None:
            problem = specs_mismatch(self._specs, environment.behaviors)
        if problem:
            with suppress(Exception, SystemExit):  # the error to report is the mismatch
                environment.close()
            raise ConfigError(f"environment {settings.id or settings.type!r} to evaluate in: {problem}")
        return environment


def _value(config: RunConfig, key: KeyPath) -> Any:
    """What ``config`` has at the first two parts of ``key``; None if it has nothing there."""
    block_name, name = (*map(str, key), "", "")[:2]
    block = getattr(config, block_name, None)
    if isinstance(block, Mapping):
        return block.get(name)
    return getattr(block, name, None)


def specs_mismatch(learned: Mapping[str, BehaviorSpec], played: Mapping[str, BehaviorSpec]) -> str | None:
    """Where behaviors of an environment are not those that policies learned, in one line; None if they fit.

    The environment may have more observations than the policies read, such as those of critics.
    """
    if learned.keys() != played.keys():
        names = ", ".join(sorted(played))
        learned_names = ", ".join(sorted(learned))
        return f"has behaviors {names}, the policies are of {learned_names}"
    for name, spec in learned.items():
        known = {observation.name for observation in spec.observations}
        read = tuple(observation for observation in played[name].observations if observation.name in known)
        as_read = attrs.evolve(played[name], observations=read)
        problem = spec_mismatch(spec, as_read)
        if problem:
            return f"behavior {name!r}: {problem}, which the policy learned"
    return None
