"""The cost of the replay buffer: time to sample, time to write, memory.

The sampled buffer is full: 1M rows of 17 observations and 6 continuous actions, in episodes of 1000 steps. A sample is
256 uniform rows with all that learning takes of them: own and next observations, actions, rewards and flags. Writing
is `act` and `observe` of an environment step, in a buffer that is already full.

The same is measured for images of 84 x 84 that are stacks of four frames, stored whole and with each frame once.
"""

from __future__ import annotations

import sys
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import Any

import click
import numpy as np
from rich.console import Console
from side_by_side import MISSED, in_own_process, write_report

from rlcore import AgentBatch, BehaviorSpec, ObservationSpec
from rlcore_torch import ReplayBuffer

ROWS = 1_000_000
BATCH_SIZE = 256
OBSERVATIONS = 17
ACTIONS = 6
EPISODE_LENGTH = 1000
SLOTS = (1, 8, 64)
WAYS = {"uniform": 1, "uniform, 3 steps": 3, "prioritized": 1}  # of sampling, and steps until bootstrapping
SAMPLE_TARGET = 0.15  # milliseconds, uniform and one step
FRAMES = {"whole": 1, "once": 4}  # how stacks are stored, and the frames that their spec declares
IMAGE_ROWS = 20_000
MEMORY_TARGET = 1.05  # times one copy of observations, actions, rewards and flags


def made_buffer(slots: int, rows: int, prioritized: bool = False) -> ReplayBuffer:
    spec = BehaviorSpec(
        name="Agent",
        observations=(ObservationSpec("observation", (OBSERVATIONS,), np.float32),),
        continuous=ACTIONS,
        env_index=np.arange(slots),
    )
    return ReplayBuffer(spec, rows, priority_alpha=0.6 if prioritized else None)


def made_batch(slots: int, random: np.random.Generator, ended: bool = False) -> AgentBatch:
    """A step of all slots; at the end of an episode it ends in all of them."""
    return AgentBatch(
        observations={"observation": random.random((slots, OBSERVATIONS), np.float32)},
        reward=random.random(slots, np.float32),
        terminated=np.zeros(slots, np.bool_),
        truncated=np.full(slots, ended),
        final_observations={"observation": random.random((slots, OBSERVATIONS), np.float32)} if ended else None,
    )


def write(buffer: ReplayBuffer, steps: int) -> float:
    """Seconds of ``steps`` environment steps, which begin with an episode."""
    random = np.random.default_rng(0)
    going_on, ending = (made_batch(buffer.slots, random, ended) for ended in (False, True))
    actions = random.random((buffer.slots, ACTIONS), np.float32)
    buffer.begin(going_on)
    started = perf_counter()
    for step in range(1, steps + 1):
        buffer.act(actions, None)
        buffer.observe(going_on if step % EPISODE_LENGTH else ending)
    return perf_counter() - started


def sampling(way: str, slots: int, samples: int) -> float:
    """Milliseconds to draw and copy out one sample; runs in a process of its own."""
    buffer = made_buffer(slots, ROWS, prioritized=way == "prioritized")
    write(buffer, ROWS // slots + 1)
    random = np.random.default_rng(1)
    errors = random.random(BATCH_SIZE)
    seconds = []
    for _ in range(samples):
        started = perf_counter()
        if way == "prioritized":
            rows, _ = buffer.sample_prioritized(BATCH_SIZE, random, 0.4)
            buffer.set_priorities(rows, errors)
        else:
            rows = buffer.sample(BATCH_SIZE, random)
        indices, valid, last = buffer.stretches(rows, WAYS[way])
        steps = buffer.transitions(rows, last)
        rewards = steps.reward if WAYS[way] == 1 else (buffer.reward.take(indices) * valid).sum(0)
        seconds.append(perf_counter() - started)
    if len(rewards) != BATCH_SIZE or not buffer.filled == buffer.capacity >= ROWS:
        raise RuntimeError(f"sampled {len(rewards)} transitions of {buffer.filled} rows")
    return median(seconds) * 1e3


def writing(slots: int, steps: int) -> float:
    """Microseconds per environment step; runs in a process of its own."""
    buffer = made_buffer(slots, 10_000 * slots)
    write(buffer, 10_001)
    return write(buffer, steps) / steps * 1e6


def memory_ratio(slots: int) -> float:
    """Bytes of a buffer over those of one copy of what is in it."""
    one_copy = ROWS * (4 * OBSERVATIONS + 4 * ACTIONS + 4 + 1)
    return ROWS * made_buffer(slots, ROWS).nbytes_of_row / one_copy


def images(frames: int, samples: int) -> dict[str, float]:
    """Measure stacks of images whose spec declares ``frames`` frames; runs in a process of its own."""
    slots = 8
    screen = ObservationSpec("screen", (84, 84, 4), np.uint8, "image", frames=frames)
    buffer = ReplayBuffer(BehaviorSpec("Agent", (screen,), discrete=(6,), env_index=np.arange(slots)), IMAGE_ROWS)
    random = np.random.default_rng(0)
    no = np.zeros(slots, np.bool_)
    newest = random.integers(0, 256, (64, slots, 84, 84, 1), np.uint8)
    stacks = np.zeros((slots, 84, 84, 4), np.uint8)
    writing = []
    for step in range(IMAGE_ROWS // slots + 100):
        stacks = np.concatenate([stacks[..., 1:], newest[random.integers(64)]], axis=-1)
        batch = AgentBatch({"screen": stacks}, np.zeros(slots, np.float32), no, no)
        if step == 0:
            buffer.begin(batch)
        started = perf_counter()
        buffer.act(None, np.zeros((slots, 1), np.int64))
        buffer.observe(batch)
        writing.append(perf_counter() - started)
    seconds = []
    for _ in range(samples):
        started = perf_counter()
        steps = buffer.transitions(buffer.sample(BATCH_SIZE, random))
        for observations in (steps.observations, steps.next_observations):
            observations["screen"]
        seconds.append(perf_counter() - started)
    mebibytes = buffer.nbytes_of_row * 100_000 / 2**20
    return {"sample": median(seconds) * 1e3, "write": median(writing) * 1e6, "memory": mebibytes}


@click.command(help=__doc__)
@click.option("--rounds", default=3, show_default=True, type=click.IntRange(1), help="Processes; the median counts.")
@click.option("--samples", default=5000, show_default=True, type=click.IntRange(1), help="Samples in one process.")
@click.option("--steps", default=50_000, show_default=True, type=click.IntRange(1), help="Environment steps written.")
@click.option("--json", "json_file", type=click.Path(path_type=Path), help="Write the measurements to this file.")
def main(rounds: int, samples: int, steps: int, json_file: Path | None) -> None:
    console = Console()
    report: dict[str, Any] = {"benchmark": "replay_sampling", "milliseconds": {}, "microseconds": {}, "memory": {}}
    misses = 0

    def show(text: str, figure: float, unit: str, target: float | None = None) -> None:
        nonlocal misses
        met = target is None or figure <= target
        misses += not met
        goal = "" if target is None else f" (target {target:g}{unit})"
        console.print(f"{text}: [{'green' if met else 'red'}]{figure:.3g}{unit}[/]{goal}")

    for slots in (1, 64):
        for way in WAYS:
            target = SAMPLE_TARGET if way == "uniform" else None
            measured = [
                in_own_process("replay_sampling:sampling", way=way, slots=slots, samples=samples) for _ in range(rounds)
            ]
            report["milliseconds"][f"{way}, {slots} slots"] = measured
            show(f"a sample of {BATCH_SIZE}, {way}, {slots} slots", median(measured), " ms", target)
    for slots in SLOTS:
        measured = [in_own_process("replay_sampling:writing", slots=slots, steps=steps) for _ in range(rounds)]
        report["microseconds"][f"{slots} slots"] = measured
        show(f"writing a step of {slots} slots", median(measured), " us")
    for slots in SLOTS:
        report["memory"][f"{slots} slots"] = ratio = memory_ratio(slots)
        show(f"memory of {ROWS} rows, {slots} slots", ratio, "x", MEMORY_TARGET)
    report["images"] = {}
    for way, frames in FRAMES.items():
        measured = [
            in_own_process("replay_sampling:images", frames=frames, samples=samples // 50) for _ in range(rounds)
        ]
        report["images"][way] = measured
        sample, written, memory = (median(each[key] for each in measured) for key in ("sample", "write", "memory"))
        console.print(
            f"stacks stored {way}: {memory:,.0f} MiB for 100,000 rows, a sample of {BATCH_SIZE} {sample:.3g} ms, "
            f"writing a step of 8 slots {written:.3g} us"
        )
    write_report(json_file, {**report, "targets": [SAMPLE_TARGET, MEMORY_TARGET], "met": not misses})
    if misses:
        sys.exit(MISSED)


if __name__ == "__main__":
    main()
