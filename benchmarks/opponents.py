"""Self-play's opponents: acting against 8 snapshots at once, and replacing one of 10.

64 environments have an opponent each. All opponents act as one snapshot, or each as one of 8: those that `PolicyMix`
stacks, with opponents that stay and with one in each step that changes its snapshot (as with episodes of 64 steps), or
8 that act one after another. Actions are drawn. The networks have two layers: 64 units for 6 discrete options with
masks, and 256 for 8 continuous parts. "With a learner" adds the learning team's policy, which acts for 64 rows too.

A swap is `snapshot()` of a policy with 1M parameters, and the next act of a mix of 10 minus an act without a swap.

Figures are processor time, so that other processes of the machine matter little.
"""

from __future__ import annotations

import sys
from pathlib import Path
from statistics import median
from time import process_time
from typing import Any

import click
import numpy as np
import torch
from rich.console import Console
from rich.table import Table
from side_by_side import MISSED, alternate, in_own_process, pairwise_ratio, write_report

from rlcore import Actions, BehaviorSpec, ObservationSpec
from rlcore_ghost import PolicyMix
from rlcore_torch import ActorCritic, ActorPolicy, NetworkSettings
from rlcore_torch.acceleration.numpy_actor import numpy_actor
from rlcore_torch.backend import Backend

ROWS = 64
SNAPSHOTS = 8
WINDOW = 10
TARGET = 0.6  # of the speed against one snapshot
CASES = {
    "64-64, discrete, masks": {"units": 64, "observations": 16, "continuous": 0, "options": 6},
    "256-256, continuous": {"units": 256, "observations": 27, "continuous": 8, "options": 0},
}
MILLION = {"units": 980, "observations": 27, "continuous": 8, "options": 0}  # two layers: 1.0M parameters
WAYS = ("one snapshot", "8 stacked", "8 stacked, changing", "8 in a loop")


class Alone:
    """A snapshot that does not offer to act with others."""

    def __init__(self, policy: ActorPolicy) -> None:
        self.act = policy.act
        self.seed = policy.seed


def made_policy(case: dict[str, int], seed: int) -> ActorPolicy:
    torch.manual_seed(seed)
    limit = np.ones(case["continuous"], np.float32)
    behavior = BehaviorSpec(
        name="Agent",
        observations=(ObservationSpec("observation", (case["observations"],), np.float32),),
        continuous=case["continuous"],
        discrete=(case["options"],) if case["options"] else (),
        low=-limit,
        high=limit,
        env_index=np.arange(ROWS),
    )
    network = NetworkSettings(hidden_units=case["units"], num_layers=2, activation="tanh", normalize=True)
    backend = Backend(torch.device("cpu"), numpy_actor=numpy_actor)
    model = ActorCritic(behavior, network, value_heads=1, shared=False)
    backend.prepare(model)
    return ActorPolicy(behavior, model, backend)


def acting(way: str, case: dict[str, int], steps: int) -> dict[str, float]:
    """Microseconds of processor time for each act of the opponents, without and with a learner's act."""
    torch.set_num_threads(1)
    random = np.random.default_rng(0)
    seen = {"observation": random.standard_normal((ROWS, case["observations"]), np.float32)}
    mask = random.random((ROWS, case["options"])) < 0.7 if case["options"] else None
    if mask is not None:
        mask[:, 0] = True
    learner = made_policy(case, 100)
    snapshots = [made_policy(case, number).snapshot() for number in range(SNAPSHOTS)]
    index = random.integers(0, SNAPSHOTS, ROWS)
    new = random.integers(0, SNAPSHOTS, steps).tolist()
    mix = PolicyMix(snapshots if "stacked" in way else [Alone(each) for each in snapshots], index)
    opponents: Any = snapshots[0] if way == "one snapshot" else mix

    def seconds(act_learner: bool) -> float:
        started = process_time()
        for step in range(steps):
            if way == "8 stacked, changing":
                index[step % ROWS] = new[step]
            actions: Actions = opponents.act(seen, mask, False)
            if act_learner:
                learner.act(seen, mask, False)
        taken = process_time() - started
        if len(actions.discrete if case["options"] else actions.continuous) != ROWS:
            raise RuntimeError("not every row acted")
        return taken / steps * 1e6

    seconds(True)
    return {"opponents": seconds(False), "with a learner": seconds(True)}


def swapping(swaps: int) -> dict[str, float]:
    """Milliseconds of processor time of a snapshot, of an act after a swap, and of an act without one."""
    torch.set_num_threads(1)
    policy = made_policy(MILLION, 0)
    parameters = sum(parameter.numel() for parameter in policy.snapshot().model.parameters())
    mix = PolicyMix([policy.snapshot() for _ in range(WINDOW)], np.arange(ROWS) % WINDOW)
    seen = {"observation": np.random.default_rng(0).standard_normal((ROWS, MILLION["observations"]), np.float32)}
    times: dict[str, list[float]] = {"snapshot": [], "act with a swap": [], "act": []}
    for swap in range(swaps + 3):
        marks = [process_time()]
        snapshot = policy.snapshot()
        marks.append(process_time())
        mix.policies[swap % WINDOW] = snapshot
        mix.act(seen, None, False)
        marks.append(process_time())
        mix.act(seen, None, False)
        marks.append(process_time())
        for own, start, end in zip(times.values(), marks, marks[1:], strict=False):
            own.append((end - start) * 1e3)
    return {"parameters": parameters, **{name: median(own[3:]) for name, own in times.items()}}


@click.command(help=__doc__)
@click.option("--rounds", default=5, show_default=True, type=click.IntRange(1), help="Turns of each way.")
@click.option("--steps", default=2000, show_default=True, type=click.IntRange(1), help="Steps of each measurement.")
@click.option("--swaps", default=100, show_default=True, type=click.IntRange(1), help="Swaps at 1M parameters.")
@click.option("--json", "json_file", type=click.Path(path_type=Path), help="Write all figures to this file.")
def main(rounds: int, steps: int, swaps: int, json_file: Path | None) -> None:
    console = Console()
    report: dict[str, Any] = {"benchmark": "opponents", "rounds": rounds, "microseconds": {}, "target": TARGET}
    missed = False
    for name, case in CASES.items():

        def one(way: str, case: dict[str, int] = case) -> dict[str, float]:
            taken: dict[str, float] = in_own_process("opponents:acting", way=way, case=case, steps=steps)
            return taken

        report["microseconds"][name] = taken = alternate(WAYS, rounds, one)
        table = Table(title=f"{name}: {ROWS} rows, us of processor time per act", caption="medians")
        for column in ("acting as", "opponents", "speed", "with a learner", "speed"):
            table.add_column(column, justify="left" if column == "acting as" else "right")
        for way in WAYS:
            cells = [way]
            for part in ("opponents", "with a learner"):
                times = [each[part] for each in taken[way]]
                of_one = [each[part] for each in taken[WAYS[0]]]
                ratio = pairwise_ratio(of_one, times)
                missed |= way == "8 stacked" and ratio < TARGET
                cells += [f"{median(times):.0f}", f"{ratio:.2f}x"]
            table.add_row(*cells)
        console.print(table)
    console.print(f"target of 8 stacked: {TARGET}x the speed of one snapshot")
    report["swap"] = swap = in_own_process("opponents:swapping", swaps=swaps)
    console.print(
        f"{swap['parameters']:,} parameters, window {WINDOW}: a snapshot takes {swap['snapshot']:.1f} ms, its swap "
        f"{swap['act with a swap'] - swap['act']:.1f} ms, an act of {ROWS} rows {swap['act']:.1f} ms"
    )
    write_report(json_file, report)
    if missed:
        sys.exit(MISSED)


if __name__ == "__main__":
    main()
