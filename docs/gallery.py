"""Trains the agents of the site's gallery, films them and draws their curves, for the next build of the site.

``python docs/gallery.py`` trains every file of the zoo in TRAININGS with three seeds, one after another, in
``results/gallery``. A run that is done is not trained again, and one that was stopped is resumed, so the same command
continues after an interruption. Runs have the names that ``rlcore zoo check --results-dir results/gallery`` gives them,
so one training serves both. ``python docs/gallery.py RUN...`` trains nothing and shows these run directories; runs that
differ in nothing but the seed are one entry.

Films and figures are written to ``docs/gallery``, which git ignores. Without that folder, the site is built with a note
that names this command.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from html import escape
from pathlib import Path
from typing import Any

import attrs
from drawings import Curve, curve

DOCS = Path(__file__).resolve().parent
SHOWN = DOCS / "gallery"
RESULTS = DOCS.parent / "results/gallery"
ABOUT = "about.json"
FILM = "film.mp4"
SEEDS = (1, 2, 3)
EPISODES = 20  # of the evaluation whose mean is shown
COMMAND = "python docs/gallery.py"

# The file of the zoo for each entry, in the order of the page. The first one is on the first page.
TRAININGS: Mapping[str, str] = {
    "lunar-lander": "ppo/LunarLander-v3",
    "cartpole": "ppo/CartPole-v1",
    "pendulum": "ppo/Pendulum-v1",
    "door-key": "ppo/MiniGrid-DoorKey-5x5-v0",
}


@attrs.frozen
class Entry:
    """One group of runs, as ``about.json`` keeps it.

    Attributes:
        name: The name of its folder.
        title: The environment.
        trainer: The trainer of its behavior.
        command: The command that trains the run with the first seed; empty for runs that were given.
        seeds: The seeds of the runs.
        steps: Agent steps of a run.
        seconds: Duration of each run's training.
        scores: Mean return of EPISODES evaluation episodes of each run.
        film: Return of the filmed episode; None without a film.
        problem: Why there is no film; empty if there is one.
        date: The day on which the entry was made.
        machine: Processor, number of cores, and versions.
        curve: Return of training episodes over agent steps.
    """

    name: str
    title: str
    trainer: str
    command: str
    seeds: list[int]
    steps: int
    seconds: list[float]
    scores: list[float]
    film: float | None
    problem: str
    date: str
    machine: str
    curve: Curve

    @property
    def score(self) -> float:
        """The mean of the scores."""
        return sum(self.scores) / len(self.scores)


# ---------------------------------------------------------------- training and filming


def train(file: str, seed: int) -> Path:
    """Train a file of the zoo, unless the run is done, and return the run's directory."""
    from rlcore_zoo.trainings import run_id_of

    run_id = run_id_of(file, seed)
    directory = RESULTS / run_id
    result = directory / "result.json"
    if result.is_file() and json.loads(result.read_text("utf-8"))["outcome"] == "done":
        return directory
    command = [sys.executable, "-m", "rlcore", "run", f"zoo:{file}", "--run-id", run_id, "--results-dir", str(RESULTS)]
    command += ["--seed", str(seed), *(["--resume"] if directory.exists() else [])]
    subprocess.run(command, cwd=DOCS.parent, check=True)
    return directory


def entries_of(directories: Sequence[Path], name: str = "", command: str = "") -> list[Entry]:
    """Film and measure the runs: together as ``name``, or without a name those that differ in nothing but the seed.

    ``command`` is the one that trained the first of them, for the page.
    """
    from rlcore_study.groups import grouped
    from rlcore_study.runs import read_runs

    runs, problems = read_runs(directories)
    for problem in problems:
        print(problem, file=sys.stderr)
    groups = grouped(runs, [(name, "*")] if name else [])
    return [_entry(group.name, list(group.runs), command) for group in groups]


def _entry(name: str, runs: Sequence[Any], command: str) -> Entry:
    from rlcore import SavedRun, Tag
    from rlcore_study.curves import band, shortened

    (behavior, *_) = sorted(runs[0].behaviors)
    configuration = runs[0].data.configuration
    scores = []
    for run in runs:
        result = SavedRun.open(run.data.directory, _checkpoint(run)).evaluate(EPISODES)
        scores.append(result.behaviors[behavior].mean_reward)
    best = runs[scores.index(max(scores))]
    film, problem = _film(best, behavior, SHOWN / name)
    found = band([shortened(run.series[behavior][Tag.CUMULATIVE_REWARD], 100) for run in runs])
    return Entry(
        name=name,
        title=str(configuration.get("environment", {}).get("id", behavior)),
        trainer=str(configuration["behaviors"][behavior]["trainer_type"]),
        command=command,
        seeds=[run.seed for run in runs],
        steps=max(run.steps for run in runs),
        seconds=[run.wall_seconds or 0.0 for run in runs],
        scores=scores,
        film=film,
        problem=problem,
        date=datetime.now(UTC).date().isoformat(),
        machine=f"{processor()}, {os.cpu_count()} cores, {best.versions}",
        curve=Curve(found.steps.tolist(), *(_known(each) for each in (found.mean, found.low, found.high))),
    )


def _checkpoint(run: Any) -> str:
    return "best" if run.scores else "last"


def _known(values: Any) -> list[float | None]:
    return [round(value, 4) if value == value else None for value in values.tolist()]


def _film(run: Any, behavior: str, place: Path) -> tuple[float | None, str]:
    """Write the film of one episode to ``place``; return its return, or the reason why there is none."""
    from rlcore import RlcoreError, SavedRun

    place.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as films:
        try:
            result = SavedRun.open(run.data.directory, _checkpoint(run)).evaluate(1, video=Path(films))
        except RlcoreError as error:
            return None, " ".join(str(error).split())
        found = sorted(Path(films).rglob("*.mp4"))
        if not found:
            return None, "the environment wrote no film"
        shutil.copyfile(found[0], place / FILM)
    return float(result.behaviors[behavior].mean_reward), ""


def processor() -> str:
    """Return the name of this machine's processor."""
    cpus = Path("/proc/cpuinfo")
    lines = cpus.read_text("utf-8").splitlines() if cpus.is_file() else ()
    return next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), platform.machine())


def write(entries: Iterable[Entry]) -> None:
    """Write every entry beside its film."""
    for entry in entries:
        place = SHOWN / entry.name
        place.mkdir(parents=True, exist_ok=True)
        (place / ABOUT).write_text(json.dumps(attrs.asdict(entry)) + "\n", "utf-8")


# ---------------------------------------------------------------- the site


def shown(folder: Path = SHOWN) -> list[Entry]:
    """Read the entries for the site, those of TRAININGS first; none without the folder."""
    found = {}
    for path in sorted(folder.glob(f"*/{ABOUT}")):
        about = json.loads(path.read_text("utf-8"))
        found[about["name"]] = Entry(**{**about, "curve": Curve(**about["curve"])})
    order = [*(name for name in TRAININGS if name in found), *(name for name in found if name not in TRAININGS)]
    return [found[name] for name in order]


def page(entries: Sequence[Entry], folder: str = "") -> str:
    """Return the entries for a page; ``folder`` is the way from the page's address to the gallery's."""
    return "\n\n".join(card(entry, folder) for entry in entries) if entries else missing()


def card(entry: Entry, folder: str = "") -> str:
    """Return film, curve and figures of an entry as HTML without an empty line."""
    drawn = curve(entry.curve, f"Return of {entry.title} over agent steps", "return of training episodes")
    many = f"{len(entry.seeds)} seeds" if len(entry.seeds) > 1 else f"seed {entry.seeds[0]}"
    minutes = sum(entry.seconds) / len(entry.seconds) / 60
    text = (
        f"<strong>{escape(entry.title)}</strong>, {escape(entry.trainer)}, {many}. Mean return of {EPISODES} episodes: "
        f"<strong>{figure(entry.score)}</strong>"
        + (f" ({figure(min(entry.scores))} to {figure(max(entry.scores))})" if len(entry.scores) > 1 else "")
        + f" after {entry.steps:,} agent steps, {minutes:.1f} minutes a run. {escape(entry.date)}, "
        f"{escape(entry.machine)}."
    )
    film = (
        f'<video src="{folder}{escape(entry.name)}/{FILM}" controls autoplay loop muted playsinline></video>'
        if entry.film is not None
        else f"<p>No film: {escape(entry.problem)}</p>"
    )
    command = f"<pre><code>{escape(entry.command)}</code></pre>" if entry.command else ""
    return f'<div class="agent"><div class="pictures">{film}{drawn}</div><p>{text}</p>{command}</div>'


def figure(value: float) -> str:
    """Return a return with three significant digits, or all digits before the point."""
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"


def missing() -> str:
    """Return the note of a site that was built without films."""
    return (
        '!!! note "No films in this build"\n\n'
        "    Films and curves are not in the repository. The command below trains each agent with three seeds, films\n"
        "    it and draws its curve; the next build of the site shows them.\n\n"
        f"    ```sh\n    {COMMAND}\n    ```"
    )


def main() -> None:
    """Train, or take the given runs, and write the gallery."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("runs", nargs="*", type=Path, metavar="RUN", help="run directories to show; trains nothing")
    parser.add_argument("--only", choices=[*TRAININGS], action="append", help="train this entry only; repeatable")
    options = parser.parse_args()
    if options.runs:
        write(entries_of(options.runs))
        return
    for name in options.only or TRAININGS:
        file = TRAININGS[name]
        directories = [train(file, seed) for seed in SEEDS]
        write(entries_of(directories, name, f"rlcore run zoo:{file} --seed {SEEDS[0]}"))


if __name__ == "__main__":
    main()
