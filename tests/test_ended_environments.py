"""A run whose environment failed in a step goes on as one that was stopped before that step."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from small_runs import small_run

from rlcore import EnvironmentFailed, Run

DUEL = {"environment": {"type": "duel", "num_envs": 4, "options": {"saves": False, "deaths": True}}}
SMALL: dict[str, Any] = {"batch_size": 32, "buffer_size": 128}
STORED: dict[str, Any] = {"batch_size": 32, "buffer_size": 1000, "buffer_init_steps": 64, "save_replay_buffer": True}
DAILY = ("ppo", "ppo with memory", "sac")
# Entries about the actions of the step that failed: what was drawn for them, how many there were, and what mates chose.
DRAWN = {"generators", "noise", "acts", "ghost_steps", "unshared", "/actions", "acted"}

CASES: dict[str, dict[str, Any]] = {
    "ppo": {"hyperparameters": SMALL},
    "ppo with memory": {
        "hyperparameters": SMALL,
        "network_settings": {"memory": {"memory_size": 8, "sequence_length": 4}},
    },
    "poca": {"trainer_type": "poca", "hyperparameters": SMALL},
    "self-play": {"hyperparameters": SMALL, "self_play": {"save_steps": 100, "swap_steps": 50}},
    "dqn": {"trainer_type": "dqn", "hyperparameters": STORED},
    "sac": {"trainer_type": "sac", "hyperparameters": STORED, "network_settings": {"normalize": True}},
}


def run_of(place: Path, case: str, run_id: str, resume: bool = False) -> Run:
    block = {"trainer_type": "ppo", "max_steps": 500, "summary_freq": 300, "checkpoint_interval": 10_000, **CASES[case]}
    changes = {**DUEL, "behaviors": {"Agent": block}, "plugins.local": ["tests/support/duels.py"]}
    run = Run(small_run(place, changes, run_id=run_id, resume=resume))
    run.start()
    return run


def leaves(value: Any, path: str = "") -> dict[str, Any]:
    """The arrays and numbers of a state by their paths, without those of :data:`DRAWN`."""
    if isinstance(value, Mapping):
        parts = [leaves(each, f"{path}/{name}") for name, each in value.items() if name not in DRAWN]
        return {key: leaf for part in parts for key, leaf in part.items()}
    if isinstance(value, list | tuple):
        return leaves(dict(enumerate(value)), path)
    return {path: value}


@pytest.mark.long
@pytest.mark.parametrize(
    "case", [pytest.param(case, marks=() if case in DAILY else pytest.mark.learning) for case in CASES]
)
def test_a_run_goes_on_as_if_it_had_been_stopped_before_the_step_that_failed(
    case: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(Path(__file__).parents[1])
    for name in ("stopped", "failed"):
        run = run_of(tmp_path, case, name)
        environment: Any = run.environment
        step = environment.step
        calls = list[int]()

        def stepping(actions: Any, run: Run = run, step: Any = step, calls: Any = calls, name: str = name) -> Any:
            calls.append(1)
            if len(calls) == 40 and name == "stopped":
                run.request_stop()
            if len(calls) > 40:
                raise EnvironmentFailed("gone")
            return step(actions)

        environment.step = stepping
        if name == "failed":
            with pytest.raises(EnvironmentFailed):
                run.train()
        else:
            run.train()

    runs = [run_of(tmp_path, case, name, resume=True) for name in ("stopped", "failed")]
    stopped, failed = (leaves(run.behaviors["Agent"].trainer.state_dict()) for run in runs)
    assert stopped.keys() == failed.keys() and len(stopped) > 10
    for path, value in stopped.items():
        if "/segments/" in path and path.endswith("/choices"):  # of closed transitions; others are not read
            closed = stopped[path.replace("choices", "flags")] != 0
            value, failed[path] = value[closed], failed[path][closed]
        assert np.array_equal(value, failed[path]) if isinstance(value, np.ndarray) else value == failed[path], path
    first, second = (run.behaviors["Agent"].batch for run in runs)
    for name, seen in first.observations.items():
        assert np.array_equal(seen, second.observations[name])
    for run in runs:
        next(run)
        run.close()
