"""The class :class:`Run`, with which a program trains, evaluates and stops a run.

The words are explained in the documentation's glossary.
"""

from __future__ import annotations

import signal
import sys
from collections.abc import Iterator, Mapping
from contextlib import closing, nullcontext
from multiprocessing import current_process
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import attrs

from rlcore.config.document import Document
from rlcore.config.load import located
from rlcore.config.presets import preset_lines
from rlcore.contracts.environment import AddsSlots, Environment
from rlcore.contracts.results import BehaviorResult, EpochResult, EvaluationResult, ExportResult
from rlcore.errors import EnvironmentEnded, RunStateError
from rlcore.plugins.call import Plugins
from rlcore.plugins.context import RunContext
from rlcore.plugins.stops import Stop
from rlcore.run.assemble import assemble
from rlcore.run.behaviors.behavior import TrainedBehavior
from rlcore.run.description import StartDescription
from rlcore.run.evaluation.evaluations import Scores
from rlcore.run.growing import add_wanted_slots
from rlcore.run.prepare import CloseDeadline, prepare
from rlcore.run.training import Outcome, Training, outcome_of
from rlcore.settings import RunConfig

__all__ = ["BehaviorResult", "EpochResult", "Run", "RunContext"]


class Run:
    """A training from one configuration. Iterating over it trains, and gives a result for each epoch::

        with Run("examples/cartpole.yaml") as run:
            for epoch in run:
                print(epoch.behaviors["CartPole"].mean_reward)

    An epoch ends with a summary. The loop may be left and entered again: the training continues where it was.

    ``config`` is a configuration file, a mapping of the same shape, a :class:`RunConfig`, or a
    :class:`rlcore.Document`, such as that of a file after :func:`rlcore.apply_overrides`. Environment,
    trainers and run directory are created when the first epoch starts, or by :meth:`start`. An error about a value of a
    file has the file and the line, also if an environment or a trainer refuses the value.

    ``environment`` stands for ``environment.type`` and ``environment.id`` of the configuration: an environment, or a
    function without arguments that makes one. It may be an :class:`rlcore.Environment`, or an object of Gymnasium, of
    PettingZoo or of another kind that a plugin knows. The function is called for each of ``environment.num_envs``
    copies, and for those of evaluations; the run closes what it made. An object is used by training only, and the run
    leaves it open.

    Attributes:
        plugins: The plugins of the run.
        directory: The run directory; its ``path`` is the path.
        timers: Durations of the parts of the run.
        outcome: ``"done"``, ``"interrupted"``, ``"environment ended"`` or ``"failed"``; None before the end.
        offline: Whether the run learns from recorded data: no environment is stepped.
    """

    def __init__(
        self,
        config: RunConfig | Document | Mapping[str, Any] | str | Path,
        plugins: Plugins | None = None,
        environment: Any = None,
    ) -> None:
        """Check the configuration. Raises ConfigError. ``plugins`` are those that the configuration chooses if None."""
        self._prepared = prepare(config, plugins, environment)
        self.plugins = self._prepared.plugins
        self.directory = self._prepared.directory
        self.timers = self._prepared.timers
        self.offline = self._prepared.offline
        self.outcome: Outcome | None = None
        self._training: Training | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if error is not None or self._training is not None:
            self.close(error=error)

    def __iter__(self) -> Iterator[EpochResult]:
        return self

    def __next__(self) -> EpochResult:
        """Train until the next summary.

        Raises StopIteration when ``max_steps`` is reached, a stop was requested, or the environment ended by itself.
        """
        if self.outcome is not None:
            raise StopIteration
        try:
            self.start()
            if self.finished or self._started.agreed_to_stop():
                self.close()
                raise StopIteration
            with located(self._prepared.document):
                environment = self.environment
                if isinstance(environment, AddsSlots) and environment.wants_slots:
                    add_wanted_slots(self._started, environment)
                return self._started.train_epoch()
        except StopIteration:
            raise
        except BaseException as error:
            self.close(error=error)
            if isinstance(error, EnvironmentEnded) and self.outcome != "failed":
                raise StopIteration from error
            raise

    def start(self) -> None:
        """Create the run directory, environment, trainers and writers, and restore a resumed run.

        Later calls do nothing. No environment is created if the trainers learn from recorded data.
        """
        if self._training is not None:
            return
        _refuse_while_main_is_imported()
        with self.timers.root.child("run_training.setup").measure():
            training = assemble(self._prepared)
        training.started()
        self._training = training

    def train(self) -> Mapping[str, BehaviorResult]:
        """Train to the end and return the last results."""
        for _ in self:
            pass
        return self.results()

    def evaluate(self, episodes: int = 20, seed: int | None = None, deterministic: bool = True) -> EvaluationResult:
        """Play ``episodes`` whole episodes with the current policies in an environment of their own.

        Equal seeds play equal episodes. Without a seed, they are the episodes of the evaluations within the run. The
        training does not change, and the score is not recorded.
        """
        self.start()
        training = self._started
        policies = {name: behavior.policy for name, behavior in training.behaviors.items()}
        evaluator = training.evaluations.evaluator
        # The end of the run closes the environment of evaluations; one that is made later is closed here.
        closed = nullcontext() if self.outcome is None else closing(evaluator)
        with located(self._prepared.document), closed:
            result = evaluator.evaluate(lambda _: policies, episodes, seed, deterministic)
        self.plugins.notify("rlcore_evaluated", run=training.context, step=self.steps, result=result)
        return result

    def request_stop(self, reason: str = "", exit_code: int = 0) -> None:
        """Request that the run saves a checkpoint and ends after the current environment step.

        Safe in a signal handler. An update is finished first. An evaluation is abandoned; the resumed run plays it.
        ``result.json`` has ``reason`` and ``exit_code`` under ``stop``. The first request counts.
        """
        self._prepared.stops.add(Stop(reason, exit_code))

    def stop_by_signal(self, number: int) -> None:
        """Request a stop because of the signal ``number``; the exit code is 128 + ``number``."""
        self._prepared.stops.add(Stop(signal.Signals(number).name, 128 + number, by_signal=True))

    def request_save(self) -> None:
        """Request that the run saves a checkpoint after the current environment step, and continues.

        Safe in a signal handler. The epoch ends there, with a summary. An evaluation is played again afterwards.
        """
        self._prepared.stops.save = True

    def close(self, outcome: Outcome | None = None, error: BaseException | None = None) -> None:
        """End the run, once: save a last checkpoint unless ``error`` ended it, write the result, and close everything.

        Without an ``outcome``, it is ``"done"`` for a finished run, ``"interrupted"`` for an unfinished one, and
        what ``error`` stands for if there is one.
        """
        if self.outcome is not None:
            return
        if outcome is None:
            outcome = "interrupted"
            if error is not None:
                outcome = self._outcome_after(error)
            elif self._training is not None and self.finished:
                outcome = "done"
        self.outcome = outcome
        if self._training is not None:
            try:
                self._training.close(outcome, error)
            finally:
                self.outcome = self._training.outcome

    def describe(self) -> StartDescription:
        """Start the run, and describe it: plugins, device, environment, behaviors, and the promise of a resume.

        ``rlcore run`` prints the lines of the description before the training.
        """
        self.start()
        training = self._started
        description = StartDescription.of(training.context, training.state, self.plugins.loaded, training.resume)
        document = self._prepared.document
        if document.path is not None and not training.context.absolute(document.path).exists():
            description = attrs.evolve(description, collected=document.path)
        return attrs.evolve(description, presets=tuple(preset_lines(document)))

    def _outcome_after(self, error: BaseException) -> Outcome:
        if isinstance(error, EnvironmentEnded) and self.stop is not None:  # it saw the request while it waited
            return "interrupted"
        if self._training is not None and self._training.ends_in_order(error):
            reason = " ".join(str(error).split())  # in one line
            self._prepared.stops.add(Stop(reason))
            return "environment ended"
        return outcome_of(error)

    # ------------------------------------------------------------ what can be looked at

    @property
    def config(self) -> RunConfig:
        """The complete configuration; it has the seed of the run when the run has started."""
        return self._prepared.config if self._training is None else self._training.context.config

    @property
    def epoch(self) -> int:
        """The number of epochs that this process has trained."""
        return 0 if self._training is None else self._training.epoch

    @property
    def finished(self) -> bool:
        """Whether every behavior that acts has reached its ``max_steps``, or an evaluation ``stop_at``."""
        return self._started.finished

    @property
    def nothing_left(self) -> bool:
        """Whether this run was resumed after it had reached its ``max_steps`` or ``stop_at``."""
        return self._training is not None and self._training.nothing_left

    @property
    def stop(self) -> Stop | None:
        """The first request to stop this run, by a signal, a plugin or :meth:`request_stop`; None without one."""
        return self._prepared.stops.first

    @property
    def resumed_from(self) -> Path | None:
        """The checkpoint from which the run was resumed, once it has started; None for a new run or ``--inference``."""
        return None if self._training is None else self._training.resumed_from

    @property
    def close_deadline(self) -> CloseDeadline:
        """Entered around each ``close()`` of an environment or a writer. May be set at any time; the default is none.

        ``rlcore run`` sets one that ends the process.
        """
        return self._prepared.close_deadline

    @close_deadline.setter
    def close_deadline(self, deadline: CloseDeadline) -> None:
        self._prepared.close_deadline = deadline

    @property
    def saved_step(self) -> int | None:
        """The agent steps at the last checkpoint; None before the first one."""
        return self._prepared.store.saved_step

    @property
    def updating(self) -> bool:
        """Whether a trainer is in its update at this moment; may be read from another thread."""
        return self._training is not None and self._training.session.times.updating_now

    @property
    def scores(self) -> Scores:
        """The scores of the evaluations within the run."""
        return self._started.evaluations.scores

    @property
    def behaviors(self) -> dict[str, TrainedBehavior]:
        """The behaviors of the environment, or of the recorded data; empty before the run has started."""
        return {} if self._training is None else self._training.behaviors

    @property
    def environment(self) -> Environment | None:
        """The environment that is stepped, once the run has started; None for a run that learns from recorded data."""
        return None if self._training is None else self._training.state.environment

    @property
    def exports(self) -> tuple[ExportResult, ...]:
        """The exports at the end of the run, and those that failed before; empty while the run has made none."""
        return () if self._training is None else tuple(self._training.exports.results)

    @property
    def failures(self) -> list[str]:
        """One line for each different failure of a notification or an export, for the closing summary."""
        failures = list(self.plugins.failures)
        if self._training is not None:
            failures += self._training.exports.failures
        return failures

    @property
    def lessons(self) -> Mapping[str, float]:
        """The number of the current lesson of each environment parameter with lessons, counted from 0."""
        curricula = None if self._training is None else self._training.state.curricula
        return {} if curricula is None else curricula.lessons

    @property
    def steps(self) -> int:
        """Agent steps of all behaviors."""
        return sum(behavior.steps for behavior in self.behaviors.values())

    def results(self) -> dict[str, BehaviorResult]:
        """The current result of every behavior."""
        return {} if self._training is None else self._training.state.results()

    @property
    def _started(self) -> Training:
        if self._training is None:
            raise RuntimeError("the run has not started; call start()")
        return self._training


def _refuse_while_main_is_imported() -> None:
    """Raise RunStateError in a process that imports the main module of the one that started it.

    Workers do so, and processes that ``multiprocessing`` spawns. A run there would be that of the program once more.
    """
    if getattr(current_process(), "_inheriting", False):
        program = sys.argv[0] or "the program"
        raise RunStateError(
            f"a new process, such as a worker, imports {program}, which starts a run when it is imported; "
            'put the lines that start the run under `if __name__ == "__main__":`'
        )
