"""Pages with a titled configuration are executed: titled blocks become files, and the rlcore commands run in order."""

from __future__ import annotations

import json
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml
from pages import Block, RunPage, blocks, commands_of, lines_of_code, names_of, run_python_of
from workspace import ROOT, pyproject

from rlcore import Run, load_checkpoint, load_plugins, load_policies, selection_from
from rlcore.cli.main import main
from rlcore_devkit.scaffold.names import new_package
from rlcore_devkit.scaffold.writing import write_plugin
from rlcore_offline import read_recording
from rlcore_torch import ActorPolicy

pytestmark = pytest.mark.documentation

EXECUTED = sorted({block.page for block in blocks("yaml") if block.title})


def tags(directory: Path) -> set[str]:
    return {tag for stats in summaries(directory) for tag in stats}


def summaries(directory: Path) -> list[Any]:
    return [json.loads(line)["stats"] for line in (directory / "metrics.jsonl").read_text().splitlines()]


def without_indentation(code: str) -> str:
    return "".join(line.strip() + "\n" for line in code.splitlines() if line.strip())


def test_the_first_tutorial_runs(run_page: RunPage) -> None:
    results = run_page("docs/tutorial/first-training.md") / "results"
    assert {path.name for path in results.iterdir()} == {"pole", "long", "preset", "relu", "quiet"}


def test_the_tutorial_of_a_comparison_runs(run_page: RunPage) -> None:
    directory = run_page("docs/tutorial/compare-two.md")
    names = {f"{name}-seed-{seed}" for name in ("ten", "three", "slow") for seed in range(1, 6)}
    assert names <= {path.name for path in (directory / "results").iterdir()}
    command = [sys.executable, "-m", "rlcore", "compare", "ten", "three"]
    printed = subprocess.run(command, cwd=directory, capture_output=True, text=True, check=True).stdout
    assert re.search(r"^ten +5 +\d+\.\d+", printed, re.MULTILINE) and "better than" in printed
    assert (directory / "compared.html").stat().st_size > 10_000


PAGES_OF_EXAMPLES = (
    "tutorial/algorithm", "tutorial/on-policy", "how-to/write-networks", "how-to/write-exporter",
    "how-to/company-package",
    "how-to/status-database", "how-to/rewards-that-learn", "how-to/behaviors-and-turns", "how-to/wrap-trainers",
)  # fmt: skip


def test_pages_show_the_code_of_the_examples() -> None:
    """Parts of Python files, whose methods may be shown without indentation, and configurations."""
    examples = (ROOT / "examples").rglob("*")
    texts = [path.read_text(encoding="utf-8") for path in examples if path.suffix in (".py", ".yaml")]
    flat = without_indentation("\n".join(texts))
    pages = {f"docs/{name}.md" for name in PAGES_OF_EXAMPLES}
    shown = [block for block in blocks("py") if block.page in pages]
    assert [str(block) for block in shown if without_indentation(block.text) not in flat] == []
    assert {block.page for block in shown} == pages


# The pages that say how many lines the code of an example has, and the most that it may have.
LINES = {
    "encoder_plugin": (80, ["docs/how-to/write-networks.md"]), "beta_plugin": (80, ["docs/how-to/write-networks.md"]),
    "exporter_plugin": (80, ["docs/how-to/write-exporter.md"]), "novelty_reward": (110, []),
    "ghost_plugin": (120, ["docs/how-to/wrap-trainers.md"]),
    "a2c_plugin": (80, ["docs/tutorial/on-policy.md"]),
    "tqc_plugin": (200, ["docs/tutorial/algorithm.md"]), "optimizer_plugin": (80, None),
    "spot_notice": (120, None),
}  # fmt: skip


@pytest.mark.parametrize("example", LINES)
def test_packages_that_are_said_to_be_short_are_short(example: str) -> None:
    most, pages = LINES[example]
    apart = ("settings.py", "deep_sea.py") if example == "novelty_reward" else ()
    files = [path for path in (ROOT / "examples" / example / "src").rglob("*.py") if path.name not in apart]
    count = sum(lines_of_code(path.read_text(encoding="utf-8")) for path in files)
    assert count < most
    for page in [] if pages is None else [f"examples/{example}/README.md", *pages]:
        assert f"{count} lines" in (ROOT / page).read_text(encoding="utf-8"), page


def test_the_page_of_optimizers_trains_with_its_own(run_page: RunPage) -> None:
    directory = run_page("docs/how-to/optimizers.md") / "results/momentum"
    # Four updates before each summary, whose rollouts begin at every eighth of the run; a stair is a quarter of it.
    rates = [0.05 * np.mean([1.0, 1.0, 0.75, 0.75]), 0.05 * np.mean([0.5, 0.5, 0.25, 0.25])]
    np.testing.assert_allclose([stats["Policy/Learning Rate"] for stats in summaries(directory)], rates, rtol=1e-6)
    assert load_policies(directory).keys() == {"CartPole"}


def test_the_page_of_on_policy_algorithms_has_a_trainer_that_explores_by_itself(tmp_path: Path) -> None:
    (shown,) = [block for block in blocks("python") if block.title == "monte_carlo.py"]
    (tmp_path / shown.title).write_text(shown.text)
    trained = Run(
        {
            "preset": "none",
            "plugins": {"local": [str(tmp_path / shown.title)]},
            "environment": {"id": "CartPole-v1", "num_envs": 4},
            "default_settings": {
                "trainer_type": "monte_carlo",
                "hyperparameters": {"buffer_size": 256, "batch_size": 64, "lambd": 1.0},
                "max_steps": 512,
            },
            "checkpoint_settings": {"results_dir": str(tmp_path)},
        }
    ).train()
    assert trained["CartPole"].steps == 512


def test_the_second_tutorial_changes_what_the_trainer_does(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    page = "docs/tutorial/first-trainer.md"
    directory = write_plugin(new_package("my-trainer", ["trainer"]), tmp_path)
    source = directory / "src/rlcore_my_trainer"
    plugin, as_written, changed = (b.text for b in blocks("python") if b.page == page and "orch" not in b.text)
    assert plugin in (source / "plugin.py").read_text()
    assert as_written.split("\n\n\n")[1] in (source / "settings.py").read_text()
    (source / "settings.py").write_text(changed)
    text = (source / "trainer.py").read_text()
    for block in (each for each in blocks("diff") if each.page == page):
        lines = block.text.splitlines(keepends=True)
        before, after = ("".join(line[1:] for line in lines if line[0] in kept) for kept in (" -", " +"))
        assert text.count(before) == 1, block
        text = text.replace(before, after)
    (source / "trainer.py").write_text(text)

    monkeypatch.chdir(directory)
    monkeypatch.syspath_prepend(directory / "src")
    shown = [words for b in blocks("sh") if b.page == page for words in commands_of(b) if "--run-id" in words]
    assert len(shown) == 2
    for words in shown:
        shorter = ["--set=behaviors.CartPole.max_steps=8192", "--set=behaviors.CartPole.summary_freq=2048"]
        assert main([*words, *shorter, "-p", "module:rlcore_my_trainer.plugin"]) == 0
    constant, falling = (
        [stats["Policy/Learning Rate"] for stats in summaries(directory / "results" / name)]
        for name in ("constant", "falling")
    )
    assert constant == pytest.approx([0.3] * 4)
    assert falling == sorted(falling, reverse=True) and falling[0] < 0.3 and falling[-1] < 0.1


def test_the_editor_page_runs_and_its_file_keeps_the_schema(
    run_page: RunPage, capsys: pytest.CaptureFixture[str]
) -> None:
    directory = run_page("docs/how-to/editor.md")
    printed = capsys.readouterr().out
    end = printed.index("\n}\n") + 2
    assert json.loads(printed[:end]) == json.loads(printed[end:])  # both schemas describe the same plugins
    jsonschema = pytest.importorskip("jsonschema")
    schema = jsonschema.Draft202012Validator(json.loads(printed[end:]))
    edited = yaml.safe_load((directory / "edited.yaml").read_text())
    assert schema.is_valid(edited)
    assert not schema.is_valid({**edited, "behavior": {}})


def assert_keeps_the_rules(tests: type) -> None:
    """Run the tests of a conformance class."""
    names = [name for name in dir(tests) if name.startswith("test_")]
    assert len(names) > 5
    for name in names:
        getattr(tests(), name)()


def test_the_environment_page_runs_and_its_environment_is_learned_and_keeps_the_rules(run_page: RunPage) -> None:
    directory = run_page("docs/how-to/environment.md")
    result = json.loads((directory / "results/line/result.json").read_text())
    assert result["behaviors"]["Walker"]["mean_reward"] > 0.9
    names = run_python_of("docs/how-to/environment-details.md") | run_python_of("docs/how-to/environment.md")
    assert names["simulator"].returncode == -signal.SIGKILL
    assert_keeps_the_rules(names["TestLineWorld"])


def test_the_page_of_tensor_environments_runs_and_its_environment_keeps_the_rules(
    run_page: RunPage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(".")
    directory = run_page("docs/how-to/tensor-environments.md")
    result = json.loads((directory / "results/countdown/result.json").read_text())
    assert result["behaviors"]["Counter"]["mean_reward"] > -0.4  # waiting would never end
    assert_keeps_the_rules(run_python_of("docs/how-to/tensor-environments.md")["TestCountdown"])


def test_the_memory_page_runs_and_its_cue_is_remembered(run_page: RunPage, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(".")
    directory = run_page("docs/how-to/memory.md")
    result = json.loads((directory / "results/cue/result.json").read_text())
    assert result["behaviors"]["Agent"]["mean_reward"] > 0.9
    names = run_python_of("docs/how-to/memory.md")
    assert names["memory"].shape == (2, 16) and names["memory"].any()


def test_the_networks_page_runs_and_its_code_is_in_the_policies(run_page: RunPage) -> None:
    directory = run_page("docs/how-to/write-networks.md")
    plugins = load_plugins(selection_from(None, {}, ["module:./waves.py", "module:./logistic.py"], False))
    waves, logistic = (
        load_policies(directory / "results" / run, plugins=plugins)[name]
        for run, name in (("waves", "Pole"), ("logistic", "Pendulum"))
    )
    assert isinstance(waves, ActorPolicy) and isinstance(logistic, ActorPolicy)
    first = waves.model.actor.layers[0].weight
    assert first.shape == (64, 4 + 2 * 3 * 4)  # the vector, and sines and cosines of three frequencies
    distribution = logistic.model.policy_head.distribution
    assert type(distribution).__name__ == "Logistic"
    assert any(parameter.item() != pytest.approx(-0.6) for parameter in distribution.parameters()), "not learned"


@pytest.fixture
def use_example(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """``use_example("ghost_plugin")``: as if pip had installed the package in ``examples/``."""

    def use(folder: str) -> None:
        project = pyproject(ROOT / "examples" / folder)["project"]
        information = tmp_path / f"site/{project['name'].replace('-', '_')}-0.1.0.dist-info"
        information.mkdir(parents=True)
        entries = "".join(f"{name} = {value}\n" for name, value in project["entry-points"]["rlcore"].items())
        (information / "entry_points.txt").write_text(f"[rlcore]\n{entries}")
        (information / "METADATA").write_text(
            f"Metadata-Version: 2.1\nName: {project['name']}\nVersion: 0.1.0\nRequires-Dist: rlcore>=0.1\n"
        )
        for place in (information.parent, ROOT / "examples" / folder / "src"):
            monkeypatch.syspath_prepend(place)

    return use


def test_pages_of_rewards_run_and_their_tags_are_written(run_page: RunPage, use_example: Callable[[str], None]) -> None:
    use_example("novelty_reward")
    run_page("docs/how-to/reward.md")
    run_page("docs/how-to/rewards-that-learn.md")
    results = run_page("docs/how-to/explore-and-imitate.md") / "results"
    for name, written in {
        "haste": {"Policy/Haste Reward", "Policy/Haste Value Estimate"},
        "deep-sea": {"Policy/Novelty Reward", "Losses/Novelty Loss"},
        "deep-sea-sac": {"Policy/Novelty Reward", "Losses/Novelty Loss"},
        "imitate": {"Policy/Gail Reward", "Losses/GAIL Loss", "Evaluation/Cumulative Reward"},
    }.items():
        assert written <= tags(results / name), name


def test_the_page_of_several_behaviors_runs(run_page: RunPage, capsys: pytest.CaptureFixture[str]) -> None:
    run_page("docs/how-to/behaviors-and-turns.md")
    (said,) = (block for block in blocks("text") if block.page == "docs/how-to/behaviors-and-turns.md")
    printed = capsys.readouterr().out
    assert all(line in printed for line in said.text.splitlines())


def test_the_page_about_wrapping_a_trainer_runs_and_its_game_is_won(
    run_page: RunPage, tmp_path: Path, use_example: Callable[[str], None]
) -> None:
    shutil.copy(ROOT / "examples/ghost_plugin/nim.py", tmp_path)
    use_example("ghost_plugin")
    results = run_page("docs/how-to/wrap-trainers.md") / "results"
    assert json.loads((results / "nim/result.json").read_text())["evaluation"]["score"] >= 0.95


def test_the_page_of_envpool_runs(run_page: RunPage) -> None:
    pytest.importorskip("envpool")
    results = run_page("docs/how-to/envpool.md") / "results"
    assert json.loads((results / "pole/result.json").read_text())["behaviors"]["Pole"]["steps"] >= 20_000


def test_the_page_of_simulators_in_jax_runs(run_page: RunPage) -> None:
    pytest.importorskip("pgx")
    results = run_page("docs/how-to/jax.md") / "results"
    for run_id, behavior in (("breakout", "Breakout"), ("connect", "Player")):
        assert json.loads((results / run_id / "result.json").read_text())["behaviors"][behavior]["steps"] >= 20_000


def test_the_page_of_unity_runs_with_the_player_that_it_makes(run_page: RunPage, tmp_path: Path) -> None:
    (command,) = (line for line in (ROOT / "docs/how-to/unity.md").read_text("utf-8").splitlines() if "--make" in line)
    script, *words = command.removeprefix("python ").split()
    subprocess.run([sys.executable, ROOT / script, *words], cwd=tmp_path, check=True)
    results = run_page("docs/how-to/unity.md") / "results"
    assert json.loads((results / "walk/result.json").read_text())["behaviors"]["Walk"]["mean_reward"] > 0.5
    assert (results / "walk/Walk.onnx").is_file()


def test_the_page_of_godot_runs(run_page: RunPage, tmp_path: Path) -> None:
    if shutil.which("godot3-server") is None:
        pytest.skip("godot3-server is not installed (apt install godot3-server)")
    shutil.copytree(ROOT / "tests/support/godot_project", tmp_path / "godot_project")
    results = run_page("docs/how-to/godot.md") / "results"
    assert (results / "reach/reach.onnx").is_file()
    assert json.loads((results / "exact/result.json").read_text())["behaviors"]["pole"]["steps"] >= 4_000


def test_the_minimax_of_the_opponents_page_is_never_beaten(run_page: RunPage, tmp_path: Path) -> None:
    pytest.importorskip("pettingzoo")
    results = run_page("docs/how-to/opponents.md") / "results"
    measured = json.loads((results / "tictactoe/result.json").read_text())["evaluation"]["opponents"]
    assert measured["minimax"]["win_rate"] == 0.0 and measured["random"]["win_rate"] > 0.5
    assert measured["minimax"]["mean_reward"] < measured["careless"]["mean_reward"] < measured["random"]["mean_reward"]
    module = sys.modules["minimax"]
    assert module.best(0, 0)[0] == 0 and module.best(0b11, 0b11000) == (1, 2), "a draw, and a row that is completed"


@pytest.mark.parametrize(
    "block", [b for b in blocks("yaml") if b.page == "docs/how-to/curriculum.md" and "- name: Long" in b.text], ids=str
)
def test_the_lessons_that_the_curriculum_page_shows_are_passed(
    block: Block, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "config.yaml").write_text(block.text)
    assert main(["run", "config.yaml", "--run-id", "lessons", "--seed", "1"]) == 0
    status = json.loads((tmp_path / "results/lessons/run_logs/training_status.json").read_text())
    assert status["length"]["lesson"] == "Long"


def test_the_curriculum_page_runs_and_its_ladder_is_climbed_and_keeps_the_rules(
    run_page: RunPage, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    directory = run_page("docs/how-to/write-curriculum.md")
    assert "Environment/Lesson Number/length" in tags(directory / "results/ladder")
    status = json.loads((directory / "results/ladder/run_logs/training_status.json").read_text())
    assert status["length"] == {"lesson_num": 2, "lesson": "6"}
    assert "length" in capsys.readouterr().out
    shown = names_of("docs/how-to/write-curriculum.md", "TestLadder")["TestLadder"]
    local = selection_from(None, {}, ["module:./ladder.py"], False)
    own = {"curriculum": "ladder", "directory": tmp_path, "plugins": lambda _: load_plugins(local)}
    assert_keeps_the_rules(type("TestLocalLadder", (shown,), own))


def test_the_writer_page_runs_and_names_tags_that_exist(run_page: RunPage) -> None:
    directory = run_page("docs/how-to/stats-writer.md")
    written = (directory / "results/csv/table.csv").read_text().splitlines()
    assert {line.split(",")[2] for line in written} == tags(directory / "results/csv")
    text = (ROOT / "docs/how-to/stats-writer.md").read_text()
    named = set(re.findall(r"`((?:Environment|Losses|Policy|Performance)/[^`]+)`", text))
    assert named <= tags(directory / "results/csv")


def test_the_status_page_runs_and_a_resumed_run_gets_its_section_back(run_page: RunPage) -> None:
    directory = run_page("docs/how-to/status.md")
    status = json.loads((directory / "results/visits/run_logs/training_status.json").read_text())
    assert status["visits"] == {"starts": 2}
    config = yaml.safe_load((directory / "visits.yaml").read_text())
    for run_id in ("second", "third"):  # in one process
        Run({**config, "checkpoint_settings": {"run_id": run_id}}).train()
        status = json.loads((directory / "results" / run_id / "run_logs/training_status.json").read_text())
        assert status["visits"] == {"starts": 1}
    mirror = json.loads((directory / "results/mirror/run_logs/mirror.json").read_text())
    assert "metadata" in mirror


def test_the_recordings_page_records_and_reads_what_it_recorded(
    run_page: RunPage, capsys: pytest.CaptureFixture[str]
) -> None:
    run_page("docs/how-to/recordings.md")
    printed = capsys.readouterr().out
    mean = float(re.findall(r"Pole: mean reward (\S+) .* over 50 episodes", printed)[0])
    names = run_python_of("docs/how-to/recordings.md")
    assert names["recording"].returns.mean() == pytest.approx(mean, abs=0.01)
    assert len(names["longest"]) == names["recording"].lengths.max()

    plugins = load_plugins(selection_from(None, {}, ["module:./drive_log.py"], False))
    drives = read_recording(plugins, "drives.csv", "Cart")
    assert drives.lengths.tolist() == [2, 1] and drives.returns.tolist() == [-2, -1]
    assert drives.observations["observation"][drives.rows + 1, 0].tolist() == pytest.approx([-0.4, -0.3, -0.6])
    own = read_recording(plugins, "recordings", "Cart")
    assert own.lengths.tolist() == [3, 5] and own.returns.tolist() == [-3, -5]


def test_the_offline_page_runs_and_names_tags_that_exist(run_page: RunPage) -> None:
    results = run_page("docs/how-to/offline.md") / "results"
    text = (ROOT / "docs/how-to/offline.md").read_text()
    named = set(re.findall(r"`((?:Losses|Policy)/[^`]+)`", text))
    written = {name: tags(results / name) for name in ("clone", "better", "shown")}
    assert named - {"Policy/Squared Error"} <= set.union(*written.values())  # CartPole has no continuous action
    assert "Losses/Pretraining Loss" in written["shown"]
    assert "Evaluation/Cumulative Reward" in written["better"] - written["clone"]


def test_the_page_of_prior_data_runs_and_learns_from_the_recording(run_page: RunPage) -> None:
    directory = run_page("docs/how-to/prior-data.md")
    recording = read_recording(load_plugins(), directory / "recordings", "MountainCarContinuous")
    assert recording.returns.tolist() == [100.0] * 20
    state = load_checkpoint(directory / "results/car/checkpoints/1100")["MountainCarContinuous"]
    assert state["recorded_transitions"] == recording.transitions


def test_the_presets_page_runs_and_its_preset_is_in_force(run_page: RunPage) -> None:
    results = run_page("docs/how-to/presets.md") / "results"
    assert {path.name for path in results.iterdir()} == {"pole", "CartPole-v1", "again", "arm"}
    config = yaml.safe_load((results / "arm" / "configuration.yaml").read_text())
    assert config["environment"]["num_envs"] == 4
    assert config["behaviors"]["Pendulum"]["network_settings"]["hidden_units"] == 32


def test_the_wrappers_page_runs_and_its_wrappers_are_in_force(
    run_page: RunPage, capsys: pytest.CaptureFixture[str]
) -> None:
    run_page("docs/how-to/wrappers.md")
    printed = capsys.readouterr().out
    assert "8 agents; observes 3;" in printed  # two coins and the time
    mean, length = re.findall(r"Collector: mean reward (\S+) .* over 20 episodes of (\S+) steps", printed)[0]
    assert float(length) == 7
    # The larger one of two numbers between 0 and 1 is 2 / 3 on average, and a fifth of it is a tax.
    assert float(mean) == pytest.approx(7 * 2 / 3 * 0.8, abs=0.4)


def test_every_page_with_a_titled_configuration_is_executed() -> None:
    here = Path(__file__).parent
    files = (path for folder in (here, here.parent / "packaging") for path in folder.glob("test_*.py"))
    sources = "".join(path.read_text() for path in files)
    tested = set(re.findall(r'(?:run_page\(|^PAGE = )"([^"]+)"', sources, re.MULTILINE))
    assert set(EXECUTED) == tested


def test_the_testing_page_passes_as_a_test_suite(tmp_path: Path) -> None:
    shown = [block.text for block in blocks("python") if block.page == "docs/how-to/testing.md"]
    (tmp_path / "conftest.py").write_text(shown[0])
    (tmp_path / "test_page.py").write_text("\n".join(shown[1:]))
    (tmp_path / "pytest.ini").write_text("[pytest]\n")
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(tmp_path)]
    answer = subprocess.run(command, capture_output=True, text=True, check=False, cwd=tmp_path)
    assert answer.returncode == 0, answer.stdout
    assert " passed" in answer.stdout
