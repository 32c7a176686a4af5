"""Measuring policies: whole episodes in an environment of their own, learning nothing."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from pathlib import Path

import attrs
import numpy as np

from rlcore.batch_check import BatchCheck, batch_of
from rlcore.blame import closing, environment_does, policy_failed
from rlcore.config import EnvironmentParameter, EnvironmentSettings, RunConfig
from rlcore.config.load import evaluation_environment
from rlcore.environment import AgentBatch, BehaviorSpec, Environment, misfit
from rlcore.episode_tap import EpisodeTap
from rlcore.errors import ConfigError, EnvironmentFailed, NonFiniteError, RlcoreError
from rlcore.parameter_feed import ParameterFeed, target_feed
from rlcore.plugins.calls import Plugins
from rlcore.results import BehaviorEvaluation, EvaluationResult
from rlcore.run_context import RunContext
from rlcore.seeding import EpisodeSeeds, derive_seed
from rlcore.setup import environment_name, make_curricula, make_environment
from rlcore.stats import EpisodeRecorder
from rlcore.trainer import Policy

# Copies stepped together; more would only help an evaluation of very many episodes.
MAX_COPIES = 16


PoliciesFor = Callable[[Mapping[str, BehaviorSpec]], Mapping[str, Policy]]
TapsFor = Callable[[Mapping[str, BehaviorSpec]], AbstractContextManager[Mapping[str, EpisodeTap]]]


class Evaluator:
    """Measures policies for one run: all evaluations within it, by :meth:`rlcore.run.Run.evaluate` and by
    ``rlcore evaluate`` are made here.

    The environment is made on first use and kept for all evaluations that want as many copies. ``specs`` are what the
    policies were made for, which the environment must fit; None where they are made for the environment. ``video``, a
    directory, has every episode filmed.
    """

    def __init__(
        self,
        config: RunConfig,
        plugins: Plugins,
        context: RunContext,
        specs: Mapping[str, BehaviorSpec] | None = None,
        video: Path | None = None,
    ) -> None:
        self._config = config
        self._plugins = plugins
        self._context = context
        self._specs = specs
        self._video = video
        self._environment: Environment | None = None
        self._checks: dict[str, BatchCheck] = {}  # of its behaviors; they warn once

    def evaluate(
        self,
        policies_for: PoliciesFor,
        step: int,
        episodes: int,
        seed: int | None = None,
        deterministic: bool = True,
        taps_for: TapsFor | None = None,
    ) -> EvaluationResult:
        """Plays ``episodes`` episodes, the same ones for one ``seed``, which is the run's if it is None.

        ``policies_for`` is called with the environment's behaviors, before the first reset; ``step`` is the run's, for
        those who hear of the result. ``taps_for``, called with the behaviors too, records what is played.
        """
        if episodes < 1:
            raise ValueError("episodes must be at least 1")
        seed = derive_seed(self._context.seed if seed is None else seed, "evaluation")
        environment, kept = self._open(episodes)
        name = environment_name(self._settings(), self._plugins)
        with nullcontext() if kept else closing(environment, EnvironmentFailed):
            policies = policies_for(environment.behaviors)
            with _of_an_evaluation():
                feed = self._feed(environment, name, seed)
                with taps_for(environment.behaviors) if taps_for is not None else nullcontext({}) as taps:
                    checks = self._checks if kept else None
                    result = play(policies, environment, episodes, seed, deterministic, taps, feed, name, checks)
        self._plugins.evaluated(self._context, step, result)
        return result

    def open(self, episodes: int) -> None:
        """Makes the environment for evaluations of ``episodes`` episodes before the first of them."""
        self._open(episodes)

    def close(self) -> None:
        if self._environment is not None:
            with environment_does(environment_name(self._settings(), self._plugins), "close"):
                self._environment.close()

    def _open(self, episodes: int) -> tuple[Environment, bool]:
        """An environment, and whether it stays open."""
        settings = self._settings()
        copies = 1 if self._video is not None else settings.num_envs or min(episodes, MAX_COPIES)
        if self._environment is not None:
            if self._environment.num_envs == copies:
                return self._environment, True
            return self._make(settings, copies), False
        self._environment = self._make(settings, copies)
        self._checks = checks_of(self._environment)
        return self._environment, True

    def _feed(self, environment: Environment, name: str, seed: int) -> ParameterFeed | None:
        """Of the task that training is for, but for what the evaluation block gives."""
        parameters = self._parameters()
        if not parameters:
            return None
        context = attrs.evolve(self._context, seed=seed, num_envs=environment.num_envs)
        return target_feed(list(make_curricula(parameters, self._plugins, context).values()), environment, name)

    def _parameters(self) -> dict[str, EnvironmentParameter]:
        own = {} if self._config.evaluation is None else self._config.evaluation.environment_parameters
        return {**self._config.environment_parameters, **own}

    def _settings(self) -> EnvironmentSettings:
        settings = evaluation_environment(self._config, self._plugins)
        if settings is None:
            raise ConfigError(
                "environment: missing, so there is nowhere to measure the policies; name one in the configuration, or "
                "with --set environment.type=gymnasium --set environment.id=... of rlcore evaluate"
            )
        if self._video is not None and not self._plugins.environment(settings.type).video:
            raise ConfigError(f"--video: environments of type {settings.type!r} cannot record video")
        return settings

    def _is_of_own_block(self, error: ConfigError) -> bool:
        """Whether it is of a key or a parameter that only evaluations have: environments know just its name."""
        if self._config.environment is None and str(error).startswith("environment."):
            return True
        own = set(self._parameters()) - set(self._config.environment_parameters)
        keys = () if self._config.evaluation is None else self._config.evaluation.environment
        places = [f"environment_parameters.{name}:" for name in own] + [f"environment.{key}" for key in keys]
        return any(re.match(rf"{re.escape(place)}(?!\w)", str(error)) for place in places)

    def _make(self, settings: EnvironmentSettings, copies: int) -> Environment:
        config = attrs.evolve(
            self._config,
            environment=attrs.evolve(settings, num_envs=copies),
            environment_parameters=self._parameters(),
            env_settings=attrs.evolve(self._config.env_settings, num_envs=copies),
        )
        context = attrs.evolve(self._context, config=config, num_envs=copies, video=self._video)
        try:
            with _of_an_evaluation():
                environment = make_environment(config, self._plugins, context)
        except ConfigError as error:
            if self._is_of_own_block(error):
                raise ConfigError(f"evaluation.{error}") from error
            raise
        if self._specs is not None:
            problem = misfit_of_all(self._specs, environment.behaviors)
            if problem:
                with suppress(Exception, SystemExit):  # the error to report is the misfit
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


def misfit_of_all(learned: Mapping[str, BehaviorSpec], played: Mapping[str, BehaviorSpec]) -> str | None:
    """Where behaviors of an environment are not those that policies learned, in one line; None if they fit."""
    if learned.keys() != played.keys():
        return f"has behaviors {', '.join(sorted(played))}, the policies are of {', '.join(sorted(learned))}"
    for name, spec in learned.items():
        problem = misfit(spec, played[name])
        if problem:
            return f"behavior {name!r}: {problem}, which the policy learned"
    return None


def play(
    policies: Mapping[str, Policy],
    environment: Environment,
    episodes: int,
    seed: int,
    deterministic: bool,
    taps: Mapping[str, EpisodeTap],
    feed: ParameterFeed | None = None,
    named: str = "environment",
    checks: Mapping[str, BatchCheck] | None = None,
) -> EvaluationResult:
    """Plays until every copy has finished its share of ``episodes``, which ``taps`` of behaviors catch.

    ``feed`` says what episodes begin with, where the environment has parameters; ``named`` is what messages call it.
    ``checks``, by behavior, are those of earlier evaluations in the same environment.

    Each copy's share is fixed beforehand: taking the first episodes to finish would favour short ones.
    """
    checks = checks_of(environment) if checks is None else checks
    copies = environment.num_envs
    share = np.full(copies, episodes // copies)
    share[: episodes % copies] += 1
    returns: dict[str, list[float]] = {name: [] for name in environment.behaviors}
    group_returns: dict[str, list[float]] = {name: [] for name in environment.behaviors}
    lengths: dict[str, list[int]] = {name: [] for name in environment.behaviors}
    left = {name: share[spec.env_index].copy() for name, spec in environment.behaviors.items()}  # [S] episodes
    recorders = {name: EpisodeRecorder(spec.slots) for name, spec in environment.behaviors.items()}
    for name, policy in policies.items():
        try:
            policy.seed(derive_seed(seed, name))
        except RlcoreError:
            raise
        except (Exception, SystemExit) as error:
            raise policy_failed(name, policy, "seed", error) from error
    first = np.zeros(copies, np.int64)
    if feed is not None:
        feed.before_reset(first)
    with environment_does(named, "reset"):
        batches = environment.reset(EpisodeSeeds(seed), first)
    if feed is not None:
        feed.after_reset(first)
    check_batches(batches, checks, named, "reset", feed)
    while any((slots > 0).any() for slots in left.values()):
        actions = {}
        for name, policy in policies.items():
            batch = batches[name]
            try:
                actions[name] = policy.act(batch.observations, batch.action_mask, deterministic)
            except RlcoreError:
                raise
            except (Exception, SystemExit) as error:
                raise policy_failed(name, policy, "act", error) from error
        for name, tap in taps.items():
            tap.act(batches[name], actions[name])
        with environment_does(named, "step"):
            batches = environment.step(actions)
        check_batches(batches, checks, named, "step", feed)
        if feed is not None:
            feed.restage(feed.after_step())
        for name, recorder in recorders.items():
            batch = batches[name]
            ended = batch.ended
            recorder.record(batch)
            wanted = left[name][ended] > 0
            if name in taps:
                taps[name].observe(batch, ended[wanted])
            if ended.size:
                own, of_group, took = recorder.take_finished()
                returns[name].extend(np.array(own)[wanted].tolist())
                if of_group:
                    group_returns[name].extend(np.array(of_group)[wanted].tolist())
                lengths[name].extend(np.array(took)[wanted].tolist())
                left[name][ended[wanted]] -= 1
    return EvaluationResult(
        {
            name: BehaviorEvaluation(
                mean_reward=float(np.mean(values)),
                std_reward=float(np.std(values)),
                episodes=len(values),
                mean_length=float(np.mean(lengths[name])),
                returns=tuple(values),
                mean_group_reward=float(np.mean(group_returns[name])) if group_returns[name] else None,
            )
            for name, values in returns.items()
        }
    )


def checks_of(environment: Environment) -> dict[str, BatchCheck]:
    """A check for the batches of each behavior, for evaluations."""
    return {name: BatchCheck(spec, lambda: "while evaluating") for name, spec in environment.behaviors.items()}


def check_batches(
    batches: Mapping[str, AgentBatch],
    checks: Mapping[str, BatchCheck],
    environment: str,
    doing: str,
    feed: ParameterFeed | None,
) -> None:
    """Raises EnvironmentFailed unless ``doing`` of the environment returned what every behavior's spec says.

    A NaN or an infinity is reported with the parameters that its episode began with.
    """
    for name, check in checks.items():
        try:
            check.check(batch_of(batches, name, environment, doing))
        except NonFiniteError as error:
            if feed is None:
                raise
            began = feed.described(error.copy, error.latest)
            raise NonFiniteError(f"{error} (its episode began with {began})", error.copy, error.latest) from None
