"""A study that is rebuilt for every trial chooses and prunes as one study of Optuna that lives as long as the sweep."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import attrs
import numpy as np
import optuna
import pytest

from rlcore import derive_seed
from rlcore_study.sweep.optuna_study import Judge, importances, values_of
from rlcore_study.sweep.settings import EnvironmentCase, ParameterSettings, SweepSettings
from rlcore_study.sweep.space import distributions
from rlcore_study.sweep.trials import SavedSweep, SeedResult, Trial

RANGES = {
    "a.rate": ParameterSettings(low=1e-4, high=1e-1, log=True),
    "a.layers": ParameterSettings(low=1, high=4),
    "a.units": ParameterSettings(low=32, high=256, step=32),
    "a.kind": ParameterSettings(choices=["plain", "fast", [64, 64]]),
    "a.speed": ParameterSettings(low=0.0, high=1.0, when={"a.kind": "fast"}),
}
EVALUATIONS = 9


def study_of(**settings: Any) -> SavedSweep:
    made = SweepSettings(**{"parameters": RANGES, "seeds": [1], "startup_trials": 4, **settings})
    return SavedSweep(Path("unused"), made, {}, EVALUATIONS)


def score(values: dict[str, Any], step: int) -> float:
    """A curve with a best learning rate and a best number of layers."""
    worst = abs(np.log10(values["a.rate"]) + 2.5) + 0.2 * abs(values["a.layers"] - 2) + values.get("a.speed", 0.4)
    return float(1.0 - 0.3 * worst) * (1.0 - 0.8**step)


def trained(saved: SavedSweep, trials: dict[int, Trial], number: int, seen: int) -> Trial:
    """A trial as a sweep records it."""
    values = values_of(saved, trials, number, seen)
    trial = Trial(number, seen, values)
    scores: list[tuple[int, float]] = []
    judge = Judge(saved, trials, trial)
    for step in range(1, EVALUATIONS + 1):
        scores.append((100 * step, score(values, step)))
        intermediate = saved.intermediate(trial, "seed-1", scores)
        if judge.hopeless(intermediate) and step < EVALUATIONS:
            return attrs.evolve(trial, state="pruned", intermediate=intermediate, pruner=judge.notes)
    trial = attrs.evolve(trial, runs={"seed-1": SeedResult(scores[-1][1], tuple(scores))})
    return attrs.evolve(
        trial, state="complete", value=saved.worth(trial), intermediate=intermediate, pruner=judge.notes
    )


PRUNERS = {
    "median": optuna.pruners.MedianPruner(n_startup_trials=4, n_warmup_steps=1),
    "hyperband": optuna.pruners.HyperbandPruner(1, EVALUATIONS, 3),
    "successive-halving": optuna.pruners.SuccessiveHalvingPruner(1, 3),
}


STATES = (optuna.trial.TrialState.COMPLETE, optuna.trial.TrialState.FAIL)


@pytest.mark.parametrize("pruner", PRUNERS)
def test_a_rebuilt_study_chooses_and_prunes_as_one_study_that_lives_on(pruner: str) -> None:
    saved = study_of(pruner=pruner)
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    living = optuna.create_study(study_name="rlcore", direction="maximize", pruner=PRUNERS[pruner])
    trials: dict[int, Trial] = {}
    for number in range(16):
        trials[number] = trained(saved, trials, number, number)
        seed = derive_seed(1, "sweep", number)
        living.sampler = optuna.samplers.TPESampler(n_startup_trials=4, constant_liar=True, seed=seed)
        asked = living.ask()
        values = {
            "a.rate": asked.suggest_float("a.rate", 1e-4, 1e-1, log=True),
            "a.layers": asked.suggest_int("a.layers", 1, 4),
            "a.units": asked.suggest_int("a.units", 32, 256, step=32),
            "a.kind": asked.suggest_categorical("a.kind", ["plain", "fast", "[64, 64]"]),
        }
        if values["a.kind"] == "fast":
            values["a.speed"] = asked.suggest_float("a.speed", 0.0, 1.0)
        state = optuna.trial.TrialState.COMPLETE
        for step in range(1, EVALUATIONS + 1):
            asked.report(score(values, step), step)
            if asked.should_prune() and step < EVALUATIONS:
                state = optuna.trial.TrialState.PRUNED
                break
        complete = state is optuna.trial.TrialState.COMPLETE
        living.tell(asked, score(values, step) if complete else None, state=state)
        if values["a.kind"] == "[64, 64]":
            values["a.kind"] = [64, 64]
        assert trials[number].parameters == values
        assert (trials[number].state == "complete", max(trials[number].intermediate)) == (complete, step)
    assert {each.state for each in trials.values()} == {"complete", "pruned"}


def test_cmaes_in_a_rebuilt_study_chooses_as_in_one_study_that_lives_on() -> None:
    pytest.importorskip("cmaes")
    lag = 2
    space = {name: RANGES[name] for name in ("a.rate", "a.layers", "a.kind")}
    saved = study_of(sampler="cmaes", parameters=space, pruner=None)
    living = optuna.create_study(direction="maximize")
    trials: dict[int, Trial] = {}
    for number in range(40):
        seen = max(0, number - lag)
        if seen:
            failed = seen % 5 == 0
            living.tell(seen - 1, None if failed else score(dict(trials[seen - 1].parameters), 1), state=STATES[failed])
        living.sampler = optuna.samplers.CmaEsSampler(n_startup_trials=4, seed=derive_seed(1, "sweep", number))
        asked = living.ask()
        expected = {
            "a.rate": asked.suggest_float("a.rate", 1e-4, 1e-1, log=True),
            "a.layers": asked.suggest_int("a.layers", 1, 4),
            "a.kind": asked.suggest_categorical("a.kind", ["plain", "fast", "[64, 64]"]),
        }
        values = values_of(saved, trials, number, seen)
        assert {**values, "a.kind": str(values["a.kind"])} == expected
        failed = (number + 1) % 5 == 0
        trials[number] = Trial(
            number, seen, values, state="failed" if failed else "complete", value=None if failed else score(values, 1)
        )
    generations = [each.system_attrs.get("cma:generation", 0) for each in living.get_trials()]
    assert max(generations) >= 2  # so the distribution has moved


def test_values_do_not_depend_on_results_that_a_trial_may_not_see() -> None:
    saved = study_of(jobs=3)
    trials: dict[int, Trial] = {}
    for number in range(12):
        trials[number] = trained(saved, trials, number, max(0, number - saved.settings.lag))
    assert saved.settings.lag == 2
    unfinished = {n: attrs.evolve(each, state=None, value=None, intermediate={}) for n, each in trials.items()}
    early = {**{n: trials[n] for n in range(9)}, 9: unfinished[9], 10: unfinished[10]}
    assert values_of(saved, early, 11, 9) == trials[11].parameters
    best = max(range(9), key=lambda number: trials[number].value or 0.0)
    other = {**trials, best: attrs.evolve(trials[best], value=-5.0)}
    assert values_of(saved, other, 11, 9) != trials[11].parameters  # what it sees does matter
    moved = {**early, 9: attrs.evolve(early[9], parameters=trials[11].parameters)}
    assert values_of(saved, moved, 11, 9) != trials[11].parameters  # and where the others are


def test_a_grid_visits_every_point_once() -> None:
    space = {
        "a.x": ParameterSettings(low=0.1, high=0.3, step=0.1),
        "a.n": ParameterSettings(low=1, high=5, step=2),
        "a.c": ParameterSettings(choices=[None, [1, 2]]),
    }
    saved = study_of(sampler="grid", parameters=space, trials=18)
    trials: dict[int, Trial] = {}
    for number in range(18):
        trials[number] = Trial(number, number, values_of(saved, trials, number, number), state="complete", value=0.0)
    points = {repr(sorted(each.parameters.items())) for each in trials.values()}
    assert len(points) == 18
    for index, name in enumerate(space):
        found = sorted({repr(each.parameters[name]) for each in trials.values()})
        assert found == (["0.1", "0.2", "0.3"], ["1", "3", "5"], ["None", "[1, 2]"])[index]


def test_the_parameter_that_decides_is_the_most_important_one() -> None:
    saved = study_of(sampler="random", parameters={name: RANGES[name] for name in ("a.rate", "a.layers", "a.units")})
    generator = np.random.default_rng(3)
    trials = {}
    for number in range(60):
        values = {
            "a.rate": float(10 ** generator.uniform(-4, -1)),
            "a.layers": int(generator.integers(1, 5)),
            "a.units": int(32 * generator.integers(1, 9)),
        }
        value = -abs(np.log10(values["a.rate"]) + 2.5) + 0.01 * generator.normal()
        trials[number] = Trial(number, number, values, state="complete", value=float(value))
    found = importances(saved, trials)
    assert next(iter(found)) == "a.rate" and found["a.rate"] > 0.8
    assert sum(found.values()) == pytest.approx(1.0)
    assert importances(saved, {n: trials[n] for n in range(2)}) == {}


def test_several_environments_count_as_shares_of_their_targets() -> None:
    cases: dict[str, Any] = {
        "near": {"values": {}, "target": 500.0},
        "far": {"values": {}, "target": -100.0, "floor": -500.0},
    }
    saved = study_of(environments={name: EnvironmentCase(**case) for name, case in cases.items()}, seeds=[1, 2])
    names = [name for name, _, _ in saved.runs()]
    assert names == ["near-seed-1", "near-seed-2", "far-seed-1", "far-seed-2"]
    results = {name: SeedResult(each, ()) for name, each in zip(names, (250.0, 500.0, -500.0, -200.0), strict=True)}
    assert saved.worth(Trial(0, 0, {}, results)) == pytest.approx((0.5 + 1.0 + 0.0 + 0.75) / 4)
    # While its third run trains, a trial seems to be worth the mean of what it has so far.
    begun = {name: SeedResult(each.score, ((100, each.score),)) for name, each in list(results.items())[:2]}
    found = saved.intermediate(Trial(0, 0, {}, begun), "far-seed-1", [(100, -300.0)])
    assert found == pytest.approx({1: 0.5, EVALUATIONS + 1: 0.75, 2 * EVALUATIONS + 1: (0.5 + 1.0 + 0.5) / 3})


def test_distributions_have_the_limits_of_the_block() -> None:
    found = distributions(RANGES, dict.fromkeys(RANGES))
    assert found["a.rate"] == optuna.distributions.FloatDistribution(1e-4, 1e-1, log=True)
    assert found["a.units"] == optuna.distributions.IntDistribution(32, 256, step=32)
    assert found["a.kind"] == optuna.distributions.CategoricalDistribution(("plain", "fast", "[64, 64]"))
