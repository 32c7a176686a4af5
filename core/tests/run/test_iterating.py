"""Iterating over a run, and the results of each epoch."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from rlcore.run.run import Run

IDENTITY: dict[str, Any] = {"environment.type": "identity"}  # every episode has eight steps; it cannot save itself
RESUME = {"checkpoint_settings.resume": True}


def named(run_id: str, **changes: Any) -> dict[str, Any]:
    return {"checkpoint_settings.run_id": run_id, **changes}


def returning(run: Run, losses: Any, tag: str = "Losses/Policy Loss") -> list[float]:
    """Has the trainer's updates return these values, one after the other; the list of those that it did."""
    run.start()
    trainer = run.behaviors["Agent"].trainer
    given = []
    update = trainer.update
    values = iter(losses)

    def replaced() -> dict[str, float]:
        update()
        given.append(next(values))
        return {tag: given[-1]}

    trainer.update = replaced  # type: ignore[method-assign]
    return given


# ---------------------------------------------------------------- iterating


def test_iterating_again_goes_on_and_never_resets(make_run: Any, files: Any) -> None:
    make_run(named("whole")).train()
    run = make_run()
    seen = []
    for epoch in run:
        seen.append((epoch.epoch, epoch.behaviors["Agent"].steps))
        break
    environment = run.environment
    trainer = run.behaviors["Agent"].trainer
    for epoch in run:
        seen.append((epoch.epoch, epoch.behaviors["Agent"].steps))
    assert seen == [(1, 50), (2, 100), (3, 150), (4, 200)]
    assert run.environment is environment and run.behaviors["Agent"].trainer is trainer
    assert files().checkpoint(200) == files("whole").checkpoint(200)
    assert run.outcome == "done" and list(run) == []
    again = make_run(RESUME)  # at max_steps already
    assert list(again) == [] and list(again) == [] and again.steps == 200 and again.outcome == "done"


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


# ---------------------------------------------------------------- results


def test_results_of_an_epoch_are_those_of_its_summary_and_episodes(make_run: Any, files: Any) -> None:
    run = make_run(IDENTITY, checkpoint_interval=32)  # checkpoints cut episodes, and take nothing from the epoch
    epochs = []
    for epoch in run:
        result = epoch.behaviors["Agent"]
        assert result.returns.count == result.lengths.count == 6
        assert (result.lengths.mean, result.lengths.std) == (8.0, 0.0)
        epochs.append(epoch)
    assert [epoch.behaviors["Agent"].episodes for epoch in epochs] == [6, 12, 18, 24]
    assert run.results()["Agent"].mean_reward == epochs[-1].behaviors["Agent"].mean_reward
    for epoch, line in zip(epochs, files().metrics, strict=True):
        stats = {tag: summary.mean for tag, summary in epoch.behaviors["Agent"].stats.items()}
        assert stats == line["stats"] and stats["Is Training"] == 1.0 and stats["Environment/Episode Length"] == 8.0
        assert stats["Environment/Cumulative Reward"] == pytest.approx(epoch.behaviors["Agent"].returns.mean)
        assert epoch.seconds >= epoch.collect_seconds + epoch.update_seconds > 0


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
