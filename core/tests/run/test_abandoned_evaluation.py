"""A stop that is asked for during an evaluation does not wait for it, and costs the resumed run nothing."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from rlcore import hookimpl
from rlcore.run.run import Run
from rlcore.storage.checkpoint import load_checkpoint
from rlcore_devkit.conformance.states import assert_equal

RESUME = {"checkpoint_settings.resume": True}
WHOLE = {"checkpoint_settings.run_id": "whole"}


def evaluating(interval: int, **block: Any) -> dict[str, Any]:
    return {"evaluation": {"interval": interval, "episodes": 3, "deterministic": False, **block}}


def stop_in_evaluation(run: Run, step: int) -> int:
    """Trains until the evaluation of ``step``, asks for a stop in it; how many steps it plays from then on."""
    run.start()
    environment = run._training.evaluations.evaluator._environment
    assert environment is not None
    move = environment.step
    played = 0

    def stopping(actions: Any) -> Any:
        nonlocal played
        if run.steps == step:
            run.request_stop()
            played += 1
        return move(actions)

    environment.step = stopping  # type: ignore[method-assign]
    run.train()
    assert run.outcome == "interrupted" and run.steps == step
    return played


def untimed(metrics: list[Any]) -> list[Any]:
    for line in metrics:
        del line["time"], line["stats"]["Performance/Steps Per Second"]
    return metrics


def assert_equal_to_whole(make_run: Any, files: Any, changes: Mapping[str, Any], after: int) -> None:
    make_run({**changes, **WHOLE}).train()
    ours = files()
    whole = files("whole")
    later = [step for step in whole.steps if step >= after]
    assert [step for step in ours.steps if step >= after and step in whole.steps] == later
    for step in later:
        assert ours.checkpoint(step) == whole.checkpoint(step), step
    for step in whole.best:
        assert ours.best == whole.best
        kept, theirs = (load_checkpoint(each.path / "checkpoints" / "best" / str(step)) for each in (ours, whole))
        assert_equal(kept["run"], theirs["run"])
    assert untimed(ours.metrics) == untimed(whole.metrics)
    for name in ("evaluation", "behaviors", "outcome"):
        assert ours.result[name] == whole.result[name]


# Evaluations alone, with a summary, with a checkpoint, with both, at the end; and slots that jump over multiples.
CASES = {
    "with a summary": (evaluating(50), 50),
    "with a checkpoint": (evaluating(40), 120),
    "the one that ends the run": (evaluating(70, stop_at=-100.0), 70),
    "episodes that a checkpoint cuts": ({**evaluating(40), "environment.type": "identity"}, 120),
}


@pytest.mark.parametrize("name", CASES)
def test_an_evaluation_is_abandoned_when_a_stop_is_asked_for_and_the_resumed_run_ends_equal(
    make_run: Any, files: Any, name: str
) -> None:
    changes, step = CASES[name]
    assert stop_in_evaluation(make_run(changes), step) == 1, "it is left at once"
    assert files().steps[-1] == step and files().result["outcome"] == "interrupted"
    if name == "with a summary":  # again and again
        for _ in range(3):
            stop_in_evaluation(make_run({**changes, **RESUME}), step)
    make_run({**changes, **RESUME}).train()
    assert_equal_to_whole(make_run, files, changes, step)


def test_an_evaluation_that_is_abandoned_is_as_if_it_had_not_been(make_run: Any, files: Any) -> None:
    heard: list[int] = []

    class Hears:
        @hookimpl
        def rlcore_evaluated(self, step: int) -> None:
            heard.append(step)

    run = make_run(evaluating(50))
    run.plugins.register(Hears(), "hears")
    stop_in_evaluation(run, 100)
    assert heard == [50] and run.scores.step == 50
    assert [line["step"] for line in files().metrics] == [50], "the summary that was due has no score yet"
    assert files().best == [50] and files().result["evaluation"]["step"] == 50


def test_measuring_by_hand_is_not_abandoned(make_run: Any) -> None:
    run = make_run()
    run.start()
    run.request_stop()
    assert run.evaluate(2).behaviors["Agent"].episodes == 2
    run.close("interrupted")
