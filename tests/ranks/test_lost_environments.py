"""In a run of several ranks, the environments of one end or fail: all ranks save what they learned, and go on later."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
from rank_training import PPO, SAC, torchrun

from rlcore import load_checkpoint

pytestmark = [pytest.mark.distributed, pytest.mark.xdist_group("ranks")]

# Ranks agree on stops after as many steps as on a fast machine: after 1, 257, and between two epochs.
FAULT = """
import rlcore_torch.ranks.episodes
from rlcore import EnvironmentEnded, hookimpl

rlcore_torch.ranks.episodes.SECONDS = 3600.0

@hookimpl(wrapper=True)
def rlcore_create_environment(run):
    environment = yield
    step, taken = environment.step, []
    def failing(actions):
        taken.append(1)
        if run.ranks.rank == 1 and not run.resumed_steps and len(taken) == 45:
            raise {error}
        return step(actions)
    if run.purpose == "train":
        environment.step = failing
    return environment
"""
DRAWN = """
environment_parameters:
  g:
    sampler_type: uniform
    sampler_parameters: {min_value: 9.0, max_value: 10.5}
"""
BROKEN = "OSError('no such port')"
CLOSED = "EnvironmentEnded('the window was closed')"
# Until step 45 both ranks have 2 agents that act, and then one rank: 602 steps are 257 of the environments, in which
# PPO learns from two rollouts, the second of them of rank 0 alone. 320 steps end an epoch of SAC.
CASES = {
    "ppo": (PPO, BROKEN, 3, 602),
    "sac": (SAC.replace("max_steps: 320", "max_steps: 480"), CLOSED, 0, 320),
    "parameters": (PPO + DRAWN, BROKEN, 3, 602),
}


@pytest.mark.parametrize("case", CASES)
def test_all_ranks_save_what_they_learned_before_the_environments_of_one_were_lost(case: str, tmp_path: Path) -> None:
    text, error, code, steps = CASES[case]
    ended, result = run_with_fault(text, error, tmp_path)
    assert (ended.returncode == 0) == (code == 0), ended.stderr
    assert result["outcome"] == "interrupted", ended.stderr
    assert result["stop"]["exit_code"] == code
    said = error.split("'")[1]
    assert re.search(rf"rank 1: .*{said}", result["stop"]["reason"])
    assert result["behaviors"]["Pendulum"]["steps"] == steps, "the other rank played on until they agreed"
    state = load_checkpoint(tmp_path / "results/it/checkpoints" / str(steps))
    assert state["run"]["environment_lost"] and state["run"]["environment"] is None

    resumed = torchrun(["-m", "rlcore", "run", "run.yaml", "--resume", "--run-id", "it"], tmp_path)
    assert resumed.returncode == 0, resumed.stderr
    assert result_in(tmp_path)["outcome"] == "done"


def test_a_run_that_reaches_its_end_before_the_ranks_agree_is_done(tmp_path: Path) -> None:
    """Rank 0 does not know of the request to stop then."""
    ended, result = run_with_fault(SAC, BROKEN, tmp_path)
    assert ended.returncode == 0, ended.stderr
    assert (result["outcome"], result["behaviors"]["Pendulum"]["steps"]) == ("done", 320)


def run_with_fault(text: str, error: str, where: Path) -> tuple[subprocess.CompletedProcess[str], Any]:
    (where / "fault.py").write_text(FAULT.format(error=error))
    (where / "run.yaml").write_text(text + "plugins: {local: [./fault.py]}\n")
    ended = torchrun(["-m", "rlcore", "run", "run.yaml", "--run-id", "it"], where)
    return ended, result_in(where)


def result_in(where: Path) -> Any:
    return json.loads((where / "results/it/result.json").read_text("utf-8"))
