"""Evaluations within a run: when one is due, which one is the best, and what of it survives a resume.

:meth:`Scores.add` decides which evaluation is the best, by :func:`rlcore.storage.checkpoints.rank`: the highest score,
and of equal scores the earlier one. :mod:`rlcore.storage.checkpoints` keeps its policies.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from contextlib import suppress
from math import inf
from time import perf_counter
from types import MappingProxyType
from typing import Any

import attrs

from rlcore.contracts.parts import BoundaryPart
from rlcore.contracts.results import BehaviorEvaluation, EvaluationResult
from rlcore.contracts.stats import Tag
from rlcore.errors import PluginError, RlcoreError, did_you_mean
from rlcore.plugins.factories import FACTORIES
from rlcore.plugins.failures import blamed
from rlcore.run.behaviors.behavior import multiple_after, trainer_named
from rlcore.run.evaluation.episodes import Abandoned
from rlcore.run.evaluation.evaluate import Evaluator
from rlcore.run.session import Session
from rlcore.settings import EvaluationSettings
from rlcore.storage.checkpoint_state import ENTRY as SPECS
from rlcore.storage.checkpoint_state import spec_state
from rlcore.storage.checkpoints import rank

log = logging.getLogger(__name__)

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
            reached = [self.info.get(name, -inf) >= least for name, least in stop_at.items()]
            return bool(reached) and all(reached)
        if stop_at is None or self.score is None:
            return False
        return self.score >= stop_at

    def add(self, score: float, step: int, stop_at: StopAt, info: Mapping[str, float] = NO_INFO) -> bool:
        """Note the latest score and means. Returns whether the score is the best so far."""
        self.score = score
        self.step = step
        self.info = dict(info)
        self.stopped = self.reached(stop_at)
        if self.best_score is not None and self.best_step is not None:
            better = rank(score, step) > rank(self.best_score, self.best_step)
            if not better:
                return False
        self.best_score = score
        self.best_step = step
        return True


class Evaluations(BoundaryPart):
    """The evaluations that the ``evaluation`` block of a run asks for; with ``interval: null``, none is ever due.

    Attributes:
        settings: The block; None where the run does not evaluate.
        evaluator: Plays the episodes.
        scores: The scores so far.
        overdue: Set where an evaluation failed, or was abandoned because the run was to stop: the boundary of the
            summary that was due at the same step, by behavior, None where none was. The resumed run begins with these.
    """

    name = "evaluation"
    described = "evaluation"

    def __init__(self, settings: EvaluationSettings | None, evaluator: Evaluator, session: Session) -> None:
        self.settings = settings
        self.evaluator = evaluator
        self.scores = Scores()
        self.overdue: Mapping[str, int | None] | None = None
        self._session = session

    def state_dict(self) -> dict[str, Any]:
        """The scores; ``opponents`` and ``info`` are there only if there are any."""
        state = attrs.asdict(self.scores)
        for name in ("opponents", "info"):
            if not state[name]:
                del state[name]
        return state

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Load the scores of a checkpoint."""
        names = state.keys() & attrs.fields_dict(Scores).keys()
        self.scores = Scores(**{name: state[name] for name in names})
        # A run whose `stop_at` was raised or removed continues.
        if not self.scores.reached(self._stop_at):
            self.scores.stopped = False

    @property
    def _stop_at(self) -> StopAt:
        return None if self.settings is None else self.settings.stop_at

    def begin(self, step: int) -> None:
        """Set when the first evaluation is due, and make its environment: errors of it are reported before training."""
        if self.settings is None or self.settings.interval is None:
            return
        self.next_step = step
        if self.overdue is None:
            self.next_step = multiple_after(step, self.settings.interval)
        if self._session.context.ranks.rank == 0:  # which plays the evaluations of all ranks
            self.evaluator.open(self.settings.episodes)

    def due(self, step: int, ending: bool) -> bool:
        """Whether to evaluate at ``step``, which is past a multiple of the interval or where training ends."""
        if self.next_step is None:
            return False
        return step >= self.next_step or (ending and self.scores.step != step)

    def do(self, step: int) -> None:
        """Evaluate the policies, note the score in statistics, and keep the policies if they are the best so far.

        If a stop is requested meanwhile, nothing is noted, and the evaluation is :attr:`overdue`.
        """
        started = perf_counter()
        session = self._session
        try:
            result = session.context.ranks.lead(self._play, session.pausing)
        except Exception as error:
            self._abandon()
            # All that learns is as it was before. A plugin that answered wrongly, such as a curriculum, may have misled
            # the training too: nothing is saved.
            if isinstance(error, PluginError):
                session.state.between_steps = None
            elif isinstance(error, RlcoreError):
                session.state.between_steps = error
            raise
        if result is not None:
            self._note(result, step)
        session.evaluated = result
        seconds = perf_counter() - started
        session.times.evaluating += seconds
        timer = session.prepared.timers.root.child("Evaluator.evaluate")
        timer.add(seconds)
        if result is None:
            self._abandon()
            return
        session.notifications.notify("rlcore_evaluated", step=step, result=result)

    def _play(self, stopping: Callable[[], bool]) -> EvaluationResult | None:
        """The result of one evaluation; None soon after ``stopping`` returned True."""
        settings = self.settings
        assert settings is not None, "one was due"
        behaviors = self._session.state.behaviors
        policies = {name: behavior.policy for name, behavior in behaviors.items()}
        with suppress(Abandoned):
            return self.evaluator.evaluate(
                lambda _: policies, settings.episodes, deterministic=settings.deterministic, stop_requested=stopping
            )
        return None

    def _note(self, result: EvaluationResult, step: int) -> None:
        """Note the result of an evaluation at ``step``."""
        settings = self.settings
        assert settings is not None and settings.interval is not None, "one was due"
        self.next_step = multiple_after(step, settings.interval)
        against = _stats_against(result)
        for name, measured in result.behaviors.items():
            behavior = self._session.state.behaviors[name]
            behavior.evaluated = measured.mean_reward
            if behavior.learning:
                behavior.window.add(_stats_of(measured))
                behavior.window.add(against)
        self.scores.opponents = {name: opponent.summary for name, opponent in result.opponents.items()}
        self._warn_of_absent_info(result)
        is_best = self.scores.add(result.score, step, settings.stop_at, result.mean_info)
        if is_best and settings.keep_best:
            self._keep_policies(step, result.score)

    def _keep_policies(self, step: int, score: float) -> None:
        """Save the policies, which are the best so far."""
        context = self._session.context
        behaviors = self._session.state.behaviors
        models = {}
        for name, behavior in behaviors.items():
            with blamed(trainer_named(behavior), "in state_dict"):
                models[name] = behavior.trainer.state_dict()["model"]
        about = {
            "seed": context.seed,
            FACTORIES: context.factories.to_json(),
            "steps": {name: behavior.steps for name, behavior in behaviors.items()},
            "score": score,
            SPECS: {name: spec_state(behavior.spec) for name, behavior in behaviors.items()},
        }
        self._session.prepared.store.save_best(step, models, about)

    def _warn_of_absent_info(self, result: EvaluationResult) -> None:
        """Say at the first evaluation that a number of ``stop_at`` is not reported: the run cannot end there."""
        stop_at = self._stop_at
        if not isinstance(stop_at, Mapping) or self.scores.step is not None:
            return
        reported = result.mean_info
        for name in stop_at:
            if name not in reported:
                log.warning(
                    "evaluation.stop_at: no episode of the evaluation reported %r, so the run cannot end there; name "
                    "it in environment.info%s",
                    name,
                    did_you_mean(name, reported),
                )

    def _abandon(self) -> None:
        """Leave the evaluation, and the summaries of its step, to the resumed run."""
        overdue: dict[str, int | None] = {}
        for name, behavior in self._session.state.behaviors.items():
            overdue[name] = behavior.next_summary if behavior.summary_due else None
        self.overdue = overdue

    def to_json(self) -> dict[str, Any] | None:
        """For ``result.json`` and the status; None before the first evaluation."""
        return None if self.scores.score is None else self.state_dict()


def _stats_of(measured: BehaviorEvaluation) -> dict[str, float]:
    """The statistics of an evaluated behavior, by tag."""
    stats = {Tag.EVALUATION_REWARD: measured.mean_reward, Tag.EVALUATION_LENGTH: measured.mean_length}
    for name, mean in measured.mean_info.items():
        stats[Tag.EVALUATION_INFO + name] = mean
    return stats


def _stats_against(result: EvaluationResult) -> dict[str, float]:
    """The statistics of the games against each opponent, by tag."""
    stats = {}
    for name, measured in result.opponents.items():
        stats[Tag.REWARD_AGAINST + name] = measured.mean_reward
        stats[Tag.WIN_RATE_AGAINST + name] = measured.win_rate
        stats[Tag.DRAW_RATE_AGAINST + name] = measured.draw_rate
    return stats
