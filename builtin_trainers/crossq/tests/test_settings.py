"""Settings refuse bad values, and the trainer the spaces and networks that it does not have."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from rlcore import ConfigError, UnsupportedSpace, config_from_mapping, load_plugins
from rlcore_crossq.presets import NARROW, WIDE
from rlcore_crossq.trainer import CrossQTrainer
from rlcore_devkit.environments import identity_continuous, identity_discrete, identity_hybrid
from rlcore_torch import BatchRenorm

MakeTrainer = Callable[..., CrossQTrainer]
REFUSALS = yaml.safe_load((Path(__file__).parent / "data/refusals.yaml").read_text(encoding="utf-8"))


@pytest.mark.parametrize("case", REFUSALS, ids=lambda case: case["problem"])
def test_a_bad_value_is_told_in_one_sentence(case: dict[str, Any]) -> None:
    block = {"trainer_type": "crossq", **case["given"]}
    with pytest.raises(ConfigError) as refused:
        config_from_mapping({"behaviors": {"Walker": block}}, load_plugins())
    assert str(refused.value).startswith(f"behaviors.Walker.{case['problem']}")
    assert "\n" not in str(refused.value)


def test_discrete_actions_are_refused(make_trainer: MakeTrainer) -> None:
    for environment in (identity_discrete(2), identity_hybrid(2)):
        with pytest.raises(UnsupportedSpace, match="crossq"):
            make_trainer(environment)


def test_without_keys_networks_and_optimizers_are_those_of_the_authors_code(make_trainer: MakeTrainer) -> None:
    trainer = make_trainer(identity_continuous(2), network={"batch_norm_momentum": 0.01})
    norms: list[Any] = [module for module in trainer.model.modules() if isinstance(module, BatchRenorm)]
    assert len(norms) == 3 * 3  # of what enters, and of two hidden layers, in each of three networks
    assert {(norm.momentum, norm.epsilon, norm.warm_up) for norm in norms} == {(0.01, 1e-3, 100_000)}
    assert {(norm.largest_factor, norm.largest_shift) for norm in norms} == {(3.0, 5.0)}
    optimizers: Any = trainer.optimizers
    betas = {name: optimizer.betas for name, optimizer in optimizers.items()}
    assert betas == {"policy": (0.5, 0.999), "critics": (0.5, 0.999), "temperature": (0.9, 0.999)}


@pytest.mark.parametrize(("preset", "units"), [(NARROW, 512), (WIDE, 2048)])
def test_presets_have_the_authors_values_and_differ_in_the_critics(preset: Any, units: int) -> None:
    config = config_from_mapping({**preset, "behaviors": {"Walker": {}}}, load_plugins())
    h: Any = config.behaviors["Walker"].hyperparameters
    found = (h.batch_size, h.buffer_size, h.buffer_init_steps, h.steps_per_update, h.learning_rate, h.beta1)
    assert found == (256, 1_000_000, 5000, 1.0, 1e-3, 0.5)
    assert (h.policy_delay, h.target_entropy, h.init_entcoef) == (3, -1.0, 1.0)
    assert (h.critic_learning_rate, h.temperature_learning_rate, h.learning_rate_schedule) == (None, None, "constant")
    network: Any = config.behaviors["Walker"].network_settings
    assert network.widths == (256, 256) and network.of_critic.widths == (units, units)
    assert (network.activation, network.batch_norm, network.batch_renorm_after) == ("relu", "post", 100_000)
