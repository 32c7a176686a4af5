"""Measuring policies: whole episodes in an environment of their own, learning nothing."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from pathlib import Path

import attrs

from rlcore.contracts.environment import BehaviorSpec, Environment, spec_mismatch
from rlcore.contracts.policy import Policy
from rlcore.contracts.recordings import EpisodeRecorder
from rlcore.contracts.results import EvaluationPlan, EvaluationResult, Lineup
from rlcore.contracts.seeding import derive_seed
from rlcore.errors import ConfigError, EnvironmentFailed, KeyPath, NonFiniteError
from rlcore.plugins.call import Plugins
from rlcore.plugins.context import RunContext
from rlcore.plugins.failures import blamed
from rlcore.plugins.known import ENVIRONMENT_OPTIONS_EXAMPLE
from rlcore.records import EnvironmentSpec, EvaluationSection
from rlcore.run.behaviors.checks import BatchCheck
from rlcore.run.components import closing, environment_name, make_environment
from rlcore.run.curricula.curricula import make_curricula
from rlcore.run.curricula.parameters import ParameterFeed, target_feed
from rlcore.run.evaluation.episodes import checks_of, play, shares
from rlcore.settings import EnvironmentParameter, EnvironmentSettings, RunConfig
from rlcore.settings.blocks import MAX_EPISODE_STEPS

log = logging.getLogger(__name__)

# Environments stepped together; more would only help an evaluation of very many episodes.
MAX_ENVS = 16


PoliciesFor = Callable[[Mapping[str, BehaviorSpec]], Mapping[str, Policy]]
RecordersFor = Callable[[Mapping[str, BehaviorSpec]], AbstractContextManager[Mapping[str, EpisodeRecorder]]]


@attrs.define(eq=False)
class Evaluator:
    """Play whole episodes with the policies of one run, and return their results.

    Evaluations within a run, :meth:`rlcore.Run.evaluate` and ``rlcore evaluate`` use it. The environment is
    created on first use, and kept for evaluations with the same number of environments. ``specs`` are the behaviors
    that the policies were created for, which the environment must fit; None if the policies are created for the
    environment. ``video`` is a directory for a film of every episode.
    """

    _config: RunConfig
    _plugins: Plugins
    _context: RunContext
    _specs: Mapping[str, BehaviorSpec] | None = None
    _video: Path | None = None
    _warned_of_cuts: bool = attrs.field(default=False, init=False)
    _environment: Environment | None = attrs.field(default=None, init=False)
    _plan: EvaluationPlan | None = attrs.field(default=None, init=False)
    _checks: dict[str, BatchCheck] = attrs.field(factory=dict, init=False)  # of its behaviors; they warn once

    @property
    def _max_episode_steps(self) -> int | None:
        settings = self._config.evaluation
        return MAX_EPISODE_STEPS if settings is None else settings.max_episode_steps

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
        seed = derive_seed(self._context.seed if seed is None else seed, "evaluation")
        environment, kept = self._open(episodes)
        name = environment_name(self._settings(), self._plugins)
        with nullcontext() if kept else closing(environment, name, EnvironmentFailed):
            policies = policies_for(environment.behaviors)
            lineups = self._lineups(environment, episodes)
            recording = nullcontext({}) if recorders_for is None else recorders_for(environment.behaviors)
            with _of_an_evaluation(), recording as recorders:
                results = [
                        play(
                            policies, environment, episodes, seed, deterministic, recorders,
                            self._feed(environment, name, seed), self._max_episode_steps, stop_requested, name,
                            self._checks if kept else None, lineup,
                        )
                        for lineup in lineups or (None,)
                    ]  # fmt: skip
        result = self._plan.result(lineups, results) if self._plan is not None and lineups else results[0]
        self._warn_of_cuts(result)
        return result

    def _lineups(self, environment: Environment, episodes: int) -> Sequence[Lineup]:
        """Who plays beside the policies, by the plugin whose keys the evaluation block has. Raises ConfigError."""
        sections = {} if self._config.evaluation is None else self._config.evaluation.sections
        if self._plan is None and sections:
            name, settings = next(iter(sections.items()))
            section = self._plugins.record(EvaluationSection, name)
            context = attrs.evolve(self._context, purpose="evaluate")
            self._plan = self._plugins.create(section, settings=settings, run=context)
        if self._plan is None:
            return ()
        return self._plan.lineups(environment.behaviors, shares(environment.num_envs, episodes))

    def _warn_of_cuts(self, result: EvaluationResult) -> None:
        """Once."""
        cut = sum(behavior.cut for behavior in result.behaviors.values())
        if cut and not self._warned_of_cuts:
            self._warned_of_cuts = True
            log.warning(
                "evaluation: %d of %d episodes had not ended after %d environment steps and count as truncated there; "
                "evaluation.max_episode_steps sets the limit",
                cut, sum(behavior.episodes for behavior in result.behaviors.values()), self._max_episode_steps,
            )  # fmt: skip

    def open(self, episodes: int) -> None:
        """Create what evaluations of ``episodes`` episodes need, before the first of them."""
        environment, _ = self._open(episodes)
        self._lineups(environment, episodes)

    def close(self) -> None:
        if self._environment is not None:
            with blamed(environment_name(self._settings(), self._plugins), "in close", EnvironmentFailed):
                self._environment.close()

    def _open(self, episodes: int) -> tuple[Environment, bool]:
        """An environment, and whether it stays open."""
        settings = self._settings()
        num_envs = 1 if self._video is not None else settings.num_envs or min(episodes, MAX_ENVS)
        if self._environment is not None:
            if self._environment.num_envs == num_envs:
                return self._environment, True
            return self._make(settings, num_envs), False
        self._environment = self._make(settings, num_envs)
        self._checks = checks_of(self._environment)
        return self._environment, True

    def _feed(self, environment: Environment, name: str, seed: int) -> ParameterFeed | None:
        """Draw the parameters of the task that training is for; values in the evaluation block have priority."""
        parameters = self._parameters()
        if not parameters:
            return None
        context = attrs.evolve(self._context, seed=seed, num_envs=environment.num_envs, purpose="evaluate")
        return target_feed(list(make_curricula(parameters, self._plugins, context).values()), environment, name)

    def _parameters(self) -> dict[str, EnvironmentParameter]:
        own = {} if self._config.evaluation is None else self._config.evaluation.environment_parameters
        return {**self._config.environment_parameters, **own}

    def _settings(self) -> EnvironmentSettings:
        settings = self._config.evaluation_environment
        if settings is None:
            raise ConfigError(
                "missing, so there is nowhere to measure the policies; name one in the configuration, or "
                f"with {ENVIRONMENT_OPTIONS_EXAMPLE} of rlcore evaluate",
                key=("environment",),
            )
        if self._video is not None and not self._plugins.record(EnvironmentSpec, settings.type).video:
            raise ConfigError(f"--video: environments of type {settings.type!r} cannot record video")
        return settings

    def _only_in_evaluation(self, key: KeyPath) -> bool:
        """Whether only the evaluation block has this value of ``key``, which an environment refused."""
        if len(key) < 2:
            return False
        block, name = key[:2]
        if block == "environment_parameters":
            return name in self._parameters() and name not in self._config.environment_parameters
        if block != "environment":
            return False
        played, trained = self._settings(), self._config.environment
        return trained is None or getattr(played, str(name), None) != getattr(trained, str(name), None)

    def _make(self, settings: EnvironmentSettings, num_envs: int) -> Environment:
        config = attrs.evolve(
            self._config,
            environment=attrs.evolve(settings, num_envs=num_envs),
            environment_parameters=self._parameters(),
        )
        context = attrs.evolve(self._context, config=config, num_envs=num_envs, video=self._video, purpose="evaluate")
        try:
            with _of_an_evaluation():
                environment = make_environment(config, self._plugins, context)
        except ConfigError as error:
            if self._only_in_evaluation(error.key):
                raise ConfigError(error.message, key=("evaluation", *error.key)) from error
            raise
        if self._specs is not None:
            problem = specs_mismatch(self._specs, environment.behaviors)
            if problem:
                with suppress(Exception, SystemExit):  # the error to report is the mismatch
                    environment.close()
                raise ConfigError(f"environment {settings.id or settings.type!r} to evaluate in: {problem}")
        return environment


@contextmanager
def _of_an_evaluation() -> Iterator[None]:
    """Says of an environment that failed that it is an evaluation's: training may have another."""
    try:
        yield
    except NonFiniteError:  # which says so by itself
        raise
    except EnvironmentFailed as error:
        error.args = (f"evaluation: {error}",)
        raise


def specs_mismatch(learned: Mapping[str, BehaviorSpec], played: Mapping[str, BehaviorSpec]) -> str | None:
    """Where behaviors of an environment are not those that policies learned, in one line; None if they fit."""
    if learned.keys() != played.keys():
        return f"has behaviors {', '.join(sorted(played))}, the policies are of {', '.join(sorted(learned))}"
    for name, spec in learned.items():
        problem = spec_mismatch(spec, played[name])
        if problem:
            return f"behavior {name!r}: {problem}, which the policy learned"
    return None
