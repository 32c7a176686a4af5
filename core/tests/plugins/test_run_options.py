"""Plugins add options to ``rlcore run``; an option sets a key of the configuration."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from rlcore import CommandSpec, ExporterSpec, RunOptionSpec

STUBS = Path(__file__).parents[1] / "run/stub_plugin.py"
SOURCE = """\
import attrs

from rlcore import ConfigSection, RunOptionSpec, hookimpl
from rlcore.settings import setting

@attrs.frozen(kw_only=True)
class Settings:
    team: str = setting("none", "Who pays.")
    size: int = setting(1, "How many.", minimum=1)
    urgent: bool = setting(False, "Whether it hurries.")

@hookimpl
def rlcore_config_sections():
    return [ConfigSection(name="acme", target=f"{__name__}:Settings")]

@hookimpl
def rlcore_commands():
    return [
        RunOptionSpec(name="acme-team", sets="acme.team", summary="Who pays."),
        RunOptionSpec(name="size", sets="acme.size", summary="How many."),
        RunOptionSpec(name="urgent", sets="acme.urgent", summary="Hurry.", flag=True),
    ]
"""


@pytest.fixture
def run(run_rlcore: Any, installed_plugin: Any, tmp_path: Path) -> Any:
    """``run("--size", "3")``: the result of the command, with the plugin installed."""
    installed_plugin("acme", "acme-hooks", "1.0", SOURCE)
    config = {
        "environment": {"type": "corridor", "num_envs": 2},
        "behaviors": {"Agent": {"trainer_type": "numpy", "max_steps": 40, "summary_freq": 20}},
        "checkpoint_settings": {"run_id": "run", "force": True},
        "plugins": {"autoload": False, "enable": ["acme"], "local": [str(STUBS)]},
    }
    (tmp_path / "run.yaml").write_text(json.dumps(config))
    return lambda *words: run_rlcore("run", str(tmp_path / "run.yaml"), *words)


def saved(tmp_path: Path) -> Any:
    return yaml.safe_load((tmp_path / "working/results/run/configuration.yaml").read_text())["acme"]


def test_options_set_keys_that_are_written_and_that_a_resume_keeps(run: Any, run_rlcore: Any, tmp_path: Path) -> None:
    answer = run("--acme-team", "vision", "--size=3", "--set", "acme.team=other")
    assert answer.exit_code == 0, answer.stderr
    assert saved(tmp_path) == {"team": "vision", "size": 3, "urgent": False}
    more = ("--set", "behaviors.Agent.max_steps=80", "--size", "4", "--urgent")
    assert run_rlcore("run", "--resume", "--run-id", "run", *more).exit_code == 0
    assert saved(tmp_path) == {"team": "vision", "size": 4, "urgent": True}


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--size", "0"], "error: --size: acme.size: must be at least 1, not 0"),
        (["--size", "[1"], "error: --size acme.size=[1: the value must be plain YAML"),
        (["--size", "many"], "error: --size: acme.size: must be a whole number, not 'many'"),
        (["--acme-teem", "x"], "Did you mean '--acme-team'?"),
        (["--size"], "requires an argument"),
    ],
)
def test_a_mistake_names_the_option(run: Any, words: list[str], message: str) -> None:
    answer = run(*words)
    assert answer.exit_code == 2 and message in answer.stderr


def test_options_of_a_plugin_that_is_off_are_unknown(run: Any) -> None:
    for words in (["-p", "no:acme"], ["-pno:acme"], ["--no-plugins"]):
        answer = run(*words, "--size", "3")
        assert answer.exit_code == 2 and "No such option" in answer.stderr


@pytest.mark.parametrize(
    ("name", "message"),
    [("seed", "--seed is an option of rlcore itself"), ("size", "clashes with option 'size' of plugin")],
)
def test_an_option_belongs_to_one_plugin(run: Any, installed_plugin: Any, name: str, message: str) -> None:
    function = f"@hookimpl\ndef rlcore_commands():\n    return [RunOptionSpec(name='{name}', sets='a.b')]\n"
    installed_plugin("other", "other-hooks", "1.0", f"from rlcore import RunOptionSpec, hookimpl\n\n{function}")
    answer = run("--urgent")
    assert answer.exit_code == 4 and message in answer.stderr and "other-hooks 1.0" in answer.stderr


@pytest.mark.parametrize(
    ("make", "wrong"),
    [
        (lambda text: RunOptionSpec(name=text, sets="a.b"), ("Size", "si_ze", "-x", 3)),
        (lambda text: RunOptionSpec(name="size", sets=text), ("", "a..b", "a=b")),
        (lambda text: ExporterSpec(name="chip", target="a:b", suffix=text), ("onnx", "", ".", "..onnx", ".a/b", 3)),
        (lambda text: CommandSpec(name=text, target="a:b"), ("runs sweep", "")),
    ],
)
def test_texts_of_records_have_a_form(make: Callable[[Any], Any], wrong: tuple[Any, ...]) -> None:
    for text in wrong:
        with pytest.raises(ValueError, match="must match"):
            make(text)
