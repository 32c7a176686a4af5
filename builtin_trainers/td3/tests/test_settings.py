"""Settings refuse bad values, and both trainers the actions and networks that they do not have."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from rlcore import ConfigError, UnsupportedSpace, config_from_mapping, load_plugins
from rlcore_devkit.environments import identity_continuous, identity_discrete
from rlcore_td3.trainer import TD3Trainer

REFUSALS = yaml.safe_load((Path(__file__).parent / "data/refusals.yaml").read_text(encoding="utf-8"))


@pytest.mark.parametrize("trainer", ["td3", "ddpg"])
@pytest.mark.parametrize("case", REFUSALS, ids=lambda case: case["problem"])
def test_a_bad_value_is_told_in_one_sentence(case: dict[str, Any], trainer: str) -> None:
    block = {"trainer_type": trainer, "hyperparameters": case["given"]}
    with pytest.raises(ConfigError) as refused:
        config_from_mapping({"behaviors": {"Walker": block}}, load_plugins())
    assert str(refused.value).startswith(f"behaviors.Walker.hyperparameters.{case['problem']}")
    assert "\n" not in str(refused.value)


def test_ddpg_has_one_critic_no_delay_and_no_noise_on_targets_by_default() -> None:
    behaviors = {name: {"trainer_type": name} for name in ("td3", "ddpg")}
    config = config_from_mapping({"behaviors": behaviors}, load_plugins())
    td3, ddpg = (config.behaviors[name].hyperparameters for name in ("td3", "ddpg"))
    assert (td3.num_critics, td3.actor_delay, td3.target_noise) == (2, 2, 0.2)
    assert (ddpg.num_critics, ddpg.actor_delay, ddpg.target_noise) == (1, 1, 0.0)


def test_discrete_actions_and_another_distribution_are_refused(make_trainer: Callable[..., TD3Trainer]) -> None:
    with pytest.raises(UnsupportedSpace):
        make_trainer(identity_discrete(2))
    with pytest.raises(ConfigError, match="trainer 'td3' has a distribution of its own"):
        make_trainer(identity_continuous(2), network={"action_distribution": "gaussian"})


def test_policy_and_critics_have_the_layers_that_each_is_given(make_trainer: Callable[..., TD3Trainer]) -> None:
    network = {"hidden_layers": [40, 30], "critic": {"hidden_layers": [20, 10, 5]}}
    model = make_trainer(identity_continuous(2), network=network).model
    assert [layer.out_features for layer in model.actor.layers] == [40, 30]
    for critics in (model.critics, model.target.critics):
        assert [[layer.out_features for layer in critic.body.layers] for critic in critics] == [[20, 10, 5]] * 2
