"""Errors that are found after the file was read have the place of their key, as those of the reader have."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from rlcore import ConfigError, ConfigErrors, Run, apply_overrides, repeating
from rlcore.config.load import load_document, located
from rlcore.config.reading import parse_document
from rlcore_devkit.fixtures import RunRlcore, run_rlcore

__all__ = ["run_rlcore"]

TOLD = yaml.safe_load((Path(__file__).parent / "data/located.yaml").read_text(encoding="utf-8"))
FILE = parse_document(TOLD["file"], "c.yaml")


@pytest.mark.parametrize("key", TOLD["places"])
def test_the_place_is_the_line_of_the_value_or_of_the_nearest_block(plugins: Any, key: str) -> None:
    path = tuple(int(part) if part.isdigit() else part for part in key.split("."))
    _, document = load_document(apply_overrides(FILE, TOLD["sets"]), plugins)
    with pytest.raises(ConfigErrors) as caught, located(document), located(document):  # located once
        raise ConfigError("is wrong", key=path)
    assert str(caught.value) == f"{TOLD['places'][key]}: is wrong"


@pytest.mark.parametrize("name", ["A", "C"])
def test_what_a_behavior_inherits_has_the_place_of_the_defaults_also_if_only_the_environment_names_it(
    plugins: Any, name: str
) -> None:
    message = f"c.yaml:5: default_settings.max_steps: is wrong (inherited by behaviors.{name})"
    with pytest.raises(ConfigErrors, match=f"^{re.escape(message)}$"), located(load_document(FILE, plugins)[1]):
        raise ConfigError("is wrong", key=("behaviors", name, "max_steps"))


def test_an_error_without_a_key_and_the_hint_at_the_traceback_stay() -> None:
    plain = ConfigError("no budget")
    with pytest.raises(ConfigError) as caught, located(FILE):
        raise plain
    assert caught.value is plain
    error = repeating(ValueError("oops"), "cannot be read", lambda text: ConfigError(text, key=("environment",)))
    with pytest.raises(ConfigErrors) as placed, located(FILE):
        raise error
    assert placed.value.repeats_cause and placed.value.__cause__ is error
    assert str(placed.value) == "c.yaml:1: environment: cannot be read: ValueError: oops"


PLUGIN = """
from pathlib import Path
from rlcore import hookimpl
from rlcore.errors import ConfigError

@hookimpl
def rlcore_check_config(config):
    if Path("refuse").exists():
        raise ConfigError("is not ours", key=("behaviors", "Agent", "max_steps"))
"""
SMALL = """\
plugins: {local: [hooks.py]}
environment: {type: gymnasium, id: CartPole-v1}
behaviors: {Agent: {max_steps: 64}}
stats: {console: false, tensorboard: false}
preset: none
"""


def test_what_a_plugin_refuses_has_the_line_also_in_the_configuration_of_a_run_that_is_resumed(
    run_rlcore: RunRlcore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    working = tmp_path / "working"
    (working / "hooks.py").write_text(PLUGIN)
    (working / "c.yaml").write_text(SMALL)
    assert run_rlcore("run", "c.yaml", "--run-id", "r").exit_code == 0
    (working / "refuse").touch()
    problem = "behaviors.Agent.max_steps: is not ours (refused by plugin 'hooks' (local))\n"
    assert run_rlcore("validate", "c.yaml", "--allow-local").stdout == f"c.yaml:3: {problem}"
    assert run_rlcore("run", "c.yaml").stderr == f"error: c.yaml:3: {problem}"
    saved = (working / "results/r/configuration.yaml").read_text().splitlines()
    line = 1 + saved.index("    max_steps: 64")
    resumed = run_rlcore("run", "--resume", "--run-id", "r").stderr
    assert resumed == f"error: results/r/configuration.yaml:{line}: {problem}"
    monkeypatch.chdir(working)
    with pytest.raises(ConfigErrors, match=r"^c\.yaml:3: behaviors\.Agent\.max_steps: is not ours"):
        Run("c.yaml").start()
