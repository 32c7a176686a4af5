"""The cost of the run loop per environment step, with stubs as trainer and environment.

The environment hands out batches made beforehand, with 8 slots of which one ends its episode now and then; the
trainer counts steps. Everything else is the real thing: plugins, configuration, run directory, checkpoints, episode
statistics, the check for non-finite values and the default writers. Nothing is subtracted.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter, process_time
from typing import Any

import attrs
import click
import numpy as np
from numpy.typing import NDArray
from rich.console import Console
from side_by_side import MISSED, Figure, in_own_process, write_report

from rlcore import (
    Actions,
    AgentBatch,
    BehaviorSpec,
    EnvironmentSpec,
    EpisodeSeeds,
    ObservationSpec,
    Parameters,
    Run,
    TrainerSpec,
    hookimpl,
    load_plugins,
    refuse_unknown_parameters,
)

TARGET = 3.0  # microseconds per environment step
SLOTS = 8
EPISODE_LENGTH = 200  # environment steps; with 8 slots, one of them ends in every 25th step


class StubEnvironment:
    """Returns batches that were made beforehand; all behaviors of the run have the same."""

    def __init__(self, settings: Any, run: Any) -> None:
        self.behaviors = {}
        for name in run.behavior_names:
            self.behaviors[name] = BehaviorSpec(
                name=name,
                observations=(ObservationSpec("observation", (4,), np.float32),),
                discrete=(2,),
                env_index=np.arange(run.num_envs),
            )
        self.num_envs = run.num_envs
        self.episodes: NDArray[np.int64] = np.zeros(run.num_envs, np.int64)
        ends = np.arange(run.num_envs) * EPISODE_LENGTH // run.num_envs  # the step of the cycle, for each slot
        going_on = dict.fromkeys(self.behaviors, stub_batch(np.zeros(run.num_envs, np.bool_)))
        self._cycle = [going_on] * EPISODE_LENGTH
        for step in np.unique(ends):
            self._cycle[step] = dict.fromkeys(self.behaviors, stub_batch(ends == step))
        self._position = 0

    def reset(self, seeds: EpisodeSeeds, episodes: NDArray[np.int64]) -> dict[str, AgentBatch]:
        self.episodes = np.array(episodes, np.int64)
        return self._cycle[1]

    def step(self, actions: Mapping[str, Actions]) -> dict[str, AgentBatch]:
        self._position = position = (self._position + 1) % EPISODE_LENGTH
        return self._cycle[position]

    def set_parameters(self, parameters: Parameters) -> None:
        refuse_unknown_parameters(parameters, (), "this environment")

    def close(self) -> None:
        """Nothing is held."""


class StubPolicy:
    def __init__(self, slots: int) -> None:
        self._actions = Actions(discrete=np.zeros((slots, 1), np.int64))

    def act(
        self,
        observations: Mapping[str, NDArray[Any]],
        action_mask: NDArray[np.bool_] | None = None,
        deterministic: bool = True,
    ) -> Actions:
        return self._actions

    def seed(self, seed: int) -> None:
        """Do nothing: the policy has no random numbers."""


class StubTrainer:
    """Counts agent steps."""

    def __init__(self, settings: Any, behavior: BehaviorSpec, run: Any) -> None:
        self.policy = StubPolicy(behavior.slots)
        self.steps = 0
        self._slots = behavior.slots
        self._actions = self.policy.act({})

    def snapshot(self, state: Mapping[str, Any] | None = None) -> Any:
        """Not called."""
        raise NotImplementedError

    def begin(self, batch: AgentBatch) -> None:
        """Do nothing: the trainer stores no transitions."""

    def act(self, batch: AgentBatch) -> Actions:
        return self._actions

    def observe(self, actions: Actions, batch: AgentBatch) -> None:
        self.steps += self._slots

    def ready(self) -> bool:
        return False

    def update(self) -> Mapping[str, float]:
        return {}

    def state_dict(self) -> dict[str, Any]:
        return {"model": {}, "steps": self.steps}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        self.steps = int(state["steps"])

    def load_model(self, model: Mapping[str, Any]) -> None:
        """There is none."""


@attrs.frozen
class StubSettings:
    """The stub trainer's ``hyperparameters``: none."""


class StubPlugin:
    @hookimpl
    def rlcore_environments(self) -> list[EnvironmentSpec]:
        return [EnvironmentSpec(name="stub", target="loop_overhead:StubEnvironment")]

    @hookimpl
    def rlcore_trainers(self) -> list[TrainerSpec]:
        return [TrainerSpec(name="stub", target="loop_overhead:StubTrainer", settings="loop_overhead:StubSettings")]


def stub_batch(ending: NDArray[np.bool_]) -> AgentBatch:
    """A batch with a row for each element of ``ending``, which says whose episode terminated."""
    slots = len(ending)
    ended = int(ending.sum())
    return AgentBatch(
        observations={"observation": np.full((slots, 4), 0.5, np.float32)},
        reward=np.ones(slots, np.float32),
        terminated=ending,
        truncated=np.zeros(slots, np.bool_),
        final_observations={"observation": np.full((ended, 4), 0.5, np.float32)} if ended else None,
    )


def microseconds_per_step(steps: int) -> dict[str, float]:
    """Measure a whole training of ``steps`` environment steps, its processor time, and its loop alone.

    The loop is what happens in every step; summaries and checkpoints are the rest.
    """
    plugins = load_plugins()
    plugins.register(StubPlugin(), "stub")
    with TemporaryDirectory() as results:
        config = {
            "environment": {"type": "stub", "num_envs": SLOTS},
            "behaviors": {"Stub": {"trainer_type": "stub", "max_steps": steps * SLOTS}},
            "checkpoint_settings": {"run_id": "loop", "results_dir": results},
        }
        run = Run(config, plugins)
        run.start()
        started = perf_counter()
        began = process_time()
        run.train()
        seconds = perf_counter() - started
        processor = process_time() - began
        loop = run.timers.root.child("TrainerController.start_learning").total
    if run.steps != steps * SLOTS:
        raise RuntimeError(f"the run took {run.steps} agent steps, not {steps * SLOTS}")
    found = {"training": seconds, "processor": processor, "loop": loop}
    return {name: each / steps * 1e6 for name, each in found.items()}


@click.command(help=__doc__)
@click.option("--steps", default=200_000, show_default=True, type=click.IntRange(1), help="Environment steps.")
@click.option("--rounds", default=5, show_default=True, type=click.IntRange(1), help="Runs; the fastest counts.")
@click.option("--json", "json_file", type=click.Path(path_type=Path), help="Write the measurements to this file.")
def main(steps: int, rounds: int, json_file: Path | None) -> None:
    measured = [in_own_process("loop_overhead:microseconds_per_step", steps=steps) for _ in range(rounds)]
    # The work is the same in every round: whatever else the machine does can only add to it.
    fastest = min(each["training"] for each in measured)
    processor, loop = (min(each[name] for each in measured) for name in ("processor", "loop"))
    met = fastest <= TARGET
    console = Console()
    color = "green" if met else "red"
    console.print(
        f"loop overhead: [{color}]{fastest:.2f} us[/{color}] per environment step (target {TARGET} us), of which "
        f"{loop:.2f} us without summaries and checkpoints; {processor:.2f} us of processor time"
    )
    what = "run loop, for each environment step"
    detail = f"{processor:.2f} us of processor time"
    figure = Figure(what, fastest, "us", target=TARGET, smaller=True, detail=detail)
    report = {"benchmark": "loop_overhead", "microseconds": measured, "target": TARGET, "met": met}
    write_report(json_file, report, [figure])
    if not met:
        sys.exit(MISSED)


if __name__ == "__main__":
    main()
