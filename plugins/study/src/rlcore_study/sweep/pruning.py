"""A trial while it trains: remembers its evaluations, and asks the pruner after each whether the trial is hopeless.

The decision is made in the process of the run, at the evaluation itself, so that a pruned run ends at the same step
however busy the machine is. The evaluations are part of the checkpoints: a run that was killed after the decision makes
it again.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import attrs

from rlcore import RunContext, RunStateError, StashKey
from rlcore_study.sweep.trials import SavedSweep, Trial, trial_of_run

if TYPE_CHECKING:
    from rlcore_study.sweep.optuna_study import Judge

SECTION = "sweep"
PRUNED = "pruned by the sweep"


@attrs.define(eq=False)
class Watch:
    """The memory of a run of a trial.

    Attributes:
        saved: The sweep.
        trial: The trial as its record was when the run started.
        run: The name of the run.
        evaluations: Pairs of the agent steps and the score of each evaluation.
        judge: Asks the pruner; None without one.
    """

    saved: SavedSweep
    trial: Trial
    run: str
    evaluations: list[tuple[int, float]]
    judge: Judge | None

    def look(self, run: RunContext) -> None:
        """Have the run end if the pruner says so after the latest evaluation."""
        if self.judge is None or not self.evaluations:
            return
        intermediate = self.saved.intermediate(self.trial, self.run, self.evaluations)
        if self.judge.hopeless(intermediate):
            step, score = self.evaluations[-1]
            run.request_stop(f"{PRUNED}: {self.trial.name} scored {score:g} at step {step}")


WATCH = StashKey[Watch]()
RESTORED = StashKey[list[tuple[int, float]]]()


def watch(run: RunContext) -> Watch | None:
    """The memory of a run as a run of a trial; None for any other run. Made at the first call.

    Raises RunStateError for a trial whose sweep cannot be read.
    """
    if WATCH in run.stash:
        return run.stash[WATCH]
    if run.inference:
        return None
    of_trial = trial_of_run(run.directory)
    if of_trial is None:
        return None
    saved, trial = of_trial
    judge = None
    if saved.settings.pruner is not None:
        from rlcore_study.sweep.optuna_study import Judge

        trials, _ = saved.trials()
        if not all(number in trials and trials[number].ended for number in range(trial.seen)):
            raise RunStateError(
                f"{saved.directory}: a trial before {trial.name} has no result; rlcore sweep trains it, and continues "
                "this run"
            )
        judge = Judge(saved, trials, trial)
    evaluations = run.stash.get(RESTORED, [])
    memory = Watch(saved, trial, run.directory.name, evaluations, judge)
    run.stash[WATCH] = memory
    return memory


def evaluations_in(sections: Mapping[str, Any]) -> list[tuple[int, float]]:
    """The evaluations in the training status of a run; empty if there are none, or if they are no pairs of numbers."""
    section = sections.get(SECTION)
    listed = section.get("evaluations", ()) if isinstance(section, Mapping) else ()
    try:
        return [(int(step), float(score)) for step, score in listed]
    except (TypeError, ValueError, OverflowError):
        return []
