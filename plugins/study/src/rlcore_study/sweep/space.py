"""Parameters of a sweep as Optuna's distributions, and the values of one trial."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from rlcore_study.sweep.settings import ParameterSettings

if TYPE_CHECKING:
    from optuna import Trial
    from optuna.distributions import BaseDistribution

Parameters = Mapping[str, ParameterSettings]


def label(value: Any) -> Any:
    """A choice as Optuna keeps it: a plain value, or the JSON text of a list or a mapping."""
    if value is None or isinstance(value, bool | int | float | str):
        return value
    return json.dumps(value, sort_keys=True)


def labels(values: Mapping[str, Any]) -> dict[str, Any]:
    """The values of a trial as Optuna keeps them."""
    return {name: label(value) for name, value in values.items()}


def short_names(names: Iterable[str]) -> dict[str, str]:
    """The last part of each dotted name, such as ``learning_rate``; the whole one if another name ends alike."""
    ends = {name: name.rpartition(".")[2] for name in names}
    counts = Counter(ends.values())
    return {name: end if counts[end] == 1 else name for name, end in ends.items()}


def text_of(value: Any) -> str:
    """A value in words, for people."""
    if isinstance(value, float):
        return f"{value:.4g}"
    return str(label(value))


def described(values: Mapping[str, Any]) -> str:
    """The values of a trial in words: ``learning_rate 0.0012, num_layers 2``."""
    names = short_names(values)
    texts = [f"{names[name]} {text_of(value)}" for name, value in values.items()]
    return ", ".join(texts)


def applies(parameter: ParameterSettings, values: Mapping[str, Any]) -> bool:
    """Whether a parameter is searched in a trial in which the parameters before it have ``values``."""
    for name, wanted in parameter.when.items():
        allowed = wanted if isinstance(wanted, list) else [wanted]
        if name not in values or values[name] not in allowed:
            return False
    return True


def distribution(parameter: ParameterSettings) -> BaseDistribution:
    """Optuna's distribution of a parameter."""
    from optuna.distributions import CategoricalDistribution, FloatDistribution, IntDistribution

    if parameter.choices is not None:
        return CategoricalDistribution([label(choice) for choice in parameter.choices])
    low = parameter.low
    high = parameter.high
    log = parameter.log
    step = parameter.step
    assert low is not None and high is not None
    if parameter.whole:
        return IntDistribution(int(low), int(high), log=log, step=int(step or 1))
    distance = None if step is None else float(step)
    return FloatDistribution(float(low), float(high), log=log, step=distance)


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

    values: Any = distribution(parameter)
    if isinstance(values, CategoricalDistribution):
        assert parameter.choices is not None
        chosen = trial.suggest_categorical(name, values.choices)
        return parameter.choices[values.choices.index(chosen)]
    suggest: Any = trial.suggest_int if isinstance(values, IntDistribution) else trial.suggest_float
    return suggest(name, values.low, values.high, log=values.log, step=values.step)


def grid(parameters: Parameters) -> dict[str, list[Any]]:
    """The values of each parameter on the grid."""
    by_parameter = {}
    for name, parameter in parameters.items():
        if parameter.choices is not None:
            by_parameter[name] = [label(choice) for choice in parameter.choices]
            continue
        low = parameter.low
        high = parameter.high
        assert low is not None and high is not None
        step = parameter.step or 1
        # Rounding may put the last point above the range.
        by_parameter[name] = [min(low + number * step, high) for number in range(parameter.points)]
    return by_parameter


def typical(parameters: Parameters) -> Iterator[tuple[str, list[dict[str, Any]]]]:
    """Each parameter with assignments that use it: its extreme values, each with values that fulfil its conditions."""
    conditions: dict[str, dict[str, Any]] = {}
    for name, parameter in parameters.items():
        needed: dict[str, Any] = {}
        for other, wanted in parameter.when.items():
            needed |= conditions[other]  # of the other parameter, which is searched only there
            needed[other] = wanted[0] if isinstance(wanted, list) else wanted
        conditions[name] = needed
        extremes = parameter.choices if parameter.choices is not None else [parameter.low, parameter.high]
        yield name, [{**needed, name: value} for value in extremes]
