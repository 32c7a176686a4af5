"""Configurations of ML-Agents trained in test players by the command line: stopped, killed, resumed, learnt, exported.

:func:`train` does with one file what a user does, and plays the exported model in the same world without rlcore, as
Unity plays it. With a directory of ML-Agents' own files (``config`` of its repository) this module prints a table of
six of them::

    python tests/support/unity_training.py .../ml-agents/config --out six [--only 3DBall]
"""

from __future__ import annotations

import argparse
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import attrs
import numpy as np
from unity_contract import Action, Behavior, Report
from unity_loader import Agent, UnityModel
from unity_player import make_player
from unity_worlds import make_world

Decide = Callable[[str, Sequence[Report]], Sequence[Action]]
STEP = re.compile(r"\. Step: (\d+)\.")
PATIENCE = 1500  # seconds


@attrs.frozen
class Task:
    """A file, and the world that its behavior learns in.

    Attributes:
        file: Below the directory of ML-Agents' configurations.
        world: The world's name.
        behavior: Of which the rewards are watched.
        measure: What a summary says of it: "Mean Reward", "Mean Group Reward" or "ELO".
        wanted: The value of the measure that ends the training, after at least ``least`` steps.
        player: Further options of the player.
        needs: The mean return that the exported model must have in the world.
    """

    file: str
    world: str
    behavior: str
    wanted: float
    needs: float
    measure: str = "Mean Reward"
    least: int = 0
    player: dict[str, Any] = attrs.field(factory=dict)


TASKS = (
    Task("ppo/3DBall.yaml", "continuous", "3DBall", 0.85, 0.93),
    Task("sac/FoodCollector.yaml", "hybrid", "GridFoodCollector", 0.85, 0.93),
    Task("ppo/Visual3DBall.yaml", "visual", "Visual3DBall", 0.85, 0.93),
    Task("poca/SoccerTwos.yaml", "teams", "SoccerTwos", 1215.0, 0.9, "ELO"),
    Task("poca/PushBlockCollab.yaml", "groups", "PushBlockCollab", 0.85, 0.93, "Mean Group Reward"),
    Task(
        "ppo/WallJump_curriculum.yaml", "two", "BigWallJump", 0.7, 0.6,
        player={"behavior": "BigWallJump,SmallWallJump", "size": "big_wall_height"},
    ),
)  # fmt: skip


@attrs.frozen
class Training:
    """Steps and returns of a training that was stopped, killed and resumed.

    Attributes:
        promise: What the start of the run said of resuming.
        stopped: The step at which Ctrl-C ended the first session.
        killed: The last step that the second session printed before it was killed.
        resumed: The first step that the third session printed.
        before, after: The measure of these two.
        steps: At the end, of all sessions that count.
        reached: The measure then.
        model: The exported file.
        seconds: Of the three sessions.
    """

    promise: str
    stopped: int
    killed: int
    resumed: int
    before: float
    after: float
    steps: int
    reached: float
    model: Path
    seconds: float


class Session:
    """One ``rlcore run`` in ``where``, of which the summaries of one behavior are read."""

    def __init__(self, where: Path, task: Task, *arguments: str) -> None:
        words = [sys.executable, "-m", "rlcore", "run", *arguments]
        self.process = subprocess.Popen(
            words, cwd=where, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, preexec_fn=_hears_ctrl_c
        )
        self.task, self.text = task, ""
        self.summaries: list[tuple[int, float]] = []

    def until(self, enough: Callable[[int, float], bool]) -> tuple[int, float]:
        """Read summaries until one is ``enough``; return its step and measure."""
        assert self.process.stdout is not None
        deadline = time.monotonic() + PATIENCE
        for line in self.process.stdout:
            self.text += line
            step = STEP.search(line)
            value = re.search(rf" {self.task.measure}: (-?\d+\.\d+)", line)
            if step and value and line.startswith(f"{self.task.behavior}."):
                self.summaries.append((int(step[1]), float(value[1])))
                if enough(*self.summaries[-1]):
                    return self.summaries[-1]
            if time.monotonic() > deadline:
                break
        self.process.kill()
        raise AssertionError(f"not reached:\n{self.text[-3000:]}")

    def end(self, number: signal.Signals) -> int:
        """Send a signal, read the rest, and return the exit code."""
        assert self.process.stdout is not None
        os.kill(self.process.pid, number)
        self.text += self.process.stdout.read()
        return self.process.wait(PATIENCE)


def _hears_ctrl_c() -> None:
    """A shell starts background processes with SIGINT ignored, and their children would ignore it too."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def train(where: Path, file: Path, task: Task, flags: Sequence[str] = ("--no-graphics", "--num-envs", "2")) -> Training:
    """Run the file in test players: end it by Ctrl-C, resume it, kill it, resume it, and end it when it has learnt."""
    started = time.monotonic()
    options = {"behavior": task.behavior, **task.player}
    player = make_player(where, f"{task.behavior}.x86_64", world=task.world, **options)
    first = Session(where, task, str(file), "--env", f"./{player.name}", "--run-id", "it", *flags)
    first.until(lambda step, value: True)
    first.end(signal.SIGINT)
    assert "resume with: rlcore run --resume --run-id it" in first.text, first.text
    [promise] = re.findall(r"^resume +(.*)$", first.text, re.MULTILINE)
    stopped = int(re.findall(r"interrupted: (\d+) steps", first.text)[0])

    second = Session(where, task, "--resume", "--run-id", "it")
    killed, _ = second.until(lambda step, value: True)
    second.end(signal.SIGKILL)

    third = Session(where, task, "--resume", "--run-id", "it")
    _, reached = third.until(lambda step, value: value >= task.wanted and step >= task.least)
    third.end(signal.SIGINT)
    steps = int(re.findall(r"interrupted: (\d+) steps", third.text)[0])
    model = where / "results/it" / f"{task.behavior}.onnx"
    assert f"is exported to results/it/{model.name}" in third.text, third.text
    resumed, after = third.summaries[0]
    before = first.summaries[-1][1]
    return Training(
        promise, stopped, killed, resumed, before, after, steps, reached, model, time.monotonic() - started
    )  # fmt: skip


def at_random(seed: int, behaviors: dict[str, Behavior]) -> Decide:
    """Actions that are drawn evenly."""
    generator = np.random.default_rng(seed)

    def decide(name: str, reports: Sequence[Report]) -> list[Action]:
        behavior = behaviors[name]
        return [
            Action(
                tuple(generator.uniform(-1, 1, behavior.continuous)),
                tuple(int(generator.integers(options)) for options in behavior.branches),
            )
            for _ in reports
        ]

    return decide


def by_model(model: Path, behaviors: dict[str, Behavior], name: str) -> Decide:
    """Actions of the exported file, computed as Unity computes them, without sampling."""
    behavior = behaviors[name]
    shapes = [(s.shape[2], *s.shape[:2]) if s.kind == "image" else s.shape for s in behavior.sensors]
    loaded = UnityModel(model, Agent(shapes, behavior.continuous, behavior.branches), deterministic=True)

    def decide(name: str, reports: Sequence[Report]) -> list[Action]:
        sensors = []
        for index, sensor in enumerate(behavior.sensors):
            seen = np.stack([report.sees[index] for report in reports]).astype(np.float32)
            sensors.append(np.moveaxis(seen / 255, -1, 1) if sensor.kind == "image" else seen)
        masks = np.ones((len(reports), sum(behavior.branches)), np.float32)
        continuous, discrete = loaded.step(sensors, masks, np.ones(len(reports), np.bool_))
        return [
            Action(
                () if continuous is None else tuple(map(float, continuous[row])),
                () if discrete is None else tuple(map(int, discrete[row])),
            )
            for row in range(len(reports))
        ]

    return decide


def returns(task: Task, model: Path | None, size: float = 1.0, episodes: int = 500, seed: int = 1) -> float:
    """The mean return of the task's behavior in its world; others, and all without a model, act at random.

    With "Mean Group Reward" as measure, it is the mean of the groups' rewards. ``size`` is the parameter of the world.
    """
    options = {"behavior": task.behavior, **task.player}
    world = make_world(task.world, seed, 16, options["behavior"], options.get("size", "size"))
    world.parameters.set(options.get("size", "size"), "value", size)
    behaviors = dict(world.behaviors)
    name = next(name for name in behaviors if name.partition("?")[0] == task.behavior)
    drawn = at_random(seed, behaviors)
    decides = dict.fromkeys(behaviors, drawn) | ({name: by_model(model, behaviors, name)} if model else {})
    grouped = task.measure == "Mean Group Reward"
    open_ = dict[int, float]()
    ended = list[float]()
    reports = world.reset()
    while len(ended) < episodes:
        actions: dict[int, Action] = {}
        for each, decide in decides.items():
            acting = [report for report in reports if report.behavior == each and not report.done]
            if acting:
                actions |= zip((report.agent for report in acting), decide(each, acting), strict=True)
        reports = world.step(actions)
        for report in reports:
            if report.behavior == name:
                total = open_.pop(report.agent, 0.0) + (report.group_reward if grouped else report.reward)
                if not report.done:
                    open_[report.agent] = total
                elif not grouped or report.group_reward:  # of the groups' last members
                    ended.append(total)
    return float(np.mean(ended))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("configs", type=Path)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--only", help="the behavior of one file")
    given = parser.parse_args()
    for task in TASKS:
        if given.only in (None, task.behavior):
            where = given.out / task.behavior
            where.mkdir(parents=True)
            found = train(where, (given.configs / task.file).resolve(), task)
            random = returns(task, None)
            played = returns(task, found.model)
            print(
                f"{task.file} ({task.world}): stopped at {found.stopped}, killed after {found.killed}, resumed at "
                f"{found.resumed} ({task.measure} {found.before} and {found.after}); {found.steps} steps in "
                f"{found.seconds:.0f} s: {task.measure} {found.reached}; {found.model.name} plays {played:.3f}, "
                f"actions at random {random:.3f}; resume: {found.promise}",
                flush=True,
            )


if __name__ == "__main__":
    main()
