"""Settings refuse bad values, and the trainer the spaces and networks that it does not have."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from rlcore import ConfigError, UnsupportedSpace, config_from_mapping, load_plugins
from rlcore_crossq.presets import NARROW, WIDE, XQC, XQC_PAPER
from rlcore_crossq.trainer import CrossQTrainer
from rlcore_devkit.environments import identity_continuous, identity_discrete, identity_hybrid
from rlcore_torch import BatchRenorm

MakeTrainer = Callable[..., CrossQTrainer]
REFUSALS = yaml.safe_load((Path(__file__).parent / "data/refusals.yaml").read_text(encoding="utf-8"))


@pytest.mark.parametrize("case", REFUSALS, ids=lambda case: case["problem"])
def test_a_bad_value_is_told_in_one_sentence(case: dict[str, Any]) -> None:
    block = {"trainer_type": case.get("trainer", "crossq"), **case["given"]}
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


@pytest.mark.parametrize(
    ("preset", "critic_units", "policy_units", "steps_per_update", "schedule"),
    [(XQC, 256, 128, 1.0, "constant"), (XQC_PAPER, 512, 256, 0.5, "linear")],
)
def test_presets_of_xqc_have_the_authors_values_and_differ_in_width_and_gradient_steps(
    preset: Any, critic_units: int, policy_units: int, steps_per_update: float, schedule: str
) -> None:
    config = config_from_mapping({**preset, "behaviors": {"Walker": {}}}, load_plugins())
    behavior = config.behaviors["Walker"]
    h: Any = behavior.hyperparameters
    assert (h.batch_size, h.buffer_size, h.buffer_init_steps, h.beta1) == (256, 1_000_000, 5000, 0.9)
    assert (h.steps_per_update, h.policy_delay, h.tau) == (steps_per_update, 3, 0.005)
    assert (h.learning_rate, h.learning_rate_schedule, h.final_learning_rate) == (3e-4, schedule, 3e-5)
    assert (h.target_entropy, h.init_entcoef) == (-0.5, 0.01)
    assert (h.num_atoms, h.v_min, h.v_max) == (101, -5.0, 5.0)
    assert (h.normalize_rewards, h.normalize_rewards_clip, h.normalize_rewards_bound) == (True, None, None)
    assert (h.critic_learning_rate, h.temperature_learning_rate) == (None, None)
    signals: Any = behavior.reward_signals
    assert signals["extrinsic"].gamma == 0.995
    network: Any = behavior.network_settings
    assert network.widths == (policy_units,) * 4 and network.of_critic.widths == (critic_units,) * 4
    assert (network.activation, network.batch_norm, network.batch_renorm_after) == ("relu", "pre", None)


def test_xqc_learns_without_the_reward_of_the_environment() -> None:
    behavior = {"trainer_type": "xqc", "reward_signals": {"rnd": {}}}
    config = config_from_mapping({"behaviors": {"Walker": behavior}}, load_plugins())
    assert [*config.behaviors["Walker"].reward_signals] == ["rnd"]
