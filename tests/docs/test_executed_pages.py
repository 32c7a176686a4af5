"""Pages with a titled configuration are executed: titled blocks become files, and the rlcore commands run in order."""

from __future__ import annotations

import importlib.util
import json
import re
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import yaml
from pages import Block, RunPage, blocks, commands_of, lines_of_code, names_of, run_python_of
from workspace import ROOT

from rlcore import Plugins, Run, RunStateError, load_plugins, load_policies, selection_from
from rlcore.cli.main import main
from rlcore_devkit.scaffold.names import new_package
from rlcore_devkit.scaffold.writing import write_plugin
from rlcore_offline import read_recording
from rlcore_torch import ActorPolicy

pytestmark = pytest.mark.documentation

EXECUTED = sorted({block.page for block in blocks("yaml") if block.title})


def tags(directory: Path) -> set[str]:
    lines = (directory / "metrics.jsonl").read_text().splitlines()
    return {tag for line in lines for tag in json.loads(line)["stats"]}


def without_indentation(code: str) -> str:
    return "".join(line.strip() + "\n" for line in code.splitlines() if line.strip())


def test_the_first_tutorial_runs(run_page: RunPage) -> None:
    results = run_page("docs/tutorial/first-training.md") / "results"
    assert {path.name for path in results.iterdir()} == {"pole", "long", "tanh", "quiet"}


def test_the_page_of_the_example_algorithm_shows_its_code() -> None:
    plugin, delayed = ROOT / "examples/dqn_plugin", ROOT / "examples/td3_plugin"
    paths = [*sorted(plugin.rglob("*.py")), *sorted(delayed.rglob("*.py"))]
    code = "".join(path.read_text(encoding="utf-8") for path in paths)
    shown = [block for block in blocks("py") if block.page == "docs/tutorial/algorithm.md"]
    assert len(shown) == 9
    assert [str(block) for block in shown if block.text not in code] == []
    lines = sum(len(path.read_text(encoding="utf-8").splitlines()) for path in (plugin / "src").rglob("*.py"))
    assert lines <= 150
    for page in ("README.md", "docs/tutorial/algorithm.md"):
        assert f"{lines} lines" in (ROOT / page).read_text(encoding="utf-8"), page


def test_the_sampler_of_the_page_draws_half_as_often_after_a_half_life(run_page: RunPage, tmp_path: Path) -> None:
    run_page("docs/how-to/replay-sampler.md")
    spec = importlib.util.spec_from_file_location("recency_sampler_of_the_page", tmp_path / "recency_sampler.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    slots, positions = 2, 400
    flags = np.ones(slots * positions, np.uint8)
    flags[::7] = 0
    buffer = SimpleNamespace(
        slots=slots, capacity=slots * positions, filled=slots * positions, flags=flags, head=np.array([200, 101])
    )
    flags[buffer.head] = 0
    settings, behavior = SimpleNamespace(half_life=200.0), SimpleNamespace(slots=slots)
    sampler = module.RecencySampler(settings, behavior, None)
    rows = sampler.sample(buffer, 200_000, np.random.default_rng(1), 0.0).rows
    assert flags[rows].all()
    ages = np.stack([(head - np.arange(head % slots, 800, slots)) % 800 // slots for head in buffer.head])  # [S, C]
    row_of = np.stack([np.arange(head % slots, 800, slots) for head in buffer.head])
    share = np.where(flags[row_of] != 0, 0.5 ** (ages / 100.0), 0.0)
    counted = np.bincount(rows, minlength=800)[row_of]
    expected = len(rows) * share / share.sum()
    assert np.abs(counted - expected).max() < 6 * np.sqrt(expected.max())


def test_the_page_of_optimizers_trains_with_its_own(run_page: RunPage) -> None:
    directory = run_page("docs/how-to/optimizers.md") / "results/momentum"
    lines = [json.loads(line)["stats"] for line in (directory / "metrics.jsonl").read_text().splitlines()]
    # Four updates before each summary, whose rollouts begin at every eighth of the run; a stair is a quarter of it.
    rates = [0.05 * np.mean([1.0, 1.0, 0.75, 0.75]), 0.05 * np.mean([0.5, 0.5, 0.25, 0.25])]
    np.testing.assert_allclose([stats["Policy/Learning Rate"] for stats in lines], rates, rtol=1e-6)
    assert load_policies(directory).keys() == {"CartPole"}


def test_packages_that_are_said_to_be_short_are_short() -> None:
    # An import from a flat list has a line for each name.
    for name, most in (("td3_plugin", 90), ("her_plugin", 80), ("exporter_plugin", 80), ("optimizer_plugin", 80)):
        files = (ROOT / "examples" / name / "src").rglob("*.py")
        assert sum(lines_of_code(path.read_text(encoding="utf-8")) for path in files) < most


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
    rates = {}
    for name in ("constant", "falling"):
        lines = (directory / "results" / name / "metrics.jsonl").read_text().splitlines()
        rates[name] = [json.loads(line)["stats"]["Policy/Learning Rate"] for line in lines]
    assert rates["constant"] == pytest.approx([0.3] * 4)
    assert rates["falling"] == sorted(rates["falling"], reverse=True)
    assert rates["falling"][0] < 0.3 and rates["falling"][-1] < 0.1


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


def test_the_environment_page_runs_and_its_environment_is_learned(run_page: RunPage) -> None:
    directory = run_page("docs/how-to/environment.md")
    result = json.loads((directory / "results/line/result.json").read_text())
    assert result["behaviors"]["Walker"]["mean_reward"] > 0.9


def test_the_memory_page_runs_and_its_cue_is_remembered(run_page: RunPage, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(".")
    directory = run_page("docs/how-to/memory.md")
    result = json.loads((directory / "results/cue/result.json").read_text())
    assert result["behaviors"]["Agent"]["mean_reward"] > 0.9
    names = run_python_of("docs/how-to/memory.md")
    assert names["memory"].shape == (2, 16) and names["memory"].any()


def test_the_networks_page_runs_and_its_code_is_in_the_policies(run_page: RunPage) -> None:
    directory = run_page("docs/how-to/networks.md")
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


@pytest.mark.parametrize("name", ["encoder_plugin", "beta_plugin"])
def test_the_networks_page_shows_its_examples_in_fewer_than_80_lines(name: str) -> None:
    example = ROOT / "examples" / name
    code = [path.read_text(encoding="utf-8") for path in sorted((example / "src").rglob("*.py"))]
    others = [path.read_text(encoding="utf-8") for path in (ROOT / "examples").rglob("src/**/*.py")]
    shown = [block for block in blocks("py") if block.page == "docs/how-to/networks.md"]
    assert [str(block) for block in shown if block.text not in "".join(others)] == []
    assert any(block.text in "".join(code) for block in shown)
    count = sum(map(lines_of_code, code))
    assert count < 80
    for page in (example / "README.md", ROOT / "docs/how-to/networks.md"):
        assert f"{count} lines" in page.read_text(encoding="utf-8")


def test_the_environment_page_keeps_the_rules_of_environments(run_page: RunPage) -> None:
    run_page("docs/how-to/environment.md")
    names = run_python_of("docs/how-to/environment.md")
    assert names["simulator"].returncode == -signal.SIGKILL
    tests = [name for name in dir(names["TestLineWorld"]) if name.startswith("test_")]
    assert len(tests) > 5
    for name in tests:
        getattr(names["TestLineWorld"](), name)()


def test_the_reward_page_runs_and_its_tags_are_written(run_page: RunPage) -> None:
    directory = run_page("docs/how-to/reward.md")
    assert {"Policy/Haste Reward", "Policy/Haste Value Estimate"} <= tags(directory / "results/haste")


def test_the_page_of_rewards_that_learn_runs_and_shows_the_code_of_its_example(
    run_page: RunPage, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    page, example = "docs/how-to/rewards-that-learn.md", ROOT / "examples/novelty_reward"
    code = {path: path.read_text(encoding="utf-8") for path in example.rglob("*.py")}
    shown = [block for block in blocks("py") if block.page == page]
    assert [str(block) for block in shown if block.text not in "".join(code.values())] == [] and len(shown) > 5
    for block in blocks("yaml"):
        assert block.page != page or block.text in (example / block.title).read_text(encoding="utf-8")
    count = sum(lines_of_code(text) for path, text in code.items() if path.name in ("plugin.py", "reward.py"))
    assert count < 80 and f"{count} lines" in (example / "README.md").read_text(encoding="utf-8")

    information = tmp_path / "site/acme_novelty-0.1.0.dist-info"  # as if pip had installed the example
    information.mkdir(parents=True)
    (information / "METADATA").write_text(
        "Metadata-Version: 2.1\nName: acme-novelty\nVersion: 0.1.0\nRequires-Dist: rlcore>=0.1\n"
    )
    (information / "entry_points.txt").write_text("[rlcore]\nacme-novelty = acme_novelty.plugin\n")
    monkeypatch.syspath_prepend(information.parent)
    monkeypatch.syspath_prepend(example / "src")
    results = run_page("docs/how-to/rewards-that-learn.md") / "results"
    for name in ("deep-sea", "deep-sea-sac"):
        assert {"Policy/Novelty Reward", "Losses/Novelty Loss"} <= tags(results / name)


def test_the_page_of_several_behaviors_runs_and_shows_the_code_of_the_ghost(
    run_page: RunPage, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    page, example = "docs/how-to/behaviors-and-turns.md", ROOT / "examples/ghost_plugin"
    code = {path: path.read_text(encoding="utf-8") for path in example.rglob("*.py")}
    shown = [block for block in blocks("py") if block.page == page]
    flat = without_indentation("".join(code.values()))  # methods are shown without it
    assert [str(block) for block in shown if without_indentation(block.text) not in flat] == [] and len(shown) == 5
    (nim,) = (block for block in blocks("yaml") if block.page == page and block.title == "nim.yaml")
    assert nim.text == (example / "nim.yaml").read_text(encoding="utf-8")
    count = sum(lines_of_code(text) for path, text in code.items() if path.parent.name == "acme_ghost")
    assert count < 90
    for each in (example / "README.md", ROOT / page):
        assert f"{count} lines" in each.read_text(encoding="utf-8")

    shutil.copy(example / "nim.py", tmp_path)
    information = tmp_path / "site/acme_ghost-0.1.0.dist-info"  # as if pip had installed the example
    information.mkdir(parents=True)
    (information / "METADATA").write_text(
        "Metadata-Version: 2.1\nName: acme-ghost\nVersion: 0.1.0\nRequires-Dist: rlcore>=0.1\n"
    )
    (information / "entry_points.txt").write_text("[rlcore]\nacme-ghost = acme_ghost.plugin\n")
    monkeypatch.syspath_prepend(information.parent)
    monkeypatch.syspath_prepend(example / "src")
    results = run_page("docs/how-to/behaviors-and-turns.md") / "results"
    (said,) = (block for block in blocks("text") if block.page == page)
    printed = capsys.readouterr().out
    assert all(line in printed for line in said.text.splitlines())
    assert json.loads((results / "nim/result.json").read_text())["evaluation"]["score"] >= 0.95


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


def test_the_curriculum_page_runs_and_its_ladder_is_climbed(
    run_page: RunPage, capsys: pytest.CaptureFixture[str]
) -> None:
    directory = run_page("docs/how-to/write-curriculum.md")
    assert "Environment/Lesson Number/length" in tags(directory / "results/ladder")
    status = json.loads((directory / "results/ladder/run_logs/training_status.json").read_text())
    assert status["length"] == {"lesson_num": 2, "lesson": "6"}
    assert "length" in capsys.readouterr().out


def test_the_curriculum_page_keeps_the_rules_of_curricula(run_page: RunPage, tmp_path: Path) -> None:
    run_page("docs/how-to/write-curriculum.md")
    names = names_of("docs/how-to/write-curriculum.md", "TestLadder")
    local = selection_from(None, {}, ["module:./ladder.py"], False)

    class TestLocalLadder(names["TestLadder"]):
        curriculum = "ladder"
        directory = tmp_path

        def plugins(self) -> Plugins:
            return load_plugins(local)

    rules = [name for name in dir(TestLocalLadder) if name.startswith("test_")]
    assert len(rules) > 5
    for name in rules:
        getattr(TestLocalLadder(), name)()


@pytest.mark.parametrize("rung", [3, -1, "many", True])
def test_the_ladder_of_the_page_refuses_a_rung_that_is_not_there(rung: object, tmp_path: Path) -> None:
    names = names_of("docs/how-to/write-curriculum.md", "class Ladder:")
    settings = names["LadderSettings"](type="ladder", rungs=[2.0, 4.0, 6.0], success=0.5)
    ladder = names["Ladder"]({"length": settings, "mass": settings}, None)
    with pytest.raises(RunStateError, match="3 rungs"):
        ladder.load_status({"length": {"lesson_num": 1}, "mass": {"lesson_num": rung}})
    assert [section["lesson_num"] for section in ladder.status().values()] == [0, 0]  # nothing has changed
    ladder.load_status({"length": {"lesson_num": 1}, "mass": {"checkpoints": []}})
    assert [section["lesson_num"] for section in ladder.status().values()] == [1, 0]


def test_the_mean_of_the_curriculum_page_is_of_episodes_in_the_order_in_which_they_began() -> None:
    page, returns = "docs/how-to/write-curriculum.md", np.arange(300.0)
    random = np.random.default_rng(1)
    over = np.sort(random.permutation(300)[:180])  # all other episodes are still open
    settled = next(number for number in range(300) if number not in over)
    mean = names_of(page, "class MeanReturn:")["MeanReturn"](parameters=2, num_envs=4)
    rest = np.setdiff1d(np.arange(300), over)
    for numbers, until in ((random.permutation(over), settled), (random.permutation(rest), 300)):
        draw_id = np.zeros((len(numbers), 2), np.int64)
        mean.episodes_ended(SimpleNamespace(numbers=numbers, settled=until, returns=returns[numbers], draw_id=draw_id))
        again = names_of(page, "class MeanReturn:")["MeanReturn"](parameters=2, num_envs=4)
        again.load_state_dict(mean.state_dict())
        mean = again
        assert (mean.mean() is None) == (until < 100)
    assert mean.mean() == returns[100:200].mean()


def test_the_curriculum_page_shows_what_a_new_package_has(tmp_path: Path) -> None:
    page = "docs/how-to/write-curriculum.md"
    directory = write_plugin(new_package("my-ladder", ["curriculum"]), tmp_path)
    (shown,) = (block for block in blocks("py") if block.page == page)
    assert shown.text in (directory / "src/rlcore_my_ladder/plugin.py").read_text()
    (project,) = (block for block in blocks("toml") if block.page == page)
    written = (directory / "pyproject.toml").read_text()
    assert [line for line in project.text.splitlines() if line not in written] == []


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


def test_the_page_of_imitation_runs_and_names_tags_that_exist(run_page: RunPage) -> None:
    results = run_page("docs/how-to/explore-and-imitate.md") / "results"
    written = tags(results / "imitate")
    assert {"Policy/Gail Reward", "Losses/GAIL Loss", "Evaluation/Cumulative Reward"} <= written
    assert "Policy/Extrinsic Reward" not in written


def test_every_page_with_a_titled_configuration_is_executed() -> None:
    here = Path(__file__).parent
    sources = "".join(
        path.read_text() for folder in (here, here.parent / "packaging") for path in folder.glob("test_*.py")
    )
    tested = set(re.findall(r'(?:run_page\(|^PAGE = )"([^"]+)"', sources, re.MULTILINE))
    assert set(EXECUTED) == tested


def test_the_testing_page_passes_as_a_test_suite(tmp_path: Path) -> None:
    shown = [block.text for block in blocks("python") if block.page == "docs/how-to/testing.md"]
    (tmp_path / "conftest.py").write_text(shown[0])
    (tmp_path / "test_page.py").write_text("\n".join(shown[1:]))
    (tmp_path / "pytest.ini").write_text("[pytest]\n")
    answer = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(tmp_path)],
        capture_output=True,
        text=True,
        check=False,
        cwd=tmp_path,
    )
    assert answer.returncode == 0, answer.stdout
    assert " passed" in answer.stdout
