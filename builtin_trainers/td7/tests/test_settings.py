"""Settings refuse bad values, and the trainer the actions and networks that it does not have."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from rlcore import ConfigError, UnsupportedSpace, config_from_mapping, load_plugins
from rlcore_devkit.environments import identity_continuous, identity_discrete
from rlcore_td7.trainer import TD7Trainer

REFUSALS = yaml.safe_load((Path(__file__).parent / "data/refusals.yaml").read_text(encoding="utf-8"))


@pytest.mark.parametrize("case", REFUSALS, ids=lambda case: case["problem"])
def test_a_bad_value_is_told_in_one_sentence(case: dict[str, Any]) -> None:
    block = {"trainer_type": "td7", "hyperparameters": case["given"]}
    with pytest.raises(ConfigError) as refused:
        config_from_mapping({"behaviors": {"Walker": block}}, load_plugins())
    assert str(refused.value).startswith(f"behaviors.Walker.hyperparameters.{case['problem']}")
    assert "\n" not in str(refused.value)


def test_replay_is_loss_adjusted_by_default_and_uniform_if_the_block_is_null() -> None:
    chosen = []
    for hyperparameters in ({}, {"replay_sampler": None}, {"replay_sampler": {"type": "lap", "alpha": 0.7}}):
        block = {"trainer_type": "td7", "hyperparameters": hyperparameters}
        config = config_from_mapping({"behaviors": {"Walker": block}}, load_plugins())
        sampler = config.behaviors["Walker"].hyperparameters.replay_sampler
        chosen.append(None if sampler is None else (sampler.type, sampler.alpha))
    assert chosen == [("lap", 0.4), None, ("lap", 0.7)]


@pytest.mark.parametrize(
    "network",
    [
        {"layer_norm": True},
        {"critic": {"dropout": 0.1}},
        {"blocks": "residual", "hidden_layers": [8, 8], "critic": None},
    ],
)
def test_other_layers_are_refused(make_trainer: Callable[..., TD7Trainer], network: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match="is not a part of TD7, whose networks have plain layers"):
        make_trainer(identity_continuous(2), network=network)


def test_discrete_actions_are_refused(make_trainer: Callable[..., TD7Trainer]) -> None:
    with pytest.raises(UnsupportedSpace):
        make_trainer(identity_discrete(2))


def test_networks_have_the_layers_that_each_is_given(make_trainer: Callable[..., TD7Trainer]) -> None:
    model = make_trainer(identity_continuous(2)).model
    assert [layer.out_features for layer in model.actor.hidden] == [12, 10]
    for networks in (model, model.target):
        assert [[layer.out_features for layer in critic.layers] for critic in networks.critics] == [[14, 9, 1]] * 2
        assert [layer.out_features for layer in networks.zsa.layers] == [14, 9, 8]
        assert [layer.out_features for layer in networks.actor.zs.body.layers] == [14, 9]
