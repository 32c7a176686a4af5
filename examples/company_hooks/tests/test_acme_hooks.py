"""Runs with the rules of the company: what is refused, charged, stopped, copied, deleted and reported."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from rlcore import read_run
from rlcore.testing import PluginConformance
from rlcore.testing.fixtures import CommandResult, RunRlcore

CONFIG: dict[str, Any] = {
    "environment": {"type": "gymnasium", "id": "CartPole-v1", "num_envs": 4},
    "environment_parameters": {"length": 0.5},
    "env_settings": {"seed": 3},
    "behaviors": {
        "Pole": {
            "trainer_type": "ppo",
            "hyperparameters": {"batch_size": 64, "buffer_size": 256},
            "network_settings": {"hidden_units": 8, "num_layers": 1},
            "max_steps": 4000,
            "summary_freq": 1000,
            "checkpoint_interval": 1000,
            "keep_checkpoints": 2,
        }
    },
    "evaluation": {"interval": 2000, "episodes": 4},
    "acme": {"team": "vision", "step_cost": 0.5},
    "checkpoint_settings": {"run_id": "run"},
    "plugins": {"enable": ["acme-hooks"]},
}
Train = Callable[..., CommandResult]


class TestPlugin(PluginConformance):
    plugin = "acme-hooks/acme-hooks"


@pytest.fixture
def working(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("ACME_MIRROR", str(tmp_path / "mirror-with-password"))
    return tmp_path / "working"


@pytest.fixture
def train(run_rlcore: RunRlcore, working: Path) -> Train:
    """``train("--resume", acme={"steps": 2000})``: a run of the configuration with another block ``acme``."""

    def run(*words: str, **blocks: Any) -> CommandResult:
        config = copy.deepcopy(CONFIG)
        for name, block in blocks.items():
            config[name] = {**config.get(name, {}), **block}
        (working / "run.yaml").write_text(yaml.safe_dump(config))
        return run_rlcore("run", "run.yaml", *words)

    return run


def test_a_run_is_charged_copied_and_reported(train: Train, working: Path, tmp_path: Path) -> None:
    answer = train()
    assert answer.exit_code == 0, answer.stderr
    assert "acme-hooks: done: {'Pole': " in answer.stderr
    run = read_run(working / "results/run")
    kept = {str(each.step) for each in run.checkpoints}
    assert len(kept) == 2 and {path.name for path in (tmp_path / "mirror-with-password/run").iterdir()} == kept
    for line in run.metrics:
        assert line.stats["Acme/Dollars"] == pytest.approx(line.step * 1e-5)
        reward, length = line.stats["Environment/Cumulative Reward"], line.stats["Environment/Episode Length"]
        assert reward is not None and reward == pytest.approx(0.5 * length)  # CartPole gives 1 for each step
        score, steps = (line.stats.get(f"Evaluation/{tag}") for tag in ("Cumulative Reward", "Episode Length"))
        assert score == (None if steps is None else pytest.approx(steps))  # evaluations are not charged
    assert (working / "results/run/bill.txt").read_text() == "0.04\n"


def test_a_spent_budget_stops_the_run_and_a_larger_one_continues_it(train: Train, working: Path) -> None:
    stopped = train(acme={"steps": 2000})
    assert stopped.exit_code == 75 and "interrupted (the budget of the team is spent): 2000 steps" in stopped.stdout
    result = read_run(working / "results/run").result
    assert result is not None
    assert result["stop"] == {"reason": "the budget of the team is spent", "exit_code": 75}
    assert train("--resume").exit_code == 0
    assert read_run(working / "results/run").status["Pole"]["final_checkpoint"]["steps"] == 4000


def test_a_run_without_a_team_is_refused_and_the_option_names_one(train: Train, working: Path) -> None:
    refused = train(acme={"team": ""})
    assert refused.exit_code == 2 and "--acme-team" in refused.stderr
    assert "acme-hooks: run was not started: acme.team: missing" in refused.stderr
    assert not (working / "results").exists() or not list((working / "results").iterdir())
    assert train("--acme-team", "robots", acme={"team": ""}, behaviors=shorter()).exit_code == 0
    assert read_run(working / "results/run").configuration["acme"]["team"] == "robots"


def test_the_address_of_the_mirror_is_in_no_file_of_the_run(
    train: Train, working: Path, tmp_path: Path, run_rlcore: RunRlcore
) -> None:
    assert train(behaviors=shorter()).exit_code == 0
    measured = run_rlcore("evaluate", "run", "--episodes", "1", "--json")
    reward = json.loads(measured.stdout)["behaviors"]["Pole"]["mean_reward"]
    assert reward == round(reward) > 0  # 1 for each step
    files = [
        path for root in (working, tmp_path / "mirror-with-password") for path in root.rglob("*") if path.is_file()
    ]
    assert len(files) > 10 and not [path for path in files if b"mirror-with-password" in path.read_bytes()]


def test_without_naming_the_plugin_it_writes_no_bill(train: Train, working: Path) -> None:
    assert train(plugins={"enable": []}, behaviors=shorter()).exit_code == 0
    assert not (working / "results/run/bill.txt").exists()


def shorter() -> dict[str, Any]:
    return {"Pole": {**CONFIG["behaviors"]["Pole"], "max_steps": 1000}}


EXPORTER = """
from rlcore import ExporterSpec, hookimpl


@hookimpl
def rlcore_exporters():
    return [ExporterSpec(name="names", target="names_exporter:Names", suffix=".txt")]


class Names:
    def __init__(self, settings, run):
        pass

    def export(self, policy, behavior, path, about):
        path.write_text(behavior.name)
"""


def test_the_log_says_which_curricula_and_exporters_a_run_uses(train: Train, working: Path) -> None:
    working.mkdir(exist_ok=True)
    (working / "names_exporter.py").write_text(EXPORTER)
    plugins = {**CONFIG["plugins"], "local": ["./names_exporter.py"]}
    used = train("--debug", plugins=plugins, export={"names": {}}, behaviors=shorter())
    assert used.exit_code == 0, used.stderr
    for part in ("curriculum lessons", "exporter names"):
        assert f"acme-hooks: run uses {part}" in used.stderr
    assert (working / "results/run/Pole.txt").read_text() == "Pole"
