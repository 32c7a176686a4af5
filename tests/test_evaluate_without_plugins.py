"""``rlcore evaluate`` and ``rlcore status`` on the machine of a colleague who lacks the plugins of a run."""

from __future__ import annotations

import copy
import json
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from small_runs import data

from rlcore import (
    ConfigError,
    document_from_mapping,
    load_config,
    load_plugins,
    load_policies,
    read_run,
)
from rlcore_devkit.fixtures import InstallPlugin, RunRlcore, installed_plugin, run_rlcore

__all__ = ["installed_plugin", "run_rlcore"]

ACME = """
from rlcore import BehaviorSection, ConfigSection, ExporterSpec, RewardProviderSpec, StatsWriterSpec, hookimpl
from rlcore_torch import OptimizerSpec, ScheduleSpec

@hookimpl
def rlcore_optimizers():
    return [OptimizerSpec(name="decaying", target="acme_heavy:adamw", settings="rlcore_torch:OptimizerSettings")]

@hookimpl
def rlcore_schedules():
    return [ScheduleSpec(name="squared", target="acme_heavy:squared")]

@hookimpl
def rlcore_reward_providers():
    target = "rlcore.plugins.core:ExtrinsicReward.create"
    return [RewardProviderSpec(name="bonus", target=target, settings="rlcore.settings:RewardSettings")]

@hookimpl
def rlcore_stats_writers():
    return [StatsWriterSpec(name="tracker", target="acme_heavy:make_tracker")]

@hookimpl
def rlcore_exporters():
    return [ExporterSpec(name="chip", target="acme_heavy:Chip", suffix=".chip")]

@hookimpl
def rlcore_config_sections():
    section = ConfigSection(name="acme", target="acme_heavy:Section")
    return [section, BehaviorSection(name="rivals", target="acme_heavy:SelfPlay")]
"""
HEAVY = """
import attrs
import torch
from rlcore import setting

def adamw(parameters, learning_rate, settings):
    return torch.optim.AdamW(parameters, lr=learning_rate)

def squared(progress):
    return progress**2

class make_tracker:
    def __init__(self, settings, run): pass
    def write(self, behavior, step, stats): pass
    def close(self): pass

class Chip:
    def __init__(self, settings, run): pass
    def export(self, policy, behavior, path, about): path.write_text("chip")

@attrs.frozen(kw_only=True)
class SelfPlay:
    window: int = setting(10, "Snapshots.")

@attrs.frozen(kw_only=True)
class Section:
    token: str = setting(description="Who reports.")
"""
CONFIG: dict[str, Any] = data("run_with_acme")


@pytest.fixture
def trained(tmp_path: Path, installed_plugin: InstallPlugin, run_rlcore: RunRlcore) -> Path:
    """The directory of a run that was trained with ``-p acme``, a plugin with a reward, a writer and a section."""
    config = copy.deepcopy(CONFIG)
    block = config["behaviors"]["Pole"]
    block["trainer_type"] = "ppo"
    block["hyperparameters"] |= {"optimizer": {"type": "decaying"}, "learning_rate_schedule": "squared"}
    installed = installed_plugin("acme", "acme-rl", "1.0", ACME)
    (installed.directory / "acme_heavy.py").write_text(HEAVY)
    (tmp_path / "config.yaml").write_text(yaml.safe_dump(config, sort_keys=False))
    done = run_rlcore("run", tmp_path / "config.yaml", "-p", "acme")
    sys.modules.pop("acme_heavy", None)
    assert done.exit_code == 0, done.stderr
    return tmp_path / "working" / "results" / "run"


def uninstall(monkeypatch: pytest.MonkeyPatch, distribution: str = "acme-rl") -> None:
    monkeypatch.setattr(sys, "path", [path for path in sys.path if distribution not in path])


def test_a_run_is_measured_and_read_without_its_rewards_writers_sections_and_optimizer(
    trained: Path, run_rlcore: RunRlcore, monkeypatch: pytest.MonkeyPatch
) -> None:
    with_all = run_rlcore("evaluate", trained, "--episodes", "3", "--json")
    off = run_rlcore("evaluate", trained, "--episodes", "3", "--json", "-p", "no:acme")
    uninstall(monkeypatch)
    absent = run_rlcore("evaluate", trained, "--episodes", "3", "--json")
    assert (with_all.exit_code, off.exit_code, absent.exit_code) == (0, 0, 0), off.stderr + absent.stderr
    assert json.loads(with_all.stdout) == json.loads(off.stdout) == json.loads(absent.stdout)
    for block in ("acme", "behaviors.Pole.rivals"):
        assert f"ignored, because no plugin that is on has these blocks: {block}" in off.stderr
    assert "warning: plugin 'acme-rl/acme' (asked for by config) is not installed" in absent.stderr
    assert load_policies(trained).keys() == {"Pole"}
    assert read_run(trained).status["metadata"]["run_steps"] == 200


def test_to_train_on_needs_them(trained: Path, run_rlcore: RunRlcore, monkeypatch: pytest.MonkeyPatch) -> None:
    uninstall(monkeypatch)
    refused = run_rlcore("run", "--resume", "--run-id", "run")
    assert refused.exit_code == 4 and "plugin 'acme-rl/acme' (asked for by config) is not installed" in refused.stderr
    refused = run_rlcore("run", "--resume", "--run-id", "run", "-p", "no:acme-rl/acme")
    assert refused.exit_code == 2 and "unknown schedule 'acme-rl/squared'" in refused.stderr
    listed = run_rlcore("validate", trained / "configuration.yaml", "-p", "no:acme-rl/acme").stdout
    for absent in ("reward provider 'acme-rl/bonus'", "optimizer 'acme-rl/decaying'", "schedule 'acme-rl/squared'"):
        assert f"unknown {absent}" in listed


def test_what_a_measurement_needs_is_still_required(trained: Path, run_rlcore: RunRlcore) -> None:
    refused = run_rlcore("evaluate", trained, "-p", "no:ppo")
    assert refused.exit_code == 2
    assert "unknown trainer 'rlcore-ppo/ppo'" in refused.stderr and "-p ppo turns it on" in refused.stderr
    mistyped = run_rlcore("evaluate", trained, "--set", "enviroment.id=CartPole-v1")
    assert mistyped.exit_code == 2 and "unknown key; did you mean 'environment'?" in mistyped.stderr


def test_a_section_without_its_required_key_is_left_out_of_a_measurement(
    trained: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """A run does not write a secret, so the file of the run may lack a key that is required."""
    data = yaml.safe_load((trained / "configuration.yaml").read_text())
    data["acme"] = {}
    plugins = load_plugins()
    with pytest.raises(ConfigError, match=r"^acme.token: missing; it has no default; section of plugin 'acme'"):
        load_config(document_from_mapping(data), plugins)
    assert "acme" not in load_config(document_from_mapping(data), plugins, measuring=True).sections
    assert caplog.messages == [
        "ignored, because no measurement needs it: acme.token: missing; it has no default; section of plugin 'acme' "
        "(acme-rl 1.0)"
    ]


GLOBEX = """
from rlcore import TrainerSpec, hookimpl

@hookimpl
def rlcore_trainers():
    target, settings = "rlcore_ppo.trainer:PPOTrainer", "rlcore_ppo.settings:PPOSettings"
    return [TrainerSpec(name="globex", target=target, settings=settings, network="rlcore_torch:NetworkSettings")]
"""


def test_a_run_names_the_plugin_that_it_was_made_with_and_that_is_gone(
    tmp_path: Path, installed_plugin: InstallPlugin, run_rlcore: RunRlcore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The plugin was on because it was installed: the configuration of the run does not name it."""
    installed_plugin("globex", "globex-rl", "0.1.0", GLOBEX)
    config = {key: CONFIG[key] for key in ("environment", "checkpoint_settings")}
    block = {"trainer_type": "globex", "hyperparameters": CONFIG["behaviors"]["Pole"]["hyperparameters"]}
    config["behaviors"] = {"Pole": {**block, "max_steps": 100}}
    file = tmp_path / "config.yaml"
    file.write_text(yaml.safe_dump(config, sort_keys=False))
    assert run_rlcore("run", file).exit_code == 0
    uninstall(monkeypatch, "globex-rl")
    gone = "the run was made with plugins that are not installed: globex (globex-rl 0.1.0)\n"
    for words in (("run", "--resume", "--run-id", "run"), ("run", file, "--resume"), ("evaluate", "results/run")):
        refused = run_rlcore(*words)
        assert refused.exit_code == 2 and "unknown trainer 'globex-rl/globex'" in refused.stderr, refused.stderr
        assert refused.stderr.endswith(f"; {gone}") and refused.stderr.count("the run was made") == 1
    new = run_rlcore("run", file, "--run-id", "other")
    assert new.exit_code == 2 and "the run was made" not in new.stderr
