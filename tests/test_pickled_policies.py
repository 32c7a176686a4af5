"""A policy can be pickled: a program may hand it to another process."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from rlcore import Run


@pytest.mark.parametrize("trainer", ["ppo", "sac"])
@pytest.mark.parametrize("memory", [None, {"memory_size": 8, "sequence_length": 4}])
def test_an_unpickled_policy_acts_as_the_one_that_was_pickled(tmp_path: Path, trainer: str, memory: Any) -> None:
    if trainer == "sac" and memory is not None:
        pytest.skip("sac has no memory")
    behavior = {"trainer_type": trainer, "max_steps": 64, "network_settings": {"hidden_units": 16, "memory": memory}}
    config = {
        "preset": "none",
        "environment": {"id": "Pendulum-v1"},
        "behaviors": {"B": behavior},
        "checkpoint_settings": {"results_dir": str(tmp_path)},
    }
    observations = {"observation": np.random.default_rng(1).uniform(-1, 1, (5, 3)).astype(np.float32)}
    with Run(config) as run:
        run.start()
        policy: Any = run.behaviors["B"].policy
        for one in (policy, policy.snapshot()):
            other = pickle.loads(pickle.dumps(one))
            for deterministic in (True, False):
                acted = []
                for each in (one, other):
                    each.seed(3)
                    remembered = np.full((5, each.memory_size), 0.1, np.float32)
                    more = {"memory": remembered} if each.memory_size else {}
                    actions = each.act(observations, None, deterministic, **more)
                    acted.append((actions.continuous, remembered))
                np.testing.assert_array_equal(acted[0][0], acted[1][0])
                np.testing.assert_array_equal(acted[0][1], acted[1][1])
