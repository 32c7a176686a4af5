"""The part of a sweep on the page of ``rlcore report``: history, importance, parallel coordinates, and all trials."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import accumulate
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
        if not (directory / SWEEP).is_file():
            continue
        saved = read_sweep(directory)
        trials, _ = saved.trials()
        runs = [saved.place(number) / name for number in trials for name, _, _ in saved.runs()]
        return [run for run in runs if (run / "configuration.yaml").is_file()]
    return None


def parts(runs: Sequence[Path]) -> list[Part]:
    """A part for each sweep that one of the runs belongs to."""
    sweeps: dict[Path, SavedSweep] = {}
    for run in runs:
        try:
            of_trial = trial_of_run(run)
        except (DamagedFile, RunStateError):
            continue
        if of_trial is not None:
            saved, _ = of_trial
            sweeps.setdefault(saved.directory.resolve(), saved)
    return [_part(saved) for saved in sweeps.values()]


def _part(saved: SavedSweep) -> Part:
    trials, _ = saved.trials()
    best = saved.best(trials)
    ended = ends_of(trials.values()) or "none has ended"
    running = sum(not trial.ended for trial in trials.values())
    if running:
        ended = f"{ended}, {running} not finished"
    text = f"{len(trials)} trials: {ended}."
    if best is not None:
        text += f" The best value is {best.value:g}, of {best.name}."
    figures = (_history(saved, trials), _importance(saved, trials), _parallel(saved, trials))
    names = short_names(saved.settings.parameters)
    return Part(
        title=f"Sweep {saved.directory.name}",
        text=text,
        figures=[figure for figure in figures if figure],
        headings=("Trial", "State", "Value", *names.values()),
        rows=[_row(saved, trial) for trial in trials.values()],
    )


def _row(saved: SavedSweep, trial: Trial) -> tuple[str, ...]:
    state = trial.state or "not finished"
    if state == "failed":
        state = f"failed: {trial.reason}"
    value = "-" if trial.value is None else f"{trial.value:g}"
    texts = [str(trial.number), state, value]
    for name in saved.settings.parameters:
        text = text_of(trial.parameters[name]) if name in trial.parameters else "-"
        texts.append(text)
    return tuple(texts)


def _history(saved: SavedSweep, trials: Mapping[int, Trial]) -> Figure | None:
    """The value of each trial in their order, and the best so far."""
    complete = {number: trial.value for number, trial in trials.items() if trial.value is not None}
    if not complete:
        return None
    choose = max if saved.settings.direction == "maximize" else min
    best = list(accumulate(complete.values(), choose))
    pruned = {}
    for number, trial in trials.items():
        if trial.state == "pruned" and trial.intermediate:
            last = max(trial.intermediate)
            pruned[number] = trial.intermediate[last]
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
    shares = importances(saved, trials)
    if not shares:
        return None
    ascending = sorted(shares, key=shares.__getitem__)
    names = short_names(saved.settings.parameters)
    bars = {
        "type": "bar",
        "orientation": "h",
        "y": [names[name] for name in ascending],
        "x": [shares[name] for name in ascending],
        "marker": {"color": "--g0"},
    }
    caption = "Share of each parameter in what separates good trials from the others (Optuna's PED-ANOVA)."
    return Figure("Importance", [bars], {"xaxis": {"title": {"text": "importance"}}}, caption)


def _parallel(saved: SavedSweep, trials: Mapping[int, Trial]) -> Figure | None:
    """A line for each complete trial through its values, each between the limits of its parameter."""
    sign = 1.0 if saved.settings.direction == "maximize" else -1.0
    complete = [trial for trial in trials.values() if trial.value is not None]
    ranked = sorted(complete, key=lambda trial: sign * (trial.value or 0.0))[-LINES:]
    if len(ranked) < 2:
        return None
    values = [trial.value or 0.0 for trial in ranked]
    low = min(values)
    high = max(values)
    parameters = saved.settings.parameters
    names = short_names(parameters)
    traces = []
    for rank, (trial, value) in enumerate(zip(ranked, values, strict=True), 1):
        heights: list[float | None] = []
        texts = []
        for name, parameter in parameters.items():
            if name in trial.parameters:
                chosen = trial.parameters[name]
                heights.append(_height(parameter, chosen))
                texts.append(f"{trial.name}: {names[name]} {text_of(chosen)}")
            else:
                heights.append(None)
                texts.append(f"{trial.name}: {names[name]} not searched")
        heights.append((value - low) / (high - low) if high > low else 1.0)
        texts.append(f"{trial.name}: value {value:g}")
        best = rank == len(ranked)
        traces.append(
            {
                "x": [*names.values(), "value"],
                "y": heights,
                "text": texts,
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

    values = distribution(parameter)
    if isinstance(values, CategoricalDistribution):
        index = values.choices.index(label(value))
        return index / max(1, len(values.choices) - 1)
    assert parameter.low is not None and parameter.high is not None
    low = float(parameter.low)
    high = float(parameter.high)
    if parameter.log:
        return log(float(value) / low) / log(high / low)
    return (float(value) - low) / (high - low)
