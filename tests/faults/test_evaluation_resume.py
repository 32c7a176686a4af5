"""A run with evaluations that is killed and resumed finds what the run that was never stopped finds."""

from __future__ import annotations

import os
import shutil
import signal
from typing import Any

import pytest
import yaml

from rlcore import Run, load_checkpoint, save_checkpoint
from rlcore.storage.checkpoint import verify_checkpoint
from rlcore.storage.checkpoints import find_checkpoints

pytestmark = pytest.mark.faults

ENVIRONMENTS = ["CartPole-v1", "Taxi-v4"]  # one saves its state, the other begins new episodes at checkpoints
EVALUATION = {"interval": 150, "episodes": 4, "deterministic": False}


def scored(place: Any) -> Any:
    """Best and last score, and the best policies byte for byte."""
    best = find_checkpoints(place.checkpoints / "best")
    for checkpoint in best:
        verify_checkpoint(checkpoint.path)
    files = [
        {
            file.name: file.read_bytes()
            for file in checkpoint.path.iterdir()
            if file.name in ("state.json", "Agent.safetensors")
        }
        for checkpoint in best
    ]
    return place.json("result.json")["evaluation"], files


def summaries(place: Any) -> list[Any]:
    lines = [yaml.safe_load(line) for line in (place.run / "metrics.jsonl").read_text().splitlines()]
    tags = ("Evaluation/Cumulative Reward", "Evaluation/Episode Length")
    return [(line["step"], *(line["stats"].get(tag) for tag in tags)) for line in lines]


@pytest.mark.parametrize("environment", ENVIRONMENTS)
@pytest.mark.parametrize("after", [1, 3])
def test_a_run_killed_and_resumed_finds_the_same_scores_and_keeps_the_same_best(
    workplace: Any, whole_run: Any, assert_equal_from: Any, environment: str, after: int
) -> None:
    settings = {"environment": environment, "evaluation": EVALUATION}
    whole, place = whole_run(**settings), workplace(**settings)
    process = place.start()
    place.wait_for(lambda: len(place.steps) >= after)
    os.kill(process.pid, signal.SIGKILL)
    process.join()
    last = place.verify()[-1]
    assert last < 2400
    assert place.finish("--resume") == 0, place.stderr
    assert_equal_from(place, whole, last)
    assert scored(place) == scored(whole)
    assert summaries(place) == summaries(whole)
    assert place.leftovers() == []


def test_a_run_killed_and_resumed_stops_where_the_run_never_stopped_did(workplace: Any, whole_run: Any) -> None:
    found = summaries(whole_run(evaluation=EVALUATION, environment="CartPole-v1"))
    stop_at = max(score for _, score, _ in found if score is not None) - 1.0
    settings = {"evaluation": EVALUATION | {"stop_at": stop_at}, "checkpoint_interval": 64}
    whole, place = whole_run(**settings), workplace(**settings)
    assert whole.json("result.json")["evaluation"]["stopped"] is True and whole.steps[-1] < 2400
    process = place.start()
    place.wait_for(lambda: len(place.steps) >= 2)
    os.kill(process.pid, signal.SIGKILL)
    process.join()
    assert place.finish("--resume") == 0, place.stderr
    assert place.steps[-1] == whole.steps[-1] and scored(place) == scored(whole)
    assert place.finish("--resume") == 0 and place.stdout.startswith("nothing left to learn: evaluation.stop_at")


@pytest.mark.parametrize("dropped", [False, True])
def test_the_comparison_notices_that_the_scores_of_a_checkpoint_are_dropped(
    workplace: Any, whole_run: Any, dropped: bool
) -> None:
    """The negative control: the run is resumed after its best score, once with and once without this score."""
    settings = {"environment": "CartPole-v1", "evaluation": EVALUATION}
    whole, place = whole_run(**settings), workplace(**settings)
    result, _ = scored(whole)
    at = next(step for step in whole.steps if step >= result["best_step"])
    assert at < 2400, "choose another seed: the best score must not be the last"
    shutil.copytree(whole.run, place.run)
    for step in whole.steps:
        if step > at:
            shutil.rmtree(place.checkpoints / str(step))
    state = load_checkpoint(place.checkpoints / str(at))
    if dropped:
        del state["run"]["evaluation"]
    save_checkpoint(place.checkpoints, at, state)
    config = yaml.safe_load((place.path / "config.yaml").read_text())
    with Run(config | {"checkpoint_settings": {**config["checkpoint_settings"], "resume": True}}) as run:
        run.train()
    assert (scored(place) == scored(whole)) == (not dropped)
