"""A run resumed equals the run never stopped, bit for bit: seeded, one process, normalized observations."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import Any

import pytest
import yaml
from fault_cases import CASES

from rlcore import Run, load_checkpoint, save_checkpoint

pytestmark = pytest.mark.faults


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize(
    "after",
    [1, pytest.param(4, marks=pytest.mark.daily), *(pytest.param(each, marks=pytest.mark.deep) for each in (2, 3, 5))],
)
def test_a_run_killed_and_resumed_equals_the_run_never_stopped(
    workplace: Any, whole_run: Any, assert_equal_from: Any, case: Any, name: str, after: int
) -> None:
    whole = whole_run(**case(name))
    place = workplace(**case(name))
    process = place.start()
    place.wait_for(lambda: len(place.steps) >= after)
    os.kill(process.pid, signal.SIGKILL)
    process.join()
    assert process.exitcode == -signal.SIGKILL
    last = place.verify()[-1]
    assert last < whole.steps[-1]
    assert place.finish("--resume") == 0, place.stderr
    harmless = ("no episode ended between two checkpoints", "a replay buffer of")
    told = [line for line in place.stderr.splitlines() if not any(words in line for words in harmless)]
    assert told == []
    assert assert_equal_from(place, whole, last)[-1] == case(name).get("max_steps", 2400)
    assert place.json("result.json")["behaviors"] == whole.json("result.json")["behaviors"]
    assert place.metrics() == whole.metrics()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_run_interrupted_anywhere_and_resumed_equals_the_run_never_stopped(
    workplace: Any, whole_run: Any, assert_equal_from: Any, number: signal.Signals
) -> None:
    """A stop saves one more checkpoint, which an environment that saves its state does not notice."""
    whole, place = whole_run(**CASES["PPO, CartPole-v1"]), workplace()
    process = place.start()
    place.wait_for(lambda: len(place.steps) >= 2)
    os.kill(process.pid, number)
    process.join(30)
    assert process.exitcode == 128 + number
    stopped = place.verify()[-1]
    assert place.finish("--resume") == 0
    assert_equal_from(place, whole, stopped)


GROUPS = {
    "optimizer": ("PPO, CartPole-v1", "Agent/optimizer"),
    "rollout": ("PPO, CartPole-v1", "Agent/buffer"),
    "generator of actions": ("PPO, CartPole-v1", "Agent/generators/actions"),
    "generator of minibatches": ("PPO, CartPole-v1", "Agent/generators/minibatches"),
    "drawn noise": ("PPO, CartPole-v1", "Agent/noise"),
    "normalizer": ("PPO, CartPole-v1", "Agent/model/*normalizer*"),
    "steps": ("PPO, CartPole-v1", "Agent/steps"),
    "open rewards": ("PPO, CartPole-v1", "Agent/episode_rewards"),
    "environment": ("PPO, CartPole-v1", "run/environment"),
    "environments in one process": ("SAC, Pendulum-v1", "run/environment"),
    "episode numbers": ("PPO, Taxi-v4", "run/episodes"),
    "open returns": ("PPO, CartPole-v1", "run/behaviors/Agent/returns"),
    "open lengths": ("PPO, CartPole-v1", "run/behaviors/Agent/lengths"),
    "episode count": ("PPO, CartPole-v1", "run/behaviors/Agent/finished"),
    "recent returns": ("PPO, CartPole-v1", "run/behaviors/Agent/recent"),
    "statistics": ("PPO, CartPole-v1", "run/behaviors/Agent/window"),
    "updates": ("PPO, CartPole-v1", "run/behaviors/Agent/updates"),
    "moving averages": ("PPO, CartPole-v1", "run/behaviors/Agent/recent_updates"),
    "PPO's memory": ("PPO with memory, CartPole-v1", "Agent/memory"),
    "SAC's networks": ("SAC, Pendulum-v1", "Agent/model/*actor*"),
    "SAC's target critics": ("SAC, Pendulum-v1", "Agent/model/*targets*"),
    "SAC's temperature": ("SAC, Pendulum-v1", "Agent/model/log_temperature"),
    "SAC's normalizer": ("SAC, Pendulum-v1", "Agent/model/*normalizer*"),
    "SAC's policy optimizer": ("SAC, Pendulum-v1", "Agent/optimizers/policy"),
    "SAC's critic optimizer": ("SAC, Pendulum-v1", "Agent/optimizers/critic_1"),
    "SAC's temperature optimizer": ("SAC, Pendulum-v1", "Agent/optimizers/temperature"),
    "SAC's generator of samples": ("SAC, Pendulum-v1", "Agent/generators/learning"),
    "SAC's generator of actions": ("SAC, Pendulum-v1", "Agent/generators/actions"),
    "SAC's drawn noise": ("SAC, Pendulum-v1", "Agent/noise"),
    "SAC's count of updates": ("SAC, Pendulum-v1", "Agent/ratio"),
    "SAC's replay buffer": ("SAC, Pendulum-v1", "Agent/buffer"),
    "SAC's steps": ("SAC, Pendulum-v1", "Agent/steps"),
    "IQL's networks": ("IQL, CartPole-v1", "Agent/model/*actor*"),
    "IQL's target critics": ("IQL, CartPole-v1", "Agent/model/*targets*"),
    "IQL's value optimizer": ("IQL, CartPole-v1", "Agent/optimizers/value"),
    "IQL's generator": ("IQL, CartPole-v1", "Agent/generators/learning"),
    "IQL's steps": ("IQL, CartPole-v1", "Agent/steps"),
}


@pytest.mark.parametrize("group", [*(f"nothing of {name}" for name in CASES), *GROUPS])
def test_the_comparison_notices_each_group_of_state_that_is_dropped(
    workplace: Any, whole_run: Any, assert_equal_from: Any, case: Any, group: str
) -> None:
    """The negative control: what a run starts with stands in the place of the group. Nothing dropped is equal."""
    name, path = GROUPS.get(group, (group.removeprefix("nothing of "), ""))
    whole = whole_run(**case(name))
    place = workplace(**case(name))
    at = whole.steps[1]
    place.copy_until(whole, at)
    fresh = state_at_the_start(place)
    state = load_checkpoint(place.checkpoints / str(at))
    if path:
        drop(state, fresh, path)
    save_checkpoint(place.checkpoints, at, state)
    with Run(configuration(place) | {"checkpoint_settings": {**settings(place), "resume": True}}) as run:
        for _ in run:
            if any(place.content(step) != whole.content(step) for step in place.steps if step > at):
                break
    equal = place.steps == whole.steps and place.metrics() == whole.metrics()
    equal = equal and all(place.content(step) == whole.content(step) for step in whole.steps if step > at)
    assert equal == (path == "")


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
