"""Values that do not fit PQN are refused with their place, and the presets are chosen by what agents observe."""

from __future__ import annotations

from typing import Any

import pytest

from rlcore import ConfigError, config_from_mapping, load_plugins
from rlcore_pqn.settings import PQNNetworkSettings, PQNSettings
from rlcore_torch import RAdamSettings


def behavior_of(block: dict[str, Any]) -> Any:
    document = {"behaviors": {"Agent": {"trainer_type": "pqn", **block}}}
    return config_from_mapping(document, load_plugins()).behaviors["Agent"]


@pytest.mark.parametrize(
    ("hyperparameters", "message"),
    [
        ({"initial_epsilon": 0.01}, r"initial_epsilon: must be at least final_epsilon \(0\.05\), not 0\.01; lower"),
        ({"target_kl": 0.1}, r"hyperparameters\.target_kl: unknown key"),
        ({"advantage_normalization": "minibatch"}, r"hyperparameters\.advantage_normalization: unknown key"),
        ({"lambd": 1.5}, r"hyperparameters\.lambd: must be at most 1, not 1\.5"),
    ],
)
def test_values_that_do_not_fit_are_refused(hyperparameters: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        behavior_of({"hyperparameters": hyperparameters})


def test_opponents_that_would_draw_from_values_are_refused() -> None:
    with pytest.raises(ConfigError, match=r"they would play almost at random; set network_settings\.deterministic"):
        behavior_of({"self_play": {}})
    assert behavior_of({"self_play": {}, "network_settings": {"deterministic": True}}).sections["self_play"] is not None


def test_a_network_has_layer_norm_and_the_optimizer_is_radam_by_default() -> None:
    behavior = behavior_of({})
    h = behavior.hyperparameters
    assert isinstance(h, PQNSettings) and h.optimizer == RAdamSettings()
    network = behavior.network_settings
    assert isinstance(network, PQNNetworkSettings) and network.layer_norm
    assert behavior_of({"hyperparameters": {"optimizer": {"type": "adam"}}}).hyperparameters.optimizer.type == "adam"
