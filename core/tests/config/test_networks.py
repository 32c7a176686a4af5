"""Layers of the networks of a trainer in PyTorch; ``test_loads.py`` has their encoders and distributions."""

from __future__ import annotations

from typing import Any

import pytest

from rlcore_torch import NetworkSettings
from rlcore_torch.networks.settings import CriticSettings


@pytest.mark.parametrize(
    ("policy", "critic", "widths", "of_critic"),
    [
        ({}, None, (128, 128), (128, 128)),
        ({"hidden_layers": ()}, {}, (), ()),
        ({"hidden_layers": (256, 64)}, {"hidden_layers": (9,)}, (256, 64), (9,)),
        ({"hidden_layers": (256, 64)}, {"hidden_units": 9}, (256, 64), (9, 9)),
        ({"num_layers": 3}, {"hidden_units": 9}, (128,) * 3, (9,) * 3),
    ],
)
def test_the_widths_of_the_hidden_layers(policy: Any, critic: Any, widths: Any, of_critic: Any) -> None:
    network = NetworkSettings(**policy, critic=None if critic is None else CriticSettings(**critic))
    assert (network.widths, network.of_critic.widths) == (widths, of_critic)


def test_a_critic_has_an_activation_of_its_own_and_shares_the_rest() -> None:
    network = NetworkSettings(init="orthogonal", activation="tanh", critic=CriticSettings(activation="relu")).of_critic
    assert (network.activation, network.init, network.critic) == ("relu", "orthogonal", None)
