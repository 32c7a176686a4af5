"""PPO resumed equals PPO never stopped, bit for bit: seeded, one process, eight copies, normalised observations."""

from __future__ import annotations

import os
import shutil
import signal
from pathlib import Path
from typing import Any

import pytest
import yaml

from rlcore.checkpoint import load_checkpoint, save_checkpoint
from rlcore.run import Run

pytestmark = pytest.mark.faults

ENVIRONMENTS = [
    "CartPole-v1",  # saves its state: episodes go on over a checkpoint
    "Pendulum-v1",  # cannot: its copies begin new episodes at every checkpoint, in both runs
]


@pytest.mark.parametrize("environment", ENVIRONMENTS)
@pytest.mark.parametrize("after", [1, 4])
def test_a_run_killed_and_resumed_equals_the_run_never_stopped(
    workplace: Any, whole_run: Any, assert_equal_from: Any, environment: str, after: int
) -> None:
    whole = whole_run(environment=environment)
    place = workplace(environment=environment)
    process = place.start()
    place.wait_for(lambda: len(place.steps) >= after)
    os.kill(process.pid, signal.SIGKILL)
    process.join()
    assert process.exitcode == -signal.SIGKILL
    last = place.verify()[-1]
    assert last < 2400
    assert place.finish("--resume") == 0, place.stderr
    told = [line for line in place.stderr.splitlines() if "no episode ended between two checkpoints" not in line]
    assert told == []
    assert assert_equal_from(place, whole, last)[-1] == 2400
    assert place.json("result.json")["behaviors"] == whole.json("result.json")["behaviors"]
    assert metrics(place) == metrics(whole)


def metrics(place: Any) -> list[Any]:
    lines = [yaml.safe_load(line) for line in (place.run / "metrics.jsonl").read_text().splitlines()]
    for line in lines:
        del line["time"], line["stats"]["Performance/Steps Per Second"]
    return lines


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_run_interrupted_anywhere_and_resumed_equals_the_run_never_stopped(
    workplace: Any, whole_run: Any, assert_equal_from: Any, number: signal.Signals
) -> None:
    """A stop saves one more checkpoint, which an environment that saves its state does not notice."""
    whole, place = whole_run(environment="CartPole-v1"), workplace()
    process = place.start()
    place.wait_for(lambda: len(place.steps) >= 2)
    os.kill(process.pid, number)
    process.join(30)
    assert process.exitcode == 128 + number
    stopped = place.verify()[-1]
    assert place.finish("--resume") == 0
    assert_equal_from(place, whole, stopped)


GROUPS = {
    "optimizer": ("CartPole-v1", "Agent/optimizer"),
    "rollout": ("CartPole-v1", "Agent/buffer"),
    "generator of actions": ("CartPole-v1", "Agent/generators/actions"),
    "generator of minibatches": ("CartPole-v1", "Agent/generators/minibatches"),
    "drawn noise": ("CartPole-v1", "Agent/noise"),
    "normaliser": ("CartPole-v1", "Agent/model/*normalizer*"),
    "steps": ("CartPole-v1", "Agent/steps"),
    "open rewards": ("CartPole-v1", "Agent/episode_rewards"),
    "environment": ("CartPole-v1", "run/environment"),
    "episode numbers": ("Pendulum-v1", "run/episodes"),
    "open returns": ("CartPole-v1", "run/behaviors/Agent/returns"),
    "open lengths": ("CartPole-v1", "run/behaviors/Agent/lengths"),
    "episode count": ("CartPole-v1", "run/behaviors/Agent/finished"),
    "recent returns": ("CartPole-v1", "run/behaviors/Agent/recent"),
    "statistics": ("CartPole-v1", "run/behaviors/Agent/window"),
    "updates": ("CartPole-v1", "run/behaviors/Agent/updates"),
}


@pytest.mark.parametrize("group", ["nothing", *GROUPS])
def test_the_comparison_notices_each_group_of_state_that_is_dropped(
    workplace: Any, whole_run: Any, assert_equal_from: Any, group: str
) -> None:
    """The negative control: what a run starts with stands in the place of the group. Nothing dropped is equal."""
    environment, path = GROUPS.get(group, ("CartPole-v1", ""))
    whole = whole_run(environment=environment)
    place = workplace(environment=environment)
    at = 800
    shutil.copytree(whole.run, place.run)
    for step in whole.steps:
        if step > at:
            shutil.rmtree(place.checkpoints / str(step))
    fresh = state_at_the_start(place)
    state = load_checkpoint(place.checkpoints / str(at))
    if path:
        drop(state, fresh, path)
    save_checkpoint(place.checkpoints, at, state)
    with Run(configuration(place) | {"checkpoint_settings": {**settings(place), "resume": True}}) as run:
        run.train()
    equal = place.steps == whole.steps and metrics(place) == metrics(whole)
    equal = equal and all(place.content(step) == whole.content(step) for step in whole.steps if step > at)
    assert equal == (group == "nothing")


def configuration(place: Any) -> dict[str, Any]:
    content: dict[str, Any] = yaml.safe_load((place.path / "config.yaml").read_text())
    return content


def settings(place: Any) -> dict[str, Any]:
    return dict(configuration(place)["checkpoint_settings"])


def state_at_the_start(place: Any) -> dict[str, Any]:
    with Run(configuration(place) | {"checkpoint_settings": {**settings(place), "run_id": "fresh"}}) as run:
        run.start()
        run.close("interrupted")
    return load_checkpoint(Path(place.results) / "fresh" / "checkpoints" / "0")


def drop(state: dict[str, Any], fresh: dict[str, Any], path: str) -> None:
    *parents, last = path.split("/")
    for name in parents:
        state, fresh = state[name], fresh[name]
    names = [name for name in state if last.strip("*") in name] if "*" in last else [last]
    assert names
    for name in names:
        state[name] = fresh[name]
