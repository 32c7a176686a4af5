"""Killed around promotions: lessons, sampled parameters and weights equal those of the run never stopped."""

from __future__ import annotations

import os
import shutil
import signal
from typing import Any

import pytest
import yaml

from rlcore import Run, load_checkpoint, save_checkpoint

pytestmark = pytest.mark.faults


def uniform(low: float, high: float) -> dict[str, Any]:
    return {"sampler_type": "uniform", "sampler_parameters": {"min_value": low, "max_value": high}}


def lessons(values: list[Any], **criteria: Any) -> dict[str, Any]:
    return {
        "curriculum": [
            {"name": f"lesson{k}", "value": value}
            | ({"completion_criteria": {"behavior": "Agent", **criteria}} if k < len(values) - 1 else {})
            for k, value in enumerate(values)
        ]
    }


# Both save their state, so that episodes of a lesson continue over a checkpoint: CartPole for all copies at once, and
# Pendulum for each copy with the values of its parameters.
CASES: dict[str, dict[str, Any]] = {
    "CartPole-v1": {
        "environment": "CartPole-v1",
        "environment_parameters": {
            "length": lessons([uniform(0.3, 0.4), uniform(0.4, 0.6), 0.5], threshold=5.0, min_lesson_length=20),
            "gravity": lessons([9.8, uniform(8.0, 12.0)], measure="progress", threshold=0.4, require_reset=True),
            "force_mag": uniform(9.0, 11.0),
        },
        "checkpoint_interval": 160,
    },
    "Pendulum-v1": {
        "environment": "Pendulum-v1",
        "environment_parameters": {
            "g": lessons([uniform(5.0, 7.0), uniform(7.0, 9.0), 10.0], threshold=-3000.0, min_lesson_length=16),
            "m": uniform(0.8, 1.2),
        },
        "max_steps": 18_700,
        "checkpoint_interval": 1700,  # an episode of each of eight copies, and a little of the next ones
    },
    "adr": {
        "environment": "CartPole-v1",
        "environment_parameters": {
            name: {
                "curriculum": {
                    "type": "adr", "behavior": "Agent", "initial": nominal, "limits": [nominal / 4, 4 * nominal],
                    "step": nominal / 10, "boundary_probability": 0.8, "episodes": 2,
                    "lower_threshold": 1.0, "upper_threshold": 12.0,
                }
            }
            for name, nominal in (("length", 0.5), ("gravity", 9.8))
        },
        "checkpoint_interval": 160,
    },
}  # fmt: skip


def drawn(place: Any, step: int) -> Any:
    """The state of the curricula at a checkpoint, with the values of every environment's open and next episode."""
    return load_checkpoint(place.checkpoints / str(step))["run"]["curricula"]


def changes(place: Any) -> list[int]:
    """The checkpoints that follow a change of what the curricula draw from."""
    sections = [place.json(f"checkpoints/{step}/state.json")["run"]["sections"] for step in place.steps]
    return [
        step
        for step, now, before in zip(place.steps[1:], sections[1:], sections[:-1], strict=True)
        if lesson(now) != lesson(before)
    ]


def lesson(sections: Any) -> Any:
    return {name: [section.get(key) for key in ("lesson_num", "low", "high")] for name, section in sections.items()}


@pytest.mark.parametrize(
    "point", [0, 1, 5, *(pytest.param(point, marks=pytest.mark.deep) for point in (2, 3, 4, 6, 7, 8, 9))]
)
@pytest.mark.parametrize("name", CASES)
def test_a_run_killed_around_a_promotion_equals_the_run_never_stopped(
    workplace: Any, whole_run: Any, assert_equal_from: Any, name: str, point: int
) -> None:
    whole = whole_run(**CASES[name])
    promoted = changes(whole)
    assert len(promoted) >= 2
    # The ten checkpoints nearest to a promotion, but for the last one, after which there is nothing left to kill.
    nearest = sorted(whole.steps[:-1], key=lambda step: (min(abs(step - at) for at in promoted), step))[:10]
    assert len(nearest) == 10
    place = workplace(**CASES[name])
    process = place.start(slow_fsync=0.01)
    place.wait_for(lambda: nearest[point] in place.steps)
    os.kill(process.pid, signal.SIGKILL)
    process.join()
    last = place.verify()[-1]
    assert last < whole.steps[-1]
    assert place.finish("--resume") == 0, place.stderr
    assert_equal_from(place, whole, last)
    assert seen(place) == seen(whole)
    # What was sampled and is sampled next, to the last bit, at a checkpoint that every copy has begun episodes since.
    for ours, theirs in zip(arrays(drawn(place, whole.steps[-1])), arrays(drawn(whole, whole.steps[-1])), strict=True):
        assert ours == theirs


def seen(place: Any) -> list[Any]:
    """Lessons, returns and sampled values as the statistics have them."""
    lines = [yaml.safe_load(line) for line in (place.run / "metrics.jsonl").read_text().splitlines()]
    for line in lines:
        del line["time"], line["stats"]["Performance/Steps Per Second"]
    return lines


def arrays(state: Any) -> list[Any]:
    if isinstance(state, dict):
        return [each for key in sorted(state) for each in arrays(state[key])]
    return [state.tolist() if hasattr(state, "tolist") else state]


@pytest.mark.parametrize("dropped", ["", "curricula/lessons/state", "feed", "agents"])
def test_the_comparison_notices_each_part_of_the_state_that_is_dropped(
    workplace: Any, whole_run: Any, dropped: str
) -> None:
    """The negative control: what a run starts with stands in the place of the part. Nothing dropped is equal."""
    whole, place = whole_run(**CASES["CartPole-v1"]), workplace(**CASES["CartPole-v1"])
    at = 800
    shutil.copytree(whole.run, place.run)
    for step in whole.steps:
        if step > at:
            shutil.rmtree(place.checkpoints / str(step))
    config = yaml.safe_load((place.path / "config.yaml").read_text())
    settings = config["checkpoint_settings"]
    with Run(config | {"checkpoint_settings": {**settings, "run_id": "fresh"}}) as run:
        run.start()
        run.close("interrupted")
    fresh = load_checkpoint(place.results / "fresh" / "checkpoints" / "0")["run"]["curricula"]
    state = load_checkpoint(place.checkpoints / str(at))
    *parents, last = f"curricula/{dropped}".split("/") if dropped else ["", ""]
    if dropped:
        ours, theirs = state["run"]["curricula"], fresh
        for key in parents[1:]:
            ours, theirs = ours[key], theirs[key]
        ours[last] = theirs[last]
    save_checkpoint(place.checkpoints, at, state)
    with Run(config | {"checkpoint_settings": {**settings, "resume": True}}) as run:
        run.train()
    equal = seen(place) == seen(whole) and all(place.content(s) == whole.content(s) for s in whole.steps if s > at)
    assert equal == (dropped == "")
