"""The faults of workers in number, and how soon each is noticed; ``matrix.py`` has a row for each kind.

The environments and the checks of their rows are those of ``test_worker_faults.py``.
"""

from __future__ import annotations

import gc
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from checked_workers import UNLIMITED, Checked, Fault, Notices, descriptors, fault, left_processes, make

from rlcore import EnvironmentFailed

pytestmark = pytest.mark.faults
SUPPORT = Path(__file__).parents[1] / "support"
PARTS, STEP_TIMEOUT = 4, 3.0
Trial = Callable[[], None]

# What is injected, how often, and what the error says if the run is to end at the first failure.
KINDS = {
    "kill -9": (("kill",), 40, "its process was killed by SIGKILL"),
    "hangs": (("hang", "stop"), 20, "did not finish step within 3 s"),
    "raises": (("raise", "raise", "raise when it begins"), 40, "ValueError: the pole is broken"),
    "segfault": (("segfault",), 20, "its process was killed by SIGSEGV .*Segmentation fault"),
    "exits": (("exit",), 10, "its process ended with exit code 3"),
    "unpicklable": (("unpicklable",), 5, "Can't pickle"),
    "bad batch": (("nan", "shape"), 10, r"'state' of slot 0 \(environment 0\) is \[ *0. +0. +1. +nan\]; fix"),
}


def show(capsys: pytest.CaptureFixture[str], kind: str, seconds: list[float]) -> None:
    """Print how soon failures were noticed."""
    quantiles = [float(np.quantile(seconds, share)) for share in (0.0, 0.5, 0.95, 1.0)]
    shown = ", ".join(
        f"{name} {value:.4f}" for name, value in zip(("least", "median", "95%", "most"), quantiles, strict=True)
    )
    with capsys.disabled():
        print(f"\n{kind}: {len(seconds)} noticed after {shown} s", end="")


@pytest.mark.deep
@pytest.mark.parametrize("kind", KINDS)
def test_each_of_many_faults_costs_the_open_episodes_of_its_worker(
    tmp_path: Path, opened: list[Any], kind: str, trial: Trial, capsys: pytest.CaptureFixture[str]
) -> None:
    """All rows of all other environments are checked; a failure when an episode begins happens again in the reset."""
    kinds, count, message = KINDS[kind]
    faults: list[Fault] = []
    happen = number = 0
    while happen < count:
        one = kinds[number % len(kinds)]
        part, turn = number % PARTS, 1 + number // PARTS
        begins = one.endswith("begins")
        faults.append(fault(one.split()[0], 2 * part, 2 * turn, 0 if begins else 1 + part))
        happen += 2 if begins else 1
        number += 1
    workers, log = {"count": PARTS, "step_timeout": STEP_TIMEOUT}, tmp_path / "faults.log"
    opened.append(make(tmp_path, workers, 2 * PARTS, faults, fault_log=str(log)))
    checked = Checked(opened[-1])
    before, threads = descriptors(), len(os.listdir("/proc/self/task"))
    with Notices(log) as notices:
        checked.play(14 * (2 + number // PARTS))
    stats = opened[-1].stats()
    assert stats["Environment/Worker Restarts"] == happen
    assert stats["Environment/Aborted Episodes"] == 2 * number == sum(map(len, checked.aborts))
    assert descriptors() == before and len(os.listdir("/proc/self/task")) == threads
    opened.pop().close()
    assert left_processes() == []
    show(capsys, kind, notices.seconds)
    assert max(notices.seconds) <= (STEP_TIMEOUT + 2.0 if kind == "hangs" else 1.0)
    for _ in range(happen):
        trial()
    first = fault(kinds[0], 0, 0, 1)
    opened.append(make(tmp_path, {**workers, "on_failure": "fail"}, 2 * PARTS, [first]))
    with pytest.raises(EnvironmentFailed, match=rf"worker 0 \(environments 0 to 1\) failed in step: .*{message}"):
        Checked(opened[-1]).play(3)


@pytest.mark.deep
@pytest.mark.parametrize("kind", ["together", "create raises", "create exits", "create hangs"])
def test_two_workers_fail_at_once_or_cannot_be_started_again(
    tmp_path: Path, opened: list[Any], kind: str, trial: Trial, capsys: pytest.CaptureFixture[str]
) -> None:
    """Both workers in one step; or the new worker cannot make its environments, the first time it is started."""
    turns = {"together": 10, "create raises": 5, "create exits": 4, "create hangs": 1}[kind]
    one, envs = ("kill", (0, 3)) if kind == "together" else ("kill without license", (3,))
    faults = [fault(one, env, 2 * turn, 2) for turn in range(turns) for env in envs]
    log, hangs = tmp_path / "faults.log", kind.endswith("hangs")
    options = {"fail_create_if": str(tmp_path / "once"), "create_env": 3, "create_kind": kind.split()[-1].rstrip("s")}
    limits = {**UNLIMITED, "timeout_wait": 20}
    opened.append(make(tmp_path, 2, 6, faults, limits, fault_log=str(log), **options))
    checked = Checked(opened[-1])
    with Notices(log) as notices:
        checked.play(turns * 9)
    lost = range(6) if kind == "together" else range(3, 6)
    assert checked.aborts == [tuple(lost)] * turns
    assert opened[-1].stats()["Environment/Worker Restarts"] == 2 * turns
    show(capsys, kind, notices.seconds)
    assert max(notices.seconds) <= (20.0 + 2.0 if hangs else 1.0)
    for _ in range(turns):
        trial()


@pytest.mark.deep
def test_a_hundred_restarts_leave_nothing(tmp_path: Path, opened: list[Any], trial: Trial) -> None:
    """Neither descriptors, threads and processes, nor memory that is shared."""
    faults = [fault("exit", env, 2 * turn, 2) for turn in range(50) for env in (0, 3)]

    def held() -> tuple[int, int, int]:
        maps = Path("/proc/self/maps").read_text().count("memfd:rlcore")
        return descriptors(), len(os.listdir("/proc/self/task")), maps

    at_first = held()
    environment = make(tmp_path, 2, 6, faults)
    opened.append(environment)
    checked = Checked(environment)
    before = held()
    assert before[2] == 1
    for _ in range(10):
        checked.play(5 * 9)
        assert held() == before
        for _ in range(10):
            trial()
    assert opened[-1].stats()["Environment/Worker Restarts"] == 100
    opened.pop().close()
    assert left_processes() == []
    del checked, environment
    gc.collect()
    assert held()[0] == at_first[0] and held()[2] == 0


@pytest.mark.deep
@pytest.mark.parametrize("limits", [{}, {"restarts_rate_limit_n": -1}], ids=["rate", "lifetime"])
def test_a_worker_that_always_fails_ends_the_run_soon(
    tmp_path: Path, opened: list[Any], limits: dict[str, int], trial: Trial, capsys: pytest.CaptureFixture[str]
) -> None:
    """By default one restart in a minute; without that limit, ten restarts."""
    opened.append(make(tmp_path, 2, 4, [fault("segfault", 0, episode, 1) for episode in range(50)], limits))
    started = time.monotonic()
    with pytest.raises(EnvironmentFailed, match="it is not started again, because env_settings"):
        Checked(opened[-1]).play(200)
    seconds = time.monotonic() - started
    show(capsys, "crash loop", [seconds])
    assert seconds <= 30.0
    trial()


PARENT = """
import sys
sys.path.insert(0, {support!r})
from pathlib import Path
from checked_workers import make, Checked
if __name__ == "__main__":
    environment = make(Path({path!r}), 2, 4, pause={pause}, deaf={deaf}, child=True)
    checked = Checked(environment)
    print("ready", flush=True)
    checked.play(100000)
"""


def children(process: int) -> list[int]:
    lists = Path(f"/proc/{process}/task").rglob("children")
    return [int(word) for each in lists for word in each.read_text().split()]


def runs(process: int) -> bool:
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


@pytest.mark.parametrize(
    "number", [pytest.param(number, marks=[pytest.mark.deep] if number >= 2 else []) for number in range(20)]
)
def test_no_process_outlives_a_run_that_is_killed(tmp_path: Path, number: int, deep: bool) -> None:
    """Nor does a simulator that an environment started, or a worker whose environment never gives up the lock."""
    stepping = number % 2 == 1
    program = PARENT.format(support=str(SUPPORT), path=str(tmp_path), pause=3600 if stepping else 0, deaf=stepping)
    parent = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True)
    try:
        assert parent.stdout is not None and parent.stdout.readline() == "ready\n"
        parent.stdout.close()
        workers = children(parent.pid)
        every = [*workers, *(child for worker in workers for child in children(worker))]
        assert len(every) == 4
        if number % 4 == 3:
            os.kill(workers[0], signal.SIGSTOP)
    finally:
        parent.kill()
        parent.wait()
    deadline = time.monotonic() + (5.0 if deep else 60.0)
    while any(map(runs, every)):
        assert time.monotonic() < deadline
        time.sleep(0.01)
