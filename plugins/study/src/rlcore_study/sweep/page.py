"""The part of a sweep on the page of ``rlcore report``: history, importance, parallel coordinates, and all trials."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import log
from pathlib import Path
from typing import Any

from rlcore import DamagedFile, RunStateError
from rlcore_study.parts import Figure, Part
from rlcore_study.sweep.optuna_study import importances
from rlcore_study.sweep.settings import ParameterSettings
from rlcore_study.sweep.space import distribution, label, short_names, text_of
from rlcore_study.sweep.trials import SWEEP, SavedSweep, Trial, ends_of, read_sweep, trial_of_run

LINES = 200  # of parallel coordinates, those of the best trials


def runs_of(path: Path) -> list[Path] | None:
    """The run directories of the sweep at ``path``, or of that name in ``results``; None if there is no sweep."""
    for directory in (path, Path("results") / path):
        if (directory / SWEEP).is_file():
            saved = read_sweep(directory)
            places = [saved.place(number) / name for number in saved.trials()[0] for name, _, _ in saved.runs()]
            return [place for place in places if (place / "configuration.yaml").is_file()]
    return None


def parts(runs: Sequence[Path]) -> list[Part]:
    """A part for each sweep that one of the runs belongs to."""
    found: dict[Path, SavedSweep] = {}
    for run in runs:
        try:
            of_trial = trial_of_run(run)
        except (DamagedFile, RunStateError):
            continue
        if of_trial is not None:
            found.setdefault(of_trial[0].directory.resolve(), of_trial[0])
    return [_part(saved) for saved in found.values()]


def _part(saved: SavedSweep) -> Part:
    trials, _ = saved.trials()
    best = saved.best(trials)
    ended = ends_of(trials.values()) or "none has ended"
    running = sum(not each.ended for each in trials.values())
    text = f"{len(trials)} trials: {ended}{f', {running} not finished' if running else ''}."
    if best is not None:
        text += f" The best value is {best.value:g}, of {best.name}."
    return Part(
        f"Sweep {saved.directory.name}",
        text,
        [
            figure
            for figure in (_history(saved, trials), _importance(saved, trials), _parallel(saved, trials))
            if figure
        ],
        ("Trial", "State", "Value", *short_names(saved.settings.parameters).values()),
        [_row(saved, trial) for trial in trials.values()],
    )


def _row(saved: SavedSweep, trial: Trial) -> tuple[str, ...]:
    values = [
        text_of(trial.parameters[name]) if name in trial.parameters else "-" for name in saved.settings.parameters
    ]
    state = trial.state or "not finished"
    return (
        str(trial.number),
        f"{state}: {trial.reason}" if trial.state == "failed" else state,
        "-" if trial.value is None else f"{trial.value:g}",
        *values,
    )


def _history(saved: SavedSweep, trials: Mapping[int, Trial]) -> Figure | None:
    """The value of each trial in their order, and the best so far."""
    complete = {number: each.value for number, each in trials.items() if each.value is not None}
    if not complete:
        return None
    choose = max if saved.settings.direction == "maximize" else min
    best: list[float] = []
    for value in complete.values():
        best.append(choose([*best[-1:], value]))
    pruned = {
        number: each.intermediate[max(each.intermediate)]
        for number, each in trials.items()
        if each.state == "pruned" and each.intermediate
    }
    traces: list[dict[str, Any]] = [
        _points("complete", complete, {"color": "--g0", "size": 8}),
        {
            "x": list(complete),
            "y": best,
            "name": "best so far",
            "mode": "lines",
            "line": {"color": "--g1", "shape": "hv"},
        },
    ]
    if pruned:
        traces.append(_points("pruned, last value", pruned, {"color": "--quiet", "symbol": "x", "size": 8}))
    axes = {"xaxis": {"title": {"text": "trial"}}, "yaxis": {"title": {"text": "value"}}, "showlegend": True}
    return Figure("History", traces, {**axes, "legend": {"orientation": "h", "y": 1.15}})


def _points(name: str, values: Mapping[int, float], marker: Mapping[str, Any]) -> dict[str, Any]:
    return {"x": list(values), "y": list(values.values()), "name": name, "mode": "markers", "marker": dict(marker)}


def _importance(saved: SavedSweep, trials: Mapping[int, Trial]) -> Figure | None:
    found = importances(saved, trials)
    if not found:
        return None
    ordered = sorted(found.items(), key=lambda each: each[1])
    names = short_names(saved.settings.parameters)
    bars = {
        "type": "bar",
        "orientation": "h",
        "y": [names[name] for name, _ in ordered],
        "x": [value for _, value in ordered],
        "marker": {"color": "--g0"},
    }
    caption = "Share of each parameter in what separates good trials from the others (Optuna's PED-ANOVA)."
    return Figure("Importance", [bars], {"xaxis": {"title": {"text": "importance"}}}, caption)


def _parallel(saved: SavedSweep, trials: Mapping[int, Trial]) -> Figure | None:
    """A line for each complete trial through its values, each between the limits of its parameter."""
    sign = 1.0 if saved.settings.direction == "maximize" else -1.0
    complete = [each for each in trials.values() if each.value is not None]
    ranked = sorted(complete, key=lambda each: sign * (each.value or 0.0))[-LINES:]
    if len(ranked) < 2:
        return None
    values = [each.value or 0.0 for each in ranked]
    low = min(values)
    high = max(values)
    parameters = saved.settings.parameters
    names = short_names(parameters)
    traces = []
    for rank, (trial, value) in enumerate(zip(ranked, values, strict=True), 1):
        own = {name: trial.parameters[name] for name in parameters if name in trial.parameters}
        texts = [f"{short} {text_of(own[name]) if name in own else 'not searched'}" for name, short in names.items()]
        best = rank == len(ranked)
        traces.append(
            {
                "x": [*names.values(), "value"],
                "y": [
                    *(_height(parameters[name], own[name]) if name in own else None for name in parameters),
                    (value - low) / (high - low) if high > low else 1.0,
                ],
                "text": [f"{trial.name}: {text}" for text in (*texts, f"value {value:g}")],
                "hoverinfo": "text",
                "mode": "lines+markers",
                "showlegend": False,
                "opacity": 0.15 + 0.85 * rank / len(ranked),
                "line": {"color": "--g1" if best else "--g0", "width": 3 if best else 1},
            }
        )
    caption = "Each line is a trial, from the lower to the upper limit of each parameter; the darkest are the best."
    layout = {"yaxis": {"showticklabels": False, "range": [-0.05, 1.05]}, "hovermode": "closest"}
    return Figure("Parallel coordinates", traces, layout, caption)


def _height(parameter: ParameterSettings, value: Any) -> float:
    """Where a value is between the limits of its parameter, from 0 to 1."""
    from optuna.distributions import CategoricalDistribution

    found = distribution(parameter)
    if isinstance(found, CategoricalDistribution):
        return found.choices.index(label(value)) / max(1, len(found.choices) - 1)
    assert parameter.low is not None and parameter.high is not None
    low = float(parameter.low)
    high = float(parameter.high)
    if parameter.log:
        return log(float(value) / low) / log(high / low)
    return (float(value) - low) / (high - low)
