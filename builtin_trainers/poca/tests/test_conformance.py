"""POCA keeps the rules of every plugin, and those of every trainer: for agents in groups and for agents alone."""

from __future__ import annotations

from typing import Any

import attrs
import numpy as np
import pytest

from rlcore_devkit import PluginConformance, TrainerConformance

SMALL = {"buffer_size": 256, "batch_size": 64, "learning_rate": 3e-3}
NETWORK = {"hidden_units": 32, "num_layers": 1}


@pytest.mark.smoke
class TestPlugin(PluginConformance):
    plugin = "rlcore-poca/poca"


@pytest.mark.smoke
class TestPOCAInPairs(TrainerConformance):
    """Slots 2 e and 2 e + 1 are a group of environment e."""

    trainer = "rlcore-poca/poca"
    hyperparameters = SMALL
    settings = {"network_settings": {**NETWORK, "normalize": True}}
    steps = 195  # three updates, and one in a third of them
    skip = {"test_what_an_agent_sees_while_it_waits_does_not_count": "the critic reads what waiting mates see"}

    def make(self, environment: Any, seed: int = 1, plugins: Any = None, **settings: Any) -> Any:
        [behavior] = environment.behaviors.values()
        pairs = np.arange(behavior.slots) // 2
        environment.behaviors = {behavior.name: attrs.evolve(behavior, env_index=pairs, group=pairs)}
        return super().make(environment, seed, plugins, **settings)


@pytest.mark.learning
class TestPOCAAlone(TrainerConformance):
    trainer = "poca"
    hyperparameters = {**SMALL, "target_kl": 0.05, "advantage_normalization": "minibatch"}
    settings = {"network_settings": {**NETWORK, "critic": {"hidden_units": 18}}, "time_horizon": 16}
