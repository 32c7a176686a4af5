"""Returns after equal numbers of agent steps, beside Stable-Baselines3 with the same hyperparameters.

Each (task, library, seed) trains in a process of its own and then plays 20 whole episodes, with the normalizer of the
training held fixed: with the most likely actions, but in Atari's game with drawn ones. Returns are compared above those
of random actions, which may be negative: (ours - random) / (theirs - random), of the interquartile means over seeds and
episodes (Agarwal et al. 2021, arXiv:2108.13264). The interval of a ratio comes from a bootstrap over seeds. A finished
training is one line of the results file, and what is there is not trained again: an interrupted benchmark continues
with the same command. A row has all seeds, from 1 on, that both libraries have finished.

Returns of DQN swing, so its trainings play after 60, 70, 80, 90 and 100% of their steps: compared are the mean of these
five evaluations and, in a row of its own, the best of them.

With `--kind million`, PPO trains four robots for 1,000,000 steps. With `--kind presets`, rlcore gets a preset and
nothing else, and Stable-Baselines3 the tuned file of RL Zoo, which is read from the installed package; with
`--kind defaults`, both get the environment and the algorithm alone, and rlcore is to reach a return. With these two,
the medians of the seeds' mean returns are compared.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import count, product
from pathlib import Path
from time import perf_counter
from typing import Any

import attrs
import click
import learning_defaults
import learning_presets
import learning_tasks
import numpy as np
from side_by_side import MISSED, MeasurementFailed, append_line, in_own_process, read_lines, shown
from trainings import random_returns

TARGET = 0.95
ENOUGH = 0.8  # of the tasks that must reach the target, with equal hyperparameters
EPISODES = 20
RANDOM_EPISODES = 50
# of the bootstrap
RESAMPLES = 2_000
INTERVAL = (0.025, 0.975)
RANDOM = ("random", 0)  # the library and the seed of a line with returns of random actions
Key = tuple[str, int]


def train_and_evaluate(kind: str, task: str, library: str, case: dict[str, Any], seed: int) -> dict[str, Any]:
    """Trains to the end and plays; runs in a process of its own."""
    result = {"task": task, "library": library, "seed": seed, "case": case}
    if (library, seed) == RANDOM:
        options = case.get("options", {})
        wrappers = case.get("wrappers", ())
        return {**result, "returns": random_returns(case["env_id"], RANDOM_EPISODES, options, wrappers)}
    training = COMPARISONS[kind].ready(task, library, case, seed)
    started = perf_counter()
    if shares := case.get("evaluated_at"):
        evaluations = np.array(training.evaluations(shares, EPISODES))  # [evaluations, episodes]
        means = evaluations.mean(0)
        best = evaluations[evaluations.mean(1).argmax()]
        found = {"evaluations": evaluations.tolist(), "returns": means.tolist(), "best_returns": best.tolist()}
        return {**result, "steps": case["steps"], "seconds": perf_counter() - started, **found}
    steps = training.train()
    seconds = perf_counter() - started
    return {**result, "steps": steps, "seconds": seconds, "returns": training.evaluate(EPISODES)}


def interquartile_mean(results: Sequence[Mapping[str, Any]]) -> float:
    """The mean of the middle half of all returns: a quarter of them is left out at either end, rounded down."""
    ordered = np.sort(np.concatenate([np.asarray(result["returns"], np.float64) for result in results]))
    cut = len(ordered) // 4
    return float(ordered[cut : len(ordered) - cut].mean())


def median_of_seeds(results: Sequence[Mapping[str, Any]]) -> float:
    return float(np.median([np.mean(result["returns"]) for result in results]))


@attrs.frozen(kw_only=True)
class Comparison:
    """Two entrants, the tasks on which they meet, and the statistic of their returns that is compared."""

    ours: str
    peer: str
    tasks: Mapping[str, Any]
    ready: Callable[[str, str, Mapping[str, Any], int], Any]
    statistic: Callable[[Sequence[Mapping[str, Any]]], float]
    statistic_name: str
    enough: float  # share of the tasks that must reach the target


COMPARISONS = {
    "equal": Comparison(
        ours="rlcore",
        peer="stable-baselines3",
        tasks=learning_tasks.TASKS,
        ready=learning_tasks.ready_training,
        statistic=interquartile_mean,
        statistic_name="interquartile mean",
        enough=ENOUGH,
    ),
    "million": Comparison(
        ours="rlcore",
        peer="stable-baselines3",
        tasks=learning_tasks.MILLION,
        ready=learning_tasks.ready_training,
        statistic=interquartile_mean,
        statistic_name="interquartile mean",
        enough=1.0,
    ),
    "presets": Comparison(
        ours="rlcore, preset",
        peer="stable-baselines3, RL Zoo's file",
        tasks=learning_presets.TASKS,
        ready=learning_presets.ready_training,
        statistic=median_of_seeds,
        statistic_name="median of the means",
        enough=1.0,
    ),
    "defaults": Comparison(
        ours="rlcore, defaults",
        peer="stable-baselines3, defaults",
        tasks=learning_defaults.TASKS,
        ready=learning_defaults.ready_training,
        statistic=median_of_seeds,
        statistic_name="median of the means",
        enough=1.0,
    ),
}


class ResultsFile:
    """Finished trainings, one line of JSON each."""

    def __init__(self, path: Path) -> None:
        self.path = path
        path.parent.mkdir(parents=True, exist_ok=True)

    def of(self, task: str, case: Mapping[str, Any]) -> dict[Key, dict[str, Any]]:
        """Trainings of this very case, by library and seed."""
        lines = [line for line in read_lines(self.path) if line["task"] == task and line["case"] == case]
        return {(line["library"], line["seed"]): line for line in lines}

    def append(self, result: Mapping[str, Any]) -> None:
        append_line(self.path, result)


def train_missing(
    kind: str, missing: Sequence[tuple[str, Mapping[str, Any], Key]], results: ResultsFile, jobs: int
) -> None:
    """Trains what the file lacks, ``jobs`` at a time, and appends each result as it comes."""

    def one(task: str, case: Mapping[str, Any], key: Key) -> None:
        library, seed = key
        result = in_own_process(
            "learning:train_and_evaluate", kind=kind, task=task, library=library, case=case, seed=seed
        )
        results.append(result)
        mean = np.mean(result["returns"])
        deviation = np.std(result["returns"])
        click.echo(f"{task}, {library}, seed {seed}: mean return {mean:,.1f} +- {deviation:,.1f}", err=True)

    with ThreadPoolExecutor(jobs) as pool:
        futures = [pool.submit(one, *each) for each in missing]
        try:
            for future in futures:
                future.result()
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise


@attrs.frozen(kw_only=True)
class Row:
    """One task of the table."""

    task: str
    case: Mapping[str, Any]
    comparison: Comparison
    found: Mapping[Key, Mapping[str, Any]]
    seeds: range

    def results(self, library: str) -> list[Mapping[str, Any]]:
        return [self.found[library, seed] for seed in self.seeds]

    def score(self, library: str) -> float:
        return self.comparison.statistic(self.results(library))

    @property
    def random(self) -> float:
        return float(np.mean(self.found[RANDOM]["returns"]))

    @property
    def ratio(self) -> float | None:
        """Ours over theirs, each above random actions; None if the peer has learnt nothing."""
        theirs = self.score(self.comparison.peer) - self.random
        return (self.score(self.comparison.ours) - self.random) / theirs if theirs > 0 else None

    def interval(self) -> tuple[float, float]:
        """A 95% interval of the ratio: seeds of each library drawn with replacement, again and again.

        A draw in which the peer has learnt nothing has an infinite ratio.
        """
        generator = np.random.default_rng(0)
        ratios = []
        both = [self.results(library) for library in (self.comparison.ours, self.comparison.peer)]
        for _ in range(RESAMPLES):
            drawn = [
                [results[seed] for seed in generator.integers(len(results), size=len(results))] for results in both
            ]
            ours, theirs = (self.comparison.statistic(results) - self.random for results in drawn)
            ratios.append(ours / theirs if theirs > 0 else np.inf)
        low, high = np.quantile(ratios, INTERVAL, method="inverted_cdf")  # of the ratios themselves: some are infinite
        return float(low), float(high)

    @property
    def met(self) -> bool:
        if "target" in self.case:
            return self.score(self.comparison.ours) >= self.case["target"]
        return self.ratio is not None and self.ratio >= TARGET

    def cells(self) -> list[str]:
        ratio = "none: the peer is not above random actions" if self.ratio is None else f"{self.ratio:.2f}"
        entrants = (self._entrant(self.comparison.ours), self._entrant(self.comparison.peer))
        interval = " to ".join(f"{bound:.2f}" for bound in self.interval())
        counts = (f"{self.case['steps']:,}", str(len(self.seeds)))
        if "target" in self.case:
            counts = (*counts, f"{self.case['target']:,}")
        return [self.task, f"`{self.case['env_id']}`", *counts, shown(self.random), *entrants, ratio, interval]

    def _entrant(self, library: str) -> str:
        means = [float(np.mean(result["returns"])) for result in self.results(library)]
        return f"{shown(self.score(library))} ({shown(min(means))} to {shown(max(means))})"


def markdown(rows: Sequence[Row], comparison: Comparison) -> str:
    """The table of a page, with what it was measured with."""
    names = (comparison.ours, comparison.peer)
    target = ["to reach"] if any("target" in row.case for row in rows) else []
    head = ["task", "environment", "agent steps", "seeds", *target, "random", *names, "ratio", "95% interval"]
    lines = [head, ["---"] * 3 + ["---:"] * (len(head) - 3), *(row.cells() for row in rows)]
    table = "\n".join(f"| {' | '.join(line)} |" for line in lines)
    results = [row.found[key] for row in rows for key in (RANDOM, *product(names, row.seeds))]
    dates = sorted({result["date"][:10] for result in results})
    measured = " to ".join(sorted({dates[0], dates[-1]}))
    versions = {f"{name} {version}" for result in results for name, version in result["versions"].items()}
    processors = {f"{result['processor']} ({result['cpus']} cores), {result['machine']}" for result in results}
    pythons = {f"Python {result['python']}" for result in results}
    return (
        f"{table}\n\n{comparison.statistic_name.capitalize()} of seeds with {EPISODES} episodes each, "
        "deterministic but for Atari's game; in brackets the least and the greatest mean of a seed. "
        f"Measured {measured} on "
        f"{' and '.join(sorted(processors))}, with {', '.join(sorted(pythons | versions))}."
    )


@click.command(help=__doc__)
@click.option("--kind", default="equal", show_default=True, type=click.Choice([*COMPARISONS]), help="What is compared.")
@click.option("--task", "tasks", multiple=True, help="A task, such as ppo-cartpole; may be repeated. All by default.")
@click.option("--steps", type=click.IntRange(1), help="Agent steps of each training, in place of the task's own.")
@click.option("--seeds", default=3, show_default=True, type=click.IntRange(1), help="Least trainings of each library.")
@click.option("--table", is_flag=True, help="Train nothing: print the tasks that are finished.")
@click.option("--jobs", default=1, show_default=True, type=click.IntRange(1), help="Trainings at a time.")
@click.option(
    "--results",
    "path",
    default=Path("results", "learning.jsonl"),
    show_default=True,
    type=click.Path(path_type=Path),
    help="One line of JSON for each finished training.",
)
def main(kind: str, tasks: tuple[str, ...], steps: int | None, seeds: int, table: bool, jobs: int, path: Path) -> None:
    comparison = COMPARISONS[kind]
    for task in tasks:
        if task not in comparison.tasks:
            raise click.BadParameter(f"{task!r} is not one of {', '.join(comparison.tasks)}", param_hint="--task")
    cases = {task: stated(comparison.tasks[task], steps) for task in tasks or comparison.tasks}
    results = ResultsFile(path)
    # Seed by seed, so that an interrupted benchmark has pairs.
    keys: list[Key] = [RANDOM]
    keys += [(library, seed) for seed in range(1, seeds + 1) for library in (comparison.ours, comparison.peer)]
    missing = []
    for task, case in cases.items():
        found = results.of(task, case)
        missing += [(task, case, key) for key in keys if key not in found]
    if table:
        unfinished = {task for task, _, _ in missing}
        cases = {task: case for task, case in cases.items() if task not in unfinished}
        if not cases:
            raise MeasurementFailed(f"{path} has no task with {seeds} finished seeds of both libraries")
    else:
        train_missing(kind, missing, results, jobs)
    rows = []
    for task, case in cases.items():
        found = results.of(task, case)
        rows.append(Row(task=task, case=case, comparison=comparison, found=found, seeds=finished(found, comparison)))
        if case.get("evaluated_at"):
            best = {key: {**each, "returns": each.get("best_returns", each["returns"])} for key, each in found.items()}
            rows.append(attrs.evolve(rows[-1], task=f"{task}, best of {len(case['evaluated_at'])}", found=best))
    click.echo(markdown(rows, comparison))
    met = sum(row.met for row in rows)
    needed = int(np.ceil(comparison.enough * len(rows)))
    goal = "their return" if kind == "defaults" else f"a ratio of {TARGET}"
    click.echo(f"\n{met} of {len(rows)} tasks reach {goal}; target {needed}")
    if met < needed:
        sys.exit(MISSED)


def finished(found: Mapping[Key, Any], comparison: Comparison) -> range:
    """The seeds from 1 on of which both libraries have a result."""
    after = next(seed for seed in count(1) if not {(comparison.ours, seed), (comparison.peer, seed)} <= found.keys())
    return range(1, after)


def stated(case: Any, steps: int | None) -> dict[str, Any]:
    """The case as JSON has it, so that it can be compared with a line of the results file."""
    read: dict[str, Any] = json.loads(json.dumps(attrs.asdict(case.with_steps(steps or case.steps))))
    return read


if __name__ == "__main__":
    main()
