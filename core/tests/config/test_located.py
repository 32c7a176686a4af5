"""Errors that are found after the file was read have the place of their key, as those of the reader have."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from rlcore.config.document import Document
from rlcore.config.load import load_document, located
from rlcore.config.problems import ConfigErrors
from rlcore.config.reading import document_from_mapping, parse_document
from rlcore.config.rewriting import apply_overrides
from rlcore.errors import ConfigError, repeating
from rlcore.run.run import Run
from rlcore_devkit.fixtures import RunRlcore, run_rlcore

__all__ = ["run_rlcore"]

TEXT = """\
environment:
  type: grid
  options: {size: 4}
default_settings:
  max_steps: 9
behaviors:
  A:
    league: {ratio: 0.5}
  B: {}
environment_parameters:
  gust:
    curriculum:
    - {name: low, value: 1}
    - name: high
      value: 2
evaluation:
  interval: 9
  environment:
    options: {size: 5}
"""
FILE = parse_document(TEXT, "c.yaml")
OVERRIDDEN = apply_overrides(FILE, ["environment.options.size=7"])
NO_FILE = document_from_mapping({"behaviors": {"A": {}}})
PLACES = [
    (FILE, "environment.type", "c.yaml:2: environment.type: is wrong"),
    (FILE, "environment.id", "c.yaml:1: environment.id: is wrong"),  # a default: the line of the block
    (FILE, "env_settings.seed", "c.yaml: env_settings.seed: is wrong"),  # no block has a line
    (FILE, "behaviors.A.league.ratio", "c.yaml:8: behaviors.A.league.ratio: is wrong"),
    (FILE, "behaviors.A.max_steps", "c.yaml:5: default_settings.max_steps: is wrong (inherited by behaviors.A)"),
    (FILE, "behaviors.C.max_steps", "c.yaml:5: default_settings.max_steps: is wrong (inherited by behaviors.C)"),
    (FILE, "behaviors.C.league", "c.yaml:6: behaviors.C.league: is wrong"),
    (FILE, "environment_parameters.gust.curriculum.lessons.1.value",
     "c.yaml:15: environment_parameters.gust.curriculum[1].value: is wrong"),
    (FILE, "evaluation.environment.options.size", "c.yaml:19: evaluation.environment.options.size: is wrong"),
    (OVERRIDDEN, "environment.options.size", "--set environment.options.size: is wrong"),
    (NO_FILE, "behaviors.A", "behaviors.A: is wrong"),
]  # fmt: skip


@pytest.mark.parametrize(("written", "key", "message"), PLACES)
def test_the_place_is_the_line_of_the_value_or_of_the_nearest_block(
    plugins: Any, written: Document, key: str, message: str
) -> None:
    _, document = load_document(written, plugins)
    path = tuple(int(part) if part.isdigit() else part for part in key.split("."))
    with pytest.raises(ConfigErrors) as caught, located(document), located(document):  # located once
        raise ConfigError("is wrong", key=path)
    assert str(caught.value) == message


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
