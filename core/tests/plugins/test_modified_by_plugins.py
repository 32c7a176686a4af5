"""Plugins change the parsed configuration before it is checked; secrets stay out of files and messages."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import attrs
import pytest
import yaml

from rlcore import ConfigErrors, ConfigSection, EnvironmentSpec, Plugins, dump_config, hookimpl
from rlcore.config.load import config_from_mapping, load_config
from rlcore.config.reading import parse_document
from rlcore.errors import ConfigError, PluginError
from rlcore.settings import RunConfig, setting
from rlcore_devkit import json_schema

FILE = "default_settings:\n  max_steps: 100\nbehaviors: {A: {}}\n"


@attrs.frozen(kw_only=True)
class AcmeSettings:
    """Settings of a company."""

    team: str = setting("none", "Who pays.")
    token: str | None = setting(None, "Password of the tracker.", secret=True)
    pin: int = setting(1, "A number that is not shown.", minimum=1, secret=True)


@attrs.frozen(kw_only=True)
class KeySettings:
    """A block with a secret that must be given."""

    key: str = setting(description="A key.", secret=True)


class Acme:
    """A plugin whose ``rlcore_modify_config`` is a function."""

    def __init__(self, change: Callable[[dict[str, Any]], Any] = lambda document: None) -> None:
        self.change = change

    @hookimpl
    def rlcore_config_sections(self) -> list[ConfigSection]:
        return [ConfigSection(name="acme", target=f"{__name__}:AcmeSettings")]

    @hookimpl
    def rlcore_modify_config(self, document: dict[str, Any]) -> Any:
        return self.change(document)


def load(plugins: Plugins, change: Callable[[dict[str, Any]], Any], text: str = FILE) -> RunConfig:
    plugins.register(Acme(change), "acme", "acme-hooks", "1.0")
    return load_config(parse_document(text, "run.yaml"), plugins)


# ---------------------------------------------------------------- changes


def test_a_plugin_adds_defaults_that_the_file_and_its_inheritance_keep(bare: Plugins) -> None:
    def change(document: dict[str, Any]) -> None:
        document.setdefault("acme", {}).setdefault("team", "vision")
        document["default_settings"].setdefault("max_steps", 7)
        document["default_settings"].setdefault("summary_freq", 50)
        document["behaviors"]["A"]["time_horizon"] = 8
        document["behaviors"]["A"].setdefault("max_steps", 9)  # the user wrote it, for all behaviors
        document["behaviors"]["A"].setdefault("keep_checkpoints", 3)

    config = load(bare, change)
    settings = config.behaviors["A"]
    assert (settings.max_steps, settings.summary_freq, settings.time_horizon) == (100, 50, 8)
    assert settings.keep_checkpoints == 3
    assert config.sections["acme"].team == dump_config(config)["acme"]["team"] == "vision"


def test_a_mistake_is_at_the_plugin_that_made_it_and_others_keep_their_lines(bare: Plugins) -> None:
    def change(document: dict[str, Any]) -> None:
        document["default_settings"]["max_stepz"] = 5
        document["env_settings"] = {"seed": "many"}

    with pytest.raises(ConfigErrors) as caught:
        load(bare, change, "default_settings:\n  max_steps: -1\nbehaviors: {A: {}}\n")
    own, unknown, seed = caught.value.messages
    assert own.startswith("run.yaml:2: default_settings.max_steps: must be at least 1")
    assert unknown.startswith("plugin 'acme' (acme-hooks 1.0): default_settings.max_stepz: unknown key; did you mean")
    assert seed == "plugin 'acme' (acme-hooks 1.0): env_settings.seed: must be a whole number, not 'many'"


REFUSED = ConfigError("acme: no budget")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda document: {}, "returned a dict; change the document in place"),
        (lambda document: document.update(a={1}), "in rlcore_modify_config: a: must be plain data"),
        (lambda document: document.update({3: 1}), "keys must be text"),
        (lambda document: document.update(plugins={}), "changed the plugins block.*RLCORE_PLUGINS"),
        (lambda document: document.update(plugins={"enable": []}), "changed the plugins block"),
        (lambda document: document["nothing"], "failed in rlcore_modify_config: KeyError"),
        (Mock(side_effect=REFUSED), "^acme: no budget$"),
    ],
)
def test_a_plugin_that_fails_or_refuses_ends_the_command(bare: Plugins, change: Any, message: str) -> None:
    with pytest.raises((PluginError, ConfigError), match=message) as caught:
        load(bare, change)
    assert caught.value is REFUSED or "plugin 'acme' (acme-hooks 1.0)" in str(caught.value)
    assert (caught.value is REFUSED) == isinstance(caught.value, ConfigError)


def test_the_document_of_the_caller_stays_as_it_is(bare: Plugins) -> None:
    document = parse_document(FILE, "run.yaml")
    bare.register(Acme(lambda document: document.clear()), "acme")
    with pytest.raises(ConfigErrors, match="behaviors: missing"):
        load_config(document, bare)
    assert document.data == {"default_settings": {"max_steps": 100}, "behaviors": {"A": {}}}


# ---------------------------------------------------------------- secrets


def test_a_secret_reaches_its_plugin_and_is_not_written(bare: Plugins) -> None:
    config = load(bare, lambda document: document.update(acme={"token": "hunter2", "pin": 4711}))
    assert (config.sections["acme"].token, config.sections["acme"].pin) == ("hunter2", 4711)
    written = dump_config(config)
    assert written["acme"] == {"team": "none"}
    assert "hunter2" not in repr(config) and "4711" not in repr(config.sections)
    assert config_from_mapping(written, bare).sections["acme"].token == "hunter2"  # the plugin gives it again
    (block,) = (each for name, each in json_schema(bare)["$defs"].items() if name.endswith("AcmeSettings"))
    assert block["properties"]["token"]["writeOnly"] is True and "writeOnly" not in block["properties"]["team"]


@pytest.mark.parametrize("pin", ["-4711", "'x4711'", "[4711]"])
def test_no_message_shows_a_secret(bare: Plugins, pin: str) -> None:
    with pytest.raises(ConfigErrors, match=r"run.yaml:4: acme.pin: ") as caught:
        load(bare, lambda document: None, f"{FILE}acme: {{pin: {pin}}}\n")
    assert "4711" not in str(caught.value)
    with pytest.raises(ConfigError) as direct:
        AcmeSettings(pin=-4711)
    assert "4711" not in str(direct.value)


class Secrets:
    """A block, and options of an environment, with a secret."""

    @hookimpl
    def rlcore_config_sections(self) -> list[ConfigSection]:
        return [ConfigSection(name="keys", target=f"{__name__}:KeySettings")]

    @hookimpl
    def rlcore_environments(self) -> list[EnvironmentSpec]:
        return [EnvironmentSpec(name="warehouse", target="a:b", settings=f"{__name__}:KeySettings")]


def test_a_secret_that_is_missing_says_why_and_evaluations_inherit_it(bare: Plugins) -> None:
    bare.register(Secrets(), "keys")
    with pytest.raises(ConfigErrors, match=r"keys.key: missing.*a secret, which the configuration.yaml"):
        load_config(parse_document(FILE, "run.yaml"), bare)
    blocks = "keys: {key: k8}\nenvironment: {type: warehouse, options: {key: k9}}\n"
    blocks += "evaluation: {interval: 10, environment: {id: x}}\n"
    config = load_config(parse_document(FILE + blocks, "run.yaml"), bare)
    assert config.evaluation_environment is not None and config.evaluation_environment.options.key == "k9"
    assert "k9" not in yaml.safe_dump(dump_config(config))


# ---------------------------------------------------------------- a run and its resume

SITE = """\
import os

import attrs

from rlcore import ConfigSection, hookimpl
from rlcore.settings import setting

@attrs.frozen(kw_only=True)
class Settings:
    team: str = setting("none", "Who pays.")
    token: str = setting(description="Password.", secret=True)

@hookimpl
def rlcore_config_sections():
    return [ConfigSection(name="acme", target="site_hooks:Settings")]

@hookimpl
def rlcore_modify_config(document):
    block = document.setdefault("acme", {})
    block.setdefault("team", "vision")
    if "ACME_TOKEN" in os.environ:
        block.setdefault("token", os.environ["ACME_TOKEN"])

@hookimpl
def rlcore_run_started(run):
    with open("seen.txt", "a") as file:
        file.write(run.config.sections["acme"].token + "\\n")
"""


def test_a_resumed_run_gets_its_secret_again_and_no_file_has_it(
    run_rlcore: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    stubs = Path(__file__).parents[1] / "run/stub_plugin.py"
    (tmp_path / "site_hooks.py").write_text(SITE)
    config = {
        "environment": {"type": "corridor", "num_envs": 2},
        "behaviors": {"Agent": {"trainer_type": "numpy", "max_steps": 40, "summary_freq": 20}},
        "checkpoint_settings": {"run_id": "run"},
        "plugins": {"autoload": False, "local": [str(stubs), str(tmp_path / "site_hooks.py")]},
    }
    (tmp_path / "run.yaml").write_text(json.dumps(config))
    file = str(tmp_path / "run.yaml")
    refused = run_rlcore("run", file)
    assert refused.exit_code == 2 and "acme.token: missing" in refused.stderr
    monkeypatch.setenv("ACME_TOKEN", "hunter2")
    assert run_rlcore("run", file).exit_code == 0
    resumed = run_rlcore("run", "--resume", "--run-id", "run", "--set", "behaviors.Agent.max_steps=80")
    assert resumed.exit_code == 0, resumed.stderr
    assert run_rlcore("evaluate", "run", "--episodes", "2", "--allow-local").exit_code == 0
    working = tmp_path / "working"
    assert (working / "seen.txt").read_text() == "hunter2\nhunter2\n"
    written = [path for path in (working / "results").rglob("*") if path.is_file()]
    assert len(written) > 5 and not [path for path in written if b"hunter2" in path.read_bytes()]
    saved = yaml.safe_load((working / "results/run/configuration.yaml").read_text())
    assert saved["acme"] == {"team": "vision"}
