"""Encoders and distributions of plugins, layer sizes, a critic's network: what loads, and what is refused."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import yaml

from rlcore.config.dump import dump_config
from rlcore_torch import CriticSettings, NetworkSettings

Errors = Callable[[str], list[str]]

BLOCK = "behaviors: {{B: {{trainer_type: {trainer}, network_settings: {{{network}}}, {rest}}}}}"
TOO_MANY = f"hidden_layers: {[1] * 257}"


def block(network: str, trainer: str = "ppo", rest: str = "") -> str:
    return BLOCK.format(network=network, trainer=trainer, rest=rest)


def loaded(load: Any, network: str) -> NetworkSettings:
    settings: NetworkSettings = load(block(network)).behaviors["B"].network_settings
    return settings


def test_an_encoder_of_a_plugin_has_its_record_and_its_settings(load: Any) -> None:
    network = loaded(load, "vis_encode_type: deep, vis_encode_settings: {channels: 4}, vector_encode_type: deep")
    assert (network.vis_encode_settings.channels, network.vector_encode_settings.channels) == (4, 8)
    assert network.records["vis_encode_type"].target == "fake:Deep"


def test_an_encoder_may_be_named_with_its_distribution(load: Any) -> None:
    assert loaded(load, "vis_encode_type: rlcore-fake/deep").records["vis_encode_type"].name == "deep"


def test_the_network_of_a_reward_has_encoders_too(load: Any) -> None:
    config = load(block("", rest="reward_signals: {bonus: {scale: 1, network_settings: {vis_encode_type: deep}}}"))
    network = config.behaviors["B"].reward_signals["bonus"].network_settings
    assert network.vis_encode_settings.channels == 8 and network.records["vis_encode_type"].name == "deep"


def test_a_distribution_of_a_plugin_has_its_record_and_its_settings(load: Any) -> None:
    network = loaded(load, "action_distribution: mixture, action_distribution_settings: {channels: 4}")
    assert (
        network.records["action_distribution"].target == "fake:Mixture"
        and network.action_distribution_settings.channels == 4
    )
    assert loaded(load, "action_distribution: rlcore-fake/mixture").records["action_distribution"].name == "mixture"
    assert "action_distribution" not in loaded(load, "").records


@pytest.mark.parametrize(
    "network",
    [
        "action_distribution: mixture, action_distribution_settings: {channels: 4}",
        "action_distribution: gaussian",
        "vis_encode_type: deep",
        "vector_encode_type: deep, vector_encode_settings: {channels: 3}",
        "",
        "vis_encode_type: simple",
    ],
)
def test_what_is_written_loads_to_the_same_network(load: Any, network: str) -> None:
    config = load(block("hidden_layers: [5, 3], critic: {num_layers: 1}, " + network))
    written = yaml.safe_dump(dump_config(config))
    assert "records:" not in written
    again = load(written)
    assert again == config
    assert again.behaviors["B"].network_settings.records == config.behaviors["B"].network_settings.records


@pytest.mark.parametrize(
    "text",
    [
        block("action_distribution: gaussian", rest="hyperparameters: {initial_log_std: -1}"),
        block("", rest="hyperparameters: {initial_log_std: -1}"),
        block("action_distribution: mixture", rest="hyperparameters: {initial_log_std: 0}"),
    ],
)
def test_a_first_deviation_is_for_distributions_that_have_one(load: Any, text: str) -> None:
    assert load(text).behaviors["B"].hyperparameters.initial_log_std in (-1.0, 0.0)


@pytest.mark.parametrize(
    ("policy", "critic", "widths", "of_critic"),
    [
        ({}, None, (128, 128), (128, 128)),
        ({"hidden_units": 8, "num_layers": 0}, None, (), ()),
        ({"hidden_layers": (256, 64)}, None, (256, 64), (256, 64)),
        ({"hidden_layers": ()}, {}, (), ()),
        ({"hidden_layers": (256, 64)}, {"hidden_layers": (9,)}, (256, 64), (9,)),
        ({"hidden_layers": (256, 64)}, {"hidden_units": 9}, (256, 64), (9, 9)),
        ({"num_layers": 3}, {"hidden_units": 9}, (128,) * 3, (9,) * 3),
        ({"num_layers": 1}, {"num_layers": 3}, (128,), (128,) * 3),
    ],
)
def test_the_widths_of_the_hidden_layers(policy: Any, critic: Any, widths: Any, of_critic: Any) -> None:
    network = NetworkSettings(**policy, critic=None if critic is None else CriticSettings(**critic))
    assert network.widths == widths
    assert network.of_critic.widths == of_critic


def test_a_critic_has_an_activation_of_its_own_and_shares_the_rest() -> None:
    network = NetworkSettings(init="orthogonal", activation="tanh", critic=CriticSettings(activation="relu"))
    assert (network.of_critic.activation, network.of_critic.init, network.of_critic.critic) == (
        "relu",
        "orthogonal",
        None,
    )
