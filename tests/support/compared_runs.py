"""Runs of ``data/runs_that_end_equal.yaml``: what they are made of, and what of them is compared."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import gymnasium
import pytest
import yaml
from goal_worlds import OneByOne
from godot_worlds import engine_of, project_of
from recorded import recorded
from small_runs import DATA, small_run
from tensor_carts import ContinuousCart, MaskedCart
from tensor_race import TensorRace, ThroughNumpy
from workspace import ROOT

from rlcore import Run, load_checkpoint
from rlcore_devkit import environments
from rlcore_devkit.conformance.states import assert_equal
from rlcore_torch.tensors.cartpole import TorchCartPole

TABLE = yaml.safe_load((DATA / "runs_that_end_equal.yaml").read_text(encoding="utf-8").replace("ROOT", str(ROOT)))
RESUMED: Mapping[str, Mapping[str, Any]] = TABLE["resumed"]
EQUAL: Mapping[str, Mapping[str, Any]] = TABLE["equal"]


def acrobot() -> gymnasium.Env[Any, Any]:
    return gymnasium.make("Acrobot-v1", max_episode_steps=60, disable_env_checker=True)


def goals() -> gymnasium.Env[Any, Any]:
    return gymnasium.wrappers.TimeLimit(OneByOne(bits=4), 10)


def pettingzoo(module: str, kind: str) -> Any:
    """A game of PettingZoo by the function that its module has."""
    return getattr(pytest.importorskip(f"pettingzoo.classic.{module}"), kind)()


# What Run gets in the place of an environment block. A normalizer remembers the mean of all observations so far; a
# policy computes for up to 64 agents in NumPy.
PROGRAMS: Mapping[str, Callable[[], Any]] = {
    "acrobot": acrobot,
    "normalized acrobot": lambda: gymnasium.wrappers.NormalizeObservation(acrobot()),
    "goals": goals,
    "tictactoe": lambda: pettingzoo("tictactoe_v3", "env"),
    "rps": lambda: pettingzoo("rps_v2", "parallel_env"),
    "cart": lambda: TorchCartPole(4, name="Agent", max_steps=25),
    "many carts": lambda: TorchCartPole(130, name="Agent", max_steps=25),
    "long cart": lambda: TorchCartPole(4, name="Agent"),
    "continuous cart": lambda: ContinuousCart(4, name="Agent", max_steps=25),
    "masked cart": lambda: MaskedCart(4, name="Agent", max_steps=25),
    "race": lambda: TensorRace(4, "Agent"),
    "race of three": lambda: TensorRace(3, "Agent"),
    "many races": lambda: TensorRace(70, "Agent"),
}


def program_of(name: str) -> Any:
    """The object that a program gives to its run: a function, or what ``one object of NAME`` names."""
    if name.startswith("one object of "):
        return PROGRAMS[name.removeprefix("one object of ")]()
    if name.endswith(" as arrays"):
        make = PROGRAMS[name.removesuffix(" as arrays")]
        return lambda: ThroughNumpy(make())
    return PROGRAMS.get(name)


RECORDED: Mapping[str, Callable[[], Any]] = {
    "corridor": lambda: environments.TinyCorridor(4),
    "masked corridor": lambda: environments.TinyCorridor(4, masked=True),
    "continuous": lambda: environments.identity_continuous(4),
    "hybrid": lambda: environments.identity_hybrid(4),
    "images": lambda: environments.ImageIdentity(4),
}


def made(what: str, place: Path) -> str:
    """The object that a case names: the path of an engine or a project of Godot, or of the folder of a recording."""
    kind, _, version = what.partition(" of Godot ")
    if kind == "engine":
        return engine_of(int(version))
    if kind == "project":
        return str(project_of(int(version), place))
    return recorded(place / "recorded" / "Agent", RECORDED[what](), 40)


def config_of(place: Path, case: Mapping[str, Any], changes: Mapping[str, Any], **start: Any) -> dict[str, Any]:
    environment = case.get("environment", {"num_envs": 4})
    blocks: dict[str, Any] = {
        "environment": environment,
        "behaviors.Agent": {**TABLE["common"], **case.get("agent", {})},
    }
    if environment.get("type") == "testing":
        blocks["plugins.local"] = ["rlcore_devkit.hooks"]
    return small_run(place, {**blocks, **case.get("changes", {}), **changes}, **start)


def train(
    place: Path, case: Mapping[str, Any], changes: Mapping[str, Any], stop: int | None = None, **start: Any
) -> Run:
    keys = {key: value for key, value in changes.items() if key != "program"}
    program = program_of(changes.get("program", case.get("program", "")))
    with Run(config_of(place, case, keys, **start), environment=program) as run:
        run.start()
        if stop is not None:
            stop_after(run, stop)
        run.train()
    return run


def stop_after(run: Run, steps: int) -> None:
    """Stop the run in the step in which its agents have acted so often."""
    trainer: Any = run.behaviors["Agent"].trainer
    observe = trainer.observe

    def observe_and_stop(actions: Any, batch: Any) -> None:
        observe(actions, batch)
        if trainer.steps >= steps:
            run.request_stop()

    trainer.observe = observe_and_stop


def checkpoints(place: Path) -> list[int]:
    return sorted(int(each.name) for each in (place / "run/checkpoints").iterdir() if each.name.isdecimal())


def state_at(place: Path, step: int) -> Any:
    """A checkpoint without what differs between equal runs: its time, and the settings that a case changes."""
    state = load_checkpoint(place / "run/checkpoints" / str(step))
    for key in ("wall_seconds", "fingerprint", "factories"):
        state["run"].pop(key, None)
    return state


def written(place: Path) -> list[Any]:
    return [json.loads(line) for line in (place / "run/metrics.jsonl").read_text(encoding="utf-8").splitlines()]


def tags(place: Path) -> set[str]:
    return {tag for line in written(place) for tag in line["stats"]}


def summaries(place: Path) -> list[Any]:
    """The summaries without what depends on the clock and on workers."""
    lines = written(place)
    for line in lines:
        del line["time"]
        for tag in list(line["stats"]):
            if any(part in tag for part in ("Per Second", "Worker", "Aborted")):
                del line["stats"][tag]
    return lines


def assert_ends_equal(run: Path, whole: Path, case: Mapping[str, Any]) -> None:
    """Assert that two runs have equal last checkpoints and summaries, and that something was learned."""
    last = checkpoints(whole)[-1]
    assert_equal(state_at(run, last), state_at(whole, last))
    assert summaries(run) == summaries(whole) != []
    assert {*case.get("statistics", ())} <= tags(whole)
