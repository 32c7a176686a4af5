"""``for epoch in run``: the rules of iterating, each of which an earlier iterator has broken."""

from __future__ import annotations

import io
import math
from collections.abc import Mapping
from typing import Any

import attrs
import numpy as np
import pytest
from rich.console import Console

import rlcore.run.boundaries
import rlcore.run.evaluation.evaluate
import rlcore.run.timers
import rlcore.run.training
from rlcore.cli.progress import _follow
from rlcore.contracts.results import BehaviorEvaluation, BehaviorResult, EpochResult, EvaluationResult
from rlcore.run.run import Run
from rlcore.storage.checkpoint import load_checkpoint
from rlcore_devkit import IdentityEnvironment

IDENTITY: dict[str, Any] = {"environment.type": "identity"}  # every episode has eight steps


def scores(monkeypatch: pytest.MonkeyPatch, *values: float) -> None:
    """The scores that the next evaluations get, whatever is played."""
    left = iter(values)

    def play(policies: Mapping[str, Any], *_: Any) -> EvaluationResult:
        score = next(left)
        return EvaluationResult({name: BehaviorEvaluation(score, 0.0, 1, 7.0, (score,)) for name in policies})

    monkeypatch.setattr(rlcore.run.evaluation.evaluate, "play", play)


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


# ---------------------------------------------------------------- going on


def test_iterating_again_goes_on_and_never_resets(make_run: Any, files: Any) -> None:
    make_run({"checkpoint_settings.run_id": "whole"}).train()
    run, seen = make_run(), []
    for epoch in run:
        seen.append(epoch.behaviors["Agent"].steps)
        break
    environment, trainer = run.environment, run.behaviors["Agent"].trainer
    for epoch in run:
        seen.append(epoch.behaviors["Agent"].steps)
    assert seen == [50, 100, 150, 200]
    assert run.environment is environment and run.behaviors["Agent"].trainer is trainer
    assert files().checkpoint(200) == files("whole").checkpoint(200)


def test_runs_are_iterated_side_by_side(make_run: Any) -> None:
    runs = [make_run({"checkpoint_settings.run_id": f"run{seed}", "env_settings.seed": seed}) for seed in (1, 2)]
    with runs[0], runs[1]:
        steps = [(a.behaviors["Agent"].steps, b.behaviors["Agent"].steps) for a, b in zip(*runs, strict=True)]
    assert steps == [(50, 50), (100, 100), (150, 150), (200, 200)]


def test_a_run_that_is_already_at_max_steps_yields_no_epoch_at_all(make_run: Any) -> None:
    make_run().train()
    run = make_run({"checkpoint_settings.resume": True})
    assert list(run) == [] and list(run) == []
    assert run.steps == 200 and run.outcome == "done"


def test_steps_beyond_a_boundary_are_carried_and_epochs_do_not_drift(make_run: Any) -> None:
    """Three copies cross 50 at 51: the next epoch ends where 100 is crossed, at 102, not at 51 + 50."""
    run = make_run({"environment.num_envs": 3}, max_steps=1000)
    crossed = [epoch.behaviors["Agent"].steps for epoch in run]
    assert crossed == [math.ceil(boundary / 3) * 3 for boundary in range(50, 1001, 50)]


# ---------------------------------------------------------------- the display


class Bar:
    """The steps that the progress display receives."""

    console = Console(file=io.StringIO(), width=80)

    def __init__(self) -> None:
        self.completed: list[int] = []
        self.total: int | None = None

    def add_task(self, name: str, total: int | None, completed: int, **_: Any) -> int:
        self.total = total
        self.completed.append(completed)
        return 0

    def update(self, task: int, completed: int | None = None, **_: Any) -> None:
        if completed is not None:
            self.completed.append(completed)


class Once:
    """An event that is over at once: one look at the run."""

    def wait(self, seconds: float) -> bool:
        return True


def test_the_progress_display_only_reads_and_never_shows_a_tick_too_many(make_run: Any) -> None:
    """Three copies go past max_steps, to 201; the display ends at 200, however often it looks or whether it does."""
    run, bar = make_run({"environment.num_envs": 3}), Bar()
    for _ in run:
        for _ in range(5):
            _follow(run, bar, Once())  # type: ignore[arg-type]
    _follow(run, bar, Once())  # type: ignore[arg-type]
    assert run.steps == 201 and run.epoch == 4
    assert max(bar.completed) == bar.total == 200
    assert sorted(bar.completed) == bar.completed


# ---------------------------------------------------------------- evaluation


def test_the_current_score_stops_the_run_never_the_best(make_run: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """The best, 9, was scored while stop_at was off; what is scored now is below it."""
    scores(monkeypatch, 9.0, 3.0, 6.0)
    first = make_run({"evaluation": {"interval": 50}})
    next(first)
    first.close("interrupted")
    run = make_run({"evaluation": {"interval": 50, "stop_at": 5.0}, "checkpoint_settings.resume": True})
    found = [(epoch.evaluation.score, epoch.best_score) for epoch in run if epoch.evaluation]
    assert found == [(3.0, 9.0), (6.0, 9.0)] and run.steps == 150


def test_the_best_model_is_always_the_one_that_was_scored(
    make_run: Any, files: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The saved weights are those that played, not older or newer ones, also if the run stops there."""
    played = []

    def play(policies: Mapping[str, Any], *_: Any) -> EvaluationResult:
        played.append(policies["Agent"].trainer.weights.copy())
        score = float(len(played))
        return EvaluationResult({"Agent": BehaviorEvaluation(score, 0.0, 1, 7.0, (score,))})

    monkeypatch.setattr(rlcore.run.evaluation.evaluate, "play", play)
    run = make_run({"evaluation": {"interval": 30, "stop_at": 3.0}})
    run.train()
    assert run.steps == 90 == run.scores.best_step and len(played) == 3
    saved = load_checkpoint(files().path / "checkpoints" / "best" / "90")
    assert np.array_equal(saved["Agent"]["model"]["weights"], played[2])
    assert not np.array_equal(played[1], played[2])


def test_an_epoch_tells_its_own_evaluation_and_the_best_of_all(make_run: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    scores(monkeypatch, 4.0, 2.0, 3.0)
    run = make_run({"evaluation": {"interval": 80}})
    epochs = list(run)
    assert [epoch.evaluation and epoch.evaluation.score for epoch in epochs] == [None, 4.0, None, 3.0]
    assert [epoch.best_score for epoch in epochs] == [None, 4.0, 4.0, 4.0]
    assert [epoch.best_step for epoch in epochs] == [None, 80, 80, 80]
    assert [epoch.evaluate_seconds > 0 for epoch in epochs] == [False, True, False, True]


# ---------------------------------------------------------------- results


def test_stopping_in_the_first_collect_yields_a_whole_result(make_run: Any) -> None:
    run = make_run({**IDENTITY, "evaluation": {"interval": 50}})
    run.start()
    step = run.environment.step

    def stopping(actions: Any) -> Any:
        run.request_stop()
        return step(actions)

    run.environment.step = stopping
    (epoch,) = run
    assert {field.name for field in attrs.fields(EpochResult)} == set(attrs.asdict(epoch, recurse=False))
    assert epoch.behaviors == {"Agent": BehaviorResult(2, 0, 0, None, {}, None, None, {}, {})}
    assert epoch.evaluation is epoch.best_score is epoch.best_step is None
    assert epoch.steps_per_second > 0 and run.outcome == "interrupted"


def test_returns_and_lengths_are_those_of_the_episodes_that_ended_in_the_epoch(make_run: Any) -> None:
    run = make_run(IDENTITY, checkpoint_interval=1000)
    run.start()
    ended: list[float] = []
    seen: list[list[float]] = []
    record = run.behaviors["Agent"].episodes.record

    def noting(batch: Any, learned: Any) -> Any:
        finished = record(batch, learned)
        if finished is not None:
            ended.extend(finished.returns.tolist())
        return finished

    run.behaviors["Agent"].episodes.record = noting
    for epoch in run:
        result = epoch.behaviors["Agent"]
        seen.append(list(ended))
        assert result.returns is not None and result.lengths is not None
        assert result.returns.count == result.lengths.count == len(ended) == 6
        assert (result.returns.min, result.returns.max) == (min(ended), max(ended))
        assert result.returns.mean == pytest.approx(np.mean(ended))
        assert result.returns.std == pytest.approx(np.std(ended))
        assert (result.lengths.mean, result.lengths.std) == (8.0, 0.0)
        ended.clear()
    assert len(seen) == 4 and seen[0] != seen[1]


def test_no_return_of_an_earlier_epoch_is_told_again_where_none_ended(make_run: Any) -> None:
    """Episodes of eight steps in epochs of three; checkpoints in between do not bring them back."""
    run = make_run({**IDENTITY, "environment.num_envs": 1}, summary_freq=3, max_steps=24, checkpoint_interval=12)
    results = [epoch.behaviors["Agent"] for epoch in run]
    # Episodes end at 8; the checkpoint at 12 begins new ones, which end at 20.
    assert [result.returns and result.returns.count for result in results] == [None, None, 1, None, None, None, 1, None]
    assert [result.lengths is None for result in results] == [result.returns is None for result in results]
    assert results[3].mean_reward == results[2].mean_reward is not None, "the mean of the latest episodes stays"


def test_what_a_checkpoint_took_from_the_recorder_still_counts_in_its_epoch(make_run: Any) -> None:
    run = make_run({"environment.type": "identity"}, summary_freq=96, max_steps=96, checkpoint_interval=32)
    (epoch,) = run
    assert epoch.behaviors["Agent"].returns.count == 12 == epoch.behaviors["Agent"].episodes


def test_checkpoints_are_the_loops_job_and_need_no_writer(make_run: Any, files: Any) -> None:
    run = make_run({"stats": {"console": False, "jsonl": False}})
    run.train()
    assert run._training.boundaries.writers == [] and files().steps == [40, 80, 120, 160, 200]
    assert not (files().path / "metrics.jsonl").exists()


def test_a_resume_restores_weights_optimizer_generators_and_the_best_score(
    make_run: Any, files: Any, abandon: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    scores(monkeypatch, 5.0, 6.0)
    run = make_run({"evaluation": {"interval": 50}}, checkpoint_interval=50)
    next(run)
    trainer = run.behaviors["Agent"].trainer
    abandon(run)
    resumed = make_run({"evaluation": {"interval": 50}, "checkpoint_settings.resume": True}, checkpoint_interval=50)
    resumed.start()
    again = resumed.behaviors["Agent"].trainer
    assert again is not trainer and (again.steps, resumed.behaviors["Agent"].updates) == (50, 3)
    assert np.array_equal(again.weights, trainer.weights) and np.array_equal(again.momentum, trainer.momentum)
    assert again.generator.bit_generator.state == trainer.generator.bit_generator.state
    assert again.buffer == trainer.buffer
    assert (resumed.scores.best_score, resumed.scores.best_step) == (5.0, 50)
    resumed.close("interrupted")


# ---------------------------------------------------------------- updates


def test_update_scalars_are_the_mean_over_the_updates_of_the_epoch(make_run: Any) -> None:
    run = make_run()
    given = returning(run, range(1, 100))
    before = 0
    for epoch in run:
        result = epoch.behaviors["Agent"]
        assert result.update_stats == {"Losses/Policy Loss": np.mean(given[before:])}
        assert result.moving_averages == {"Losses/Policy Loss": np.mean(given)}
        before = len(given)
    assert given == list(range(1, 13))


def test_counts_of_updates_are_exact(make_run: Any) -> None:
    """An update per 16 agent steps, each counted once, over epochs and a resume."""
    run = make_run()
    given = returning(run, range(100))
    for epoch in run:
        assert epoch.behaviors["Agent"].updates == epoch.behaviors["Agent"].steps // 16 == len(given)
    resumed = make_run({"checkpoint_settings.resume": True}, max_steps=400)
    resumed.train()
    assert resumed.results()["Agent"].updates == 400 // 16


def test_a_moving_average_is_that_of_the_latest_hundred_also_after_a_resume(make_run: Any, abandon: Any) -> None:
    settings: dict[str, Any] = {"hyperparameters": {"buffer_size": 2}, "max_steps": 1000, "checkpoint_interval": 100}
    run = make_run(**settings)
    returning(run, range(1000))
    epochs = iter(run)
    for _ in range(6):
        epoch = next(epochs)
    assert epoch.behaviors["Agent"].moving_averages["Losses/Policy Loss"] == np.mean(range(50, 150))
    abandon(run)
    resumed = make_run({"checkpoint_settings.resume": True}, **settings)
    returning(resumed, range(150, 1000))
    epoch = next(resumed)
    assert epoch.behaviors["Agent"].moving_averages["Losses/Policy Loss"] == np.mean(range(75, 175))
    resumed.close("interrupted")


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_a_value_that_is_not_finite_never_enters_a_moving_average(make_run: Any, value: float) -> None:
    run = make_run(summary_freq=200)
    returning(run, [1.0, value, 3.0, value] + [2.0] * 100, "Policy/Entropy")
    (epoch,) = run
    assert epoch.behaviors["Agent"].moving_averages == {"Policy/Entropy": 2.0}
    only = make_run({"checkpoint_settings.run_id": "only"}, summary_freq=200)
    returning(only, [value] * 100, "Policy/Entropy")
    (epoch,) = only
    assert epoch.behaviors["Agent"].moving_averages == {}


# ---------------------------------------------------------------- cost and time


def test_the_cost_of_a_step_does_not_grow_with_what_was_collected(
    make_run: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Lines of rlcore's that are executed in an epoch: the twelfth is not longer than the fourth."""
    import sys

    from rlcore.run.behaviors.checks import FIRST_BATCHES

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


def test_an_epoch_of_no_seconds_has_a_finite_speed(make_run: Any, files: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (rlcore.run.training, rlcore.run.boundaries):
        monkeypatch.setattr(module, "perf_counter", lambda: 5.0)
    for epoch in make_run():
        assert epoch.seconds == 0.0 and math.isfinite(epoch.steps_per_second)
    assert math.isfinite(files().result["steps_per_second"])
    assert all(math.isfinite(line["stats"]["Performance/Steps Per Second"]) for line in files().metrics)


def test_the_time_of_evaluations_is_told_apart_and_does_not_lower_the_speed(
    make_run: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By a clock that moves in an evaluation alone, and a second in everything else."""
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
    for module in (rlcore.run.training, rlcore.run.boundaries):
        monkeypatch.setattr(module, "perf_counter", lambda: now)
    epoch = next(make_run({**IDENTITY, "evaluation": {"interval": 50}}))
    assert (epoch.seconds, epoch.evaluate_seconds, epoch.steps_per_second) == (125.0, 100.0, 2.0)
