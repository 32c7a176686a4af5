"""Files and options of ``mlagents-learn`` as keys of the environment block."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import pytest
import yaml

from rlcore import ConfigError, config_from_mapping, load_plugins
from rlcore_devkit.fixtures import RunRlcore, run_rlcore
from rlcore_unity.executable import find_player, names_a_player
from rlcore_unity.mlagents_keys import translate

__all__ = ["run_rlcore"]

DOCUMENTS = yaml.safe_load((Path(__file__).parent / "data/documents.yaml").read_text("utf-8"))


@pytest.fixture(autouse=True)
def _in_a_folder_with_players(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("Walker.x86_64", "plain", "Mac.app/Contents/MacOS/Mac"):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch(mode=0o755)


def environment_of(document: dict[str, Any]) -> Any:
    translate(document)
    return document.get("environment")


@pytest.mark.parametrize("case", DOCUMENTS.values(), ids=DOCUMENTS)
def test_a_document_says_what_its_player_is(case: dict[str, Any]) -> None:
    document = copy.deepcopy(case["document"])
    block = environment_of(document)
    expected = case.get("has") or case["environment"]
    assert {key: block[key] for key in expected} == expected
    if "others" in case:
        kept = {key: value for key, value in document.items() if key not in ("environment", "export")}
        assert block == expected and kept == case["others"]


@pytest.mark.parametrize(
    "named", ["Walker.x86_64", "Walker", "plain", "./plain", "Mac", "Mac.app", "gone/Game.x86_64", "../x"]
)
def test_env_names_a_player(named: str) -> None:
    """``--env`` sets ``environment.id``. A path is a player even if the file is missing, so that the error says so."""
    assert names_a_player(named)
    assert environment_of({"environment": {"id": named}})["executable"] == named


@pytest.mark.parametrize("named", ["CartPole-v1", "ALE/Pong-v5", "acme_worlds:acme/Maze-v0", "chess_v6"])
def test_env_names_an_environment(named: str) -> None:
    block = {"id": named, "num_envs": 2}
    assert environment_of({"environment": dict(block), "engine_settings": {"width": 84}}) == block


@pytest.mark.parametrize("named", ["Walker.x86_64", "./plain", "gone/Game-v2.x86_64"])
def test_a_file_with_default_settings_alone_has_no_behavior_of_the_players_name(named: str) -> None:
    """An environment without names has one behavior, which has the name of its id; those of a player have names."""
    document = {"default_settings": {"trainer_type": "ppo"}, "environment": {"id": named}}
    plugins = load_plugins()
    config = config_from_mapping(document, plugins)
    assert config.environment is not None and config.environment.type == "unity"
    assert not config.behaviors
    own = {**document, "behaviors": {"Walker.x86_64": {"max_steps": 5}}}
    assert [*config_from_mapping(own, plugins).behaviors] == ["Walker.x86_64"]


def test_the_file_that_a_run_writes_is_read_as_it_is() -> None:
    document: dict[str, Any] = {"environment": {"id": "Walker"}}
    translate(document)
    again = {name: dict(block) for name, block in document.items()}
    (Path.cwd() / "Walker").mkdir()
    translate(again)
    assert again == document


@pytest.mark.parametrize(
    ("words", "args"),
    [
        (["--level", "3", "--fast"], ["--level", "3", "--fast"]),  # the rest of the line, as with mlagents-learn
        (["--level 3", "--set", "env_settings.seed=5"], ["--level", "3"]),  # one text, and other options after it
        (["[--level, '3']", "--set", "env_settings.seed=5"], ["--level", "3"]),
    ],
)
def test_env_args_takes_the_rest_of_the_line(
    words: list[str], args: list[str], run_rlcore: RunRlcore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[Any] = []
    monkeypatch.setattr("rlcore.cli.run.train", lambda make, *_: made.append(make()) or 0)
    (tmp_path / "walk.yaml").write_text("behaviors: {Walk: {trainer_type: ppo}}", encoding="utf-8")
    done = run_rlcore("run", str(tmp_path / "walk.yaml"), "--env", str(tmp_path / "plain"), "--env-args", *words)
    assert done.exit_code == 0, done.stderr
    assert made[0].config.environment.args == args
    assert made[0].config.env_settings.seed == (5 if "--set" in words else -1)


def test_help_lists_the_options_of_players_and_a_missing_environment_names_them(
    run_rlcore: RunRlcore, tmp_path: Path
) -> None:
    said = run_rlcore("run", "--help").stdout
    assert "Options of installed plugins" in said and "--env-args" in said and "--no-graphics-monitor" in said
    (tmp_path / "walk.yaml").write_text("behaviors: {Walk: {trainer_type: ppo}}", encoding="utf-8")
    assert "--env PLAYER or --env editor for Unity" in run_rlcore("run", str(tmp_path / "walk.yaml")).stderr


@pytest.mark.parametrize(
    ("blocks", "intervals"),
    [
        ({"behaviors": {"A": {}, "B": {"checkpoint_interval": 9}}}, {"A": 500_000, "B": 9}),
        ({"behaviors": {"A": {"even_checkpoints": True}}}, {"A": None}),
        ({"behaviors": {"A": {}}, "default_settings": {"checkpoint_interval": 7}}, {"A": None}),
    ],
)
def test_checkpoints_are_as_rare_as_those_of_mlagents(blocks: dict[str, Any], intervals: dict[str, Any]) -> None:
    document = {"environment": {"id": "plain"}, **blocks}
    translate(document)
    assert {name: each.get("checkpoint_interval") for name, each in document["behaviors"].items()} == intervals


@pytest.mark.parametrize(
    ("path", "says"),
    [
        ("Waker.x86_64", r"did you mean 'Walker\.x86_64'"),
        ("classic/tictactoe", r"write environment\.type too, such as"),
        ("", r"is a folder.*it has Mac.app, Walker.x86_64"),
        ("unexecutable", r"chmod \+x"),
    ],
)
def test_a_player_that_cannot_be_started_is_refused_with_advice(tmp_path: Path, path: str, says: str) -> None:
    (tmp_path / "unexecutable").touch(mode=0o644)
    with pytest.raises(ConfigError, match=says):
        find_player(tmp_path / path)


def test_validate_does_not_call_a_configuration_checked_whose_player_is_not_there(
    run_rlcore: RunRlcore, tmp_path: Path
) -> None:
    config = tmp_path / "config.yaml"
    config.write_text("environment: {id: builds/Walker}\nbehaviors: {A: {}}\n")
    checked = run_rlcore("validate", str(config))
    assert checked.exit_code == 0 and "not checked:\n  environment.executable: " in checked.stdout
    assert "there is no such file" in checked.stdout and "write environment.type too" in checked.stdout


def test_the_folder_that_unity_builds_on_a_mac_has_the_file_to_start(tmp_path: Path) -> None:
    assert find_player(tmp_path / "Mac") == tmp_path / "Mac.app" / "Contents" / "MacOS" / "Mac"
