"""Files as users of ML-Agents write them, with the plugins of this repository."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml
from small_runs import DATA

from rlcore import ConfigErrors, config_from_mapping, load_config, load_plugins, read_document
from rlcore.config.dump import config_text
from rlcore_devkit.fixtures import RunRlcore, run_rlcore

__all__ = ["run_rlcore"]

ENVIRONMENT = "environment: {type: gymnasium, id: CartPole-v1}\n"

WAREHOUSE, IMITATION = ((DATA / f"mlagents_{name}.yaml").read_text("utf-8") for name in ("warehouse", "imitation"))


@pytest.fixture
def config(tmp_path: Path) -> Path:
    return tmp_path / "config.yaml"


def test_a_file_with_anchors_means_what_pyyaml_reads(config: Path) -> None:
    config.write_text(WAREHOUSE)
    plugins = load_plugins()
    loaded = load_config(read_document(config), plugins)
    assert loaded == config_from_mapping(yaml.safe_load(WAREHOUSE), plugins)
    picker = loaded.behaviors["Picker"]
    stacker = loaded.behaviors["Stacker"]
    assert stacker.network_settings.hidden_units == 512 and stacker.network_settings.normalize
    assert (picker.hyperparameters.beta_schedule, stacker.hyperparameters.beta_schedule) == ("linear", "constant")
    assert loaded.behaviors["Sweeper"] == picker
    assert "&" not in config_text(loaded) and "*" not in config_text(loaded)


def test_a_mistake_below_an_anchor_names_its_line_and_each_place_that_uses_it(config: Path) -> None:
    config.write_text(WAREHOUSE.replace("num_epoch", "num_epoc"))
    with pytest.raises(ConfigErrors) as caught:
        load_config(read_document(config), load_plugins())
    place = f"{config}:{1 + WAREHOUSE[: WAREHOUSE.index('num_epoch')].count(chr(10))}"
    assert [message.partition(": unknown key; did you mean 'num_epoch'?")[0] for message in caught.value.messages] == [
        f"{place}: behaviors.{name}.hyperparameters.num_epoc" for name in ("Picker", "Stacker", "Sweeper")
    ]


def test_networks_of_ml_agents_are_refused_before_a_run(config: Path, run_rlcore: RunRlcore) -> None:
    config.write_text(IMITATION)
    checked = run_rlcore("validate", config)
    [weights] = checked.stdout.splitlines()
    assert weights.startswith(f"{config}:9: behaviors.Pusher.init_path: must be a run directory of rlcore")
    assert checked.exit_code == 2


def test_one_agent_of_gymnasium_needs_one_behavior(config: Path, run_rlcore: RunRlcore) -> None:
    config.write_text("behaviors: {Left: {}, Right: {}}\n" + ENVIRONMENT)
    refused = run_rlcore("validate", config)
    assert refused.exit_code == 2 and "there must be one entry, not 2: Left, Right" in refused.stdout


SCHEDULES = """\
default_settings:
  trainer_type: ppo
  hyperparameters: {{learning_rate_schedule: {default}}}
behaviors:
  Own: {{hyperparameters: {{learning_rate_schedule: {own}}}}}
  Said: {{hyperparameters: {{learning_rate_schedule: {own}, beta_schedule: {default}, epsilon_schedule: {default}}}}}
"""


@pytest.mark.parametrize(("default", "own"), [("linear", "constant"), ("constant", "linear")])
def test_schedules_follow_the_learning_rate_of_their_own_behavior(config: Path, default: str, own: str) -> None:
    """ML-Agents takes those of ``default_settings``; the page "Migrate from ML-Agents" says how to get them."""
    config.write_text(SCHEDULES.format(default=default, own=own))
    behaviors = load_config(read_document(config), load_plugins()).behaviors
    assert behaviors["Own"].hyperparameters.beta_schedule == behaviors["Own"].hyperparameters.epsilon_schedule == own
    said = behaviors["Said"].hyperparameters
    assert (said.learning_rate_schedule, said.beta_schedule, said.epsilon_schedule) == (own, default, default)
