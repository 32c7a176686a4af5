"""Errors that are found after the file was read have the place of their key, as those of the reader have."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

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
PLACES = [
    (("environment", "type"), "c.yaml:2: environment.type: is wrong"),
    (("environment", "id"), "c.yaml:1: environment.id: is wrong"),  # a default: the line of the block
    (("env_settings", "seed"), "c.yaml: env_settings.seed: is wrong"),  # no block has a line
    (("behaviors", "A", "league", "ratio"), "c.yaml:8: behaviors.A.league.ratio: is wrong"),
    (("behaviors", "A", "max_steps"), "c.yaml:5: default_settings.max_steps: is wrong (inherited by behaviors.A)"),
    (("behaviors", "C", "max_steps"), "c.yaml:5: default_settings.max_steps: is wrong (inherited by behaviors.C)"),
    (("behaviors", "C", "league"), "c.yaml:6: behaviors.C.league: is wrong"),
    (("environment_parameters", "gust", "curriculum", "lessons", 1, "value"),
     "c.yaml:15: environment_parameters.gust.curriculum[1].value: is wrong"),
    (("evaluation", "environment", "options", "size"), "c.yaml:19: evaluation.environment.options.size: is wrong"),
]  # fmt: skip


@pytest.mark.parametrize(("key", "message"), PLACES)
def test_the_place_is_the_line_of_the_value_or_of_the_nearest_block(plugins: Any, key: Any, message: str) -> None:
    _, document = load_document(parse_document(TEXT, "c.yaml"), plugins)
    with pytest.raises(ConfigErrors) as caught, located(document), located(document):  # located once
        raise ConfigError("is wrong", key=key)
    assert str(caught.value) == message


def test_an_override_is_named(plugins: Any) -> None:
    document = apply_overrides(parse_document(TEXT, "c.yaml"), ["environment.options.size=7"])
    _, document = load_document(document, plugins)
    with pytest.raises(ConfigErrors, match=r"^--set environment.options.size: is wrong$"), located(document):
        raise ConfigError("is wrong", key=("environment", "options", "size"))


def test_data_without_a_file_has_no_place(plugins: Any) -> None:
    _, document = load_document(document_from_mapping({"behaviors": {"A": {}}}), plugins)
    with pytest.raises(ConfigErrors, match=r"^behaviors.A: is wrong$"), located(document):
        raise ConfigError("is wrong", key=("behaviors", "A"))


def test_an_error_without_a_key_stays_as_it_is() -> None:
    error = ConfigError("no budget")
    with pytest.raises(ConfigError) as caught, located(parse_document(TEXT, "c.yaml")):
        raise error
    assert caught.value is error


def test_the_hint_at_the_traceback_stays() -> None:
    error = repeating(ValueError("oops"), "cannot be read", lambda text: ConfigError(text, key=("environment",)))
    with pytest.raises(ConfigErrors) as caught, located(parse_document(TEXT, "c.yaml")):
        raise error
    assert caught.value.repeats_cause and caught.value.__cause__ is error
    assert str(caught.value) == "c.yaml:1: environment: cannot be read: ValueError: oops"


PLUGIN = """
from rlcore import hookimpl
from rlcore.errors import ConfigError

@hookimpl
def rlcore_check_config(config):
    raise ConfigError("is not ours", key=("behaviors", "Agent", "max_steps"))
"""
FILE = """\
plugins: {local: [hooks.py]}
environment: {type: gymnasium, id: CartPole-v1}
behaviors:
  Agent:
    trainer_type: ppo
    max_steps: 64
stats: {console: false, tensorboard: false}
"""


def test_what_a_plugin_refuses_has_the_line(
    run_rlcore: RunRlcore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    working = tmp_path / "working"
    (working / "hooks.py").write_text(PLUGIN)
    (working / "c.yaml").write_text(FILE)
    message = "c.yaml:6: behaviors.Agent.max_steps: is not ours (refused by plugin 'hooks' (local))"
    assert run_rlcore("validate", "c.yaml", "--allow-local").stdout == f"{message}\n"
    result = run_rlcore("run", "c.yaml")
    assert (result.stderr, result.stdout) == (f"error: {message}\n", "")
    monkeypatch.chdir(working)
    with pytest.raises(ConfigErrors) as caught:
        Run("c.yaml").start()
    assert str(caught.value) == message


def test_a_resumed_run_without_a_file_has_the_place_in_its_configuration(run_rlcore: RunRlcore, tmp_path: Path) -> None:
    working = tmp_path / "working"
    (working / "c.yaml").write_text(FILE.replace("plugins: {local: [hooks.py]}\n", ""))
    assert run_rlcore("run", "c.yaml", "--run-id", "r").exit_code == 0
    (working / "other_hooks.py").write_text(PLUGIN)
    result = run_rlcore("run", "--resume", "--run-id", "r", "-p", "module:other_hooks.py")
    saved = (working / "results/r/configuration.yaml").read_text().splitlines()
    line = 1 + next(number for number, text in enumerate(saved) if text.strip() == "max_steps: 64")
    assert result.stderr.startswith(
        f"error: results/r/configuration.yaml:{line}: behaviors.Agent.max_steps: is not ours"
    )
