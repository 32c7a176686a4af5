"""The files of the zoo are valid, their measurements are those of these very files, and commands find them by name."""

from __future__ import annotations

import json
import sys
import types
from pathlib import Path

import pytest

from rlcore import ConfigError, Preset, hookimpl, load_config, load_plugins, main, read_document, read_run
from rlcore_zoo.collection import file_for, names, path_of
from rlcore_zoo.entries import entries, fingerprint, read_index, read_measurements

KINDS = {"classic", "box2d", "mujoco", "robotics", "minigrid", "atari", "pettingzoo"}
TRAINERS = {"ppo", "sac", "td3", "dqn", "ghost", "bc", "iql"}


def test_every_file_is_valid_and_says_what_the_index_says() -> None:
    plugins = load_plugins()
    run_ids = set()
    found = entries()
    for entry in found:
        config = load_config(read_document(entry.path), plugins)
        run_ids.add(config.checkpoint_settings.run_id)
        trainers = {behavior.trainer_type for behavior in config.behaviors.values()}
        assert {entry.trainer} == trainers or (entry.trainer == "ghost" and trainers <= {"ppo"}), entry.name
        assert {behavior.max_steps for behavior in config.behaviors.values()} == {entry.steps}, entry.name
        assert config.evaluation is not None and config.evaluation.episodes == entry.episodes >= 20, entry.name
        assert config.evaluation.deterministic == entry.deterministic, entry.name
        assert entry.summary.endswith("."), entry.name
    assert run_ids == {entry.name.replace("/", "-") for entry in found}
    assert len(found) >= 40
    assert {entry.trainer for entry in found} == TRAINERS and {entry.world.kind for entry in found} == KINDS


def test_every_measurement_has_the_episodes_and_the_steps_of_its_file() -> None:
    known = {entry.name: entry for entry in entries()}
    for line in read_measurements():
        entry = known[line.name]
        if line.fingerprint == entry.fingerprint:
            assert line.episodes == entry.episodes and 1.0 <= line.steps / entry.steps < 1.1, line.name
        assert set(line.versions) >= {"rlcore", "torch", "numpy"}, line.name
    assert all(entry.fingerprint for entry in known.values())


def test_a_change_of_a_value_is_another_file_and_one_of_a_comment_or_of_reports_is_not(tmp_path: Path) -> None:
    plugins = load_plugins()
    original = path_of("ppo/CartPole-v1")
    text = original.read_text("utf-8")
    copy = tmp_path / "copy.yaml"
    expected = fingerprint(original, plugins)
    for same in (
        f"# more words\n{text}",
        text.replace("summary_freq: 5000", "summary_freq: 77"),
        text.replace("run_id: p", "run_id: q"),
    ):
        assert same != text
        copy.write_text(same, "utf-8")
        assert fingerprint(copy, plugins) == expected
    for other in (text.replace("max_steps: 1", "max_steps: 2"), text.replace("ppo-discrete", "ppo-continuous")):
        assert other != text
        copy.write_text(other, "utf-8")
        assert fingerprint(copy, plugins) not in (None, expected)


def test_a_changed_value_of_the_preset_is_another_file_unless_the_file_gives_it(tmp_path: Path) -> None:
    plugins = load_plugins()
    file = tmp_path / "file.yaml"
    file.write_text("preset: acme\ndefault_settings: {hyperparameters: {batch_size: 3}}\n", "utf-8")
    assert fingerprint(file, plugins) is None  # no plugin has the preset
    found = []
    for learning_rate, batch_size in ((1, 1), (1, 2), (2, 1)):
        values = {"default_settings": {"hyperparameters": {"learning_rate": learning_rate, "batch_size": batch_size}}}
        module = types.SimpleNamespace(VALUES=values, rlcore_config_sections=None)
        module.rlcore_config_sections = hookimpl(
            lambda: [Preset(name="acme", target="acme_preset:VALUES", summary="one", source="none")],
            specname="rlcore_config_sections",
        )
        with pytest.MonkeyPatch.context() as patch:
            patch.setitem(sys.modules, "acme_preset", module)  # type: ignore[arg-type]
            plugins = load_plugins()
            plugins.register(module, "acme")
            found.append(fingerprint(file, plugins))
    assert found[0] == found[1] != found[2]


def test_validate_and_run_take_a_name_for_a_path(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["validate", "zoo:ppo/CartPole-v1"]) == 0
    assert capsys.readouterr().out == "zoo:ppo/CartPole-v1: valid\n"
    assert main(["run", "zoo:ppo/CartPole-v1", "--max-steps", "64", "--seed", "3"]) == 0
    assert json.loads(Path("results/ppo-CartPole-v1/result.json").read_text("utf-8"))["outcome"] == "done"
    # The saved configuration needs neither the name nor the zoo.
    assert main(["run", "--resume", "--run-id", "ppo-CartPole-v1", "-p", "no:zoo"]) == 0


@pytest.mark.parametrize(
    ("config", "said"),
    [
        ("zoo:ppo/Cartpole-v1", "the zoo has no 'ppo/Cartpole-v1'; did you mean 'ppo/CartPole-v1'?"),
        (
            "zoo:CartPole-v1",
            "did you mean 'bc/CartPole-v1' or 'dqn/CartPole-v1' or 'ppo/CartPole-v1' or 'sac/CartPole-v1'?",
        ),
        ("zoo:../index", "the zoo has no '../index'"),
        ("zo:ppo/CartPole-v1", "unknown collection 'zo'; allowed: zoo; did you mean 'zoo'?"),
        ("files/zoo:ppo/CartPole-v1", "files/zoo:ppo/CartPole-v1: no such file"),
        ("ppo/CartPole-v1.yaml", "ppo/CartPole-v1.yaml: no such file"),
    ],
)
def test_an_unknown_name_is_answered_with_the_nearest(
    config: str, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["run", config]) == 2
    assert said in capsys.readouterr().err


def test_without_the_zoo_the_message_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("RLCORE_PLUGINS", "no:zoo")
    assert main(["run", "zoo:ppo/CartPole-v1"]) == 2
    assert "unknown collection 'zoo'; no plugin that is on has any; pip install rlcore-zoo" in capsys.readouterr().err


def test_a_file_of_the_user_wins(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("zoo:ppo").mkdir()
    Path("zoo:ppo/CartPole-v1").write_text("debug: true\n", "utf-8")
    assert dict(read_document(Path("zoo:ppo/CartPole-v1")).data) == {"debug": True}


def test_a_plugin_may_have_a_collection_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    module = tmp_path / "acme_files.py"
    module.write_text(
        "from pathlib import Path\n"
        "from rlcore import hookimpl\n"
        "from rlcore_zoo import CollectionSpec\n"
        "def find(file):\n"
        "    return Path(__file__).parent / f'{file}.yaml'\n"
        "@hookimpl\n"
        "def rlcore_collections():\n"
        "    return [CollectionSpec(name='acme', target='acme_files:find')]\n",
        "utf-8",
    )
    (tmp_path / "robot.yaml").write_text("debug: true\n", "utf-8")
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setenv("RLCORE_PLUGINS", "module:acme_files")
    assert dict(read_document(Path("acme:robot")).data) == {"debug": True}


def test_a_line_that_is_no_measurement_is_named_with_its_place(tmp_path: Path) -> None:
    line = {
        "name": "ppo/A", "fingerprint": "0", "seed": 1, "score": 1.0, "episodes": 20, "steps": 10, "cpu_seconds": None,
        "wall_seconds": 1.0, "date": "2026-11-26", "machine": "one", "python": "3.11", "versions": {}, "command": "c",
    }  # fmt: skip
    path = tmp_path / "measured.jsonl"
    path.write_text(f"{json.dumps(line)}\n{json.dumps({**line, 'seed': 'one'})}\n", "utf-8")
    with pytest.raises(ConfigError, match=r"measured\.jsonl:2: not a measurement: .*'seed' must be <class 'int'>"):
        read_measurements(path)
    path.write_text(json.dumps({**line, "speed": 3}), "utf-8")
    with pytest.raises(ConfigError, match=r"measured\.jsonl:1: .*unexpected keyword argument 'speed'"):
        read_measurements(path)


def test_an_entry_of_the_index_with_an_unknown_kind_is_named(tmp_path: Path) -> None:
    path = tmp_path / "index.yaml"
    path.write_text("ppo/A: {kind: clasic, needs: [rlcore-ppo]}\n", "utf-8")
    with pytest.raises(ConfigError, match=r"index\.yaml: ppo/A: 'kind' must be in"):
        read_index(path)
    path.write_text("ppo/A: {kind: classic, needs: [rlcore-ppo], published: {score: 1, steps: 2}}\n", "utf-8")
    with pytest.raises(ConfigError, match=r"index\.yaml: ppo/A: .*missing 1 required keyword-only argument: 'source'"):
        read_index(path)


def test_names_are_those_of_the_files() -> None:
    assert "ppo/Hopper-v5" in names() and path_of("ppo/Hopper-v5.yaml") == path_of("ppo/Hopper-v5")


def found_for(env_id: str, trainer: str | None = None, **environment: str) -> str | None:
    settings = {} if trainer is None else {"trainer_type": trainer}
    return file_for({"environment": {"id": env_id, **environment}, "default_settings": settings})


def test_an_environment_is_found_by_its_id_its_trainer_and_its_type() -> None:
    assert found_for("CartPole-v1") == "ppo/CartPole-v1"
    assert found_for("CartPole-v1", "dqn") == found_for("CartPole-v1", "rlcore-dqn/dqn") == "dqn/CartPole-v1"
    assert found_for("MountainCar-v0") == "dqn/MountainCar-v0"  # there is none of PPO, SAC and TD3
    assert found_for("ALE/Pong-v5") == found_for("ale_py:ALE/Pong-v5") == "ppo/Pong-v5"
    assert found_for("openspiel/kuhn_poker") == found_for("openspiel/kuhn_poker", type="pettingzoo")
    assert found_for("openspiel/kuhn_poker") == "ghost/kuhn_poker"
    for env_id, trainer, environment in (
        ("CartPole-v0", None, {}),
        ("CartPole-v1", "td3", {}),
        ("CartPole-v1", None, {"type": "acme"}),
        ("acme:CartPole-v1", None, {}),
        ("Pong-v5", None, {}),
    ):
        assert found_for(env_id, trainer, **environment) is None, env_id


@pytest.mark.parametrize(
    ("words", "file", "expected"),
    [
        ("", "zoo:ppo/CartPole-v1", {"trainer_type": "ppo", "summary_freq": 5000}),
        ("--set default_settings.summary_freq=7", "zoo:ppo/CartPole-v1", {"trainer_type": "ppo", "summary_freq": 7}),
        ("--trainer dqn", "zoo:dqn/CartPole-v1", {"trainer_type": "dqn"}),
        ("--preset dqn", "", {"trainer_type": "dqn", "summary_freq": 2000}),
        ("--preset none", "", {"trainer_type": "ppo", "summary_freq": 50000}),
        ("--set preset=none", "", {"trainer_type": "ppo", "summary_freq": 50000}),
        ("-p no:zoo", "", {"trainer_type": "ppo", "summary_freq": 10000}),
    ],
)
def test_a_run_without_a_file_and_a_preset_begins_with_that_of_the_zoo(
    words: str,
    file: str,
    expected: dict[str, object],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["run", "--env", "CartPole-v1", "--max-steps", "8", *words.split()]) == 0
    lines = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert [line[1] for line in lines if line[0] == "file"] == ([file] if file else [])
    settings = read_run("CartPole-v1").configuration["behaviors"]["CartPole"]
    assert {key: settings[key] for key in expected} == expected and settings["max_steps"] == 8
