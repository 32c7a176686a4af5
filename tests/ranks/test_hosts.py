"""Ranks and actors on several hosts that are cut off or lose their power: none hangs, and a line names the host."""

from __future__ import annotations

import importlib.util
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
START_SECONDS = 400.0
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

    def member(number: int) -> Job:
        options = ("--max-restarts", "0", "--rdzv-conf", f"is_host={int(number == 1)}")
        steps = ("--set", "behaviors.CartPole.max_steps=20000", "--set", "torch_settings.rank_timeout=600")
        return ranks(three, number, *options, run=steps, TORCH_DISABLE_SHARE_RDZV_TCP_STORE="1")

    first, second = member(1), member(2)
    first.said("Step: 8000")
    three.lose_power(2)
    second.ended(30)
    third = member(3)
    assert first.ended(2 * START_SECONDS) == 0, three.logs()
    assert third.ended(60) == 0, three.logs()
    assert "resumed at step " in first.output()
    assert "this run exists" not in first.output()


@pytest.mark.skipif(importlib.util.find_spec("ray") is None, reason="ray is not installed")
@pytest.mark.parametrize(
    "lost",
    [pytest.param(1, id="head"), pytest.param(2, id="node", marks=pytest.mark.deep)],
)
def test_ranks_on_ray_end_when_a_host_is_lost(three: Hosts, lost: int) -> None:
    token = {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": 32 * "0"}
    head = "10.77.0.1:6379"
    for number in (1, 2):
        place = ["--head", "--port=6379", "--include-dashboard=false"] if number == 1 else [f"--address={head}"]
        options = ["--num-cpus=2", f"--node-ip-address={three[number].address}", "--object-store-memory=80000000"]
        program = Path(__file__).parents[1] / "support/ray_host.py"
        node = three.start(number, [sys.executable, program, *place, *options], **token)
        assert node.ended(START_SECONDS) == 0, node.output()
    folder = three.folder  # the same on all hosts
    (folder / "run.yaml").write_text(CONFIG)
    words = ["ray", "ranks", "--count", "3", "--address", head, "run.yaml"]
    job = three.start(3 - lost, ["env", "-C", folder, sys.executable, "-m", "rlcore", *words], **token)
    job.said("Step: 4000", START_SECONDS)
    began = time.monotonic()
    three.lose_power(lost)
    ended_within(job, f"error: rank 0: rank 2 on host{lost} did not answer for {TIMEOUT} seconds", began)


def test_a_run_continues_when_the_host_of_an_actor_is_lost(three: Hosts) -> None:
    token = three.folder / "token"
    token.write_text("a token of many characters\n")
    workers = (
        "{executor: actors, count: 2, local: 1, listen: '10.77.0.1:5600', allow_public_bind: true, "
        f"token_file: {token}, fragment_timeout: {TIMEOUT}}}"
    )
    config = three[1].folder / "run.yaml"
    config.write_text(CONFIG.replace("num_envs: 4", f"num_envs: 4, workers: {workers}").replace("ppo", "appo"))
    run = three.start(1, [sys.executable, "-m", "rlcore", "run", config])
    words = ["actor", "10.77.0.1:5600", "--token-file", token, "--wait", str(START_SECONDS)]
    three.start(2, [sys.executable, "-m", "rlcore", *words])
    run.said("actor 1 is at host2", START_SECONDS)
    run.said("Step: ", START_SECONDS)
    three.lose_power(2)
    run.said("actor 1 on host2 failed: ", TIMEOUT + LATE + PATIENCE)
    summaries = run.output().count("Step: ")
    deadline = time.monotonic() + PATIENCE
    while run.output().count("Step: ") == summaries:
        assert time.monotonic() < deadline and run.code is None, run.output()
        time.sleep(0.1)


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
