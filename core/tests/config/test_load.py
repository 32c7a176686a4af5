"""From text to a RunConfig, beside what ``test_loads.py`` and ``test_refusals.py`` read from data files."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from rlcore import ConfigError, ConfigErrors, PluginError, Plugins
from rlcore.config.load import load_config
from rlcore.config.plugins_block import plugin_settings, used_references
from rlcore.config.reading import document_from_mapping, parse_document
from rlcore.plugins import core as builtin

BEHAVIOR = "behaviors:\n  B:\n    trainer_type: ppo\n"


def refused(data: Any, plugins: Any) -> ConfigErrors:
    document = parse_document(data, "c.yaml") if isinstance(data, str) else document_from_mapping(data)
    with pytest.raises(ConfigErrors) as caught:
        load_config(document, plugins)
    assert caught.value.exit_code == 2
    return caught.value


def bare_core() -> Plugins:
    core = Plugins()
    core.register(builtin, "core")
    return core


def test_the_text_of_many_errors_is_the_first_and_a_count(plugins: Any) -> None:
    assert str(refused(BEHAVIOR + "    max_steps: 0\n    summary_freq: 0\n    time_horizon: 0\n", plugins)) == (
        "c.yaml:4: behaviors.B.max_steps: must be at least 1, not 0 (and 2 more; rlcore validate shows all)"
    )


@pytest.mark.parametrize("name", ["../up", "a/b", ".hidden", "a..b", "", "-x", "x" * 101, "é", "a b", "a\n", "C:\\x"])
def test_names_that_become_paths_are_refused(plugins: Any, name: str) -> None:
    start = {"run_id": name, "initialize_from": name}
    message = str(refused({"behaviors": {name: {}}}, plugins))
    assert "1 to 100 letters, digits" in message and "\n" not in message
    problems = refused({"behaviors": {"B": {}}, "checkpoint_settings": start}, plugins).problems
    assert [("1 to 100 letters" in problem.message, problem.path) for problem in problems] == [
        (True, f"checkpoint_settings.{key}") for key in start
    ]


@pytest.mark.parametrize(
    ("value", "said"),
    [
        ("a\0b", r"'a\x00b' has a NUL character"),
        ("r\udcff", r"'r\udcff' is not UTF-8, so a configuration with it could"),
    ],
)
@pytest.mark.parametrize("block", [{"checkpoint_settings": {"results_dir": 0}}, {"behaviors": {"B": {"init_path": 0}}}])
def test_a_text_that_no_path_or_file_can_hold_is_refused(plugins: Any, block: Any, value: str, said: str) -> None:
    data = json.loads(json.dumps({"behaviors": {"B": {}}} | block).replace("0", json.dumps(value)))
    key = "behaviors.B.init_path" if block.keys() == {"behaviors"} else "checkpoint_settings.results_dir"
    assert str(refused(data, plugins)).startswith(f"{key}: {said}")


def test_local_plugin_files_are_found_from_anywhere_afterwards(plugins: Any, tmp_path: Path) -> None:
    text = "behaviors: {B: {}}\nplugins: {local: [./hooks.py, module:b.py, module:acme.hooks]}\n"
    config = load_config(parse_document(text, str(tmp_path / "c.yaml")), plugins)
    assert config.plugins.local == [str(tmp_path / "hooks.py"), str(tmp_path / "b.py"), "acme.hooks"]


def test_the_plugins_block_is_read_alone() -> None:
    document = parse_document("plugins: {disable: [x]}\nnonsense: 1\n", "c.yaml")
    assert plugin_settings(document).disable == ["x"]
    with pytest.raises(ConfigError, match=r"c\.yaml:2: plugins\.disable: must be a list, not 'x'"):
        plugin_settings(parse_document("plugins:\n  disable: x\n", "c.yaml"))


def test_references_with_a_distribution_are_found_before_anything_is_checked() -> None:
    text = (
        "default_settings: {trainer_type: a/x, reward_signals: {b/y: {}}}\n"
        "behaviors: {B: {hyperparameters: {beta_schedule: f/s, optimizer: {type: g/o}}}, C: 3}\n"
        "environment: {type: c/e, id: no/such/thing}\nstats: {d/w: {}, jsonl: false}\nplugins: {disable: [h/p]}\n"
        "environment_parameters: {size: {curriculum: {type: e/q}}, pace: 3, wind: {curriculum: [/x, y/, 3]}}\n"
    )
    assert set(used_references(parse_document(text, "c.yaml"))) == {"a/x", "b/y", "c/e", "d/w", "e/q", "f/s", "g/o"}


def test_a_bare_core_names_every_package_that_is_missing_at_once() -> None:
    data = {"environment": {"type": "gymnasium"}, "behaviors": {"CartPole": {"trainer_type": "ppo"}}}
    message = str(refused(data, bare_core()))
    assert message.endswith("; for all of it: pip install rlcore-ppo rlcore-gymnasium")


def test_settings_of_an_exporter_are_settings_of_exports(plugins: Any) -> None:
    said = "c.yaml:2: export.lonely: exporter 'lonely' of plugin 'fake' (rlcore-fake 1.0): its settings class Acme"
    with pytest.raises(PluginError, match=f"^{re.escape(said)}Section is not an ExportSettings$"):
        load_config(parse_document("behaviors: {B: {}}\nexport: {lonely: {}}", "c.yaml"), plugins)
