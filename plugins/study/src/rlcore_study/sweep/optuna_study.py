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
    made = optuna.create_study(
        study_name=NAME,
        direction=_direction(saved),
        sampler=_sampler(saved, number),
        pruner=_pruner(saved),
    )
    notes = _notes_of_cmaes(saved, trials, number) if saved.settings.sampler == "cmaes" else {}
    for each in range(number):
        made.add_trial(_frozen(saved, trials.get(each, Trial(each, 0, {})), each < seen, notes.get(each, {})))
    return made


def values_of(saved: SavedSweep, trials: Mapping[int, Trial], number: int, seen: int) -> dict[str, Any]:
    """The values that the sampler chooses for trial ``number``."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        asked = rebuilt(saved, trials, number, seen).ask()
        return suggested(saved.settings.parameters, asked)


class Judge:
    """Asks the pruner about one trial, evaluation by evaluation."""

    def __init__(self, saved: SavedSweep, trials: Mapping[int, Trial], trial: Trial) -> None:
        self._asked = rebuilt(saved, trials, trial.number, trial.seen).ask()
        self._optuna = self._asked.study
        self._last = 0

    def hopeless(self, intermediate: Mapping[int, float]) -> bool:
        """Whether the pruner ends the trial after the last entry of ``intermediate``, which grows from call to call."""
        decision = False
        for step, value in sorted(intermediate.items()):
            if step > self._last:
                self._last = step
                self._asked.report(value, step)
                decision = self._asked.should_prune()
        return decision

    @property
    def notes(self) -> dict[str, Any]:
        """Notes of the pruner about the trial."""
        noted = self._optuna.get_trials(deepcopy=False)[self._asked.number].system_attrs
        return {name: value for name, value in noted.items() if name.startswith("completed_rung")}


def importances(saved: SavedSweep, trials: Mapping[int, Trial]) -> dict[str, float]:
    """The importance of each parameter for the value, by Optuna's PED-ANOVA; empty for fewer than three values."""
    import optuna

    complete = [each for each in trials.values() if each.state == "complete"]
    if len({each.value for each in complete}) < 3:
        return {}
    ordered = {index: attrs.evolve(each, number=index) for index, each in enumerate(complete)}
    made = rebuilt(saved, ordered, len(ordered), len(ordered))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        evaluator = optuna.importance.PedAnovaImportanceEvaluator()
        found = optuna.importance.get_param_importances(made, evaluator=evaluator)
    return {name: float(value) for name, value in found.items()}


def _notes_of_cmaes(saved: SavedSweep, trials: Mapping[int, Trial], number: int) -> dict[int, Mapping[str, Any]]:
    """The notes that the sampler makes about each trial before ``number``: a generation, and its distribution.

    Optuna would store the distribution as a pickle. Here, all choices are made again, each with what it knew.
    """
    import optuna

    made = optuna.create_study(direction=_direction(saved))
    told = 0
    for each in range(number):
        for earlier in range(told, min(each, trials[each].seen if each in trials else 0)):
            state = _state(trials.get(earlier))
            if state.is_finished():
                made.tell(earlier, _value(trials[earlier]) if state.name == "COMPLETE" else None, state)
            told = earlier + 1
        made.sampler = _sampler(saved, each)
        suggested(saved.settings.parameters, made.ask())
    return {each.number: each.system_attrs for each in made.get_trials(deepcopy=False)}


def _direction(saved: SavedSweep) -> Literal["maximize", "minimize"]:
    return "maximize" if saved.settings.direction == "maximize" else "minimize"


def _frozen(saved: SavedSweep, trial: Trial, known: bool, notes: Mapping[str, Any]) -> Any:
    from optuna.trial import create_trial

    parameters = saved.settings.parameters
    return create_trial(
        state=_state(trial if known else None),
        value=_value(trial) if known else None,
        params=labels(trial.parameters),
        distributions=distributions(parameters, trial.parameters),
        intermediate_values=dict(trial.intermediate) if known else {},
        system_attrs={**notes, **(trial.pruner if known else {})},
    )


def _state(trial: Trial | None) -> TrialState:
    from optuna.trial import TrialState

    state = {"complete": TrialState.COMPLETE, "pruned": TrialState.PRUNED, "failed": TrialState.FAIL}
    return TrialState.RUNNING if trial is None or trial.state is None else state[trial.state]


def _value(trial: Trial) -> float | None:
    """The value of a complete trial, and the last one that a pruned trial had."""
    if trial.state == "pruned" and trial.intermediate:
        return trial.intermediate[max(trial.intermediate)]
    return trial.value


def _sampler(saved: SavedSweep, number: int) -> BaseSampler:
    from optuna.samplers import CmaEsSampler, GridSampler, RandomSampler, TPESampler

    settings = saved.settings
    seed = derive_seed(settings.seed, "sweep", number) % 2**32
    if settings.sampler == "grid":
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
