"""Runs that were made with the package of examples/company_plugin, installed by pip, after it was uninstalled."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from rlcore_devkit.fixtures import CommandResult, RunRlcore, run_rlcore

__all__ = ["run_rlcore"]

pytestmark = pytest.mark.packaging

EXAMPLE = Path(__file__).parents[1] / "examples" / "company_plugin"


@pytest.fixture
def package(tmp_path: Path) -> Path:
    """A directory into which pip has installed the package."""
    target = tmp_path / "site"
    words = ["install", "-q", "--no-deps", "--no-build-isolation", "--target", str(target), str(EXAMPLE)]
    subprocess.run([sys.executable, "-m", "pip", *words], check=True)
    return target


@pytest.fixture
def with_package(package: Path, run_rlcore: RunRlcore, monkeypatch: pytest.MonkeyPatch) -> Callable[..., CommandResult]:
    """Runs a command while the package can be imported."""

    def run(*words: Any) -> CommandResult:
        with monkeypatch.context() as patch:
            patch.syspath_prepend(package)
            done = run_rlcore(*words)
        for name in [name for name in sys.modules if name.partition(".")[0] == "acme_rl"]:
            del sys.modules[name]
        return done

    return run


def configuration(path: Path, rewards: bool) -> Path:
    """The example's own file, with fewer steps, and with the shaped reward only if ``rewards``."""
    config = yaml.safe_load((EXAMPLE / "cartpole.yaml").read_text(encoding="utf-8"))
    behavior = config["behaviors"]["CartPole"]
    behavior |= {"max_steps": 2048, "summary_freq": 1024, "checkpoint_interval": 1024}
    if not rewards:
        del behavior["reward_signals"]["acme-centered"]
    path.write_text(yaml.safe_dump(config), encoding="utf-8")
    return path


def test_a_run_resumes_and_runs_again_without_the_package(
    tmp_path: Path, with_package: Callable[..., CommandResult], run_rlcore: RunRlcore
) -> None:
    file = configuration(tmp_path / "run.yaml", rewards=False)
    done = with_package("run", file, "--acme-owner", "ann@acme.example")
    assert done.exit_code == 0, done.stderr
    saved = tmp_path / "working" / "results" / "cartpole-acme" / "configuration.yaml"
    assert yaml.safe_load(saved.read_text())["plugins"]["optional"]["section"] == ["acme-rl/acme"]
    more = ("--set", "behaviors.CartPole.max_steps=4096")
    for words in ((saved, "--run-id", "again"), ("--resume", "--run-id", "cartpole-acme", *more), (file, "--resume")):
        gone = run_rlcore("run", *words)
        assert gone.exit_code == 0, gone.stderr
        assert "acme: left out, because acme-rl/acme is not there" in gone.stderr or words[0] != saved
    assert with_package("run", file, "--resume", "--acme-owner", "ann@acme.example").exit_code == 0


def test_a_run_that_learned_with_a_reward_of_the_package_is_refused_and_names_it(
    tmp_path: Path, with_package: Callable[..., CommandResult], run_rlcore: RunRlcore
) -> None:
    file = configuration(tmp_path / "run.yaml", rewards=True)
    done = with_package("run", file, "--acme-owner", "ann@acme.example")
    assert done.exit_code == 0, done.stderr
    refused = run_rlcore("run", "--resume", "--run-id", "cartpole-acme")
    assert refused.exit_code == 2 and "unknown reward provider 'acme-rl/acme-centered'" in refused.stderr
