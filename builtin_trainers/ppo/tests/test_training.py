"""Whole runs on environments that are solved in seconds."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from rlcore import Run

MakeRun = Callable[..., Run]

# The best return is 8: one for each step.
GOALS = {
    "identity_discrete": 7.9,
    "identity_multi_branch": 7.9,
    "identity_multi_binary": 7.9,
    "identity_continuous": 7.6,
    "identity_hybrid": 7.6,
    "image_identity": 7.9,
}


@pytest.mark.parametrize(
    ("environment", "goal"),
    [
        pytest.param(name, goal, marks=() if name == "identity_continuous" else pytest.mark.learning)
        for name, goal in GOALS.items()
    ],
)
def test_every_kind_of_action_is_learned(make_run: MakeRun, environment: str, goal: float) -> None:
    hyperparameters = {"learning_rate": 3e-3, "num_epoch": 8, "beta": 0.0, "learning_rate_schedule": "linear"}
    network = {"vis_encode_type": "fully_connected"}
    block = {"max_steps": 16_000, "summary_freq": 4000}
    with make_run(environment, hyperparameters=hyperparameters, network=network, **block) as run:
        for _ in run:  # to the first summary at which it is learned
            evaluation = run.evaluate(episodes=40).behaviors["Agent"]
            if evaluation.mean_reward >= goal:
                break
    assert evaluation.mean_reward >= goal


def test_the_corridor_is_walked_without_detours(make_run: MakeRun) -> None:
    with make_run("corridor", hyperparameters={"learning_rate": 3e-3}, max_steps=8000) as run:
        run.train()
        returns = run.evaluate(episodes=20).behaviors["Agent"].returns
    assert min(returns) >= 1.0 - 0.01 * 4


def weights(run: Run) -> str:
    """A hash of every parameter and buffer of the model."""
    digest = hashlib.sha256()
    for name, array in sorted(run.behaviors["Agent"].trainer.state_dict()["model"].items()):
        digest.update(name.encode())
        digest.update(np.ascontiguousarray(array).tobytes())
    return digest.hexdigest()


def hashes(run: Run) -> list[str]:
    with run:
        return [weights(run) for _ in run]


def test_equal_seeds_give_equal_weights_after_every_update_and_others_do_not(make_run: MakeRun) -> None:
    settings: dict[str, Any] = {"max_steps": 1024, "summary_freq": 256, "network": {"normalize": True}}
    first, second, other = (
        hashes(make_run("identity_hybrid", run_id=name, seed=seed, **settings))
        for name, seed in (("first", 3), ("second", 3), ("other", 4))
    )
    assert first == second and len(set(first)) == 4
    assert not set(first) & set(other)


@pytest.mark.parametrize(("environment", "stop"), [("corridor", 4), ("identity_hybrid", 1)])
def test_a_run_that_was_stopped_ends_like_one_that_was_not(make_run: MakeRun, environment: str, stop: int) -> None:
    """The corridor saves itself; the other environment's episodes are cut at every checkpoint, in both runs.

    One run stops in its fourth rollout, the other in the first, with the normalizer's first statistics; the last
    rollout is short.
    """
    settings: dict[str, Any] = {
        "max_steps": 1600, "summary_freq": 200, "checkpoint_interval": 200, "network": {"normalize": True},
    }  # fmt: skip
    whole = hashes(make_run(environment, run_id="whole", **settings))
    with make_run(environment, run_id="halves", **settings) as run:
        for _ in range(stop):
            next(run)
    resumed = hashes(make_run(environment, run_id="halves", start={"resume": True}, **settings))
    assert resumed == whole[stop:]
