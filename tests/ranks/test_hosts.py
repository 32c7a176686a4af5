"""Ranks on several hosts, whose links are cut and which lose their power: no rank hangs, and a line names the host."""

from __future__ import annotations

import signal
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
from hosts import Hosts, Job, hosts, problem, switch_problem

pytestmark = [
    pytest.mark.distributed,
    pytest.mark.faults,
    pytest.mark.xdist_group("ranks"),
    pytest.mark.skipif(problem() is not None, reason=f"no hosts for tests: {problem()}"),
]

TIMEOUT = 8  # rank_timeout
LATE = 15  # seconds after it, in which all ranks have ended
PATIENCE = 30  # more, for a machine on which other tests run
CONFIG = f"""
environment: {{id: CartPole-v1, num_envs: 4}}
behaviors:
  CartPole: {{trainer_type: ppo, max_steps: 3000000, summary_freq: 2000, checkpoint_interval: 4000}}
checkpoint_settings: {{run_id: run}}
torch_settings: {{rank_timeout: {TIMEOUT}}}
"""


def ranks(made: Hosts, number: int, *options: str, size: int = 2, run: Sequence[str] = (), **variables: str) -> Job:
    """Start ``rlcore torchrun`` with one rank on a host; ``run`` are options of ``rlcore run``."""
    made[number].folder.joinpath("run.yaml").write_text(CONFIG)
    command = [
        sys.executable, "-m", "rlcore", "torchrun", "--nnodes", str(size), "--nproc-per-node", "1",
        "--rdzv-backend", "c10d", "--rdzv-endpoint", "host1:29400", "--rdzv-id", "job", *options, "run.yaml", *run,
    ]  # fmt: skip
    return made.start(number, command, **variables)


@pytest.fixture
def three(tmp_path: Path) -> Iterator[Hosts]:
    with hosts(tmp_path, 3) as made:
        yield made


def ended_within(job: Job, text: str, began: float) -> None:
    """Check that a rank reported an error, and that its host's ``torchrun`` ended in the time that all have."""
    assert job.ended(TIMEOUT + LATE + PATIENCE - (time.monotonic() - began)) == 1
    assert text in job.output(), job.output()


@pytest.mark.parametrize("power", [False, True])
def test_ranks_end_when_the_host_of_another_rank_is_lost(three: Hosts, power: bool) -> None:
    jobs = [ranks(three, number, size=3) for number in (1, 2, 3)]
    jobs[0].said("Step: 4000")
    began = time.monotonic()
    (three.lose_power if power else three.cut)(3)
    for number, job in enumerate(jobs[:2]):
        ended_within(job, f"error: rank {number}: rank 2 on host3 did not answer for {TIMEOUT} seconds", began)


def test_ranks_end_when_the_host_of_rank_0_and_of_the_store_is_lost(three: Hosts) -> None:
    jobs = [ranks(three, number) for number in (1, 2)]
    jobs[0].said("Step: 4000")
    began = time.monotonic()
    three.cut(1)
    ended_within(jobs[1], "error: rank 1: host1 does not answer: ", began)
    assert "error: host1:29400, where the hosts meet, does not answer: " in jobs[1].output()
    assert jobs[0].ended(PATIENCE) == 1


def test_ranks_save_and_end_when_their_torchrun_is_killed(three: Hosts) -> None:
    jobs = [ranks(three, number) for number in (1, 2)]
    jobs[0].said("Step: 4000")
    jobs[1].send_signal(signal.SIGKILL)
    jobs[1].ended(30)
    jobs[0].said(" on host2, ended without its ranks): ")
    assert jobs[0].ended(PATIENCE + 30) == 143
    assert "resume with: rlcore run --resume --run-id run" in jobs[0].output()


def test_a_host_that_is_replaced_before_the_others_miss_it_resumes_the_run(three: Hosts) -> None:
    """``torchrun`` starts all ranks again for the new host, and counts no restart."""
    alive = "keep_alive_interval=2,keep_alive_max_attempt=2"

    def member(number: int) -> Job:
        options = ("--max-restarts", "0", "--rdzv-conf", f"is_host={int(number == 1)},{alive}")
        steps = ("--set", "behaviors.CartPole.max_steps=20000", "--set", "torch_settings.rank_timeout=600")
        return ranks(three, number, *options, run=steps, TORCH_DISABLE_SHARE_RDZV_TCP_STORE="1")

    first, second = member(1), member(2)
    first.said("Step: 8000")
    three.lose_power(2)
    second.ended(30)
    third = member(3)
    assert first.ended(300) == 0, three.logs()
    assert third.ended(60) == 0, three.logs()
    assert "resumed at step " in first.output()
    assert "this run exists" not in first.output()


@pytest.mark.skipif(switch_problem() is not None, reason=f"no slow links for tests: {switch_problem()}")
@pytest.mark.parametrize("lost", [1, 2])
def test_ranks_end_when_a_link_is_cut_in_one_direction(tmp_path: Path, lost: int) -> None:
    """The host that is not heard still hears the others, whose ``torchrun`` ends first."""
    with hosts(tmp_path, 2, lossy=True) as made:
        jobs = [ranks(made, number) for number in (1, 2)]
        jobs[0].said("Step: 4000")
        began = time.monotonic()
        made.tell(f"mute {lost}")
        ended_within(jobs[0], "error: rank 0: rank 1 on host2 did not answer for ", began)
        ended_within(jobs[1], "error: host1:29400, where the hosts meet, does not answer: ", began)


@pytest.mark.skipif(switch_problem() is not None, reason=f"no slow links for tests: {switch_problem()}")
def test_ranks_learn_over_a_slow_and_lossy_link(tmp_path: Path) -> None:
    with hosts(tmp_path, 2, lossy=True) as made:
        made.tell("delay 1")
        made.tell("loss 0.01")
        steps = ("--set", "behaviors.CartPole.max_steps=6000")
        jobs = [ranks(made, number, run=(*steps, "--set", "torch_settings.rank_timeout=60")) for number in (1, 2)]
        for job in jobs:
            assert job.ended(600) == 0, made.logs()
        assert "done: 6000 steps" in jobs[0].output()
