"""Five seeds of PPO, killed twice, have the table and the weights of five runs that were started by hand."""

from __future__ import annotations

import json
import os
import signal
from typing import Any

import pytest
from studies import Study, wait_until

from rlcore_devkit import RunRlcore

RUNS = [f"ppo-seed-{seed}" for seed in range(1, 6)]
HAND = [f"hand-{seed}" for seed in range(1, 6)]


@pytest.mark.learning
@pytest.mark.faults
def test_five_seeds_that_were_killed_twice_are_the_runs_started_by_hand(study: Study, run_rlcore: RunRlcore) -> None:
    config = {
        "preset": "none",
        "environment": {"type": "gymnasium", "id": "CartPole-v1", "num_envs": 8},
        "behaviors": {
            "CartPole": {"trainer_type": "ppo", "max_steps": 12000, "summary_freq": 2000, "checkpoint_interval": 2000}
        },
        "evaluation": {"interval": 4000, "episodes": 3},
    }
    (study.directory / "run.yaml").write_text(json.dumps(config))
    words = ("--seeds", "1-5", "--jobs", "2", "--run-id", "ppo")

    parent = study.start(*words)
    study.wait_for_checkpoint(RUNS[0])
    parent.kill()
    parent.wait()
    parent = study.start(*words, "--resume")
    wait_until(lambda: any(study.last_step(run) for run in RUNS[2:]))
    running = [process for run in RUNS[2:] for process in study.children(run)]
    parent.kill()
    for process in running:
        os.kill(process, signal.SIGKILL)
    parent.wait()
    assert any(study.last_step(run) < 12000 for run in RUNS[2:])
    done = study.run(*words, "--resume")
    assert done.returncode == 0, done.stderr

    for seed, run in enumerate(HAND, 1):
        by_hand = study.run("--seed", str(seed), "--run-id", run)
        assert by_hand.returncode == 0, by_hand.stderr
    assert [study.state(run) for run in RUNS] == [study.state(run) for run in HAND]

    def numbers(runs: list[str]) -> Any:
        answer = run_rlcore("compare", "--json", *map(study.place, runs))
        found = json.loads(answer.stdout)
        (group,) = found["configurations"]
        return found["score"], group["iqm"], [(run["seed"], run["score"], run["steps"]) for run in group["runs"]]

    assert numbers(RUNS) == numbers(HAND)
    assert numbers(RUNS)[0] == "evaluation"
