"""The loop: what is due when, what iterating over a run means, and what its results say."""

from __future__ import annotations

import math
import sys
import threading
from argparse import Namespace
from collections.abc import Mapping
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import attrs
import numpy as np
import pytest
import yaml
from rich.progress import Progress

import rlcore.run.boundaries
import rlcore.run.evaluation.evaluate
import rlcore.run.timers
import rlcore.run.training
from rlcore import hookimpl
from rlcore.cli.progress import _follow
from rlcore.contracts.ranks import IdleGroups, OneRank
from rlcore.contracts.results import BehaviorEvaluation, BehaviorResult, EvaluationResult
from rlcore.errors import EnvironmentFailed
from rlcore.run.behaviors.checks import FIRST_BATCHES
from rlcore.run.run import Run
from rlcore.storage.checkpoint import load_checkpoint
from rlcore_devkit import IdentityEnvironment, TinyCorridor

PAIR: dict[str, Any] = {"environment.type": "pair"}
BOTH: dict[str, Any] = {"behaviors": ("Left", "Right")}
IDENTITY: dict[str, Any] = {"environment.type": "identity"}  # every episode has eight steps; it cannot save itself
RESUME = {"checkpoint_settings.resume": True}
CASES = yaml.safe_load((Path(__file__).parent / "data/loop.yaml").read_text(encoding="utf-8"))


def named(run_id: str, **changes: Any) -> dict[str, Any]:
    return {"checkpoint_settings.run_id": run_id, **changes}


def summaries(files: Any, behavior: str = "Agent") -> list[int]:
    return [line["step"] for line in files.metrics if line["behavior"] == behavior]


def returning(run: Run, losses: Any, tag: str = "Losses/Policy Loss") -> list[float]:
    """Has the trainer's updates return these values, one after the other; the list of those that it did."""
    run.start()
    trainer, given = run.behaviors["Agent"].trainer, []
    update = trainer.update
    values = iter(losses)

    def replaced() -> dict[str, float]:
        update()
        given.append(next(values))
        return {tag: given[-1]}

    trainer.update = replaced  # type: ignore[method-assign]
    return given


# ---------------------------------------------------------------- behaviors that do not act


@pytest.mark.parametrize(
    ("wakes", "right", "taken"),
    [  # agents of Right act from a step of the environment on: its agent steps, and the steps of the environment
        (10**6, 0, 80),  # after 60 steps, Left has learned; after 80, the run does not wait for Right
        (79, 60, 79 + 29),  # it acts in time, and learns from 2 agents in each step
    ],
)
@pytest.mark.parametrize("stopped", [False, True])
def test_a_run_does_not_wait_for_a_behavior_that_never_acts(
    make_run: Any, monkeypatch: pytest.MonkeyPatch, caplog: Any, wakes: int, right: int, taken: int, stopped: bool
) -> None:
    monkeypatch.setattr(IdleGroups, "window", 80)
    steps = []

    def asleep(run: Any) -> Any:
        """The run, whose environment has the agents of Right act from the step ``wakes`` on."""
        run.start()
        step, reset = run.environment.step, run.environment.reset

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
    if stopped:  # and resumed: the count of steps goes on
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

    class Other(OneRank):  # in the other rank, the second group acts
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
    left, right = {"max_steps": 70, "summary_freq": 20}, {"max_steps": 400, "summary_freq": 150}
    run = make_run({**PAIR, "behaviors.Left": left, "behaviors.Right": right}, **BOTH, checkpoint_interval=1000)
    run.train()
    assert summaries(files(), "Left") == [20, 40, 60, 70] and summaries(files(), "Right") == [150, 300, 400]
    result = files().result["behaviors"]
    assert (result["Left"]["steps"], result["Right"]["steps"]) == (70, 400)
    assert run.results()["Left"].updates == 70 // 16
    assert files().steps == [470], "the end of one behavior causes no checkpoint"
    learned = run.behaviors["Left"]  # it keeps acting, and learns no more
    assert learned.trainer.steps == 70 and learned._player is not None and learned._player.steps == (400 - 140) // 4
    assert learned.episodes.finished == 2 * (35 // 8) and learned.window.state_dict() == {}


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
        assert warning.startswith("behavior 'Agent': no episode ended between two checkpoints") and advice in warning


def test_a_run_that_is_stopped_or_resumed_just_after_a_checkpoint_is_not_warned_of(make_run: Any, caplog: Any) -> None:
    stopped = make_run(IDENTITY, checkpoint_interval=40, summary_freq=42)
    next(stopped)
    stopped.close("interrupted")
    make_run({**IDENTITY, **RESUME}, checkpoint_interval=48, max_steps=96).train()
    assert not any("no episode ended" in text for text in caplog.messages)


# ---------------------------------------------------------------- iterating


def test_iterating_again_goes_on_and_never_resets(make_run: Any, files: Any) -> None:
    make_run(named("whole")).train()
    run, seen = make_run(), []
    for epoch in run:
        seen.append((epoch.epoch, epoch.behaviors["Agent"].steps))
        break
    environment, trainer = run.environment, run.behaviors["Agent"].trainer
    for epoch in run:
        seen.append((epoch.epoch, epoch.behaviors["Agent"].steps))
    assert seen == [(1, 50), (2, 100), (3, 150), (4, 200)]
    assert run.environment is environment and run.behaviors["Agent"].trainer is trainer
    assert files().checkpoint(200) == files("whole").checkpoint(200)
    assert run.outcome == "done" and list(run) == []
    again = make_run(RESUME)  # at max_steps already
    assert list(again) == [] and list(again) == [] and again.steps == 200 and again.outcome == "done"


def test_two_runs_in_one_process_do_not_touch_one_another(make_run: Any, files: Any) -> None:
    for seed in (1, 2):
        make_run(named(f"alone{seed}", **{"env_settings.seed": seed})).train()
    runs = [make_run(named(f"both{seed}", **{"env_settings.seed": seed})) for seed in (1, 2)]
    with runs[0], runs[1]:
        assert sum(1 for _ in zip(*runs, strict=True)) == 4
    for seed in (1, 2):
        assert files(f"both{seed}").checkpoint(200) == files(f"alone{seed}").checkpoint(200)
    assert files("both1").checkpoint(200) != files("both2").checkpoint(200)


def test_steps_beyond_a_boundary_are_carried_and_epochs_do_not_drift(make_run: Any) -> None:
    """Three copies cross 50 at 51: the next epoch ends where 100 is crossed, at 102, not at 51 + 50."""
    run = make_run({"environment.num_envs": 3}, max_steps=1000)
    crossed = [epoch.behaviors["Agent"].steps for epoch in run]
    assert crossed == [math.ceil(boundary / 3) * 3 for boundary in range(50, 1001, 50)]


def test_leaving_the_block_saves_where_the_run_is(make_run: Any, files: Any) -> None:
    with make_run() as run:
        next(run)
    assert run.outcome == "interrupted" and files().steps == [40, 50]
    assert files().result["outcome"] == "interrupted" and "final_checkpoint" not in files().status["Agent"]
    with make_run(RESUME) as run:
        run.train()
    assert files().result["outcome"] == "done" and "final_checkpoint" in files().status["Agent"]
    failing = make_run(named("failing"))
    next(failing)
    with pytest.raises(ValueError, match="mine"), failing:
        raise ValueError("mine")
    assert failing.outcome == files("failing").result["outcome"] == "failed" and files("failing").steps == [40]


@pytest.mark.parametrize(("steps", "outcome"), [(0, "interrupted"), (50, "interrupted"), (200, "done")])
@pytest.mark.parametrize("requested", [False, True])
def test_a_run_that_is_ended_by_hand_is_done_only_if_it_reached_its_end(
    make_run: Any, files: Any, steps: int, outcome: str, requested: bool
) -> None:
    run = make_run()
    run.start()
    while run.steps < steps:
        next(run)
    run.request_stop() if requested else run.close()
    assert list(run) == [] and run.outcome == outcome == files().result["outcome"]
    assert files().steps[-1] == steps


def test_a_run_that_is_closed_before_its_start_is_interrupted_and_leaves_nothing(make_run: Any, files: Any) -> None:
    with make_run():
        pass
    run = make_run()
    run.close()
    assert run.outcome == "interrupted" and list(run) == [] and not files().path.exists()


def test_the_progress_display_only_reads_and_never_shows_a_tick_too_many(make_run: Any) -> None:
    """Three copies go past max_steps, to 201; the display ends at 200, however often it looks or whether it does."""
    run, progress, over = make_run({"environment.num_envs": 3}), Progress(disable=True), threading.Event()
    over.set()  # one look at the run
    for _ in run:
        for _ in range(5):
            _follow(run, progress, over)
    _follow(run, progress, over)
    completed = [task.completed for task in progress.tasks]
    assert run.steps == 201 and run.epoch == 4
    assert max(completed) == progress.tasks[0].total == 200 and sorted(completed) == completed


# ---------------------------------------------------------------- results


def test_results_of_an_epoch_are_those_of_its_summary_and_episodes(make_run: Any, files: Any) -> None:
    run = make_run(IDENTITY, checkpoint_interval=32)  # checkpoints cut episodes, and take nothing from the epoch
    run.start()
    episodes, ended = run.behaviors["Agent"].episodes, []
    record = episodes.record

    def noting(batch: Any, learned: Any) -> Any:
        finished = record(batch, learned)
        ended.extend([] if finished is None else finished.returns.tolist())
        return finished

    episodes.record = noting
    epochs = []
    for epoch in run:
        result = epoch.behaviors["Agent"]
        assert result.returns.count == result.lengths.count == len(ended) == 6
        assert (result.returns.min, result.returns.max) == (min(ended), max(ended))
        assert (result.returns.mean, result.returns.std) == pytest.approx((np.mean(ended), np.std(ended)))
        assert (result.lengths.mean, result.lengths.std) == (8.0, 0.0)
        ended.clear()
        epochs.append(epoch)
    assert [epoch.behaviors["Agent"].episodes for epoch in epochs] == [6, 12, 18, 24]
    assert run.results()["Agent"].mean_reward == epochs[-1].behaviors["Agent"].mean_reward
    for epoch, line in zip(epochs, files().metrics, strict=True):
        stats = {tag: summary.mean for tag, summary in epoch.behaviors["Agent"].stats.items()}
        assert stats == line["stats"] and stats["Is Training"] == 1.0 and stats["Environment/Episode Length"] == 8.0
        assert stats["Environment/Cumulative Reward"] == pytest.approx(epoch.behaviors["Agent"].returns.mean)
        assert epoch.seconds >= epoch.collect_seconds + epoch.update_seconds > 0


def test_no_return_of_an_earlier_epoch_is_told_again_where_none_ended(make_run: Any) -> None:
    """Episodes of eight steps in epochs of three; checkpoints in between do not bring them back."""
    run = make_run({**IDENTITY, "environment.num_envs": 1}, summary_freq=3, max_steps=24, checkpoint_interval=12)
    results = [epoch.behaviors["Agent"] for epoch in run]
    # Episodes end at 8; the checkpoint at 12 begins new ones, which end at 20.
    assert [result.returns and result.returns.count for result in results] == [None, None, 1, None, None, None, 1, None]
    assert [result.lengths is None for result in results] == [result.returns is None for result in results]
    assert results[3].mean_reward == results[2].mean_reward is not None, "the mean of the latest episodes stays"


def test_stopping_in_the_first_collect_yields_a_whole_result(make_run: Any) -> None:
    run = make_run({**IDENTITY, "evaluation": {"interval": 50}})
    run.start()
    step = run.environment.step
    run.environment.step = lambda actions: run.request_stop() or step(actions)
    (epoch,) = run
    assert epoch.behaviors == {"Agent": BehaviorResult(2, 0, 0, None, {}, None, None, {}, {})}
    assert epoch.evaluation is epoch.best_score is epoch.best_step is None
    assert epoch.steps_per_second > 0 and run.outcome == "interrupted"


def test_update_scalars_are_the_mean_over_the_updates_of_the_epoch(make_run: Any) -> None:
    """An update per 16 agent steps, each counted once, over epochs and a resume."""
    run = make_run()
    given = returning(run, range(1, 100))
    before = 0
    for epoch in run:
        result = epoch.behaviors["Agent"]
        assert result.updates == result.steps // 16 == len(given)
        assert result.update_stats == {"Losses/Policy Loss": np.mean(given[before:])}
        assert result.moving_averages == {"Losses/Policy Loss": np.mean(given)}
        before = len(given)
    assert given == list(range(1, 13))
    assert make_run(RESUME, max_steps=400).train()["Agent"].updates == 400 // 16


def test_a_moving_average_is_that_of_the_latest_hundred_also_after_a_resume(make_run: Any, abandon: Any) -> None:
    settings: dict[str, Any] = {"hyperparameters": {"buffer_size": 2}, "max_steps": 1000, "checkpoint_interval": 100}
    run = make_run(**settings)
    returning(run, range(1000))
    epochs = iter(run)
    for _ in range(6):
        epoch = next(epochs)
    assert epoch.behaviors["Agent"].moving_averages["Losses/Policy Loss"] == np.mean(range(50, 150))
    abandon(run)
    resumed = make_run(RESUME, **settings)
    returning(resumed, range(150, 1000))
    epoch = next(resumed)
    assert epoch.behaviors["Agent"].moving_averages["Losses/Policy Loss"] == np.mean(range(75, 175))
    resumed.close("interrupted")


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_a_value_that_is_not_finite_never_enters_a_moving_average(make_run: Any, value: float) -> None:
    for run_id, given, averages in (
        ("some", [1.0, value, 3.0, value] + [2.0] * 100, {"Policy/Entropy": 2.0}),
        ("only", [value] * 100, {}),
    ):
        run = make_run(named(run_id), summary_freq=200)
        returning(run, given, "Policy/Entropy")
        (epoch,) = run
        assert epoch.behaviors["Agent"].moving_averages == averages


# ---------------------------------------------------------------- evaluations within the run


def test_the_current_score_stops_the_run_never_the_best(make_run: Any, script: Any) -> None:
    """The best, 9, was scored while stop_at was off; what is scored now is below it."""
    script(9.0, 3.0, 6.0)
    first = make_run({"evaluation": {"interval": 50}})
    next(first)
    first.close("interrupted")
    run = make_run({"evaluation": {"interval": 50, "stop_at": 5.0}, **RESUME})
    found = [(epoch.evaluation.score, epoch.best_score) for epoch in run if epoch.evaluation]
    assert found == [(3.0, 9.0), (6.0, 9.0)] and run.steps == 150


def test_the_best_model_is_always_the_one_that_was_scored(make_run: Any, files: Any, script: Any) -> None:
    """The saved weights are those that played, not older or newer ones, also if the run stops there."""
    played = script(1.0, 2.0, 3.0)
    run = make_run({"evaluation": {"interval": 30, "stop_at": 3.0}})
    run.train()
    assert run.steps == 90 == run.scores.best_step
    _, second, third = (policies["Agent"].trainer.weights for policies in played)
    saved = load_checkpoint(files().path / "checkpoints" / "best" / "90")
    assert np.array_equal(saved["Agent"]["model"]["weights"], third) and not np.array_equal(second, third)


def test_an_epoch_tells_its_own_evaluation_and_the_best_of_all(make_run: Any, script: Any) -> None:
    script(4.0, 2.0, 3.0)
    epochs = list(make_run({"evaluation": {"interval": 80}}))
    assert [epoch.evaluation and epoch.evaluation.score for epoch in epochs] == [None, 4.0, None, 3.0]
    assert [epoch.best_score for epoch in epochs] == [None, 4.0, 4.0, 4.0]
    assert [epoch.best_step for epoch in epochs] == [None, 80, 80, 80]
    assert [epoch.evaluate_seconds > 0 for epoch in epochs] == [False, True, False, True]


# ---------------------------------------------------------------- Run.evaluate


def test_evaluating_disturbs_nothing(make_run: Any, files: Any) -> None:
    changes = {**PAIR, "behaviors.Left.max_steps": 40}
    make_run({**changes, **named("whole")}, **BOTH, keep_checkpoints=0).train()
    run = make_run(changes, **BOTH, keep_checkpoints=0)
    first = run.evaluate(3)
    for _ in run:
        run.evaluate(3, seed=run.steps, deterministic=False)
    assert first.behaviors["Left"].episodes == 3 and first.behaviors["Right"].episodes == 6
    assert files().checkpoints() == files("whole").checkpoints()


def test_each_copy_plays_a_fixed_share_however_long_its_episodes_are(make_run: Any) -> None:
    """Copy c returns c + 1 in c + 1 steps: the first eight episodes to end would be those of the short copies."""
    with make_run({"environment.type": "uneven"}) as run:
        result = run.evaluate(20).behaviors["Agent"]
        assert sorted(result.returns) == sorted([*range(1, 17), 1, 2, 3, 4])
        few = run.evaluate(4).behaviors["Agent"]
        assert few.mean_reward == 2.5 and few.std_reward == pytest.approx(1.25**0.5) and few.mean_length == 2.5


def test_one_seed_gives_the_same_numbers_and_another_gives_others(make_run: Any) -> None:
    with make_run(IDENTITY) as run:

        def returns(seed: int | None, deterministic: bool = True) -> Any:
            return run.evaluate(9, seed, deterministic).behaviors["Agent"].returns

        assert returns(1) == returns(1) != returns(2) and returns(None) == returns(None)
        assert returns(1) != returns(1, False) == returns(1, False) != returns(2, False)


@pytest.mark.parametrize(
    "of", [lambda settings, run: settings.num_envs, lambda settings, run: run.num_envs, lambda settings, run: 1]
)
def test_an_environment_is_told_one_number_of_copies_in_training_and_evaluation(make_run: Any, of: Any) -> None:
    """An environment that is made with another number is refused."""
    told = []

    class Counts:
        @hookimpl
        def rlcore_create_environment(self, settings: Any, run: Any) -> Any:
            told.append((run.num_envs, settings.num_envs, run.config.environment.num_envs))
            return TinyCorridor(of(settings, run), run.behavior_names[0])

    with make_run({"environment.num_envs": 3}) as run:
        run.plugins.register(Counts(), "counts")
        wrong = of(attrs.evolve(run.config.environment, num_envs=3), Namespace(num_envs=3)) != 3
        message = r"'corridor': was made with num_envs 1 where run.num_envs is 3"
        with pytest.raises(EnvironmentFailed, match=message) if wrong else nullcontext():
            assert run.evaluate(5).behaviors["Agent"].episodes == 5 and told == [(3, 3, 3), (5, 5, 5)]


def test_evaluating_measures_the_agents_own_reward_and_the_groups_apart(make_run: Any) -> None:
    """As "Cumulative Reward" and "Group Cumulative Reward" do, also where few batches carry a group's reward."""
    own = make_run(named("plain")).evaluate(4)
    shared = make_run({"environment.options": {"fault": "group reward now and then"}}).evaluate(4)
    assert own.behaviors["Agent"].returns == shared.behaviors["Agent"].returns
    assert own.behaviors["Agent"].mean_group_reward is None
    assert "mean_group_reward" not in own.to_json()["behaviors"]["Agent"]
    steps = shared.behaviors["Agent"].mean_length
    assert shared.to_json()["behaviors"]["Agent"]["mean_group_reward"] == pytest.approx(0.25 * steps / 2, abs=0.25)


# ---------------------------------------------------------------- cost and time


def test_the_cost_of_a_step_does_not_grow_with_what_was_collected(make_run: Any, monkeypatch: Any) -> None:
    """Lines of rlcore's that are executed in an epoch: the twelfth is not longer than the fourth."""
    lines = 0

    def trace(frame: Any, event: str, argument: Any) -> Any:
        nonlocal lines
        if "rlcore" not in frame.f_code.co_filename:
            return None
        lines += event == "line"
        return trace

    monkeypatch.setattr(rlcore.run.timers, "MEASURED_SECONDS", math.inf)  # the advice ends after this time
    run = make_run({**IDENTITY, "stats": {"jsonl": False}}, max_steps=1152, summary_freq=96, checkpoint_interval=10_000)
    while run.steps < FIRST_BATCHES * 2:  # slots; these are looked at more closely
        next(run)
    counts = []
    for _ in range(9):
        lines, before = 0, sys.gettrace()
        sys.settrace(trace)
        try:
            next(run)
        finally:
            sys.settrace(before)
        counts.append(lines)
    assert max(counts) <= min(counts) * 1.05 and min(counts) > 1000
    behavior = run.behaviors["Agent"]
    held = [len(values) for values in behavior.recent_updates.values()] + [len(behavior.recent)]
    assert max(held) <= 100 and behavior.window.state_dict() == {}


def test_times_of_an_epoch_tell_evaluations_apart_and_give_finite_speeds(
    make_run: Any, files: Any, monkeypatch: Any
) -> None:
    """By a clock that moves in an evaluation, and a second in a step of one of the runs."""
    now, tick = 0.0, 0.0

    def play(policies: Mapping[str, Any], *_: Any) -> EvaluationResult:
        nonlocal now
        now += 100.0
        return EvaluationResult({"Agent": BehaviorEvaluation(1.0, 0.0, 1, 7.0, (1.0,))})

    step = IdentityEnvironment.step

    def stepping(self: Any, actions: Any) -> Any:
        nonlocal now
        now += tick
        return step(self, actions)

    monkeypatch.setattr(IdentityEnvironment, "step", stepping)
    monkeypatch.setattr(rlcore.run.evaluation.evaluate, "play", play)
    for module in (rlcore.run.training, rlcore.run.boundaries):
        monkeypatch.setattr(module, "perf_counter", lambda: now)
    for epoch in make_run(IDENTITY):
        assert epoch.seconds == 0.0 and math.isfinite(epoch.steps_per_second)
    assert math.isfinite(files().result["steps_per_second"])
    assert all(math.isfinite(line["stats"]["Performance/Steps Per Second"]) for line in files().metrics)
    tick = 1.0
    epoch = next(make_run({**IDENTITY, "evaluation": {"interval": 50}, **named("timed")}))
    assert (epoch.seconds, epoch.evaluate_seconds, epoch.steps_per_second) == (125.0, 100.0, 2.0)
