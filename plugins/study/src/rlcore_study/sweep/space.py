"""Parameters of a sweep as Optuna's distributions, and the values of one trial."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from rlcore_study.sweep.settings import ParameterSettings

if TYPE_CHECKING:
    from optuna import Trial
    from optuna.distributions import BaseDistribution

Parameters = Mapping[str, ParameterSettings]


def label(value: Any) -> Any:
    """A choice as Optuna keeps it: a plain value, or the JSON text of a list or a mapping."""
    return value if value is None or isinstance(value, bool | int | float | str) else json.dumps(value, sort_keys=True)


def labels(values: Mapping[str, Any]) -> dict[str, Any]:
    """The values of a trial as Optuna keeps them."""
    return {name: label(value) for name, value in values.items()}


def short_names(names: Iterable[str]) -> dict[str, str]:
    """The last part of each dotted name, such as ``learning_rate``; the whole one if another name ends alike."""
    last = {name: name.rpartition(".")[2] for name in names}
    ends = list(last.values())
    return {name: end if ends.count(end) == 1 else name for name, end in last.items()}


def text_of(value: Any) -> str:
    """A value in words, for people."""
    return f"{value:.4g}" if isinstance(value, float) else str(label(value))


def described(values: Mapping[str, Any]) -> str:
    """The values of a trial in words: ``learning_rate 0.0012, num_layers 2``."""
    return ", ".join(f"{short} {text_of(values[name])}" for name, short in short_names(values).items())


def applies(parameter: ParameterSettings, values: Mapping[str, Any]) -> bool:
    """Whether a parameter is searched in a trial in which the parameters before it have ``values``."""
    return all(
        name in values and values[name] in (wanted if isinstance(wanted, list) else [wanted])
        for name, wanted in parameter.when.items()
    )


def distribution(parameter: ParameterSettings) -> BaseDistribution:
    """Optuna's distribution of a parameter."""
    from optuna.distributions import CategoricalDistribution, FloatDistribution, IntDistribution

    if parameter.choices is not None:
        return CategoricalDistribution([label(each) for each in parameter.choices])
    low = parameter.low
    high = parameter.high
    log = parameter.log
    step = parameter.step
    assert low is not None and high is not None
    if parameter.whole:
        return IntDistribution(int(low), int(high), log=log, step=int(step or 1))
    return FloatDistribution(float(low), float(high), log=log, step=None if step is None else float(step))


def distributions(parameters: Parameters, values: Mapping[str, Any]) -> dict[str, BaseDistribution]:
    """The distributions of the parameters that a trial with ``values`` has."""
    return {name: distribution(parameters[name]) for name in values}


def suggested(parameters: Parameters, trial: Trial) -> dict[str, Any]:
    """The values of a trial that Optuna chooses, by parameter, without those whose condition is not met."""
    values: dict[str, Any] = {}
    for name, parameter in parameters.items():
        if applies(parameter, values):
            values[name] = _suggested(name, parameter, trial)
    return values


def _suggested(name: str, parameter: ParameterSettings, trial: Trial) -> Any:
    from optuna.distributions import CategoricalDistribution, IntDistribution

    found: Any = distribution(parameter)
    if isinstance(found, CategoricalDistribution):
        assert parameter.choices is not None
        chosen = trial.suggest_categorical(name, found.choices)
        return parameter.choices[found.choices.index(chosen)]
    suggest: Any = trial.suggest_int if isinstance(found, IntDistribution) else trial.suggest_float
    return suggest(name, found.low, found.high, log=found.log, step=found.step)


def grid(parameters: Parameters) -> dict[str, list[Any]]:
    """The values of each parameter on the grid."""
    found = {}
    for name, parameter in parameters.items():
        if parameter.choices is not None:
            found[name] = [label(each) for each in parameter.choices]
            continue
        low = parameter.low
        high = parameter.high
        assert low is not None and high is not None
        step = parameter.step or 1
        found[name] = [min(low + number * step, high) for number in range(parameter.points)]
    return found


def typical(parameters: Parameters) -> Iterator[tuple[str, list[dict[str, Any]]]]:
    """Each parameter with assignments that use it: its extreme values, each with values that fulfil its conditions."""
    chosen: dict[str, dict[str, Any]] = {}
    for name, parameter in parameters.items():
        needed: dict[str, Any] = {}
        for other, wanted in parameter.when.items():
            needed |= chosen[other] | {other: wanted[0] if isinstance(wanted, list) else wanted}
        chosen[name] = needed
        extremes = parameter.choices if parameter.choices is not None else [parameter.low, parameter.high]
        yield name, [{**needed, name: each} for each in extremes]
