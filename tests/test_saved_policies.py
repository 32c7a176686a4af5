"""Policies without their run: from a checkpoint alone, as frozen copies, and as one PyTorch module."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from small_runs import small_run
from worlds import SPECS

from rlcore import Actions, BehaviorSpec, Run, RunStateError, load_checkpoint, load_policies, spec_mismatch
from rlcore.storage.checkpoint_state import spec_state, specs_in
from rlcore_devkit.playing import random_observations
from rlcore_torch.networks.actions import gumbel_noise

HYPERPARAMETERS: dict[str, dict[str, Any]] = {
    "ppo": {"buffer_size": 40, "batch_size": 20},
    "sac": {"buffer_size": 100, "batch_size": 8, "buffer_init_steps": 8, "steps_per_update": 8},
}
MEMORY = {"memory_size": 8, "sequence_length": 5}
ROWS = 7

Trained = Callable[..., Any]


@pytest.fixture
def trained(tmp_path: Path) -> Trained:
    """``trained("hybrid", "ppo")``: a finished run in which there was at least one update."""

    def train(kind: str, trainer: str, **network: Any) -> Run:
        settings = {"hidden_units": 16, "num_layers": 1, "normalize": True, **network}
        changes = {
            "plugins": {"local": ["worlds"]}, "environment": {"type": "world", "id": kind, "num_envs": 4},
            "behaviors.Agent.trainer_type": trainer, "behaviors.Agent.network_settings": settings,
            "behaviors.Agent.hyperparameters": HYPERPARAMETERS[trainer],
            "behaviors.Agent.max_steps": 80, "behaviors.Agent.checkpoint_interval": 80,
        }  # fmt: skip
        run = Run(small_run(tmp_path / "results", changes))
        with run:
            run.train()
        return run

    return train


def assert_equal(ours: Actions, theirs: Actions, tolerance: float = 0.0) -> None:
    for name in ("continuous", "discrete"):
        one = getattr(ours, name)
        other = getattr(theirs, name)
        assert (one is None) == (other is None)
        if one is not None:
            np.testing.assert_allclose(one, other, rtol=0, atol=tolerance)


def mask_of(behavior: BehaviorSpec, generator: np.random.Generator) -> NDArray[np.bool_] | None:
    if not behavior.discrete:
        return None
    mask = generator.random((ROWS, behavior.mask_size)) < 0.6
    mask[:, np.cumsum((0, *behavior.discrete))[:-1]] = True  # the first option of each branch
    return mask


CASES = [(kind, "ppo", {}) for kind in SPECS]
CASES += [(kind, "sac", {}) for kind in ("vector", "image", "uneven bounds", "hybrid")]
CASES += [(kind, "ppo", {"memory": MEMORY}) for kind in ("hybrid", "image")]


@pytest.mark.parametrize(("kind", "trainer", "network"), CASES)
def test_a_policy_from_a_checkpoint_alone_acts_as_before_and_is_one_function_of_tensors(
    trained: Trained, tmp_path: Path, kind: str, trainer: str, network: dict[str, Any]
) -> None:
    """Without the run, its configuration and its environment, whose plugin is not loaded."""
    run = trained(kind, trainer, **network)
    policy = run.behaviors["Agent"].policy
    behavior = run.behaviors["Agent"].spec
    copied = shutil.copytree(run.directory.path / "checkpoints" / "80", tmp_path / "elsewhere" / "80")
    shutil.rmtree(run.directory.path)

    [(name, loaded)] = load_policies(copied).items()
    generator = np.random.default_rng(1)
    seen = random_observations(behavior, ROWS, generator)
    mask = mask_of(behavior, generator)
    assert name == "Agent"
    for deterministic in (True, False):
        policy.seed(3)
        loaded.seed(3)
        assert_equal(loaded.act(seen, mask, deterministic), policy.act(seen, mask, deterministic))

    [found] = specs_in(load_checkpoint(copied)["run"], copied).values()
    assert spec_mismatch(behavior, found) is None and found.observations == behavior.observations
    for ours, theirs in zip(found.observations, behavior.observations, strict=True):
        assert ours.dtype == theirs.dtype and ours.kind == theirs.kind
        np.testing.assert_equal((ours.low, ours.high), (theirs.low, theirs.high))
    np.testing.assert_array_equal(found.env_index, behavior.env_index)
    assert_module_acts_as(policy, seen, mask)


def assert_module_acts_as(policy: Any, seen: Mapping[str, NDArray[Any]], mask: NDArray[np.bool_] | None) -> None:
    """With the same noise, or none, and with the same memory."""
    module = policy.module()
    behavior = policy.behavior
    drawing = np.random.default_rng(2)
    memory = drawing.standard_normal((ROWS, policy.memory_size)).astype(np.float32) if policy.memory_size else None
    policy.seed(3)
    drawing = np.random.default_rng(3)  # as the policy draws
    noise = (
        drawing.standard_normal((ROWS, behavior.continuous), dtype=np.float32),
        gumbel_noise(drawing, (ROWS, behavior.mask_size)),
    )
    tensors = {name: torch.from_numpy(array) for name, array in seen.items()}
    masks, memories = (None if array is None else torch.from_numpy(array) for array in (mask, memory))
    for given in (None, tuple(map(torch.from_numpy, noise))):
        own = None if memory is None else memory.copy()
        expected = policy.act(seen, mask, given is None, *(() if own is None else (own,)))
        with torch.no_grad():
            output = module(tensors, masks, memories, given)
        parts = [None if part is None else part.numpy() for part in output]
        assert_equal(Actions(parts[0], parts[1]), expected, 2e-6)
        if own is not None:
            np.testing.assert_allclose(parts[2], own, atol=1e-6)


def test_a_policy_takes_the_array_of_its_only_observation_and_says_what_does_not_fit(trained: Trained) -> None:
    policy = trained("vector", "ppo").behaviors["Agent"].policy
    seen = random_observations(policy.behavior, ROWS, np.random.default_rng(1))
    [(name, array)] = seen.items()
    assert_equal(policy.act(array), policy.act(seen))
    for wrong, message in (
        (array[0], "of a single row, give array"),
        ({name: array[:, 1:]}, f"observation {name!r} has shape"),
        ({"obs": array}, "unknown observation 'obs'"),
        ({}, f"observation {name!r} is missing"),
    ):
        with pytest.raises(ValueError, match=message):
            policy.act(wrong)


@pytest.mark.parametrize(
    ("entry", "value"),
    [
        ("observations", {}),
        ("discrete", [0]),
        ("low", np.zeros(3)),
        ("observations", [{"name": "seen", "shape": [3], "dtype": "float33", "kind": "vector"}]),
    ],
)
def test_what_no_rlcore_wrote_is_refused(entry: str, value: Any) -> None:
    state = spec_state(SPECS["vector"]) | {entry: value}
    with pytest.raises(RunStateError, match=r"^checkpoint 80: cannot be used: the entry 'specs'"):
        specs_in({"specs": {"Agent": state}}, 80)
    with pytest.raises(RunStateError, match=r"^checkpoint 80: cannot be used: .*'specs'"):
        specs_in({}, 80)
