"""``rlcore zoo``: lists the configurations with measured scores, shows one, and checks one by training it."""

from __future__ import annotations

import json
import re
import sys
from contextlib import nullcontext, redirect_stdout
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from rlcore import json_option
from rlcore_zoo.collection import names

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

    from rlcore_zoo.entries import Entry

OUTSIDE = 1  # the exit code of a score outside its interval
MAX_SEEDS = 1_000
LITTLE = "The interval contains the score of random actions, so a check proves little; measure more seeds"


class SeedList(click.ParamType[tuple[int, ...]]):
    """Seeds such as ``4``, ``1,3`` or ``1-5``."""

    name = "seeds"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[int, ...]:
        seeds: dict[int, None] = {}
        for part in str(value).split(","):
            match = re.fullmatch(r"(\d{1,9})(?:-(\d{1,9}))?", part.strip())
            first = int(match[1]) if match else 1
            last = int(match[2] or match[1]) if match else 0
            if first > last or last - first >= MAX_SEEDS:
                self.fail(f"{value!r} is not a list of seeds; write 4, 1,3 or 1-5", param, ctx)
            seeds |= dict.fromkeys(range(first, last + 1))
        return tuple(seeds)


def complete_names(ctx: click.Context, parameter: click.Parameter, incomplete: str) -> list[CompletionItem | str]:
    """The names of the zoo that begin with ``incomplete``, for a shell."""
    return [name for name in names() if name.startswith(incomplete)]


@click.group("zoo")
def zoo_command() -> None:
    """Configurations with measured scores, which rlcore run takes as zoo:NAME."""


@zoo_command.command("list")
@click.argument("text", required=False)
@click.option("--trainer", metavar="NAME", help="Only files of this trainer, such as ppo; ghost is self-play.")
@click.option("--kind", metavar="NAME", help="Only environments of this kind, such as mujoco.")
@click.option("--measured/--not-measured", default=None, help="Only files that were, or were not, measured.")
@click.option("--agent/--no-agent", default=None, help="Only files with, or without, a trained agent in the package.")
@json_option
def list_command(
    text: str | None, trainer: str | None, kind: str | None, measured: bool | None, agent: bool | None, as_json: bool
) -> None:
    """List the files, or those whose name contains TEXT.

    SCORE is the mean over the seeds that were measured, INTERVAL is where the score of a new seed lies with a
    probability of 95%. PUBLISHED is the score as a part of a published one, both above that of random actions. CPU is
    the time of one training.
    """
    from rlcore import echo, echo_columns
    from rlcore_zoo.entries import KINDS, entries

    all_entries = entries()
    trainers = {entry.trainer for entry in all_entries}
    require_known("--trainer", trainer, sorted(trainers))
    require_known("--kind", kind, KINDS)
    chosen = [
        entry
        for entry in all_entries
        if (text or "").lower() in entry.name.lower()
        and trainer in (None, entry.trainer)
        and kind in (None, entry.world.kind)
        and measured in (None, entry.measured)
        and agent in (None, entry.agent is not None)
    ]
    if as_json:
        click.echo(json.dumps([entry.to_json() for entry in chosen], indent=4))
        return
    if not chosen:
        echo(f"none of the {len(all_entries)} files is like that")
        return
    headings = ("NAME", "KIND", "STEPS", "SCORE", "INTERVAL", "SEEDS", "PUBLISHED", "CPU")
    echo_columns([headings, *map(row, chosen)])
    count = sum(entry.measured for entry in chosen)
    echo(f"{len(chosen)} files, {count} of them measured; rlcore run zoo:NAME trains one")


def require_known(option: str, value: str | None, allowed: tuple[str, ...] | list[str]) -> None:
    """Raise UsageError for a value that no file has."""
    from rlcore import did_you_mean

    if value is not None and value not in allowed:
        hint = did_you_mean(value, allowed)
        raise click.UsageError(f"{option}: {value!r} is not one of {', '.join(allowed)}{hint}")


def row(entry: Entry) -> tuple[str, ...]:
    """The cells of an entry in the list."""
    about = (entry.name, entry.world.kind, f"{entry.steps:,}")
    if not entry.measured:
        return (*about, "not measured", "", "", "", "")
    low, high = entry.interval
    interval = f"{number(low)} to {number(high)}"
    seeds = str(len(entry.measurements))
    cpu = "" if entry.cpu_seconds is None else duration(entry.cpu_seconds)
    return (*about, number(entry.score), interval, seeds, compared(entry), cpu)


def compared(entry: Entry) -> str:
    """``0.98 of 5,819``, the published score; with ``(10% of the steps)`` after it where fewer or more were taken."""
    published = entry.world.published
    if entry.ratio is None or published is None:
        return ""
    text = f"{entry.ratio:.2f} of {number(published.score)}"
    share = entry.steps / published.steps
    return text if 0.9 <= share <= 1.1 else f"{text} ({share:.0%} of the steps)"


def number(value: float) -> str:
    """A score with three or four digits: ``2,519``, ``-157.6``, ``0.955``."""
    if abs(value) >= 1000:
        return f"{value:,.0f}"
    if abs(value) >= 10:
        return f"{value:.1f}"
    return f"{value:.3f}"


def duration(seconds: float) -> str:
    """``45 s``, or ``12 min`` from two minutes on."""
    if seconds < 120:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min"


@zoo_command.command("show")
@click.argument("name", shell_complete=complete_names)
@click.option("--json", "as_json", is_flag=True, help="Print JSON, with every measurement.")
def show_command(name: str, as_json: bool) -> None:
    """Show what was measured with NAME, and its file.

    To change it: rlcore zoo show NAME > my.yaml
    """
    import attrs

    from rlcore import echo
    from rlcore_zoo.entries import entry_of

    entry = entry_of(name)
    if as_json:
        document = entry.to_json()
        document["measurements"] = [attrs.asdict(measurement) for measurement in entry.measurements.values()]
        click.echo(json.dumps(document, indent=4))
        return
    for line in about(entry):
        echo(f"# {line}")
    echo(entry.path.read_text(encoding="utf-8").removesuffix("\n"))


def about(entry: Entry) -> list[str]:
    """The lines about an entry, above its file."""
    from rlcore import pip_install

    lines = [pip_install(*entry.world.needs)]
    if entry.recording_words:
        lines.append(f"rlcore {' '.join(entry.recording_words)}")
    lines.append(f"rlcore run zoo:{entry.name}")
    if entry.world.random is not None:
        lines.append(f"Random actions score {number(entry.world.random)}.")
    published = entry.world.published
    if published is not None:
        differs = f"; {published.differs}" if published.differs else ""
        lines.append(
            f"Published: {number(published.score)} after {published.steps:,} steps ({published.source}{differs})."
        )
    agent = entry.agent
    if agent is not None:
        trained = "" if agent.fingerprint == entry.fingerprint else ", of an earlier version of the file"
        lines.append(
            f"Trained agent: seed {agent.seed}, score {number(agent.score)}{trained}; rlcore evaluate zoo:{entry.name}"
        )
    if not entry.measured:
        return [*lines, "measured: false"]
    low, high = entry.interval
    lines.append(
        f"Score {number(entry.score)}; of a new seed {number(low)} to {number(high)} with a probability of 95%. "
        f"Each is the mean of {entry.episodes} episodes."
    )
    if entry.proves_little:
        lines.append(f"{LITTLE}.")
    measurements = list(entry.measurements.values())
    for each in measurements:
        cpu = "" if each.cpu_seconds is None else f", {duration(each.cpu_seconds)} of CPU time"
        result = f"seed {each.seed}: {number(each.score)} after {each.steps:,} steps{cpu}"
        lines.append(f"{result}, {each.date}, {each.command}")
    last = measurements[-1]
    versions = ", ".join(f"{name} {version}" for name, version in last.versions.items())
    return [*lines, f"{last.machine}; Python {last.python}, {versions}"]


@zoo_command.command("check")
@click.argument("name", shell_complete=complete_names)
@click.option(
    "--seeds", type=SeedList(), help="Seeds to train, such as 4 or 1-5; by default one that was not measured."
)
@click.option(
    "--results-dir",
    type=click.Path(path_type=Path, file_okay=False),
    default=Path("results"),
    show_default=True,
    help="Directory of the runs. A run there that was interrupted is resumed.",
)
@click.option(
    "--append", type=click.Path(path_type=Path, dir_okay=False), metavar="FILE", help="Add the measurements to FILE."
)
@json_option
def check_command(
    name: str, seeds: tuple[int, ...] | None, results_dir: Path, append: Path | None, as_json: bool
) -> int:
    """Train NAME in full with each seed, and compare each score with the interval.

    Exit code 1 if a score is outside, or if nothing was measured to compare it with. The line that --append adds to a
    file has what files/measured.jsonl of rlcore-zoo has. With --json, what the trainings print goes to standard error.
    """
    import attrs

    from rlcore import echo
    from rlcore_zoo.entries import entry_of
    from rlcore_zoo.trainings import train

    entry = entry_of(name)
    code = 0
    rows = []
    new_seed = max(entry.measurements, default=0) + 1
    for seed in seeds or (new_seed,):
        with redirect_stdout(sys.stderr) if as_json else nullcontext():
            measurement = train(entry, seed, results_dir)
        if append is not None:
            append.parent.mkdir(parents=True, exist_ok=True)
            with append.open("a", encoding="utf-8") as file:
                file.write(json.dumps(attrs.asdict(measurement)) + "\n")
        inside, line = verdict(entry, seed, measurement.score)
        if not inside:
            code = OUTSIDE
        if as_json:
            rows.append({"inside": inside, "verdict": line, "measurement": attrs.asdict(measurement)})
        else:
            echo(line)
    if as_json:
        interval = list(entry.interval) if entry.measured else None
        click.echo(json.dumps({"name": entry.name, "interval": interval, "checks": rows}, indent=4))
    return code


def verdict(entry: Entry, seed: int, score: float) -> tuple[bool, str]:
    """Return whether a score is inside of the interval, which a score that nothing was measured for is not."""
    line = f"{entry.name}, seed {seed}: score {number(score)}"
    if not entry.measured:
        return False, f"{line}; measured: false, so there is no interval to compare it with"
    low, high = entry.interval
    inside = low <= score <= high
    place = "inside" if inside else "OUTSIDE"
    line = f"{line}, {place} of {number(low)} to {number(high)}"
    if entry.proves_little:
        line = f"{line}. {LITTLE}"
    return inside, line
