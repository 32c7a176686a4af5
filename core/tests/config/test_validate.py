"""``rlcore validate`` and loading through the real plugin facade."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from rlcore.cli.main import main
from rlcore.config.dump import dump_config
from rlcore.config.load import config_from_mapping, load_config, used_references
from rlcore.config.reading import parse_document
from rlcore.errors import EXIT_CONFIG, EXIT_DONE, EXIT_PLUGIN, PluginError
from rlcore.hookspecs import hookimpl
from rlcore.plugins.call import Plugins, load_plugins
from rlcore.plugins.select import Selection
from rlcore.records import ConfigSection, EnvironmentSpec, TrainerSpec

GOOD = "behaviors:\n  B: {trainer_type: ppo}\nenvironment: {id: CartPole-v1, num_envs: 2}\n"
BAD = "behaviors:\n  B: {trainer_type: ppo, max_steps: 0}\nenviroment: {id: CartPole-v1}\n"


class TwoRecords:
    """A plugin whose settings classes are rlcore's own, so that they can be imported by name."""

    @hookimpl
    def rlcore_trainers(self) -> list[TrainerSpec]:
        return [TrainerSpec(name="ppo", target="a:b", settings="rlcore.settings:CheckpointSettings")]

    @hookimpl
    def rlcore_environments(self) -> list[EnvironmentSpec]:
        return [EnvironmentSpec(name="toy", target="a:b", settings="rlcore.settings:TorchSettings")]

    @hookimpl
    def rlcore_config_sections(self) -> list[ConfigSection]:
        return [ConfigSection(name="acme", target="rlcore.settings:PluginSettings")]


@pytest.fixture
def real() -> Plugins:
    """rlcore's own plugins and one made here, through the real facade."""
    plugins = load_plugins(Selection(autoload=False))
    plugins.register(TwoRecords(), "acme", "acme-rl", "1.0")
    return plugins


@pytest.fixture
def write(tmp_path: Path) -> Any:
    def write_text(text: str) -> str:
        (tmp_path / "c.yaml").write_text(text)
        return str(tmp_path / "c.yaml")

    return write_text


def test_the_real_facade_gives_settings_of_every_kind(real: Plugins) -> None:
    data = {
        "behaviors": {"B": {"trainer_type": "acme-rl/ppo", "hyperparameters": {"run_id": "b"}}},
        "environment": {"type": "toy", "options": {"num_threads": 2}},
        "acme": {"enable": ["x"]},
        "stats": {"jsonl": {}, "console": False},
    }
    config = config_from_mapping(data, real)
    assert config.behaviors["B"].hyperparameters.run_id == "b"
    assert config.environment is not None and config.environment.options.num_threads == 2
    assert config.sections["acme"].enable == ["x"]
    assert config_from_mapping(dump_config(config), real) == config


def test_what_the_facade_refuses_is_reported_with_its_line(real: Plugins) -> None:
    with pytest.raises(Exception, match=r"c\.yaml:2: behaviors\.B\.trainer_type: unknown trainer 'pppo'"):
        load_config(parse_document("behaviors:\n  B: {trainer_type: pppo}\n", "c.yaml"), real)


def test_a_name_of_two_plugins_is_a_plugin_error_with_its_line(real: Plugins) -> None:
    real.register(TwoRecordsWithoutSection(), "other", "other-rl", "1.0")
    with pytest.raises(PluginError, match=r"^c\.yaml:2: behaviors\.B\.trainer_type: .*write trainer_type: acme-rl/ppo"):
        load_config(parse_document("behaviors:\n  B: {trainer_type: ppo}\n", "c.yaml"), real)


class TwoRecordsWithoutSection:
    @hookimpl
    def rlcore_trainers(self) -> list[TrainerSpec]:
        return TwoRecords().rlcore_trainers()


def test_two_plugins_with_one_section_are_refused(real: Plugins) -> None:
    real.register(TwoRecords(), "other", "other-rl", "1.0")
    with pytest.raises(
        PluginError, match=r"section 'acme' is claimed by plugin .* and plugin .*; turn one of them off"
    ):
        config_from_mapping({"behaviors": {"B": {"trainer_type": "acme-rl/ppo"}}}, real)


def test_references_with_a_distribution_are_found_before_anything_is_checked() -> None:
    text = (
        "default_settings: {trainer_type: a/x, reward_signals: {b/y: {}}}\n"
        "behaviors: {B: {trainer_type: a/z, hyperparameters: {beta_schedule: f/s, optimizer: {type: g/o}}}, C: 3}\n"
        "environment: {type: c/e}\nstats: {d/w: {}, jsonl: false}\n"
        "environment_parameters: {size: {curriculum: {type: e/q}}, pace: 3, wind: {curriculum: []}}\n"
    )
    assert set(used_references(parse_document(text, "c.yaml"))) == {
        "a/x",
        "b/y",
        "a/z",
        "c/e",
        "d/w",
        "e/q",
        "f/s",
        "g/o",
    }
    assert used_references(parse_document("behaviors: 3\nstats: [x/y]\nenvironment: no\n", "c.yaml")) == ()


# ---------------------------------------------------------------- the command


def test_validate_says_valid(write: Any, capsys: pytest.CaptureFixture[str]) -> None:
    path = write(GOOD)
    assert main(["validate", path]) == EXIT_DONE
    assert capsys.readouterr().out == f"{path}: valid\n"


def test_a_file_without_an_environment_is_valid_and_cannot_be_run(
    write: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    path = write(GOOD.splitlines()[0] + "\n" + GOOD.splitlines()[1])
    assert main(["validate", path]) == EXIT_DONE
    assert capsys.readouterr().out == (
        f"{path}: valid, but `rlcore run` needs an environment block: "
        "environment: {type: gymnasium, id: CartPole-v1}\n"
    )
    assert main(["validate", path, "--json"]) == EXIT_DONE
    assert json.loads(capsys.readouterr().out) == {"valid": True, "errors": []}


def test_validate_prints_every_error_on_its_line(write: Any, capsys: pytest.CaptureFixture[str]) -> None:
    path = write(BAD)
    assert main(["validate", path]) == EXIT_CONFIG
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == f"{path}:2: behaviors.B.max_steps: must be at least 1, not 0"
    assert lines[1].startswith(f"{path}:3: enviroment: unknown key; did you mean 'environment'? (allowed: ")
    assert len(lines) == 2


def test_validate_answers_in_json(write: Any, capsys: pytest.CaptureFixture[str]) -> None:
    path = write(BAD)
    assert main(["validate", path, "--json"]) == EXIT_CONFIG
    answer = json.loads(capsys.readouterr().out)
    assert answer["valid"] is False
    assert answer["errors"][0]["place"] == f"{path}:2" and answer["errors"][0]["path"] == "behaviors.B.max_steps"
    assert main(["validate", write(GOOD), "--json"]) == EXIT_DONE
    assert json.loads(capsys.readouterr().out) == {"valid": True, "errors": []}


def test_validate_sees_overrides_and_the_plugins_block(write: Any, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["validate", write(GOOD), "--set", "behaviors.B.max_steps=0"]) == EXIT_CONFIG
    assert capsys.readouterr().out == "--set behaviors.B.max_steps: must be at least 1, not 0\n"
    assert main(["validate", write(GOOD + "plugins:\n  disable: [ppo]\n")]) == EXIT_CONFIG
    assert "behaviors.B.trainer_type: unknown trainer 'ppo'" in capsys.readouterr().out
    assert main(["validate", write(GOOD + "plugins:\n  enable: [nonexistent]\n")]) == EXIT_PLUGIN


def test_validate_reports_a_wrong_plugins_block_beside_everything_else(
    write: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    path = write(BAD + "plugins:\n  autolod: false\n  enable: [Bad Name]\n  disable: 3\n")
    assert main(["validate", path]) == EXIT_CONFIG
    printed = capsys.readouterr().out.splitlines()
    assert [line.split(": ")[1] for line in printed] == [
        "behaviors.B.max_steps",
        "enviroment",
        "plugins.autolod",
        "plugins.disable",
    ]
    path = write(BAD + "plugins:\n  enable: [ppo, Bad Name]\n  disable:\n    - ppo\n")
    assert main(["validate", path]) == EXIT_CONFIG
    printed = capsys.readouterr().out.splitlines()
    assert printed[2:] == [
        f"{path}:5: plugins.enable[1]: 'Bad Name' is not a plugin: write NAME, DIST/NAME, or module:Bad Name",
        f"{path}:7: plugins.disable[0]: 'ppo' is in both enable and disable",
    ]


@pytest.mark.parametrize("key", ["enable", "disable"])
def test_no_before_a_name_is_for_the_command_line(write: Any, capsys: pytest.CaptureFixture[str], key: str) -> None:
    path = write(GOOD + f"plugins:\n  {key}: ['no:tensorboard']\n")
    assert main(["validate", path]) == EXIT_CONFIG
    assert f"{path}:5: plugins.{key}[0]: 'no:tensorboard': 'no:' is for -p" in capsys.readouterr().out


def test_a_mistyped_distribution_is_reported_at_its_key_beside_everything_else(
    write: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    path = write(BAD.replace("ppo", "rlcore-pp/ppo"))
    assert main(["validate", path]) == EXIT_CONFIG
    printed = capsys.readouterr().out.splitlines()
    assert printed[0].startswith(f"{path}:2: behaviors.B.trainer_type: unknown trainer 'rlcore-pp/ppo'; allowed: ")
    assert printed[0].endswith("; did you mean 'rlcore-ppo/ppo'?")
    assert len(printed) == 3
    assert main(["run", path]) == EXIT_CONFIG


def test_validate_prints_a_schema_with_the_installed_plugins(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["validate", "--schema"]) == EXIT_DONE
    schema = json.loads(capsys.readouterr().out)
    assert "ppo" in schema["$defs"]["BehaviorSettings"]["properties"]["trainer_type"]["enum"]
    assert any("num_epoch" in block["properties"] for block in schema["$defs"].values())


def test_validate_without_a_file_is_a_usage_error(write: Any, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["validate"]) == EXIT_CONFIG
    assert main(["validate", write(GOOD) + ".missing"]) == EXIT_CONFIG
    assert "no such file" in capsys.readouterr().out


def test_settings_classes_can_be_declared_without_loading_yaml_or_numpy() -> None:
    code = "import sys, rlcore.config; print([m for m in ('yaml', 'numpy', 'torch', 'click') if m in sys.modules])"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "[]\n"


def test_a_valid_file_is_checked_without_torch(write: Any) -> None:
    code = (
        "import sys\nfrom rlcore.cli.main import main\n"
        f"assert main(['validate', {write(GOOD)!r}]) == 0\nassert 'torch' not in sys.modules\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True, capture_output=True)
