"""SAC with hindsight experience replay and without, after equal numbers of agent steps.

Each (task, sampler, seed) trains in a process of its own and then plays 50 whole episodes with its most likely actions,
in an environment of Gymnasium, not of rlcore. An episode is a success if its goal is reached in its last step, as the
environment says in ``info``. All settings but the replay sampler are equal. With hindsight, every seed must succeed in
0.9 of its episodes; without, every seed must stay below that.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from time import perf_counter
from typing import Any

import attrs
import click
import numpy as np
from numpy.typing import NDArray
from side_by_side import MISSED, circumstances, in_own_process, write_report
from trainings import BEHAVIOR, RlcoreTraining

TARGET = 0.9
EPISODES = 50
SAMPLERS: Mapping[str, Any] = {"hindsight": {"type": "her"}, "uniform": None}


@attrs.frozen(kw_only=True)
class GoalCase:
    """A task with goals, and SAC's hyperparameters."""

    env_id: str
    options: Mapping[str, Any] = attrs.field(factory=dict)
    success: str = "is_success"  # key of the environment's info
    steps: int
    num_envs: int = 4
    random_steps: int = 1_000
    steps_per_update: float = 2.0
    batch_size: int = 256
    width: int = 64
    layers: int = 2
    learning_rate: float = 1e-3
    gamma: float = 0.95


TASKS: Mapping[str, GoalCase] = {"fetchreach": GoalCase(env_id="gymnasium_robotics:FetchReach-v4", steps=6_000)}


def train_and_play(case: Mapping[str, Any], sampler: str, seed: int) -> dict[str, Any]:
    """Train to the end and play; runs in a process of its own."""
    training = ready_training(GoalCase(**case), SAMPLERS[sampler], seed)
    started = perf_counter()
    steps = training.train()
    seconds = perf_counter() - started
    policy: Any = training.run.behaviors[BEHAVIOR].policy
    successes = played(policy, GoalCase(**case), 10_000 + seed)
    return {"sampler": sampler, "seed": seed, "steps": steps, "seconds": seconds, "successes": successes.tolist()}


def ready_training(case: GoalCase, sampler: Any, seed: int) -> RlcoreTraining:
    behavior = {
        "trainer_type": "sac",
        "hyperparameters": {
            "batch_size": case.batch_size,
            "buffer_size": 200_000,
            "buffer_init_steps": case.random_steps,
            "steps_per_update": case.steps_per_update,
            "learning_rate": case.learning_rate,
            "init_entcoef": 0.1,
            "replay_sampler": sampler,
        },
        "network_settings": {
            "hidden_units": case.width,
            "num_layers": case.layers,
            "activation": "relu",
            "normalize": True,
        },
        "reward_signals": {"extrinsic": {"gamma": case.gamma}},
        "max_steps": case.steps,
    }
    world = {"options": dict(case.options)}
    return RlcoreTraining(case.env_id, case.num_envs, behavior, seed, world, torch_settings={"num_threads": 1})


def played(policy: Any, case: GoalCase, seed: int) -> NDArray[np.bool_]:
    """Whether the goal is reached in the last step of each of EPISODES episodes."""
    import gymnasium

    environment = gymnasium.make(case.env_id, **case.options)
    successes = []
    for episode in range(EPISODES):
        seen, info = environment.reset(seed=seed + episode)
        over = False
        while not over:
            rows = {name: np.asarray(array, np.float32)[None] for name, array in seen.items()}
            actions = policy.act(rows, None, True)
            chosen = actions.continuous[0] if actions.continuous is not None else actions.discrete[0, 0]
            seen, _, terminated, truncated, info = environment.step(chosen)
            over = terminated or truncated
        successes.append(bool(info[case.success]))
    environment.close()
    return np.array(successes)


def markdown(results: list[dict[str, Any]], seeds: int) -> str:
    """Return a row for each task: the share of successes of each seed."""
    lines = ["| task | environment | agent steps | " + " | ".join(SAMPLERS) + " |", "| --- | --- | --- | --- | --- |"]
    for task in dict.fromkeys(result["task"] for result in results):
        cells = []
        for sampler in SAMPLERS:
            of_sampler = (r for r in results if (r["task"], r["sampler"]) == (task, sampler))
            shares = [f"{np.mean(r['successes']):.2f}" for r in sorted(of_sampler, key=lambda r: int(r["seed"]))]
            cells.append(", ".join(shares))
        case = TASKS[task]
        lines.append(f"| {task} | `{case.env_id.rpartition(':')[2]}` | {case.steps:,} | {' | '.join(cells)} |")
    where = circumstances()
    versions = ", ".join(f"{name} {version}" for name, version in where["versions"].items())
    machine = f"{where['processor']} ({where['cpus']} cores), {where['machine']}, with Python {where['python']}"
    return "\n".join(lines) + (
        f"\n\nShare of {EPISODES} episodes that end at their goal, for each of {seeds} seeds. "
        f"Measured {where['date'][:10]} on {machine}, {versions}."
    )


@click.command(help=__doc__)
@click.option("--task", "tasks", multiple=True, type=click.Choice([*TASKS]), help="May be repeated. All by default.")
@click.option("--seeds", default=3, show_default=True, type=click.IntRange(1), help="Trainings with each sampler.")
@click.option("--jobs", default=1, show_default=True, type=click.IntRange(1), help="Trainings at a time.")
@click.option("--json", "path", type=click.Path(path_type=Path), help="Write each episode's success to this file.")
def main(tasks: tuple[str, ...], seeds: int, jobs: int, path: Path | None) -> None:
    def one(task: str, seed: int, sampler: str) -> dict[str, Any]:
        case = attrs.asdict(TASKS[task])
        result = in_own_process("hindsight:train_and_play", case=case, sampler=sampler, seed=seed)
        share = np.mean(result["successes"])
        click.echo(f"{task}, {sampler}, seed {seed}: {share:.2f} after {result['seconds']:.0f} s", err=True)
        return {"task": task, **result}

    trainings = [(task, seed, s) for task in tasks or TASKS for seed in range(1, seeds + 1) for s in SAMPLERS]
    with ThreadPoolExecutor(jobs) as pool:
        results = list(pool.map(one, *zip(*trainings, strict=True)))
    click.echo(markdown(results, seeds))
    write_report(path, {"results": results})
    if any((np.mean(r["successes"]) >= TARGET) != (r["sampler"] == "hindsight") for r in results):
        click.echo(f"\nnot every seed is at least {TARGET} with hindsight, and below it without")
        sys.exit(MISSED)


if __name__ == "__main__":
    main()
