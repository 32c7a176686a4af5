"""Optuna for one moment of a sweep: a study in memory, rebuilt from the records of trials.

Nothing of Optuna is stored. The values of trial *n* depend on the seed of the sweep, on *n*, on the results of the
trials before the last ``lag`` ones, and on the values of these ``lag`` trials, which may still be training. None of
that depends on how long a trial takes, or on how often a process was killed.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Literal

import attrs

from rlcore import derive_seed
from rlcore_study.sweep.space import distributions, grid, labels, suggested
from rlcore_study.sweep.trials import SavedSweep, Trial

if TYPE_CHECKING:
    import optuna
    from optuna.pruners import BasePruner
    from optuna.samplers import BaseSampler
    from optuna.trial import TrialState

NAME = "rlcore"  # hyperband chooses the bracket of a trial by the name of the study


def rebuilt(saved: SavedSweep, trials: Mapping[int, Trial], number: int, seen: int) -> optuna.Study:
    """Optuna's study as trial ``number`` knows it: results of the first ``seen`` trials, the others still running."""
    import optuna

    optuna.logging.set_verbosity(optuna.logging.ERROR)
    study = optuna.create_study(
        study_name=NAME,
        direction=_direction(saved),
        sampler=_sampler(saved, number),
        pruner=_pruner(saved),
    )
    notes: Mapping[int, Mapping[str, Any]] = {}
    if saved.settings.sampler == "cmaes":
        notes = _notes_of_cmaes(saved, trials, number)
    for earlier in range(number):
        trial = trials.get(earlier, Trial(earlier, 0, {}))  # Optuna numbers trials in the order in which they are added
        frozen = _frozen(saved, trial, earlier < seen, notes.get(earlier, {}))
        study.add_trial(frozen)
    return study


def values_of(saved: SavedSweep, trials: Mapping[int, Trial], number: int, seen: int) -> dict[str, Any]:
    """The values that the sampler chooses for trial ``number``."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        study = rebuilt(saved, trials, number, seen)
        return suggested(saved.settings.parameters, study.ask())


class Judge:
    """Asks the pruner about one trial, evaluation by evaluation."""

    def __init__(self, saved: SavedSweep, trials: Mapping[int, Trial], trial: Trial) -> None:
        self._study = rebuilt(saved, trials, trial.number, trial.seen)
        self._trial = self._study.ask()
        self._last = 0

    def hopeless(self, intermediate: Mapping[int, float]) -> bool:
        """Whether the pruner ends the trial after the last entry of ``intermediate``, which grows from call to call."""
        decision = False
        for step, value in sorted(intermediate.items()):
            if step > self._last:
                self._last = step
                self._trial.report(value, step)
                decision = self._trial.should_prune()
        return decision

    @property
    def notes(self) -> dict[str, Any]:
        """Notes of the pruner about the trial."""
        trials = self._study.get_trials(deepcopy=False)
        attributes = trials[self._trial.number].system_attrs
        # Successive halving and hyperband read these of other trials.
        return {name: value for name, value in attributes.items() if name.startswith("completed_rung")}


def importances(saved: SavedSweep, trials: Mapping[int, Trial]) -> dict[str, float]:
    """The importance of each parameter for the value, by Optuna's PED-ANOVA; empty for fewer than three values."""
    import optuna

    complete = [trial for trial in trials.values() if trial.state == "complete"]
    if len({trial.value for trial in complete}) < 3:
        return {}
    numbered = {index: attrs.evolve(trial, number=index) for index, trial in enumerate(complete)}
    study = rebuilt(saved, numbered, len(numbered), len(numbered))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        evaluator = optuna.importance.PedAnovaImportanceEvaluator()
        by_name = optuna.importance.get_param_importances(study, evaluator=evaluator)
    return {name: float(value) for name, value in by_name.items()}


def _notes_of_cmaes(saved: SavedSweep, trials: Mapping[int, Trial], number: int) -> dict[int, Mapping[str, Any]]:
    """The notes that the sampler makes about each trial before ``number``: a generation, and its distribution.

    Optuna would store the distribution as a pickle. Here, all choices are made again, each with what it knew.
    """
    import optuna

    study = optuna.create_study(direction=_direction(saved))
    reported = 0
    for current in range(number):
        seen = min(current, trials[current].seen) if current in trials else 0
        for earlier in range(reported, seen):
            state = _state(trials.get(earlier))
            if state.is_finished():
                value = _value(trials[earlier]) if state.name == "COMPLETE" else None
                study.tell(earlier, value, state)
            reported = earlier + 1
        study.sampler = _sampler(saved, current)
        suggested(saved.settings.parameters, study.ask())
    return {trial.number: trial.system_attrs for trial in study.get_trials(deepcopy=False)}


def _direction(saved: SavedSweep) -> Literal["maximize", "minimize"]:
    return "maximize" if saved.settings.direction == "maximize" else "minimize"


def _frozen(saved: SavedSweep, trial: Trial, known: bool, notes: Mapping[str, Any]) -> Any:
    from optuna.trial import create_trial

    if not known:  # as a trial that is still running
        trial = Trial(trial.number, trial.seen, trial.parameters)
    return create_trial(
        state=_state(trial),
        value=_value(trial),
        params=labels(trial.parameters),
        distributions=distributions(saved.settings.parameters, trial.parameters),
        intermediate_values=dict(trial.intermediate),
        system_attrs={**notes, **trial.pruner},
    )


def _state(trial: Trial | None) -> TrialState:
    from optuna.trial import TrialState

    if trial is None or trial.state is None:
        return TrialState.RUNNING
    states = {"complete": TrialState.COMPLETE, "pruned": TrialState.PRUNED, "failed": TrialState.FAIL}
    return states[trial.state]


def _value(trial: Trial) -> float | None:
    """The value of a complete trial, and the last one that a pruned trial had."""
    if trial.state == "pruned" and trial.intermediate:
        return trial.intermediate[max(trial.intermediate)]
    return trial.value


def _sampler(saved: SavedSweep, number: int) -> BaseSampler:
    from optuna.samplers import CmaEsSampler, GridSampler, RandomSampler, TPESampler

    settings = saved.settings
    seed = derive_seed(settings.seed, "sweep", number) % 2**32  # NumPy's RandomState takes 32 bits
    if settings.sampler == "grid":
        # The same seed for all trials: it decides the order in which they visit the grid.
        return GridSampler(grid(settings.parameters), seed=settings.seed)
    if settings.sampler == "random":
        return RandomSampler(seed)
    if settings.sampler == "cmaes":
        return CmaEsSampler(n_startup_trials=settings.startup_trials, warn_independent_sampling=False, seed=seed)
    return TPESampler(n_startup_trials=settings.startup_trials, constant_liar=True, seed=seed)


def _pruner(saved: SavedSweep) -> BasePruner:
    from optuna.pruners import HyperbandPruner, MedianPruner, NopPruner, SuccessiveHalvingPruner

    settings = saved.settings
    if settings.pruner == "median":
        return MedianPruner(n_startup_trials=settings.startup_trials, n_warmup_steps=settings.prune_after)
    if settings.pruner == "hyperband":
        most = max(settings.prune_after, len(saved.runs()) * saved.evaluations)
        return HyperbandPruner(settings.prune_after, most, settings.reduction_factor)
    if settings.pruner == "successive-halving":
        return SuccessiveHalvingPruner(settings.prune_after, settings.reduction_factor)
    return NopPruner()
