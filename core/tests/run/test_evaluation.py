"""Evaluations within a run: when they are due, what they leave alone, an end at a score, and a resume."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from rlcore import hookimpl
from rlcore.contracts.results import EvaluationResult
from rlcore.run.run import Run
from rlcore.storage.checkpoint import load_checkpoint
from rlcore_devkit.fixtures import RunRlcore

IDENTITY = {"environment.type": "identity"}  # cannot save itself: every checkpoint begins new episodes
TAGS = ("Evaluation/Cumulative Reward", "Evaluation/Episode Length")


Script = Callable[..., None]


class Heard:
    """The evaluations that are reported to a plugin."""

    def __init__(self) -> None:
        self.evaluations: list[tuple[int, float]] = []

    @hookimpl
    def rlcore_evaluated(self, run: Any, step: int, result: EvaluationResult) -> None:
        assert run.run_id
        self.evaluations.append((step, result.score))


def train(run: Run) -> list[tuple[int, float]]:
    """Trains to the end; the steps and scores of all evaluations."""
    heard = Heard()
    run.plugins.register(heard, "heard")
    run.train()
    return heard.evaluations


# ---------------------------------------------------------------- when


@pytest.mark.parametrize(
    ("num_envs", "interval", "expected"),
    [
        (8, 50, [56, 104, 152, 200]),  # the step that crossed the multiple
        (2, 80, [80, 160, 200]),  # and the end
        (64, 10, [64, 128, 192, 256]),  # one step over several multiples evaluates once
    ],
)
def test_an_evaluation_follows_the_step_that_crosses_a_multiple_of_the_interval_and_the_last(
    make_run: Any, num_envs: int, interval: int, expected: list[int]
) -> None:
    run = make_run({"environment.num_envs": num_envs, "evaluation": {"interval": interval, "episodes": 2}})
    assert [step for step, _ in train(run)] == expected


@pytest.mark.parametrize("interval", [6, 50, 131])
def test_the_steps_of_all_behaviors_count(make_run: Any, interval: int) -> None:
    """Left takes two and Right four agent steps in an environment step; Left ends early."""
    pair: dict[str, Any] = {"environment.type": "pair", "evaluation": {"interval": interval, "episodes": 2}}
    pair |= {"behaviors.Left": {"max_steps": 30}, "behaviors.Right": {"max_steps": 300}}
    steps = [6 * moved for moved in range(1, 16)] + [90 + 4 * moved for moved in range(1, 61)]
    before = [0, *steps[:-1]]
    crossing = [now for was, now in zip(before, steps, strict=True) if now // interval > was // interval]
    heard = train(make_run(pair, behaviors=("Left", "Right"), summary_freq=70))
    assert [step for step, _ in heard] == list(dict.fromkeys([*crossing, steps[-1]]))


def test_the_evaluation_is_made_before_the_summary_and_checkpoint_of_its_step(make_run: Any, files: Any) -> None:
    run = make_run({"evaluation": {"interval": 100, "episodes": 2}}, checkpoint_interval=100, summary_freq=100)
    found = dict(train(run))
    for line in files().metrics:
        assert line["stats"][TAGS[0]] == found[line["step"]] and line["stats"][TAGS[1]] > 0
        state = load_checkpoint(files().path / "checkpoints" / str(line["step"]))
        assert state["run"]["evaluation"]["score"] == found[line["step"]]


# ---------------------------------------------------------------- what it leaves alone


@pytest.mark.parametrize("deterministic", [True, False])
@pytest.mark.parametrize("environment", ["corridor", "identity", "pair"])
def test_weights_after_training_are_equal_with_and_without_evaluation(
    make_run: Any, files: Any, environment: str, deterministic: bool
) -> None:
    behaviors = ("Left", "Right") if environment == "pair" else ("Agent",)
    changes: dict[str, Any] = {"environment.type": environment}
    make_run({**changes, "checkpoint_settings.run_id": "without"}, behaviors=behaviors, keep_checkpoints=0).train()
    block = {"interval": 10, "episodes": 3, "deterministic": deterministic}
    make_run({**changes, "evaluation": block}, behaviors=behaviors, keep_checkpoints=0).train()
    assert files().steps == files("without").steps
    for step in files().steps:
        ours, theirs = (load_checkpoint(files(run).path / "checkpoints" / str(step)) for run in ("run", "without"))
        for content in (ours, theirs):
            del content["run"]["evaluation"], content["run"]["wall_seconds"]
            for behavior in content["run"]["behaviors"].values():
                for tag in TAGS:
                    behavior["window"].pop(tag, None)
        np.testing.assert_equal(ours, theirs)


class Watched:
    """Environments that are made and closed."""

    def __init__(self) -> None:
        self.made: list[Any] = []
        self.closed: list[Any] = []

    @hookimpl(wrapper=True)
    def rlcore_create_environment(self) -> Any:
        environment = yield
        self.made.append(environment)
        close = environment.close
        environment.close = lambda: (self.closed.append(environment), close())
        return environment


def test_the_environment_is_made_once_kept_open_and_closed_with_the_run(make_run: Any) -> None:
    watched = Watched()
    run = make_run({"evaluation": {"interval": 20, "episodes": 4}})
    run.plugins.register(watched, "watched")
    first = run.evaluate(4).score
    assert run.evaluate(3).behaviors["Agent"].episodes == 3 and run.evaluate(4).score == first
    assert [environment.num_envs for environment in watched.made] == [2, 4, 3, 4], "again for another number of them"
    assert watched.closed == watched.made[1:3]
    for _ in run:
        run.evaluate(4)
        assert len(watched.made) == 4 and len(watched.closed) == 2
    assert sorted(map(id, watched.closed)) == sorted(map(id, watched.made))
    for made in 5, 6:
        run.evaluate(4)
        assert len(watched.made) == made and watched.closed[-1] is watched.made[-1], "the run that closes it has ended"


def test_every_way_to_evaluate_plays_the_same_episodes_and_tells_plugins(
    make_run: Any, run_rlcore: RunRlcore, files: Any, hook_calls: Counter[str]
) -> None:
    changes = {**IDENTITY, "evaluation": {"interval": 200, "episodes": 6, "environment": {"num_envs": 4}}}
    run = make_run(changes)
    heard = Heard()
    run.plugins.register(heard, "heard")
    for epoch in run:
        last = epoch.evaluation
        if run.finished:
            again = run.evaluate(6)
    assert last is not None and last == again
    assert heard.evaluations == [(200, last.score), (200, last.score)]
    hook_calls.clear()
    printed = run_rlcore("evaluate", files().path, "--episodes", "6", "--json")
    assert hook_calls["rlcore_evaluated"] == 1 and hook_calls["rlcore_run_started"] == 0
    assert hook_calls["rlcore_create_environment"] == hook_calls["rlcore_create_trainer"] == 1
    assert json.loads(printed.stdout) == last.to_json()
    [told] = json.loads(printed.stdout)["behaviors"].values()
    assert len(told["returns"]) == len(told["lengths"]) == 6
    assert told["mean_reward"] == pytest.approx(sum(told["returns"]) / 6)
    assert told["mean_length"] == pytest.approx(sum(told["lengths"]) / 6) and set(told["lengths"]) == {8}


# ---------------------------------------------------------------- the end at a score


def test_a_score_of_stop_at_ends_the_run_until_stop_at_is_above_it(make_run: Any, files: Any, script: Script) -> None:
    script(4, 6, 1, 1)
    settings = {"evaluation": {"interval": 50, "stop_at": 6}}
    run = make_run(settings)
    epochs = list(run)
    assert run.outcome == "done" and run.steps == 100 and len(epochs) == 2
    assert epochs[-1].evaluation is not None and epochs[-1].evaluation.score == 6
    assert files().steps[-1] == 100
    assert files().result["evaluation"]["stopped"] is True and files().result["outcome"] == "done"
    script(1, 1)
    with make_run(settings | {"checkpoint_settings.resume": True}) as again:
        again.start()
        assert again.nothing_left
    higher = make_run({"evaluation": {"interval": 50, "stop_at": 7}, "checkpoint_settings.resume": True})
    assert [step for step, _ in train(higher)] == [150, 200]
    assert files().result["evaluation"] == {
        "score": 1.0, "step": 200, "best_score": 6.0, "best_step": 100, "stopped": False,
    }  # fmt: skip


def test_a_run_that_stopped_between_summaries_writes_a_last_one(make_run: Any, files: Any, script: Script) -> None:
    script(4, 6)
    make_run({"evaluation": {"interval": 30, "stop_at": 5}}).train()
    assert [(line["step"], line["stats"][TAGS[0]]) for line in files().metrics] == [(50, 4.0), (60, 6.0)]
    assert files().steps == [40, 60] and files().best == [60]


# ---------------------------------------------------------------- a resume


@pytest.mark.parametrize(("environment", "killed_at"), [("corridor", 60), ("identity", 130), ("identity", 60)])
def test_a_resumed_run_evaluates_and_ends_as_the_run_never_stopped(
    make_run: Any, files: Any, abandon: Any, environment: str, killed_at: int
) -> None:
    changes = {"environment.type": environment, "evaluation": {"interval": 30, "episodes": 4, "deterministic": False}}
    whole = train(make_run({**changes, "checkpoint_settings.run_id": "whole"}, keep_checkpoints=0))
    run = make_run(changes, keep_checkpoints=0, summary_freq=10)
    for _ in run:
        if run.steps >= killed_at:
            break
    abandon(run)
    at = files().steps[-1]
    rest = train(make_run({**changes, "checkpoint_settings.resume": True}, keep_checkpoints=0, summary_freq=10))
    assert rest == [(step, score) for step, score in whole if step > at]
    assert files().result["evaluation"] == files("whole").result["evaluation"] and files().best == files("whole").best
