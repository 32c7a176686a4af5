"""A run may be resumed with other numbers of environments and agents, or get agents in its middle, and continues."""

from __future__ import annotations

import logging
from copy import deepcopy
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from small_runs import small_run

from rlcore import Run, RunStateError
from rlcore.run.growing import add_wanted_slots

DUEL = {"environment": {"type": "duel", "num_envs": 4, "options": {"agents": 2}}}
SMALL: dict[str, Any] = {"batch_size": 32, "buffer_size": 128}
STORED: dict[str, Any] = {
    "batch_size": 32,
    "buffer_size": 1000,
    "buffer_init_steps": 64,
    "steps_per_update": 8,
    "save_replay_buffer": True,
}
CASES: dict[str, dict[str, Any]] = {
    "ppo": {"hyperparameters": SMALL},
    "poca": {"trainer_type": "poca", "hyperparameters": SMALL},
    "self-play": {"hyperparameters": SMALL, "self_play": {"save_steps": 100, "swap_steps": 50}},
    "sac": {"trainer_type": "sac", "hyperparameters": STORED},
}
OTHERS = {
    "copies": ({"environment.num_envs": 3}, "3 instead of environment.num_envs 4"),
    "agents": ({"environment.options": {"agents": 3}}, "24 instead of 16 agents of 'Agent'"),
}


def run_of(place: Path, case: str, max_steps: int, changes: Any = None, resume: bool = False) -> Run:
    block = {"trainer_type": "ppo", "max_steps": max_steps, **CASES[case]}
    plugins = {"plugins.local": [str(Path(__file__).parent / "support/duels.py")]}
    document = small_run(
        place, {**deepcopy(DUEL), "behaviors": {"Agent": block}, **plugins, **(changes or {})}, resume=resume
    )
    return Run(document)


@pytest.mark.parametrize("others", OTHERS)
@pytest.mark.parametrize("case", CASES)
def test_what_was_learned_continues_with_others(
    case: str, others: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    first = run_of(tmp_path, case, 300)
    first.train()
    learned = first.behaviors["Agent"].trainer.state_dict()
    changes, said = OTHERS[others]
    second = run_of(tmp_path, case, 600, changes, resume=True)
    with caplog.at_level(logging.WARNING):
        second.start()
    trainer: Any = second.behaviors["Agent"].trainer
    state = trainer.state_dict()
    assert trainer.steps == first.steps >= 300
    for entry in ("model", "optimizer", "optimizers"):
        for name, value in flat(learned.get(entry, {})):
            assert np.array_equal(value, dict(flat(state[entry]))[name]), name
    promise = second.describe().resume
    assert promise is not None and promise.kind == "statistical" and said in str(promise)
    assert "weights, optimizers, counters and lessons continue" in caplog.text
    assert second.behaviors["Agent"].episodes.finished == first.behaviors["Agent"].episodes.finished
    second.train()
    assert second.outcome == "done" and second.steps >= 600


@pytest.mark.parametrize("case", CASES)
def test_what_was_learned_continues_when_agents_appear(
    case: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    changes = {"environment.options": {"agents": 2, "more": 3}, "behaviors.Agent.summary_freq": 400}
    run = run_of(tmp_path, case, 1600, changes)
    next(run)
    environment: Any = run.environment
    while not environment.wants_slots:
        next(run)
    before: Any = run.behaviors["Agent"].trainer
    learned = before.state_dict()
    steps = run.steps
    add_wanted_slots(run._training, environment)  # type: ignore[arg-type]
    trainer: Any = run.behaviors["Agent"].trainer
    state = trainer.state_dict()
    assert trainer is not before and (trainer.steps, run.steps) == (steps, steps)
    for entry in ("model", "optimizer", "optimizers"):
        for name, value in flat(learned.get(entry, {})):
            assert np.array_equal(value, dict(flat(state[entry]))[name]), name
    for entry in ("log", "elo", "rated"):  # of self-play
        np.testing.assert_equal(state.get("self_play_log", {}).get(entry), learned.get("self_play_log", {}).get(entry))
    assert "24 instead of 16 slots for agents of 'Agent' from step" in caplog.text
    finished = run.behaviors["Agent"].episodes.finished
    run.train()
    assert run.outcome == "done" and run.steps >= 1600 and run.behaviors["Agent"].episodes.finished > finished + 24
    promise = run.describe().resume
    assert promise is not None and promise.kind == "statistical" and "got slots within the run" in str(promise)


def flat(value: Any, path: str = "") -> list[tuple[str, Any]]:
    if isinstance(value, dict):
        return [leaf for name, each in value.items() for leaf in flat(each, f"{path}/{name}")]
    return [(path, value)] if isinstance(value, np.ndarray) else []


def test_as_many_places_in_the_same_order_are_exact(tmp_path: Path) -> None:
    run_of(tmp_path, "ppo", 300).train()
    again = run_of(tmp_path, "ppo", 600, resume=True)
    again.start()
    assert "agents" not in str(again.describe().resume)
    again.close()


def test_behaviors_that_are_not_there_any_more_are_refused(tmp_path: Path) -> None:
    run_of(tmp_path, "ppo", 300).train()
    run = run_of(tmp_path, "ppo", 600, {"behaviors": {"Left": {}, "Right": {}}}, resume=True)
    with pytest.raises(RunStateError, match="behaviors: the checkpoint has Agent, this configuration Left, Right"):
        run.start()
