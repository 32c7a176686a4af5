"""Returns of off-policy trainers after few steps, and what they cost: when steps are dear, and when hours are.

Each (preset, environment, seed) trains in a process of its own with one thread, with the preset and nothing else. After
10, 25, 50 and 100% of the steps it plays whole episodes with the most likely actions. The CPU time is that of the
training without these. A point is one line of the results file, and a training that was killed continues from its
checkpoint in --folder by the same command; what it had learned since then is learned and counted again.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import product
from pathlib import Path
from statistics import mean
from time import process_time

import attrs
import click
from side_by_side import MeasurementFailed, append_line, circumstances, in_own_process, read_lines, shown
from trainings import random_returns

from rlcore import Run

PRESETS = ("sac", "td3", "xqc")
ENVIRONMENTS = ("HalfCheetah-v4", "Hopper-v4")  # of which returns are published
STEPS = 100_000
SHARES = (0.1, 0.25, 0.5, 1.0)
EPOCHS = 40  # of a training; each ends with a checkpoint
EPISODES = 10
RANDOM_EPISODES = 50
HOUR = 3600.0


@attrs.frozen
class Point:
    """A return of a training at one of its steps.

    Attributes:
        preset: Of the trainer.
        environment: Gymnasium's id.
        seed: Of the training.
        steps: Agent steps so far.
        of: Agent steps of the whole training, on which learning rates may depend.
        score: Mean return of the episodes.
        cpu_seconds: Of the training so far.
    """

    preset: str
    environment: str
    seed: int
    steps: int
    of: int
    score: float
    cpu_seconds: float


@attrs.frozen
class Clock:
    """The CPU time of a training over all its processes, in a file that has a line for each epoch."""

    path: Path

    def until(self, steps: int) -> float:
        """Return the CPU seconds of the first ``steps``, those that were learned again counted once."""
        lines = self.path.read_text().splitlines() if self.path.exists() else []
        known = {at: seconds for at, seconds in map(json.loads, lines) if at <= steps}
        return float(known[max(known)]) if known else 0.0

    def note(self, steps: int, seconds: float) -> None:
        with self.path.open("a") as file:
            file.write(json.dumps([steps, seconds]) + "\n")


def train(preset: str, environment: str, seed: int, steps: int, folder: str, results: str) -> None:
    """Train, or continue a training, and append its points to the results file; runs in a process of its own."""
    place = Path(folder, f"{preset}-{environment}-{seed}-{steps}")
    clock = Clock(place / "cpu.jsonl")
    done = {point.steps for point in points(Path(results)) if key_of(point) == (preset, environment, seed, steps)}
    missing = [goal for goal in goals(steps) if goal not in done]
    every = steps // EPOCHS
    config = {
        "preset": preset,
        "environment": {"id": environment},
        "env_settings": {"seed": seed},
        "default_settings": {
            "max_steps": steps,
            "summary_freq": every,
            "checkpoint_interval": every,
            "keep_checkpoints": 1,
        },
        "checkpoint_settings": {"run_id": "run", "results_dir": str(place), "resume": "auto"},
        "stats": {"console": False, "tensorboard": False},
    }
    place.mkdir(parents=True, exist_ok=True)
    with Run(config) as run:
        run.start()
        seconds = clock.until(run.steps)
        while True:
            while missing and run.steps >= missing[0]:
                score = run.evaluate(EPISODES, seed=seed).score
                point = Point(preset, environment, seed, missing.pop(0), steps, score, seconds)
                append_line(Path(results), attrs.asdict(point))
            started = process_time()
            if next(run, None) is None:
                return
            seconds += process_time() - started
            clock.note(run.steps, seconds)


def goals(steps: int) -> list[int]:
    """The steps at which a training of ``steps`` is measured."""
    return [round(share * steps) for share in SHARES]


def key_of(point: Point) -> tuple[str, str, int, int]:
    return (point.preset, point.environment, point.seed, point.of)


def points(path: Path) -> list[Point]:
    """Read the results file."""
    names = [field.name for field in attrs.fields(Point)]
    return [Point(**{name: line[name] for name in names}) for line in read_lines(path)]


def markdown(found: Sequence[Point], environment: str, steps: int) -> str:
    """The table of an environment: a row for each preset, with the least and the greatest seed."""
    at = [f"{goal:,}" for goal in goals(steps)]
    head = ["preset", "seeds", *at, "CPU hours", "return for each CPU hour"]
    rows = [head, ["---", *["---:"] * (len(head) - 1)]]
    random = mean(random_returns(environment, RANDOM_EPISODES, {}, ()))
    rows.append(["random actions", "", *[shown(random)] * len(at), "", ""])
    for preset in dict.fromkeys(point.preset for point in found):
        of_preset = [point for point in found if point.preset == preset]
        cells = []
        for goal in goals(steps):
            scores = [point.score for point in of_preset if point.steps == goal]
            spread = f" ({shown(min(scores))} to {shown(max(scores))})" if len(scores) > 1 else ""
            cells.append(f"{shown(mean(scores))}{spread}" if scores else "")
        ends = [point for point in of_preset if point.steps == steps]
        hours = mean(point.cpu_seconds for point in ends) / HOUR if ends else None
        gained = mean(point.score for point in ends) - random if ends else 0.0
        costs = [f"{hours:.2f}", shown(gained / hours)] if hours else ["", ""]
        rows.append([preset, str(len({point.seed for point in of_preset})), *cells, *costs])
    return f"{environment}\n\n" + "\n".join(f"| {' | '.join(row)} |" for row in rows)


@click.command(help=__doc__)
@click.option("--preset", "presets", multiple=True, default=PRESETS, show_default=True, help="May be repeated.")
@click.option("--env", "environments", multiple=True, default=ENVIRONMENTS, show_default=True, help="Gymnasium's id.")
@click.option("--seeds", default=3, show_default=True, type=click.IntRange(1), help="Trainings of each preset.")
@click.option("--steps", default=STEPS, show_default=True, type=click.IntRange(EPOCHS), help="Of each training.")
@click.option("--jobs", default=1, show_default=True, type=click.IntRange(1), help="Trainings at a time.")
@click.option("--table", is_flag=True, help="Train nothing: print what is there.")
@click.option(
    "--folder",
    default=Path("results", "sample_efficiency"),
    show_default=True,
    type=click.Path(path_type=Path),
    help="Of the trainings, and of points.jsonl with a line for each point.",
)
def main(
    presets: tuple[str, ...],
    environments: tuple[str, ...],
    seeds: int,
    steps: int,
    jobs: int,
    table: bool,
    folder: Path,
) -> None:
    if steps % EPOCHS:
        raise click.BadParameter(f"must be a multiple of {EPOCHS}, not {steps}", param_hint="--steps")
    folder.mkdir(parents=True, exist_ok=True)
    results = folder.resolve() / "points.jsonl"
    ends = {key_of(point) for point in points(results) if point.steps == steps}
    # Seed by seed, so that an interrupted benchmark has all presets.
    keys = product(range(1, seeds + 1), environments, presets)
    with ThreadPoolExecutor(jobs) as pool:
        futures = [
            pool.submit(
                in_own_process,
                "sample_efficiency:train",
                preset=preset,
                environment=environment,
                seed=seed,
                steps=steps,
                folder=str(folder.resolve()),
                results=str(results),
            )
            for seed, environment, preset in keys
            if not table and (preset, environment, seed, steps) not in ends
        ]
        for future in futures:
            future.result()
    found = [point for point in points(results) if point.of == steps and point.preset in presets]
    for environment in environments:
        of_environment = [point for point in found if point.environment == environment]
        if not of_environment:
            raise MeasurementFailed(f"{results} has no point of {environment}")
        click.echo(f"\n{markdown(of_environment, environment, steps)}")
    where = circumstances()
    click.echo(f"\nMean of seeds with {EPISODES} episodes each. {where['processor']}, one thread, {where['date']}")


if __name__ == "__main__":
    main()
