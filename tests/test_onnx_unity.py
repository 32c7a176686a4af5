"""Files of the profile ``unity`` in an independent imitation of Unity's loader, rule by rule."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from onnx_files import REFUSED, export, random_mask
from unity_loader import Generation, UnityModel, in_scene, sensed

from rlcore_devkit.conformance.exporters import BEHAVIORS
from rlcore_devkit.playing import random_observations

KINDS = [kind for kind in BEHAVIORS if kind not in REFUSED["unity"]]
GENERATIONS: tuple[Generation, ...] = ("outputs", "initializers")


@pytest.mark.parametrize("kind", KINDS)
def test_unity_acts_as_the_policy(kind: str, tmp_path: Path) -> None:
    """With the box for deterministic inference ticked, over steps, new episodes and different numbers of agents."""
    exported = export(kind, tmp_path, "unity")
    behavior = exported.behavior
    policy = exported.policy
    for generation in GENERATIONS:
        model = UnityModel(exported.path, in_scene(behavior), generation, deterministic=True)
    generator = np.random.default_rng(1)
    for agents in (1, 3):
        memory = np.zeros((agents, policy.memory_size), np.float32)
        for step in range(4):
            seen = random_observations(behavior, agents, generator)
            mask = random_mask(behavior, agents, generator)
            starts = np.zeros(agents, bool) | (step == 0)
            starts[0] |= step == 2
            memory[starts] = 0.0
            kept = (memory,) if policy.memory_size else ()
            expected = policy.act(seen, mask, True, *kept)
            masks = None if mask is None else mask.astype(np.float32)
            continuous, discrete = model.step(sensed(behavior, seen), masks, starts)
            if expected.continuous is not None:
                assert continuous is not None
                stretched = behavior.low + (continuous + 1) / 2 * (behavior.high - behavior.low)
                np.testing.assert_allclose(stretched, expected.continuous, rtol=0, atol=1e-5)
            if expected.discrete is not None:
                np.testing.assert_array_equal(discrete, expected.discrete)
