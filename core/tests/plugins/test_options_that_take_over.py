"""An option of a plugin may hand ``rlcore run`` over to the plugin."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from rlcore import RunOptionSpec

STUBS = Path(__file__).parents[1] / "run/stub_plugin.py"
SOURCE = """\
import json

from rlcore import RunOptionSpec, echo, hookimpl

@hookimpl
def rlcore_commands():
    here, there = f"{__name__}:take", f"{__name__}:other"
    return [
        RunOptionSpec(name="twice", target=here, summary="Train twice."),
        RunOptionSpec(name="fast", target=here, summary="Hurry.", flag=True),
        RunOptionSpec(name="never", target=there, summary="Train never."),
        RunOptionSpec(name="steps-of-all", sets="behaviors.Agent.max_steps", summary="Steps."),
    ]

def take(options, words, make_run):
    given = {name: options.get(name) for name in ("twice", "fast", "run_id", "resume")}
    steps = make_run().config.behaviors["Agent"].max_steps
    echo(json.dumps([given, options["config"].name, words, steps]))
    return 7

def other(options, words, make_run):
    return 0
"""


@pytest.fixture
def run(run_rlcore: Any, installed_plugin: Any, tmp_path: Path) -> Any:
    installed_plugin("acme", "acme-hooks", "1.0", SOURCE)
    config = {
        "environment": {"type": "corridor", "num_envs": 2},
        "behaviors": {"Agent": {"trainer_type": "numpy", "max_steps": 40}},
        "plugins": {"autoload": False, "local": [str(STUBS)]},
    }
    (tmp_path / "run.yaml").write_text(json.dumps(config))
    return lambda *words: run_rlcore("run", str(tmp_path / "run.yaml"), *words)


def test_the_plugin_gets_the_command_line_and_gives_the_exit_code(run: Any, tmp_path: Path) -> None:
    words = ["--twice=x", "--run-id", "a", "--fast", "--steps-of-all", "60"]
    answer = run(*words)
    assert answer.exit_code == 7, answer.stderr
    given = {"twice": "x", "fast": True, "run_id": "a", "resume": False}
    assert json.loads(answer.stdout) == [given, "run.yaml", [str(tmp_path / "run.yaml"), *words], 60]
    assert not (tmp_path / "working/results").exists()  # the core trained nothing


def test_options_of_one_target_go_together_and_those_of_two_do_not(run: Any) -> None:
    assert json.loads(run("--fast").stdout)[0] == {"twice": None, "fast": True, "run_id": None, "resume": False}
    answer = run("--twice", "x", "--never", "y")
    assert answer.exit_code == 2 and "--twice and --never exclude each other" in answer.stderr


def test_a_mistake_of_the_configuration_is_one_message(run: Any) -> None:
    answer = run("--twice", "x", "--set", "behaviors.Agent.max_stepps=4")
    assert answer.exit_code == 2 and "did you mean 'max_steps'" in answer.stderr


def test_an_option_either_sets_a_key_or_takes_over() -> None:
    with pytest.raises(ValueError, match=r"sets 'a\.b' must match"):
        RunOptionSpec(name="size", sets="a.b", target="a:b")
    with pytest.raises(ValueError, match="target 'a' must match"):
        RunOptionSpec(name="size", target="a")


@pytest.mark.parametrize(
    ("words", "plugin", "package", "requirement"),
    [
        (["--seeds", "1-5"], "study", "rlcore-study[study]", "'rlcore-study[study]'"),
        (["--no-graphics"], "unity", "rlcore-unity", "rlcore-unity"),
    ],
)
def test_an_option_of_a_package_that_is_off_names_the_package(
    run: Any, words: list[str], plugin: str, package: str, requirement: str
) -> None:
    answer = run("-p", f"no:{plugin}", *words)
    message = f"{words[0]}: an option of {package}; pip install {requirement}, or turn it on if it is installed"
    assert answer.exit_code == 2 and message in answer.stderr
