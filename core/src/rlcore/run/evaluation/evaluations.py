"""Evaluations within a run: when one is due, which one is the best, and what of it survives a resume.

:meth:`Scores.add` decides which evaluation is the best, by :func:`rlcore.storage.checkpoints.rank`: the highest score,
and of equal scores the earlier one. :mod:`rlcore.storage.checkpoints` keeps its policies.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from contextlib import suppress
from math import inf
from types import MappingProxyType
from typing import Any

import attrs

from rlcore.contracts.ranks import Ranks
from rlcore.contracts.results import EvaluationResult
from rlcore.contracts.stats import Tag
from rlcore.errors import did_you_mean
from rlcore.plugins.failures import blamed
from rlcore.run.behaviors.behavior import BehaviorRun, trainer_named
from rlcore.run.evaluation.episodes import Abandoned
from rlcore.run.evaluation.evaluate import Evaluator
from rlcore.settings import EvaluationSettings
from rlcore.storage.checkpoint_state import ENTRY as SPECS
from rlcore.storage.checkpoint_state import spec_state
from rlcore.storage.checkpoints import rank
from rlcore.storage.store import RunStore

log = logging.getLogger(__name__)

Behaviors = Mapping[str, BehaviorRun]
StopAt = float | Mapping[str, float] | None  # as evaluation.stop_at
NO_INFO: Mapping[str, float] = MappingProxyType({})


@attrs.define
class Scores:
    """The scores of a run's evaluations so far; part of its checkpoints. A score is compared, never averaged."""

    score: float | None = None  # the latest
    step: int | None = None  # of the run, where it was scored
    best_score: float | None = None
    best_step: int | None = None
    stopped: bool = False  # by `stop_at`
    opponents: dict[str, dict[str, float]] = attrs.field(factory=dict)  # the latest results against each
    info: dict[str, float] = attrs.field(factory=dict)  # the latest means of numbers that the environment reports

    def reached(self, stop_at: StopAt) -> bool:
        """Whether the latest evaluation has the score, or all means by name, at which the run ends."""
        if isinstance(stop_at, Mapping):
            return bool(stop_at) and all(self.info.get(name, -inf) >= least for name, least in stop_at.items())
        return stop_at is not None and self.score is not None and self.score >= stop_at

    def add(self, score: float, step: int, stop_at: StopAt, info: Mapping[str, float] = NO_INFO) -> bool:
        """Note the latest score and means. Returns whether the score is the best so far."""
        self.score = score
        self.step = step
        self.info = dict(info)
        self.stopped = self.reached(stop_at)
        best = (
            self.best_score is None
            or self.best_step is None
            or rank(score, step) > rank(self.best_score, self.best_step)
        )
        if best:
            self.best_score = score
            self.best_step = step
        return best


@attrs.define(eq=False)
class RunEvaluation:
    """The evaluations that the ``evaluation`` block of a run asks for; with ``interval: null``, none is ever due."""

    settings: EvaluationSettings | None
    evaluator: Evaluator
    _store: RunStore
    _ranks: Ranks = attrs.field(factory=Ranks)
    scores: Scores = attrs.field(factory=Scores, init=False)
    # Set where an evaluation failed, or was abandoned because the run was to stop: the boundary of the summary that was
    # due at the same step, by behavior, None where none was. The resumed run begins with all that.
    overdue: Mapping[str, int | None] | None = attrs.field(default=None, init=False)
    _next: int = attrs.field(default=0, init=False)  # the step of the run at which the next one is due

    @property
    def _interval(self) -> int | None:
        return None if self.settings is None else self.settings.interval

    def state_dict(self) -> dict[str, Any]:
        """The scores; ``opponents`` and ``info`` are there only if there are any."""
        optional = ("opponents", "info")
        return attrs.asdict(self.scores, filter=lambda field, value: field.name not in optional or bool(value))

    def load_state_dict(self, state: Mapping[str, Any] | None) -> None:
        """Load the scores of a checkpoint; without such an entry, its run had no evaluation."""
        known = attrs.fields_dict(Scores)
        self.scores = Scores(**{name: value for name, value in (state or {}).items() if name in known})
        scores = self.scores
        settings = self.settings
        stop_at = None if settings is None else settings.stop_at
        # A run whose `stop_at` was raised or removed continues.
        scores.stopped = scores.stopped and scores.reached(stop_at)

    def restore_boundaries(self, behaviors: Behaviors, overdue: Mapping[str, int | None]) -> None:
        """Make due again what was due at an evaluation that was abandoned."""
        for name, summary in overdue.items():
            behaviors[name].make_due(summary)

    def begin(self, step: int) -> None:
        """Set when the first evaluation is due, and make its environment: errors of it are reported before training."""
        assert self.settings is not None, "the run does not evaluate"
        if self._interval is not None:
            self._next = _multiple_after(step, self._interval) if self.overdue is None else step
            if self._ranks.rank == 0:
                self.evaluator.open(self.settings.episodes)

    def due(self, step: int, ending: bool) -> bool:
        """Whether to evaluate at ``step``, which is past a multiple of the interval or where training ends."""
        return self._interval is not None and (step >= self._next or (ending and self.scores.step != step))

    def watch(self, behaviors: Behaviors, step: int) -> None:
        """Have the loop stop before the run's steps, which all behaviors add to, can cross the next multiple."""
        if self._interval is None:
            return
        learning = [behavior for behavior in behaviors.values() if behavior.learning]
        share = -(-(self._next - step) // len(learning))  # one of them has taken this many by then
        for behavior in learning:
            behavior.stop_at(behavior.steps + share)

    def evaluate(
        self, behaviors: Behaviors, step: int, about: Mapping[str, Any], stop_requested: Callable[[], bool]
    ) -> EvaluationResult | None:
        """Play, note the score in statistics, and keep the policies if they are the best so far.

        Returns None where ``stop_requested`` had the evaluation abandoned: nothing is noted, and it stays due.
        ``about``, of the run, stands beside those policies, as it does in every checkpoint.
        """
        settings = self.settings
        interval = self._interval
        assert settings is not None and interval is not None, "one was due"
        policies = {name: behavior.policy for name, behavior in behaviors.items()}

        def play(stopping: Callable[[], bool]) -> EvaluationResult | None:
            with suppress(Abandoned):
                return self.evaluator.evaluate(
                    lambda _: policies,
                    settings.episodes,
                    deterministic=settings.deterministic,
                    stop_requested=stopping,
                )
            return None

        try:
            result = self._ranks.lead(play, stop_requested)
        except Exception:
            self._abandon(behaviors)
            raise
        if result is None:
            self._abandon(behaviors)
            return None
        self._next = _multiple_after(step, interval)
        against = _stats_against(result)
        for name, measured in result.behaviors.items():
            behavior = behaviors[name]
            behavior.evaluated = measured.mean_reward
            if behavior.learning:
                behavior.window.add(
                    {Tag.EVALUATION_REWARD: measured.mean_reward, Tag.EVALUATION_LENGTH: measured.mean_length}
                )
                behavior.window.add({Tag.EVALUATION_INFO + key: value for key, value in measured.mean_info.items()})
                behavior.window.add(against)
        self.scores.opponents = {name: measured.summary for name, measured in result.opponents.items()}
        self._warn_of_absent_info(result)
        if self.scores.add(result.score, step, settings.stop_at, result.mean_info) and settings.keep_best:
            models = {}
            for name, behavior in behaviors.items():
                with blamed(trainer_named(behavior), "in state_dict"):
                    models[name] = behavior.trainer.state_dict()["model"]
            steps = {name: behavior.steps for name, behavior in behaviors.items()}
            specs = {name: spec_state(behavior.spec) for name, behavior in behaviors.items()}
            self._store.save_best(step, models, {**about, "steps": steps, "score": result.score, SPECS: specs})
        return result

    def _warn_of_absent_info(self, result: EvaluationResult) -> None:
        """Say at the first evaluation that a number of ``stop_at`` is not reported: the run cannot end there."""
        stop_at = None if self.settings is None else self.settings.stop_at
        if not isinstance(stop_at, Mapping) or self.scores.step is not None:
            return
        for name in stop_at:
            if name not in result.mean_info:
                log.warning(
                    "evaluation.stop_at: no episode of the evaluation reported %r, so the run cannot end there; name "
                    "it in environment.info%s",
                    name,
                    did_you_mean(name, result.mean_info),
                )

    def _abandon(self, behaviors: Behaviors) -> None:
        """Leave the evaluation, and the summaries of its step, to the resumed run."""
        self.overdue = {
            name: behavior.next_summary if behavior.summary_due else None for name, behavior in behaviors.items()
        }

    def to_json(self) -> dict[str, Any] | None:
        """For ``result.json`` and the status; None before the first evaluation."""
        return None if self.scores.score is None else self.state_dict()


def _stats_against(result: EvaluationResult) -> dict[str, float]:
    """The statistics of the games against each opponent, by tag."""
    stats = {}
    for name, measured in result.opponents.items():
        stats[Tag.REWARD_AGAINST + name] = measured.mean_reward
        stats[Tag.WIN_RATE_AGAINST + name] = measured.win_rate
        stats[Tag.DRAW_RATE_AGAINST + name] = measured.draw_rate
    return stats


def _multiple_after(step: int, interval: int) -> int:
    return (step // interval + 1) * interval
