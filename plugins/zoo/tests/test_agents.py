"""Trained agents: those of the package play at their scores, and a finished run is packed as one."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path

import numpy as np
import pytest

from rlcore import Run, RunStateError, SavedRun, apply_overrides, load_policies, main, read_checkpoint, read_document
from rlcore_zoo import collection
from rlcore_zoo.collection import AGENTS, agent_of
from rlcore_zoo.entries import Entry, World, entries, entry_of
from rlcore_zoo.packing import pack
from rlcore_zoo.trainings import score_of, train

MOST_BYTES = 8_000_000  # of all agents that see no images
DAILY = ("ppo/Acrobot-v1", "ppo/CartPole-v1", "ppo/Pendulum-v1")


def contents(folder: Path) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


def plays_as_measured(entry: Entry, capsys: pytest.CaptureFixture[str]) -> None:
    """Evaluate the agent of an entry as its score was measured; fail for another one, or one outside the interval."""
    mujoco = tuple(map(int, version("mujoco").split(".")[:2]))
    if entry.world.kind == "robotics" and mujoco >= (3, 11):
        pytest.skip("gymnasium-robotics reads no MuJoCo from 3.11 on")
    agent = entry.agent
    assert agent is not None
    before = contents(agent.path)
    words = ["evaluate", f"zoo:{entry.name}", "--episodes", f"{entry.episodes}", "--json"]
    assert main(words if entry.deterministic else [*words, "--stochastic"]) == 0
    result = json.loads(capsys.readouterr().out)
    score = score_of(result)
    deviation = max(behavior["std_reward"] for behavior in result["behaviors"].values())
    # Another processor rounds otherwise, and plays other episodes: four standard errors of the difference of two means.
    error = deviation * math.sqrt(2 / entry.episodes)
    assert score == pytest.approx(agent.score, abs=4 * error + 1e-3 * abs(agent.score)), entry.name
    if entry.measured and agent.fingerprint == entry.fingerprint:
        low, high = entry.interval
        assert low <= agent.score <= high, entry.name
    assert contents(agent.path) == before


@pytest.mark.parametrize("name", DAILY)
def test_agents_play_as_they_were_measured(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    plays_as_measured(entry_of(name), capsys)


@pytest.mark.learning
@pytest.mark.parametrize("name", [entry.name for entry in entries() if entry.agent and entry.name not in DAILY])
def test_every_agent_plays_as_it_was_measured(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    plays_as_measured(entry_of(name), capsys)


def test_the_agents_are_small_and_belong_to_files() -> None:
    size = 0
    for entry in entries():
        if entry.agent is not None and entry.world.kind != "atari":
            size += sum(map(len, contents(entry.agent.path).values()))
    assert 0 < size <= MOST_BYTES
    folders = {path.parents[1].relative_to(AGENTS).as_posix() for path in AGENTS.rglob("state.json")}
    assert folders == {entry.name for entry in entries() if entry.agent is not None}


def test_an_agent_stands_for_a_run_in_commands_and_programs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    policies = load_policies("zoo:ppo/CartPole-v1")
    right, left = policies["CartPole"].act(np.array([[0, 0, 0.1, 0.5], [0, 0, -0.1, -0.5]], np.float32)).discrete
    assert right == 1 and left == 0  # it follows the pole
    assert SavedRun.open("zoo:ppo/CartPole-v1").specs["CartPole"].discrete == (2,)
    assert main(["export", "zoo:ppo/CartPole-v1", "--format", "onnx", "-o", "pole.onnx"]) == 0
    assert Path("pole.onnx").stat().st_size > 1000
    words = ["run", "zoo:ppo/CartPole-v1", "--initialize-from", "zoo:ppo/CartPole-v1", "--max-steps", "8"]
    assert main([*words, "--run-id", "more"]) == 0
    started = read_checkpoint("more").trainers["CartPole"]["model"]
    packed = read_checkpoint("zoo:ppo/CartPole-v1").trainers["CartPole"]["model"]
    name = "actor.layers.0.weight"
    assert np.array_equal(started[name], packed[name]) and "critic.layers.0.weight" in started.keys() - packed.keys()
    capsys.readouterr()
    assert main(["zoo", "list", "--agent"]) == 0
    assert "ppo/CartPole-v1" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("run", "said"),
    [
        ("zoo:ppo/CartPole-v2", "the zoo has no 'ppo/CartPole-v2'; did you mean"),
        ("zoo:ppo/CartPole-v1", "the zoo has no trained agent of 'ppo/CartPole-v1'; rlcore run zoo:ppo/CartPole-v1 "),
        ("zo:ppo/CartPole-v1", "unknown collection 'zo'"),
    ],
)
def test_an_agent_that_is_not_there_is_answered(
    run: str, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(collection, "AGENTS", tmp_path)
    assert main(["evaluate", run]) == 2
    assert said in capsys.readouterr().err


# ---------------------------------------------------------------- packing


@pytest.fixture
def new_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Run]:
    """``new_run("a", *sets)``: a run of the only file of a zoo of its own, td3/Small."""
    monkeypatch.setattr(collection, "FILES", tmp_path / "files")
    file = tmp_path / "files/td3/Small.yaml"
    file.parent.mkdir(parents=True)
    hyperparameters = "{batch_size: 4, buffer_size: 64, buffer_init_steps: 4}"
    file.write_text(
        "preset: none\nenvironment: {id: Pendulum-v1}\ncheckpoint_settings: {run_id: small}\n"
        f"default_settings: {{trainer_type: td3, max_steps: 12, hyperparameters: {hyperparameters}, "
        "network_settings: {hidden_units: 8, num_layers: 1}}\n",
        "utf-8",
    )
    monkeypatch.chdir(tmp_path)

    def make(run_id: str, *sets: str) -> Run:
        changes = [f"checkpoint_settings.run_id={run_id}", "env_settings.seed=3", *sets]
        return Run(apply_overrides(read_document(file), changes))

    return make


@pytest.fixture
def trained(new_run: Callable[..., Run]) -> Callable[..., Path]:
    """``trained("a", *sets)``: the directory of such a run after its training."""

    def train(run_id: str, *sets: str) -> Path:
        with new_run(run_id, *sets) as run:
            run.train()
        return run.directory.path

    return train


def test_equal_runs_are_packed_as_equal_files_without_critics(trained: Callable[..., Path], tmp_path: Path) -> None:
    first = pack(trained("a"), "td3/Small", -1.5, "f00d", tmp_path / "one")
    second = pack(trained("a", "checkpoint_settings.force=true"), "td3/Small", -1.5, "f00d", tmp_path / "two")
    assert first == tmp_path / "one/td3/Small/12"
    files = {path.name: content for path, content in contents(first).items()}
    assert files == {path.name: content for path, content in contents(second).items()}
    model = read_checkpoint(first).trainers["Pendulum"]["model"]
    assert {name.partition(".")[0] for name in model} == {"actor", "policy_head"}
    assert json.loads(files["state.json"])["run"]["score"] == -1.5


def test_a_run_from_a_packed_agent_has_its_policy_as_the_target_policy_too(
    new_run: Callable[..., Run],
    trained: Callable[..., Path],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    source = trained("a")
    packed = pack(source, "td3/Small", 0.0, None, tmp_path / "agents")
    monkeypatch.setattr(collection, "AGENTS", tmp_path / "agents")
    assert agent_of("td3/Small") == packed
    seen = np.random.default_rng(1).normal(size=(5, 3)).astype(np.float32)
    policies = [load_policies(path)["Pendulum"] for path in (source, packed)]
    actions = [policy.act(seen).continuous for policy in policies]
    assert np.array_equal(actions[0], actions[1])
    with new_run("b", "checkpoint_settings.initialize_from=zoo:td3/Small") as run:
        run.start()
        model = run.behaviors["Pendulum"].trainer.state_dict()["model"]
    assert "its critics begin untrained" in caplog.text
    packed_model = read_checkpoint(packed).trainers["Pendulum"]["model"]
    for name, weights in packed_model.items():
        assert np.array_equal(model[name], weights) and np.array_equal(model[f"target.{name}"], weights), name


def test_what_was_not_trained_with_the_file_is_not_packed(
    new_run: Callable[..., Run], trained: Callable[..., Path], tmp_path: Path
) -> None:
    new_run("c").start()
    for run, said in (
        (trained("a", "default_settings.hyperparameters.tau=0.02"), "hyperparameters.tau is 0.02 instead of 0.005"),
        (trained("b", "default_settings.max_steps=8"), "max_steps is 8 instead of 12"),
        (Path("results/c"), "resume it before it is packed"),
        (trained("d", f"checkpoint_settings.results_dir={tmp_path / 'far'}"), "names places of this machine"),
    ):
        with pytest.raises(RunStateError, match=said):
            pack(run, "td3/Small", 0.0, None, tmp_path / "agents")
    assert not (tmp_path / "agents").exists()
    saved_more = trained("e", "default_settings.checkpoint_interval=6")  # as a run does where its machine is slow
    assert pack(saved_more, "td3/Small", 0.0, None, tmp_path / "agents").exists()


def test_a_training_does_not_resume_a_run_of_another_version_of_the_file(trained: Callable[..., Path]) -> None:
    trained("zoo-td3-Small-3", "default_settings.hyperparameters.tau=0.02")
    entry = Entry(name="td3/Small", world=World(kind="classic", needs=["rlcore-td3"]), measurements={})
    with pytest.raises(RunStateError, match=r"another version of .*Small .*tau is 0\.02 instead of 0\.005.*; choose"):
        train(entry, 3, Path("results"))
