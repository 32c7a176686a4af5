"""``rlcore run --env ID`` without CONFIG, the flags that also change a file, and what a shell completes."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from rlcore.cli.main import rlcore
from rlcore.cli.run_options import typed_flags
from rlcore_devkit.fixtures import RunRlcore

HERE = Path(__file__).parent
PRESETS = """
from rlcore import EnvironmentSpec, Preset, hookimpl

@hookimpl
def rlcore_config_sections():
    return [Preset(name="brisk", target="brisk:BRISK", summary="small", source="none")]

@hookimpl
def rlcore_environments():
    return [EnvironmentSpec(name="hall", target="stub_plugin:corridor", names_behaviors=False)]

BRISK = {
    "environment": {"type": "hall", "num_envs": 2},
    "default_settings": {
        "trainer_type": "numpy",
        "hyperparameters": {"buffer_size": 8, "width": 2},
        "summary_freq": 50,
        "max_steps": 100,
    },
}
"""


@pytest.fixture(autouse=True)
def working(run_rlcore: RunRlcore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The working directory; RLCORE_PLUGINS chooses the stubs and a preset."""
    (tmp_path / "brisk.py").write_text(PRESETS)
    monkeypatch.chdir(tmp_path / "working")
    monkeypatch.setenv("RLCORE_PLUGINS", f"module:{HERE / 'stub_plugin.py'},module:{tmp_path / 'brisk.py'}")
    monkeypatch.setenv("RLCORE_PLUGIN_AUTOLOAD", "0")
    return tmp_path / "working"


def written(run_id: str) -> Any:
    """The configuration that a run wrote."""
    return yaml.safe_load(Path("results", run_id, "configuration.yaml").read_text())


def test_an_environment_and_a_preset_are_enough(run_rlcore: RunRlcore) -> None:
    done = run_rlcore("run", "--env", "halls:Long/Hall-v3", "--preset", "brisk", "--seed", "4", "--max-steps", "60")
    assert done.exit_code == 0, done.stderr
    assert (
        "values       brisk (brisk): type hall, num_envs 2, trainer_type numpy, buffer_size 8, width 2" in done.stdout
    )
    config = written("Hall-v3")
    assert list(config["behaviors"]) == ["Hall"] and config["preset"] == "none"
    assert config["environment"]["id"] == "halls:Long/Hall-v3" and config["environment"]["num_envs"] == 2
    assert config["behaviors"]["Hall"]["max_steps"] == 60
    assert config["behaviors"]["Hall"]["hyperparameters"] == {"buffer_size": 8, "width": 2, "fail_at": None}
    # The same words with --resume continue the run, and what it wrote is a file that runs.
    more = run_rlcore("run", "--env", "halls:Long/Hall-v3", "--preset", "brisk", "--max-steps", "80", "--resume")
    assert more.exit_code == 0 and "resumed at step 60 from checkpoint" in more.stdout
    again = run_rlcore("run", "results/Hall-v3/configuration.yaml", "--run-id", "again")
    assert again.exit_code == 0 and written("again")["behaviors"] == written("Hall-v3")["behaviors"]


def test_a_trainer_without_a_preset_has_its_defaults(run_rlcore: RunRlcore) -> None:
    command = ("run", "--env", "Hall-v3", "--trainer", "numpy", "--set", "environment.type=hall", "--max-steps", "20")
    done = run_rlcore(*command, "--num-envs", "4", "--run-id", "mine")
    assert done.exit_code == 0 and "no preset is chosen for trainer numpy\n" in done.stdout
    assert written("mine")["behaviors"]["Hall"]["hyperparameters"]["buffer_size"] == 16
    assert written("mine")["environment"]["num_envs"] == 4


def test_the_run_may_be_named_with_set_too(run_rlcore: RunRlcore) -> None:
    command = ("run", "--env", "Hall-v3", "--preset", "brisk", "--max-steps", "8")
    assert run_rlcore(*command, "--set", "checkpoint_settings.run_id=other").exit_code == 0
    assert Path("results/other").is_dir() and not Path("results/Hall-v3").exists()


def test_an_environment_with_names_of_its_own_needs_no_behaviors(run_rlcore: RunRlcore) -> None:
    done = run_rlcore("run", "--env", "Any", "--preset", "brisk", "--set", "environment.type=pair", "--max-steps", "40")
    assert done.exit_code == 0, done.stderr
    assert list(written("Any")["behaviors"]) == ["Left", "Right"]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("", "CONFIG is missing; give --env ID instead, or --run-id with --resume or --inference"),
        ("--preset brisk", "CONFIG is missing; give --env ID instead"),
        ("--trainer numpy --resume", "CONFIG is missing"),
        (
            "--env A-v1 --preset brisq",
            "--preset: preset: unknown preset 'brisq'; allowed: brisk; did you mean 'brisk'?",
        ),
        ("--env A-v1 --preset brisk --trainer recorded", "--trainer: default_settings.trainer_type: preset 'brisk' is"),
        ("--env A-v1 --trainer nump --set environment.type=hall", "--trainer: default_settings.trainer_type: unknown"),
        ("--env Run-v1 --preset brisk", "--env: environment.id: 'Run' is a name that rlcore uses itself in a run"),
    ],
)
def test_what_is_not_enough_is_refused(run_rlcore: RunRlcore, words: str, said: str) -> None:
    refused = run_rlcore("run", *words.split())
    assert refused.exit_code == 2 and said in refused.stderr
    assert not Path("results").exists()


def test_a_preset_does_not_reach_a_configuration_that_a_run_wrote(run_rlcore: RunRlcore) -> None:
    assert run_rlcore("run", "--env", "A-v1", "--preset", "brisk", "--max-steps", "8").exit_code == 0
    refused = run_rlcore("run", "--resume", "--run-id", "A-v1", "--preset", "brisk")
    assert refused.exit_code == 2 and "--preset has no effect: the configuration of a run has every" in refused.stderr
    done = run_rlcore("run", "results/A-v1/configuration.yaml", "--run-id", "b", "--preset", "brisk")
    assert "values       brisk (brisk): without effect, because every key is given\n" in done.stdout


def test_with_a_file_the_flags_change_its_keys(run_rlcore: RunRlcore, working: Path) -> None:
    (working / "c.yaml").write_text("environment: {id: A-v1}\ncheckpoint_settings: {run_id: mine}\n")
    flags = ("--env", "B-v1", "--trainer", "numpy", "--preset", "brisk", "--max-steps", "8")
    assert run_rlcore("run", "c.yaml", *flags).exit_code == 0
    config = written("mine")
    assert config["environment"]["id"] == "B-v1" and list(config["behaviors"]) == ["B"]
    assert config["behaviors"]["B"]["max_steps"] == 8


@pytest.mark.parametrize("words", [("--env", "Hall-v1"), ("--set", "environment.id=Hall-v1")])
def test_num_envs_needs_no_plugin_where_only_the_command_line_names_an_environment(
    run_rlcore: RunRlcore, working: Path, words: tuple[str, str]
) -> None:
    (working / "c.yaml").write_text("default_settings: {trainer_type: numpy}\ncheckpoint_settings: {run_id: mine}\n")
    flags = ("--set", "environment.type=hall", "--num-envs", "3", "--max-steps", "8", "-p", "no:migrate")
    done = run_rlcore("run", "c.yaml", *words, *flags)
    assert done.exit_code == 0, done.stderr
    assert written("mine")["environment"]["num_envs"] == 3


def test_a_file_without_behaviors_is_not_completed_by_flags_that_are_no_trainer() -> None:
    assert typed_flags({"max_steps": 5}, {"environment": {}}) == {}
    assert typed_flags({"max_steps": 5}, {"preset": "x"}) == {("default_settings", "max_steps"): 5}
    assert typed_flags({"trainer": "x"}, {"behaviors": {"A": {}}}) == {
        ("behaviors", "A", "trainer_type"): "x",
        ("default_settings", "trainer_type"): "x",
    }


# ---------------------------------------------------------------- completion


@pytest.fixture
def completed(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Callable[[str], list[str]]:
    """Return a function: the words that bash offers for the end of a command line."""

    def complete(line: str) -> list[str]:
        monkeypatch.setenv("_RLCORE_COMPLETE", "bash_complete")
        monkeypatch.setenv("COMP_WORDS", line)
        monkeypatch.setenv("COMP_CWORD", str(len(line.split(" ")) - 1))
        with pytest.raises(SystemExit) as end:
            rlcore.main([], prog_name="rlcore", standalone_mode=False)
        assert end.value.code == 0
        return [line for line in capsys.readouterr().out.splitlines() if line]

    return complete


def test_a_shell_completes_commands_of_rlcore_and_of_plugins(
    completed: Callable[[str], list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert completed("rlcore eva") == ["plain,evaluate"]
    assert {"plain,run", "plain,schema", "plain,report"} <= set(completed("rlcore "))
    assert completed("rlcore plugins doc") == ["plain,doctor"]
    assert completed("rlcore report --tit") == []  # it is off
    monkeypatch.delenv("RLCORE_PLUGIN_AUTOLOAD")
    assert completed("rlcore report --tit") == ["plain,--title"]
    assert completed("rlcore nonsense --x") == []


def test_a_shell_completes_options_files_runs_and_names(completed: Callable[[str], list[str]], working: Path) -> None:
    for name in ("one", "other"):
        (working / "results" / name).mkdir(parents=True)
        (working / "results" / name / "configuration.yaml").touch()
    (working / "results" / "old").mkdir()  # no run
    assert completed("rlcore run --ini") == ["plain,--initialize-from"]
    assert completed("rlcore run ") == ["file,"]
    assert completed("rlcore run --run-id o") == ["plain,one", "plain,other"]
    for command in ("status", "evaluate", "export"):
        assert completed(f"rlcore {command} ot") == ["plain,other", "dir,ot"]
    assert completed("rlcore run --preset ") == ["plain,brisk"]
    assert completed("rlcore run --trainer t") == ["plain,together"]
