"""Hooks are for boundaries: how often they are called depends on summaries and checkpoints, never on steps."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

from small_runs import small_run

from rlcore import Run
from rlcore_devkit.fixtures import hook_calls

__all__ = ["hook_calls"]


def calls_of_a_run(hook_calls: Counter[str], directory: Path, max_steps: int) -> Counter[str]:
    """PPO with everything installed, ten summaries, five checkpoints and four evaluations."""
    hook_calls.clear()
    steps = {"max_steps": max_steps, "summary_freq": max_steps // 10, "checkpoint_interval": max_steps // 5}
    changes: dict[str, Any] = {f"behaviors.Agent.{key}": value for key, value in steps.items()}
    changes |= {"environment.num_envs": 8, "evaluation": {"interval": max_steps // 4, "episodes": 2}, "stats": None}
    with Run(small_run(directory, changes, run_id=f"run{max_steps}")) as run:
        run.train()
    return Counter(hook_calls)


def test_hook_calls_of_a_run_do_not_grow_with_its_steps(hook_calls: Counter[str], tmp_path: Path) -> None:
    short = calls_of_a_run(hook_calls, tmp_path, 2_000)
    long = calls_of_a_run(hook_calls, tmp_path, 20_000)
    assert short == long
    assert short["rlcore_summary_written"] == 10
    assert short["rlcore_checkpoint_saved"] == short["rlcore_report_status"] == 5
    assert short["rlcore_evaluated"] == 4
    assert short["rlcore_create_trainer"] == short["rlcore_run_started"] == 1
    assert short["rlcore_create_environment"] == 2  # one to train in, one to evaluate in
    assert short["rlcore_run_finished"] == short["rlcore_check_config"] == short["rlcore_modify_config"] == 1
    assert short["rlcore_process_summary"] == short["rlcore_summary_written"]
    assert "rlcore_checkpoint_removed" not in short
