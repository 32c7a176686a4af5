"""Values that do not fit together are refused with their place."""

from __future__ import annotations

from typing import Any

import pytest

from rlcore import ConfigError, config_from_mapping, load_plugins


@pytest.mark.parametrize(
    ("hyperparameters", "message"),
    [
        (
            {"initial_epsilon": 0.0},
            r"initial_epsilon: must be at least final_epsilon \(0\.05\), not 0; lower",
        ),
        ({"initial_epsilon": 0.1, "final_epsilon": 0.2}, r"initial_epsilon: must be at least final_epsilon \(0\.2\)"),
        ({"v_min": 2.0, "v_max": 2.0}, r"hyperparameters\.v_min: must be less than v_max \(2\), not 2"),
        ({"distributional": "quantile", "loss": "squared"}, r"hyperparameters\.loss: must be huber"),
        ({"distributional": "quantiles"}, r"did you mean 'quantile'"),
        ({"tau": 0.1, "target_update_interval": 10}, r"hyperparameters\.tau: moves the target network in every"),
    ],
)
def test_values_that_do_not_fit_are_refused(hyperparameters: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        config_from_mapping(
            {"behaviors": {"Agent": {"trainer_type": "dqn", "hyperparameters": hyperparameters}}}, load_plugins()
        )


@pytest.mark.parametrize("epsilons", [(0.0, 0.0, False), (0.3, 0.3, False), (0.0, 0.05, True)])
def test_epsilon_may_be_constant_and_is_not_read_with_noisy_layers(epsilons: tuple[float, float, bool]) -> None:
    initial, final, noisy = epsilons
    hyperparameters = {"initial_epsilon": initial, "final_epsilon": final, "noisy": noisy}
    behavior = {"trainer_type": "dqn", "hyperparameters": hyperparameters}
    config = config_from_mapping({"behaviors": {"Agent": behavior}}, load_plugins())
    assert config.behaviors["Agent"].hyperparameters.initial_epsilon == initial


def test_opponents_of_self_play_act_by_values_and_draw_nothing() -> None:
    pytest.importorskip("rlcore_ghost")
    behavior = {"trainer_type": "dqn", "self_play": {}}
    with pytest.raises(ConfigError, match=r"hyperparameters: opponents .* set network_settings\.deterministic: true"):
        config_from_mapping({"behaviors": {"Agent": behavior}}, load_plugins())
    network = {"deterministic": True}
    config_from_mapping({"behaviors": {"Agent": {**behavior, "network_settings": network}}}, load_plugins())
