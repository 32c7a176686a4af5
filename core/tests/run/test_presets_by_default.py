"""``preset: auto``: the preset for the trainer, the actions and the observations of each behavior, chosen once."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import attrs
import pytest
import yaml

from rlcore import ConfigError, Run
from rlcore_devkit.fixtures import RunRlcore

HERE = Path(__file__).parent
PLUGIN = """
from rlcore import BehaviorSection, EnvironmentSpec, Preset, TrainerSpec, hookimpl

@hookimpl
def rlcore_trainers():
    return [TrainerSpec(name="mine", target="stub_plugin:NumpyTrainer", settings="stub_plugin:NumpySettings")]


@hookimpl
def rlcore_environments():
    return [
        EnvironmentSpec(name="hall", target="mine:hall", names_behaviors=False, presets=True),
        EnvironmentSpec(name="two", target="stub_plugin:pair", presets=True),
        EnvironmentSpec(name="game", target="stub_plugin:corridor"),
    ]


@hookimpl
def rlcore_config_sections():
    def preset(name, values, **fits):
        return Preset(name=name, target=f"mine:{values}", summary="small", source="none", **fits)

    return [
        BehaviorSection(name="quiet", target="stub_plugin:NumpySettings", presets=False),
        preset("discrete", "DISCRETE", trainer="mine", spaces={"discrete"}, images=False),
        preset("loud", "LOUD", trainer="mine", spaces={"discrete"}, images=False, marks={"loud"}),
        preset("continuous", "CONTINUOUS", trainer="mine", spaces={"continuous"}),
        preset("pictures", "CONTINUOUS", trainer="mine", images=True),
        preset("named-only", "CONTINUOUS"),
        preset("of-another", "CONTINUOUS", trainer="numpy"),  # whose plugin this is not
    ]


def hall(settings, run):
    import stub_plugin

    with open("made", "a") as file:
        print(run.num_envs, file=file)
    made = stub_plugin.corridor(settings, run)
    if settings.id == "Loud-v0":
        made.marks = {"loud", "large"}
    return made


def values(buffer_size, num_envs):
    block = {"trainer_type": "mine", "hyperparameters": {"buffer_size": buffer_size}, "max_steps": 20}
    return {"environment": {"num_envs": num_envs}, "default_settings": block}


DISCRETE = values(8, 2)
LOUD = values(12, 3)
CONTINUOUS = values(20, 4)
"""


@pytest.fixture(autouse=True)
def working(run_rlcore: RunRlcore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "mine.py").write_text(PLUGIN)
    monkeypatch.chdir(tmp_path / "working")
    monkeypatch.setenv("RLCORE_PLUGINS", f"module:{HERE / 'stub_plugin.py'},module:{tmp_path / 'mine.py'}")
    monkeypatch.setenv("RLCORE_PLUGIN_AUTOLOAD", "0")
    return tmp_path / "working"


def config(environment: dict[str, Any], **blocks: Any) -> Any:
    """The configuration of a run; the trainer is ``mine`` unless ``blocks`` say otherwise."""
    data = {"environment": environment, "default_settings": {"trainer_type": "mine"}, **blocks}
    return Run(data).config


def chosen(made: Any, behavior: str = "Hall") -> int:
    """The size of the buffer, which tells the presets apart; 16 is the default of the trainer."""
    return int(made.behaviors[behavior].hyperparameters.buffer_size)


def test_the_preset_for_the_spaces_is_chosen_and_the_most_marked_first() -> None:
    made = config({"type": "hall", "id": "Hall-v0"})
    assert (made.preset, chosen(made), made.num_envs, made.behaviors["Hall"].max_steps) == ("none", 8, 2, 20)
    made = config({"type": "hall", "id": "Loud-v0"})
    assert (chosen(made, "Loud"), made.num_envs) == (12, 3)


@pytest.mark.parametrize(
    ("environment", "blocks", "size", "copies"),
    [
        ({"num_envs": 5}, {}, 8, 5),  # what the file gives wins
        ({}, {"default_settings": {"trainer_type": "mine", "hyperparameters": {"buffer_size": 4}}}, 4, 2),
        ({}, {"preset": None}, 8, 2),
        ({}, {"preset": "auto"}, 8, 2),
        ({}, {"preset": "none"}, 16, 1),
        ({}, {"preset": "named-only"}, 20, 4),
        ({}, {"behaviors": {"Hall": {"preset": "none"}}}, 16, 1),
        ({}, {"behaviors": {"Hall": {"preset": "loud"}}}, 12, 1),
        ({}, {"preset": "none", "behaviors": {"Hall": {"preset": "auto"}}}, 8, 2),
        ({}, {"behaviors": {"Hall": {"quiet": {}}}}, 16, 1),
        ({}, {"default_settings": {"trainer_type": "numpy"}}, 16, 1),
    ],
)
def test_what_is_said_wins(environment: Any, blocks: Any, size: int, copies: int) -> None:
    made = config({"type": "hall", "id": "Hall-v0", **environment}, **blocks)
    assert (chosen(made), made.num_envs) == (size, copies)


def test_environments_that_take_no_part_keep_the_defaults() -> None:
    made = config({"type": "game"}, behaviors={"Agent": {}})
    assert (chosen(made, "Agent"), made.num_envs) == (16, 1)


def test_each_behavior_of_the_environment_gets_its_own() -> None:
    made = config({"type": "two"}, behaviors={"Left": {"preset": "loud"}})
    assert [chosen(made, name) for name in ("Left", "Right")] == [12, 8]
    assert made.num_envs == 1  # presets say nothing about environments that name their behaviors


def test_one_copy_is_made_to_look_and_none_where_nothing_is_to_be_chosen() -> None:
    for preset in ("auto", "none", "discrete"):
        config({"type": "hall", "id": "Hall-v0", "num_envs": 3}, preset=preset)
    assert Path("made").read_text() == "1\n"


def test_the_run_says_what_was_chosen_and_writes_a_complete_file(run_rlcore: RunRlcore) -> None:
    Path("c.yaml").write_text(
        "environment: {type: hall, id: Hall-v0}\ndefault_settings: {trainer_type: mine, hyperparameters: {width: 2}}\n"
    )
    done = run_rlcore("run", "c.yaml", "--run-id", "r", "--seed", "1")
    assert done.exit_code == 0, done.stderr
    assert (
        "values       discrete (mine), by default: num_envs 2, buffer_size 8, max_steps 20; with preset: none, these "
        "keys have the defaults of the trainer\n"
    ) in done.stdout
    written = yaml.safe_load(Path("results/r/configuration.yaml").read_text())
    assert written["preset"] == "none" and "preset" not in written["behaviors"]["Hall"]
    again = run_rlcore("run", "results/r/configuration.yaml", "--run-id", "again")
    assert again.exit_code == 0 and "values" not in again.stdout
    more = run_rlcore("run", "c.yaml", "--run-id", "r", "--max-steps", "40", "--resume")
    assert "resumed at step 20" in more.stdout


def test_the_run_says_why_nothing_was_chosen(run_rlcore: RunRlcore) -> None:
    for words, reason in (
        (["--trainer", "numpy"], "trainer numpy"),
        (
            ["--trainer", "mine", "--set", "environment.type=game", "--set", "behaviors.Agent={}"],
            "environments of type game",
        ),
        (["--trainer", "mine", "--set", "default_settings.quiet={}"], "quiet"),
    ):
        done = run_rlcore(
            "run", "--env", "Hall-v0", "--set", "environment.type=hall", *words, "--max-steps", "8", "--force"
        )
        assert done.exit_code == 0, done.stderr
        assert f"values       the defaults of the trainers: no preset is chosen for {reason}\n" in done.stdout


def test_a_preset_for_other_spaces_is_used_with_a_warning(run_rlcore: RunRlcore) -> None:
    done = run_rlcore("run", "--env", "Hall-v0", "--set", "environment.type=hall", "--preset", "continuous")
    assert done.exit_code == 0
    assert "Hall: preset continuous is for continuous actions; preset: discrete is for this behavior" in done.stderr


def test_validate_checks_with_each_preset_or_makes_the_environment(run_rlcore: RunRlcore) -> None:
    Path("c.yaml").write_text("environment: {type: hall, id: Hall-v0}\ndefault_settings: {trainer_type: mine}\n")
    done = run_rlcore("validate", "c.yaml")
    assert done.stdout == (
        "c.yaml: valid with each preset that may be chosen by default: continuous, discrete, loud, pictures (--make "
        "shows which)\n"
    )
    made = run_rlcore("validate", "c.yaml", "--make")
    assert made.stdout.startswith("c.yaml: valid\n  values: discrete (mine), by default: num_envs 2, buffer_size 8")
    wrong = run_rlcore("validate", "c.yaml", "--set", "default_settings.hyperparameters.widht=1")
    assert wrong.exit_code == 2 and wrong.stdout.endswith("; with preset continuous, which may be chosen by default\n")


def test_a_configuration_that_was_read_without_its_environment_does_not_run() -> None:
    read = attrs.evolve(config({"type": "hall", "id": "Hall-v0"}), preset="auto")
    with pytest.raises(ConfigError, match="presets are not chosen yet"):
        Run(read)
