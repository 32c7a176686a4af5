"""An environment may add slots for agents that appear within a run: new trainers continue with what was learned."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from rlcore.errors import EnvironmentEnded

GROWING = {"environment.type": "growing", "behaviors.Agent.trainer_type": "portable"}
ADDED = "10 instead of 4 slots for agents of 'Agent'"
REASON = f"agents got slots within the run: {ADDED}"


def until_agents_appear(run: Any) -> Any:
    """Train until agents wait for slots; return the trainer and its state."""
    while run.environment is None or not run.environment.wants_slots:
        next(run)
    trainer = run.behaviors["Agent"].trainer
    return trainer, trainer.state_dict()


def test_agents_that_appear_get_slots_at_the_next_summary_and_learning_goes_on(
    make_run: Any, files: Any, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = make_run(GROWING, max_steps=400, checkpoint_interval=1000)
    before, learned = until_agents_appear(run)
    steps = run.steps
    updates = run.behaviors["Agent"].updates
    assert run.describe().resume.kind == "exact" and files().steps == [] and updates
    loaded: list[Any] = []
    load = type(before).load_learned

    def loading(trainer: Any, state: Any) -> None:
        loaded.append(state)
        load(trainer, state)

    monkeypatch.setattr(type(before), "load_learned", loading)

    next(run)
    assert run.behaviors["Agent"].trainer is not before and run.environment.acted[-1] == 10
    (state,) = loaded
    assert state["counters"]["steps"] == steps
    assert np.array_equal(state["model"]["weights"], learned["model"]["weights"])
    assert np.array_equal(state["optimizer"]["momentum"], learned["optimizer"]["momentum"])
    assert files().steps == [steps] and steps < run.steps <= steps + 60, "the next summary is not later"
    assert run.behaviors["Agent"].updates > updates

    run.train()
    environment = run.environment
    assert set(environment.acted) == {4, 10} and sum(environment.acted) == run.steps >= 400
    assert run.behaviors["Agent"].episodes.finished == environment.ended
    promise = run.describe().resume
    assert (promise.kind, promise.reasons) == ("statistical", (REASON,))
    assert caplog.text.count(f"{ADDED} from step {steps} on: weights, optimizers, counters and lessons continue") == 1
    assert files().result["outcome"] == "done" and files().result["resume"]["reasons"] == [REASON]
    assert files().checkpoint(files().steps[-1])["state.json"]["run"]["resume"]["promise"] == "statistical"


def test_a_run_that_acts_adds_slots_and_writes_nothing(make_run: Any, files: Any) -> None:
    make_run(GROWING).train()
    before = files().everything()
    run = make_run({**GROWING, "checkpoint_settings.inference": True})
    old, learned = until_agents_appear(run)
    episodes = run.behaviors["Agent"].episodes.finished
    inferred = run.behaviors["Agent"].inferred
    next(run), next(run)
    behavior = run.behaviors["Agent"]
    assert run.environment.acted[-1] == 10 and behavior.trainer is not old
    assert np.array_equal(behavior.trainer.state_dict()["model"]["weights"], learned["model"]["weights"])
    assert behavior.episodes.finished > episodes > 0 and behavior.inferred == sum(run.environment.acted) > inferred
    run.close()
    assert files().everything() == before


def test_trainers_that_cannot_continue_with_others_keep_their_slots(
    make_run: Any, caplog: pytest.LogCaptureFixture
) -> None:
    run = make_run({**GROWING, "behaviors.Agent.trainer_type": "numpy"})
    run.train()
    assert set(run.environment.acted) == {4} and run.outcome == "done"
    said = "agents have no slot and act without being learned from, because behavior 'Agent': trainer 'numpy' cannot"
    assert caplog.text.count(said) == 1


def test_a_run_of_several_ranks_keeps_its_slots(make_run: Any, caplog: pytest.LogCaptureFixture) -> None:
    run = make_run(GROWING)
    until_agents_appear(run)
    run._training.context.ranks.size = 2
    next(run), next(run)
    assert set(run.environment.acted) == {4}
    assert caplog.text.count("because slots are not added in a run of several ranks (reported once)") == 1


def test_an_environment_that_ends_when_it_gets_slots_loses_nothing(make_run: Any, files: Any) -> None:
    run = make_run(GROWING, checkpoint_interval=1000)
    until_agents_appear(run)
    steps = run.steps
    environment = run.environment
    reset = environment.reset

    def ending(*arguments: Any) -> Any:
        if len(environment.behaviors["Agent"].env_index) == 10:
            raise EnvironmentEnded("the window was closed")
        return reset(*arguments)

    environment.reset = ending
    run.train()
    assert run.outcome == "environment ended" and files().steps == [steps]
    make_run({**GROWING, "checkpoint_settings.resume": True}).train()
    assert files().result["outcome"] == "done"


def test_a_resumed_run_counts_again_and_says_so(make_run: Any, files: Any) -> None:
    make_run(GROWING).train()
    run = make_run({**GROWING, "checkpoint_settings.resume": True}, max_steps=400)
    run.start()
    promise = run.describe().resume
    assert promise.kind == "statistical" and "4 instead of 10 agents of 'Agent'" in str(promise)
    run.train()
    assert run.environment.acted[-1] == 10
