"""The loop: what is due when, what evaluating leaves alone, and what a step costs."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml

import rlcore.run.evaluation.evaluate
import rlcore.run.evaluation.evaluations
import rlcore.run.training
from rlcore import hookimpl
from rlcore.contracts.ranks import IdleGroups, Ranks
from rlcore.contracts.results import BehaviorEvaluation, EvaluationResult
from rlcore.errors import EnvironmentFailed
from rlcore_devkit import IdentityEnvironment, TinyCorridor

PAIR: dict[str, Any] = {"environment.type": "pair"}
BOTH: dict[str, Any] = {"behaviors": ("Left", "Right")}
IDENTITY: dict[str, Any] = {"environment.type": "identity"}  # every episode has eight steps; it cannot save itself
RESUME = {"checkpoint_settings.resume": True}
CASES = yaml.safe_load((Path(__file__).parent / "data/loop.yaml").read_text(encoding="utf-8"))


def summaries(files: Any, behavior: str = "Agent") -> list[int]:
    return [line["step"] for line in files.metrics if line["behavior"] == behavior]


# ---------------------------------------------------------------- behaviors that do not act


@pytest.mark.parametrize(
    ("wakes", "right", "taken"),
    [  # agents of Right act from a step of the environment on: its agent steps, and the steps of the environment
        (10**6, 0, 80),  # after 60 steps, Left has learned; after 80, the run does not wait for Right
        (79, 60, 79 + 29),  # it acts in time, and learns from 2 agents in each step
    ],
)
def test_a_run_does_not_wait_for_a_behavior_that_never_acts(
    make_run: Any, monkeypatch: pytest.MonkeyPatch, caplog: Any, wakes: int, right: int, taken: int
) -> None:
    """The run is stopped and resumed on the way, and the count of steps continues."""
    monkeypatch.setattr(IdleGroups, "window", 80)
    steps = []

    def asleep(run: Any) -> Any:
        """The run, whose environment has the agents of Right act from the step ``wakes`` on."""
        run.start()
        step = run.environment.step
        reset = run.environment.reset

        def changed(batches: Any) -> Any:
            batches["Right"].needs_action = np.full(2, len(steps) >= wakes)
            return batches

        def count(actions: Any) -> Any:
            steps.append(1)
            return changed(step(actions))

        run.environment.step, run.environment.reset = count, lambda *arguments: changed(reset(*arguments))
        changed({"Right": run.behaviors["Right"].batch})
        return run

    changes = {**PAIR, "environment.num_envs": 1}
    keys = {"max_steps": 60, "checkpoint_interval": 60, "summary_freq": 20, **BOTH}
    run = asleep(make_run(changes, **keys))
    next(iter(run))
    run.close("interrupted")
    assert len(steps) == 20
    run = asleep(make_run({**changes, **RESUME}, **keys))
    results = run.train()
    assert run.outcome == "done" and len(steps) == taken
    assert (results["Left"].steps, results["Right"].steps) == (60, right)
    told = "behavior 'Right': its agents have not acted for 80 steps of the environments, and the run does not wait for"
    assert [text for text in caplog.messages if "have not acted" in text] == (
        [] if right else [f"{told} them: it ends with 0 of 60 steps"]
    )


def test_a_group_acts_where_its_agents_act_in_any_rank(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(IdleGroups, "window", 3)

    class Other(Ranks):  # in the other rank, the second group acts
        def sum(self, values: Any) -> Any:
            return values + np.array([0, 1, 0])

    groups = IdleGroups(Other(), 3)
    groups.acted[0] = True
    assert [groups.after_step() for _ in range(3)] == [False, False, True]
    assert groups.idle.tolist() == [False, False, True] and not groups.acted.any()


# ---------------------------------------------------------------- summaries


@pytest.mark.parametrize("case", CASES["summaries"], ids=str)
def test_a_summary_stands_at_the_boundary_that_was_crossed(make_run: Any, files: Any, case: Any) -> None:
    make_run({"environment.num_envs": case["num_envs"]}, **case["behavior"]).train()
    assert summaries(files()) == case["written"]


def test_every_behavior_keeps_its_own_intervals_and_end(make_run: Any, files: Any) -> None:
    left = {"max_steps": 70, "summary_freq": 20}
    right = {"max_steps": 400, "summary_freq": 150}
    run = make_run({**PAIR, "behaviors.Left": left, "behaviors.Right": right}, **BOTH, checkpoint_interval=1000)
    run.train()
    assert summaries(files(), "Left") == [20, 40, 60, 70] and summaries(files(), "Right") == [150, 300, 400]
    result = files().result["behaviors"]
    assert (result["Left"]["steps"], result["Right"]["steps"]) == (70, 400)
    assert run.results()["Left"].updates == 70 // 16
    assert files().steps == [470], "the end of one behavior causes no checkpoint"
    assert run.behaviors["Left"].trainer.steps == 70, "it keeps acting, and learns no more"


# ---------------------------------------------------------------- checkpoints


@pytest.mark.parametrize("case", CASES["checkpoints"], ids=str)
def test_checkpoints_are_saved_and_rotated_as_the_settings_say(make_run: Any, files: Any, case: Any) -> None:
    make_run({"environment.num_envs": case["num_envs"], "stats.jsonl": False}, **case["behavior"]).train()
    assert files().steps == case["saved"] and not (files().path / "metrics.jsonl").exists()


@pytest.mark.parametrize(("left", "kept"), [(2, [3]), (0, range(10, 100))])
def test_the_largest_keep_checkpoints_counts(make_run: Any, files: Any, left: int, kept: Any) -> None:
    """All of them, 0, is larger than any number."""
    changes = {**PAIR, "behaviors.Left.keep_checkpoints": left, "behaviors.Right.keep_checkpoints": 3}
    make_run(changes, **BOTH, checkpoint_interval=20).train()
    assert len(files().steps) in kept


@pytest.mark.parametrize(("max_steps", "warned"), [(14, True), (16, False)])
def test_a_run_that_ends_before_its_first_update_says_that_nothing_was_learned(
    make_run: Any, caplog: pytest.LogCaptureFixture, max_steps: int, warned: bool
) -> None:
    """The trainer updates when it holds 16 steps."""
    assert make_run(max_steps=max_steps).train()["Agent"].updates == (0 if warned else 1)
    found = [text for text in caplog.messages if "nothing was learned" in text]
    assert len(found) == warned
    assert all(f"behavior 'Agent': nothing was learned: {max_steps} steps were taken" in text for text in found)


@pytest.mark.parametrize("case", CASES["cut_episodes"], ids=lambda case: case["name"])
def test_checkpoints_so_frequent_that_no_episode_ends_are_warned_of_once(
    make_run: Any, files: Any, caplog: Any, case: Any
) -> None:
    """Episodes have eight steps."""
    run = make_run(case["changes"], **case["behavior"])
    run.train()
    warnings = [text for text in caplog.messages if "no episode ended" in text]
    assert len(warnings) == len(case["advice"]) and set(case.get("saved", ())) <= set(files().steps)
    for warning, advice in zip(warnings, case["advice"], strict=True):
        assert run.results()["Agent"].mean_reward is None
        assert warning.startswith("behavior 'Agent': no episode ended in the last ") and advice in warning


def test_steps_without_an_end_of_an_episode_are_counted_from_the_start_of_a_process(
    make_run: Any, kill_after: Any, caplog: pytest.LogCaptureFixture
) -> None:
    identity = {"environment.type": "identity"}
    kill_after(make_run(identity), 50)
    run = make_run({**identity, "checkpoint_settings.resume": True})
    assert next(run).behaviors["Agent"].steps == 50  # ten after the checkpoint, and an episode of both takes 16
    assert not [text for text in caplog.messages if "no episode ended" in text]


# ---------------------------------------------------------------- Run.evaluate


def test_each_copy_plays_a_fixed_share_however_long_its_episodes_are(make_run: Any) -> None:
    """Copy c returns c + 1 in c + 1 steps: the first eight episodes to end would be those of the short copies."""
    with make_run({"environment.type": "uneven"}) as run:
        result = run.evaluate(20).behaviors["Agent"]
        assert sorted(result.returns) == sorted([*range(1, 17), 1, 2, 3, 4])
        few = run.evaluate(4).behaviors["Agent"]
        assert few.mean_reward == 2.5 and few.std_reward == pytest.approx(1.25**0.5) and few.mean_length == 2.5


def test_an_environment_with_another_number_of_copies_is_refused(make_run: Any) -> None:
    class One:
        @hookimpl
        def rlcore_create_environment(self, run: Any) -> Any:
            return TinyCorridor(1, run.behavior_names[0])

    with pytest.raises(EnvironmentFailed, match=r"'corridor': was made with num_envs 1 where run\.num_envs is 3"):
        make_run({"environment.num_envs": 3}, plugins={"one": One()}).start()


# ---------------------------------------------------------------- cost and time


def test_times_of_an_epoch_tell_evaluations_apart(make_run: Any, monkeypatch: Any) -> None:
    """By a clock that moves in an evaluation and in a step."""
    now = 0.0

    def play(policies: Mapping[str, Any], *_: Any) -> EvaluationResult:
        nonlocal now
        now += 100.0
        return EvaluationResult({"Agent": BehaviorEvaluation(1.0, 0.0, 1, 7.0, (1.0,))})

    step = IdentityEnvironment.step

    def stepping(self: Any, actions: Any) -> Any:
        nonlocal now
        now += 1.0
        return step(self, actions)

    monkeypatch.setattr(IdentityEnvironment, "step", stepping)
    monkeypatch.setattr(rlcore.run.evaluation.evaluate, "play", play)
    for module in (rlcore.run.training, rlcore.run.evaluation.evaluations):
        monkeypatch.setattr(module, "perf_counter", lambda: now)
    epoch = next(make_run({**IDENTITY, "evaluation": {"interval": 50}}))
    assert (epoch.seconds, epoch.evaluate_seconds, epoch.steps_per_second) == (125.0, 100.0, 2.0)
