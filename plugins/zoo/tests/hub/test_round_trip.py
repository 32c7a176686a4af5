"""A run that is pushed and pulled is the same run: its policies, its training, and what others make of it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from huggingface_hub import ModelCard

from rlcore import read_checkpoint
from rlcore_devkit.fixtures import RunRlcore

pytestmark = pytest.mark.xdist_group("hub")  # one training for all

PUSH = ("push", "pole", "ann/pole", "--yes")


def played(run_rlcore: RunRlcore, run: str, checkpoint: str) -> Any:
    result = run_rlcore("evaluate", run, "--checkpoint", checkpoint, "--episodes", "6", "--seed", "4", "--json")
    assert result.exit_code == 0, result.stderr
    return json.loads(result.stdout)


def test_a_pulled_run_plays_as_the_pushed_one_and_its_card_says_how_well(
    hub: Any, pole: Path, run_rlcore: RunRlcore
) -> None:
    pushed = run_rlcore(*PUSH, "--episodes", "6", "--license", "mit")
    assert pushed.exit_code == 0, pushed.stderr
    pulled = run_rlcore("pull", "ann/pole", "--run-id", "theirs")
    assert pulled.exit_code == 0, pulled.stderr
    for checkpoint in ("best", "last"):
        assert played(run_rlcore, "theirs", checkpoint) == played(run_rlcore, "pole", checkpoint)
    behavior = played(run_rlcore, "pole", "best")["behaviors"]["CartPole"]
    returns = behavior["returns"]
    mean = sum(returns) / 6
    spread = (sum((value - mean) ** 2 for value in returns) / 6) ** 0.5
    card = ModelCard.load(pole.parent / "theirs/README.md")
    (result,) = card.data.eval_results
    assert result.metric_value == f"{mean:.2f} +/- {spread:.2f}"
    assert (result.task_type, result.dataset_name, result.metric_type) == (
        "reinforcement-learning",
        "CartPole-v1",
        "mean_reward",
    )
    assert result.verified is False
    assert (card.data.library_name, card.data.license) == ("rlcore", "mit")
    assert {"rlcore", "CartPole-v1", "ppo", "reinforcement-learning"} <= set(card.data.tags)
    assert "rlcore evaluate pole --checkpoint best --episodes 6 --seed 4" in card.text
    assert "pip install rlcore-gymnasium rlcore-ppo rlcore-zoo" in card.text and "CartPole.onnx" in card.text
    assert hub.repositories["ann/pole"].private


def same(left: Any, right: Any) -> bool:
    if isinstance(left, dict):
        return left.keys() == right.keys() and all(same(left[key], right[key]) for key in left)
    if isinstance(left, list | tuple):
        return len(left) == len(right) and all(map(same, left, right))
    if hasattr(left, "tobytes"):
        return bool(left.dtype == right.dtype and left.shape == right.shape and left.tobytes() == right.tobytes())
    return bool(left == right)


def test_a_pulled_run_continues_bit_for_bit_as_the_pushed_one(hub: Any, pole: Path, run_rlcore: RunRlcore) -> None:
    assert run_rlcore(*PUSH, "--episodes", "0").exit_code == 0
    assert run_rlcore("pull", "ann/pole", "--run-id", "theirs").exit_code == 0
    further = "behaviors.CartPole.max_steps=6144"
    for run in ("pole", "theirs"):
        result = run_rlcore("run", "--resume", "--run-id", run, "--set", further)
        assert result.exit_code == 0, result.stderr
        assert "warning" not in result.stderr
    ours, theirs = (read_checkpoint(pole.parent / run) for run in ("pole", "theirs"))
    assert ours.step == theirs.step == 6144
    assert same(ours.trainers, theirs.trainers)
    assert not same(ours.trainers, read_checkpoint(pole, "4096").trainers)
    summaries = [
        [json.loads(line)["stats"]["Environment/Cumulative Reward"] for line in file.read_text().splitlines()]
        for file in (pole / "metrics.jsonl", pole.parent / "theirs/metrics.jsonl")
    ]
    assert summaries[0] == summaries[1] and len(summaries[0]) == 6


@pytest.mark.learning
def test_a_pulled_run_is_exported_and_initializes_another(hub: Any, pole: Path, run_rlcore: RunRlcore) -> None:
    assert run_rlcore(*PUSH, "--episodes", "0", "--checkpoint", "last").exit_code == 0
    assert run_rlcore("pull", "ann/pole", "--run-id", "theirs").exit_code == 0
    assert not (pole.parent / "theirs/checkpoints/best").exists()
    exported = run_rlcore("export", "theirs")
    assert exported.exit_code == 0, exported.stderr
    assert (pole.parent.parent / "CartPole.onnx").stat().st_size == (pole / "CartPole.onnx").stat().st_size
    configuration = "results/theirs/configuration.yaml"
    mine = ("--run-id", "mine", "--initialize-from", "theirs", "--max-steps", "512")
    result = run_rlcore("run", configuration, *mine)
    assert result.exit_code == 0, result.stderr
    assert read_checkpoint(pole.parent / "mine").step == 512
    assert read_checkpoint(pole.parent / "theirs").step == 4096


def test_a_commit_is_pulled_as_it_was(hub: Any, pole: Path, run_rlcore: RunRlcore) -> None:
    assert run_rlcore(*PUSH, "--episodes", "0", "--checkpoint", "2048").exit_code == 0
    first = hub.repositories["ann/pole"].head
    assert run_rlcore(*PUSH, "--episodes", "0", "--checkpoint", "4096").exit_code == 0
    for revision, step in (((), 4096), (("--revision", first), 2048)):
        result = run_rlcore("pull", "ann/pole", "--run-id", f"at-{step}", *revision)
        assert result.exit_code == 0, result.stderr
        place = pole.parent / f"at-{step}"
        assert [path.name for path in (place / "checkpoints").iterdir()] == [str(step)]
    assert json.loads((place / "pulled_from.json").read_text()) == {
        "hub": hub.endpoint,
        "repository": "ann/pole",
        "commit": first,
    }


@pytest.mark.learning
@pytest.mark.parametrize("option", ["--film", "--film-from"])
def test_a_film_is_uploaded_where_the_hub_plays_it(
    hub: Any, pole: Path, run_rlcore: RunRlcore, option: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SDL_VIDEODRIVER", "dummy")
    if option == "--film":
        pytest.importorskip("moviepy")
        options: tuple[str, ...] = (option,)
    else:
        films = pole.parent.parent / "films"
        films.mkdir()
        (films / "episode-1.mp4").write_bytes(b"\0\0\0\x18ftyp")
        options = (option, "films")
    result = run_rlcore(*PUSH, "--episodes", "0", *options)
    assert result.exit_code == 0, result.stderr
    files = hub.repositories["ann/pole"].files
    assert files["replay.mp4"][4:8] == b"ftyp"  # an MP4
    assert b'src="replay.mp4"' in files["README.md"]
    assert files["curve.png"].startswith(b"\x89PNG") and b"(curve.png)" in files["README.md"]
