"""Films the agents of the site's gallery, for the next build of the site.

``python docs/gallery.py`` films twelve trained agents of the zoo, and trains nothing.
``python docs/gallery.py --loop`` films the agent of the first page, and writes ``docs/film.gif``, which git keeps.
``python docs/gallery.py RUN...`` shows these run directories, with a curve of their training; runs that differ in
nothing but the seed are one entry.

Films and figures are written to ``docs/gallery``, which git ignores. A site that is built without that folder shows
``docs/film.gif`` in its place.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from html import escape
from pathlib import Path
from typing import Any

import attrs
from drawings import Curve, curve
from figures import processor
from films import film, write_loop

DOCS = Path(__file__).resolve().parent
SHOWN = DOCS / "gallery"
ABOUT = "about.json"
FILM = "film.mp4"
EPISODES = 20  # of the evaluation of a run whose mean is shown
COMMAND = "python docs/gallery.py"

# What the page shows, as far as it can be filmed; others of the zoo take the place of the rest.
FIRST = (
    "ppo-BipedalWalker-v3", "ppo-LunarLander-v3", "ppo-HalfCheetah-v5", "ppo-Walker2d-v5", "ppo-Ant-v5",
    "ppo-Hopper-v5",
    "ppo-MiniGrid-DoorKey-5x5-v0", "ppo-Swimmer-v5", "ppo-CartPole-v1", "ppo-Acrobot-v1", "dqn-MountainCar-v0",
    "ppo-Pendulum-v1",
)  # fmt: skip
LOOP = DOCS / "film.gif"
LOOP_OF = "ppo/BipedalWalker-v3"  # the agent of the loop


@attrs.frozen
class Entry:
    """One agent of the zoo, or one group of runs, as ``about.json`` keeps it.

    Attributes:
        name: The name of its folder.
        title: The environment.
        trainer: The trainer of its behavior.
        command: The command that shows the agent; empty for runs that were given.
        seeds: The seeds of the runs.
        steps: Agent steps of a run.
        seconds: Duration of each run's training; empty for an agent of the zoo.
        scores: Mean return of ``episodes`` evaluation episodes of each run.
        episodes: Evaluation episodes of a score.
        film: Return of the filmed episode; None without a film.
        problem: Why there is no film; empty if there is one.
        date: The day on which the entry was made.
        machine: Processor, number of cores, and versions; empty for an agent of the zoo.
        curve: Return of training episodes over agent steps; None for an agent of the zoo.
    """

    name: str
    title: str
    trainer: str
    command: str
    seeds: list[int]
    steps: int
    seconds: list[float]
    scores: list[float]
    episodes: int
    film: float | None
    problem: str
    date: str
    machine: str
    curve: Curve | None

    @property
    def score(self) -> float:
        """The mean of the scores."""
        return sum(self.scores) / len(self.scores)


# ---------------------------------------------------------------- filming


def agents() -> list[str]:
    """Return the files of the zoo with agents, one for each environment, those of FIRST first."""
    from rlcore_zoo.collection import PREFERRED
    from rlcore_zoo.entries import entries

    shown: dict[str, str] = {}
    found = [entry for entry in entries() if entry.agent is not None and entry.trainer in PREFERRED]
    for entry in sorted(found, key=lambda entry: PREFERRED.index(entry.trainer)):
        shown.setdefault(str(entry.data["environment"]["id"]), entry.name)
    return sorted(shown.values(), key=lambda file: (place_in_first(file.replace("/", "-")), file))


def place_in_first(name: str) -> int:
    """Return where an entry stands in FIRST; entries that are not there come after it."""
    return FIRST.index(name) if name in FIRST else len(FIRST)


def entry_of_agent(file: str) -> Entry:
    """Film the agent of a file of the zoo. Its score is the one that was measured."""
    from rlcore_zoo.entries import entry_of

    entry = entry_of(file)
    agent = entry.agent
    if agent is None:
        raise ValueError(f"the zoo has no agent of {file}")
    name = file.replace("/", "-")
    title = str(entry.data["environment"]["id"])
    filmed, problem = film(f"zoo:{file}", title, "last", SHOWN / name / FILM, entry.deterministic)
    return Entry(
        name=name,
        title=title,
        trainer=entry.trainer,
        command=f"rlcore watch zoo:{file}",
        seeds=[agent.seed],
        steps=int(agent.path.name),
        seconds=[],
        scores=[agent.score],
        episodes=entry.episodes,
        film=filmed,
        problem=problem,
        date=datetime.now(UTC).date().isoformat(),
        machine="",
        curve=None,
    )


def entries_of(directories: Sequence[Path]) -> list[Entry]:
    """Film and measure runs; those that differ in nothing but the seed are one entry."""
    from rlcore_study.groups import grouped
    from rlcore_study.runs import read_runs

    runs, problems = read_runs(directories)
    for problem in problems:
        print(problem, file=sys.stderr)
    return [_entry(group.name, list(group.runs)) for group in grouped(runs, [])]


def _entry(name: str, runs: Sequence[Any]) -> Entry:
    from rlcore import SavedRun, Tag
    from rlcore_study.curves import band, shortened

    (behavior, *_) = sorted(runs[0].behaviors)
    configuration = runs[0].data.configuration
    scores = []
    for run in runs:
        result = SavedRun.open(run.data.directory, "best" if run.scores else "last").evaluate(EPISODES)
        scores.append(result.behaviors[behavior].mean_reward)
    best = runs[scores.index(max(scores))]
    title = str(configuration.get("environment", {}).get("id", behavior))
    filmed, problem = film(str(best.data.directory), title, "best" if best.scores else "last", SHOWN / name / FILM)
    found = band([shortened(run.series[behavior][Tag.CUMULATIVE_REWARD], 100) for run in runs])
    return Entry(
        name=name,
        title=title,
        trainer=str(configuration["behaviors"][behavior]["trainer_type"]),
        command="",
        seeds=[run.seed for run in runs],
        steps=max(run.steps for run in runs),
        seconds=[run.wall_seconds or 0.0 for run in runs],
        scores=scores,
        episodes=EPISODES,
        film=filmed,
        problem=problem,
        date=datetime.now(UTC).date().isoformat(),
        machine=f"{processor()}, {os.cpu_count()} cores, {best.versions}",
        curve=Curve(found.steps.tolist(), *(_known(each) for each in (found.mean, found.low, found.high))),
    )


def _known(values: Any) -> list[float | None]:
    return [round(value, 4) if value == value else None for value in values.tolist()]


def write(entries: Iterable[Entry]) -> None:
    """Write every entry beside its film."""
    for entry in entries:
        place = SHOWN / entry.name
        place.mkdir(parents=True, exist_ok=True)
        (place / ABOUT).write_text(json.dumps(attrs.asdict(entry)) + "\n", "utf-8")


# ---------------------------------------------------------------- the site


def shown(folder: Path = SHOWN) -> list[Entry]:
    """Read the entries for the site, those of FIRST first; none without the folder."""
    found = {}
    for path in sorted(folder.glob(f"*/{ABOUT}")):
        about = json.loads(path.read_text("utf-8"))
        drawn = about.pop("curve")
        found[about["name"]] = Entry(**about, curve=None if drawn is None else Curve(**drawn))
    return [found[name] for name in sorted(found, key=lambda name: (place_in_first(name), name))]


def page(entries: Sequence[Entry], folder: str = "") -> str:
    """Return the entries for a page; ``folder`` is the way from the page's address to the gallery's."""
    cards = "".join(card(entry, folder) for entry in entries)
    return f'<div class="agents">{cards}</div>' if entries else without_films()


def front(entries: Sequence[Entry]) -> str:
    """Return the film of the first page: that of the first entry, or the loop that is in the repository."""
    found = next((entry for entry in entries if entry.film is not None), None)
    if found is None:
        return loop("film.gif")
    return f'<div class="front agent">{video(found, "gallery/")}<p>{caption(found)}</p></div>'


def card(entry: Entry, folder: str = "") -> str:
    """Return film, curve and figures of an entry as HTML without an empty line."""
    drawn = ""
    if entry.curve is not None:
        drawn = curve(entry.curve, f"Return of {entry.title} over agent steps", "return of training episodes")
    many = f"{len(entry.seeds)} seeds" if len(entry.seeds) > 1 else f"seed {entry.seeds[0]}"
    text = (
        f"<strong>{escape(entry.title)}</strong>, {escape(entry.trainer)}, {many}. Mean return of {entry.episodes} "
        f"episodes: <strong>{figure(entry.score)}</strong>"
        + (f" ({figure(min(entry.scores))} to {figure(max(entry.scores))})" if len(entry.scores) > 1 else "")
        + f" after {entry.steps:,} agent steps"
    )
    if entry.seconds:
        minutes = sum(entry.seconds) / len(entry.seconds) / 60
        text += f", {minutes:.1f} minutes a run. {escape(entry.date)}, {escape(entry.machine)}"
    text += "." if entry.film is None else f"; the film's episode: {figure(entry.film)}."
    film = video(entry, folder) if entry.film is not None else f"<p>No film: {escape(entry.problem)}</p>"
    command = f"<pre><code>{escape(entry.command)}</code></pre>" if entry.command else ""
    return f'<div class="agent"><div class="pictures">{film}{drawn}</div><p>{text}</p>{command}</div>'


def figure(value: float) -> str:
    """Return a return with three significant digits, or all digits before the point."""
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"


def video(entry: Entry, folder: str) -> str:
    """Return the film of an entry as HTML."""
    file = f"{folder}{escape(entry.name)}/{FILM}"
    poster = file.replace(".mp4", ".jpg")
    return f'<video src="{file}" poster="{poster}" autoplay loop muted playsinline controls></video>'


def caption(entry: Entry) -> str:
    """Return the line below the film of the first page."""
    return (
        f"{escape(entry.title)}, {escape(entry.trainer)}, {entry.steps:,} agent steps: mean return "
        f"{figure(entry.score)}. <code>{escape(entry.command)}</code>"
    )


def loop(path: str) -> str:
    """Return the loop of the repository as HTML."""
    words = f"an agent of the zoo: rlcore watch zoo:{LOOP_OF}"
    return (
        f'<div class="front agent"><img src="{path}" alt="{words}"><p><code>rlcore watch zoo:{LOOP_OF}</code></p></div>'
    )


def without_films() -> str:
    """Return the page of a site that was built without films: the loop, and the command that makes films."""
    return f"{loop('../film.gif')}\n\nThis site was built with one film. In a checkout, `{COMMAND}` makes twelve."


def main() -> None:
    """Film the agents of the zoo, or the given runs, and write the gallery."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("runs", nargs="*", type=Path, metavar="RUN", help="run directories to show instead of the zoo")
    parser.add_argument("--only", action="append", metavar="FILE", help="a file of the zoo to film; repeatable")
    parser.add_argument("--loop", action="store_true", help=f"film {LOOP_OF}, and write {LOOP.name}")
    options = parser.parse_args()
    if options.runs:
        write(entries_of(options.runs))
        return
    files = [LOOP_OF] if options.loop else options.only or agents()
    filmed = 0
    for file in files:
        entry = entry_of_agent(file)
        if entry.film is None:
            print(f"{file}: left out: {entry.problem}", file=sys.stderr)
            continue
        write([entry])
        filmed += 1
        if filmed == len(FIRST):
            break
    if options.loop and filmed:
        write_loop(SHOWN / LOOP_OF.replace("/", "-") / FILM, LOOP)


if __name__ == "__main__":
    main()
