"""Settings refuse bad values, and each does what its description says."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import attrs
import numpy as np
import pytest
import yaml

from rlcore import ConfigError, Run, config_from_mapping, load_plugins
from rlcore_devkit.conformance.loop import learn
from rlcore_devkit.environments import identity_continuous, identity_hybrid
from rlcore_sac.trainer import SACTrainer

MakeTrainer = Callable[..., SACTrainer]
REFUSALS = yaml.safe_load((Path(__file__).parent / "data/refusals.yaml").read_text(encoding="utf-8"))


@pytest.mark.parametrize("case", REFUSALS, ids=lambda case: case["problem"])
def test_a_bad_value_is_told_in_one_sentence(case: dict[str, Any]) -> None:
    block = {"trainer_type": "sac", "hyperparameters": case["given"]}
    with pytest.raises(ConfigError) as refused:
        config_from_mapping({"behaviors": {"Walker": block}}, load_plugins())
    assert str(refused.value).startswith(f"behaviors.Walker.hyperparameters.{case['problem']}")
    assert "\n" not in str(refused.value)


def test_the_learning_rate_is_that_of_the_step_where_an_update_began_to_be_due(make_trainer: MakeTrainer) -> None:
    """Each update of 8 agents has the rate of 8 steps ago; none comes before step 304."""
    settings = {"buffer_init_steps": 304, "learning_rate_schedule": "linear", "learning_rate": 0.1, "batch_size": 1}
    environment = identity_hybrid(8)
    trainer = make_trainer(environment, block={"max_steps": 400}, **settings)
    rates = [stats["Policy/Learning Rate"] for stats in learn(trainer, environment, 50)]
    assert trainer.steps == 400
    np.testing.assert_allclose(rates, 0.1 * (1 - np.arange(304, 400, 8) / 400), rtol=1e-6)


def test_optimizers_have_learning_rates_of_their_own_that_follow_the_schedule(make_trainer: MakeTrainer) -> None:
    settings = {"learning_rate": 0.1, "critic_learning_rate": 0.3, "learning_rate_schedule": "linear", "batch_size": 1}
    environment = identity_hybrid(8)
    trainer = make_trainer(environment, block={"max_steps": 80}, **settings)
    for updates in (1, 9):
        stats = learn(trainer, environment, updates)[-1]
        of_policy = stats["Policy/Learning Rate"]
        rates = {name: optimizer.learning_rate for name, optimizer in trainer.optimizers.items()}
        expected = {"policy": of_policy, "critic_0": 3 * of_policy, "critic_1": 3 * of_policy, "temperature": of_policy}
        assert rates == pytest.approx(expected)
    assert of_policy < 0.02


def test_dropout_is_refused_where_a_gradient_step_is_recorded(make_trainer: MakeTrainer) -> None:
    trainer = make_trainer(identity_hybrid(2), network={"critic": {"dropout": 0.1}})
    trainer.backend = attrs.evolve(trainer.backend, cuda_graphs=True)
    with pytest.raises(
        ConfigError, match=r"network_settings\.dropout: draws random numbers .*cuda_graphs.*leave it out"
    ):
        trainer._refuse_dropout()


def test_the_mean_is_what_a_deterministic_policy_does_in_training(make_trainer: MakeTrainer) -> None:
    environment = identity_continuous(4)
    trainer = make_trainer(environment, network={"deterministic": True})
    batch = next(iter(environment.reset(lambda c, e: c, np.zeros(4, np.int64)).values()))  # type: ignore[arg-type]
    trainer.begin(batch)
    ours = trainer.act(batch).continuous
    theirs = trainer.policy.act(batch.observations).continuous
    assert ours is not None and theirs is not None
    np.testing.assert_array_equal(ours, theirs)


def test_the_preset_rlpd_has_the_authors_values() -> None:
    own = {"hyperparameters": {"prior_data": {"demo_path": "mine"}}}
    config = config_from_mapping({"preset": "rlpd", "behaviors": {"Walker": own}}, load_plugins())
    behavior = config.behaviors["Walker"]
    h: Any = behavior.hyperparameters
    assert (behavior.trainer_type, h.prior_data.demo_path, h.prior_data.share) == ("sac", "mine", 0.5)
    assert (h.num_critics, h.target_critics, h.policy_value) == (10, 2, "mean")
    assert (h.steps_per_update, h.gradient_steps, h.policy_delay) == (0.05, 1, 20)
    assert (h.batch_size, h.learning_rate, h.tau, h.buffer_init_steps) == (256, 3e-4, 0.005, 5000)
    assert (h.continuous_target_entropy, h.init_entcoef, h.n_steps) == (-0.5, 1.0, 1)
    network: Any = behavior.network_settings
    assert network.widths == network.of_critic.widths == (256, 256)
    assert (network.activation, network.layer_norm, network.of_critic.layer_norm) == ("relu", False, True)


def test_the_preset_rlpd_is_refused_without_a_recording(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    run = Run(
        {
            "plugins": {"local": ["rlcore_devkit.hooks"]},
            "preset": "rlpd",
            "environment": {"type": "testing", "id": "identity_continuous"},
            "behaviors": {"Agent": {}},
            "checkpoint_settings": {"results_dir": str(tmp_path)},
        }
    )
    told = r"prior_data\.demo_path.*: recording 'recordings': "
    with pytest.raises(ConfigError, match=told), run:
        run.start()
