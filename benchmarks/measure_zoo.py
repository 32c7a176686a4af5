"""Trains the files of the zoo that were not measured, one after the other, and packs the policy of the median seed.

Each (file, seed) trains as ``rlcore zoo check`` does, in the working folder, and its measurement is appended to
files/measured.jsonl of rlcore-zoo at once. What was measured for the file and the preset as they are is skipped, and a
training that was killed is resumed from its checkpoint by the same command. When a file has all its seeds, the
measurements of its earlier versions are removed, and the policy of the seed with the median score becomes the trained
agent of the file. Without names, all files are trained, the quick groups first.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import attrs
import click

from rlcore import RlcoreError
from rlcore_zoo.command import SeedList, number
from rlcore_zoo.entries import MEASURED, Entry, Measurement, entries, entry_of, read_measurements
from rlcore_zoo.packing import pack
from rlcore_zoo.trainings import run_id_of, train

UNMEASURED = 2
COMMAND = "benchmarks/measure_zoo.py"
OFF_POLICY = ("sac", "td3")
# In the order in which they are trained.
GROUPS = ("classic", "box2d", "mujoco", "mujoco-off-policy", "robotics", "minigrid", "pettingzoo", "atari")


def group_of(entry: Entry) -> str:
    """The kind of the environment; with SAC and TD3, those of MuJoCo are a group of their own."""
    if entry.world.kind == "mujoco" and entry.trainer in OFF_POLICY:
        return "mujoco-off-policy"
    return entry.world.kind


def in_order(chosen: Iterable[Entry]) -> list[Entry]:
    """The entries by group, and within a group by steps."""
    return sorted(chosen, key=lambda entry: (GROUPS.index(group_of(entry)), entry.steps, entry.name))


def median_of(measurements: Mapping[int, Measurement]) -> Measurement:
    """The measurement whose score is the median; of an even number, the lower one of the two in the middle."""
    ordered = sorted(measurements.values(), key=lambda measurement: (measurement.score, measurement.seed))
    return ordered[(len(ordered) - 1) // 2]


def run_of(measurement: Measurement) -> Path:
    """The directory of the training, in the working folder. Every version of a file has a folder of its own."""
    return Path("results", measurement.fingerprint, run_id_of(measurement.name, measurement.seed))


def measure(entry: Entry, seed: int, measured: Path) -> Measurement:
    """Train an entry with a seed, or resume its training, and append the measurement to the file ``measured``."""
    measurement = train(entry, seed, Path("results", str(entry.fingerprint)))
    measurement = attrs.evolve(measurement, command=COMMAND)
    with measured.open("a", encoding="utf-8") as file:
        file.write(json.dumps(attrs.asdict(measurement)) + "\n")
    return measurement


def without_earlier_versions(entry: Entry, measured: Path) -> None:
    """Remove the measurements of earlier versions of an entry's file."""
    lines = []
    for measurement in read_measurements(measured):
        if measurement.name != entry.name or measurement.fingerprint == entry.fingerprint:
            lines.append(json.dumps(attrs.asdict(measurement)) + "\n")
    building = measured.with_suffix(".new")
    building.write_text("".join(lines), encoding="utf-8")
    building.replace(measured)


def pack_median(name: str, seeds: Sequence[int]) -> str:
    """Pack the policy of the median seed of a measured entry; return a line that says what was done."""
    entry = entry_of(name)
    missing = [seed for seed in seeds if seed not in entry.measurements]
    if missing:
        return f"{name}: seeds {', '.join(map(str, missing))} are not measured, so nothing is packed"
    without_earlier_versions(entry, MEASURED)
    median = median_of(entry.measurements)
    agent = entry.agent
    if agent is not None and (agent.seed, agent.fingerprint) == (median.seed, median.fingerprint):
        return f"{name}: the agent is that of seed {agent.seed} already"
    run = run_of(median)
    if not run.is_dir():
        return f"{name}: {run} is not in this folder, so nothing is packed"
    path = pack(run, name, median.score, median.fingerprint)
    size = sum(file.stat().st_size for file in path.iterdir())
    return f"{name}: packed seed {median.seed}, score {number(median.score)}, {size:,} bytes"


@click.command(help=__doc__)
@click.argument("names", nargs=-1)
@click.option("--folder", required=True, type=click.Path(path_type=Path), help="The working folder of the trainings.")
@click.option("--group", "groups", multiple=True, type=click.Choice(GROUPS), help="Only these; may be repeated.")
@click.option("--seeds", type=SeedList(), default="1-3", show_default=True, help="Seeds of each file.")
@click.option("--list", "only_list", is_flag=True, help="Train nothing: print what is missing.")
def main(
    names: tuple[str, ...], folder: Path, groups: tuple[str, ...], seeds: tuple[int, ...], only_list: bool
) -> None:
    chosen = [entry_of(name) for name in names] if names else entries()
    chosen = in_order(entry for entry in chosen if not groups or group_of(entry) in groups)
    folder.mkdir(parents=True, exist_ok=True)
    os.chdir(folder)  # results are relative to it: a packed configuration names no place of this machine
    failed = []
    for entry in chosen:
        missing = [seed for seed in seeds if seed not in entry.measurements]
        if only_list:
            if missing:
                click.echo(f"{entry.name}: {entry.steps:,} steps for each of seeds {', '.join(map(str, missing))}")
            continue
        try:
            for seed in missing:
                score = measure(entry, seed, MEASURED).score
                click.echo(f"{entry.name}, seed {seed}: score {number(score)}")
            click.echo(pack_median(entry.name, seeds))
        except RlcoreError as error:  # the others can still be measured
            failed.append(entry.name)
            click.echo(f"{entry.name}: {error}", err=True)
    if failed:
        click.echo(f"not measured: {', '.join(failed)}", err=True)
        sys.exit(UNMEASURED)


if __name__ == "__main__":
    main()
