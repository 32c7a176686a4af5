"""No process of an environment outlives its run or its worker; workers import what the run imports."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from rlcore_workers import EndingProcess

if TYPE_CHECKING:
    import psutil
else:
    psutil = pytest.importorskip("psutil", reason="is not among what rlcore-workers requires")

PLUGIN = """
import os, subprocess
import rlcore
from rlcore import EnvironmentSpec, hookimpl
from rlcore_workers import EndingProcess
from rlcore_devkit.environments import TinyCorridor

def make(settings, run):
    for number in range(run.first_env, run.first_env + run.num_envs):
        # A shell script that starts the simulator, in a session of its own and without the run's variables.
        START
    return TinyCorridor(run.num_envs, "Agent")

@hookimpl
def rlcore_environments():
    return [EnvironmentSpec(name="simulated", target=__name__ + ":make")]
"""
CONFIG = """
plugins: {{local: [{plugins}]}}
environment: {{type: simulated, num_envs: 8{workers}}}
behaviors: {{Agent: {{trainer_type: numpy, max_steps: 1000000000}}}}
"""
SECONDS = f"86400.{os.getpid()}"
SLEEPS = f"setsid sleep {SECONDS} & exec sleep {SECONDS}"
"""What a simulator does; psutil finds it by its command, which no other test process has."""
PLAIN = f'subprocess.Popen(["/bin/sh", "-c", "{SLEEPS}"], env={{"N": str(number)}}, start_new_session=True)'
OURS = f'EndingProcess(["/bin/sh", "-c", "{SLEEPS}"], env={{"N": str(number)}})'
STUBS = Path(__file__).parents[3] / "core" / "tests" / "run" / "stub_plugin.py"


def simulators() -> list[psutil.Process]:
    return [each for each in psutil.process_iter(["cmdline"]) if each.info["cmdline"] == ["sleep", SECONDS]]


def until(condition: Callable[[], bool], seconds: float = 30) -> bool:
    deadline = time.monotonic() + seconds
    while not condition() and time.monotonic() < deadline:
        time.sleep(0.02)
    return condition()


@pytest.fixture(autouse=True)
def none_left() -> Iterator[None]:
    assert simulators() == []
    yield
    for each in simulators():
        with suppress(psutil.NoSuchProcess):
            each.kill()


def run(tmp_path: Path, start: str, workers: str) -> subprocess.Popen[bytes]:
    (tmp_path / "simulated_plugin.py").write_text(PLUGIN.replace("START", start))
    plugins = f"{str(STUBS)!r}, {str(tmp_path / 'simulated_plugin.py')!r}"
    (tmp_path / "config.yaml").write_text(CONFIG.format(plugins=plugins, workers=workers))
    command = [sys.executable, "-P", "-m", "rlcore", "run", "config.yaml"]
    with open(tmp_path / "log", "wb") as log:
        return subprocess.Popen(command, cwd=tmp_path, stdout=log, stderr=log)


@pytest.mark.skipif(sys.platform != "linux", reason="sessions of their own end on Linux")
@pytest.mark.parametrize(
    ("start", "workers", "victims"),
    [
        pytest.param(OURS, "", lambda run: [run], id="run in one process"),
        pytest.param(PLAIN, ", workers: 2", lambda run: [run], id="run with workers"),
        pytest.param(PLAIN, ", workers: {count: 2, on_failure: fail}", lambda run: run.children()[:1], id="guard"),
        pytest.param(
            PLAIN,
            ", workers: {count: 2, on_failure: fail}",
            lambda run: run.children()[0].children()[:1],
            id="worker",
        ),
    ],
)
def test_simulators_in_sessions_of_their_own_end_with_what_was_killed(
    tmp_path: Path, start: str, workers: str, victims: Callable[[psutil.Process], list[psutil.Process]]
) -> None:
    child = run(tmp_path, start, workers)
    try:
        assert until(lambda: len(simulators()) == 16 or child.poll() is not None, 120)
        assert len(simulators()) == 16, (tmp_path / "log").read_text()
        for each in victims(psutil.Process(child.pid)):
            each.kill()
        ended = until(lambda: not simulators(), 30)
        print(f"{(16 - len(simulators())) // 2} of 8 ended")
        assert ended
        assert child.wait(60) != 0
    finally:
        child.kill()


def test_a_command_that_ends_or_cannot_start_is_reported_as_by_popen() -> None:
    with EndingProcess([sys.executable, "-c", "print(input()); exit(7)"], stdin=-1, stdout=-1, text=True) as process:
        assert (process.communicate("hello"), process.returncode) == (("hello\n", None), 7)
    for number in (signal.SIGTERM, signal.SIGUSR1, signal.SIGKILL):
        with EndingProcess(["sleep", "60"]) as process:
            process.send_signal(number)
            assert process.wait(10) == -number
    with pytest.raises(FileNotFoundError, match="no-such-simulator"):
        EndingProcess(["no-such-simulator"])
    with pytest.raises(TypeError, match="as a list"):
        EndingProcess(["sleep 60"], shell=True)


def test_a_worker_imports_nothing_from_the_working_directory(tmp_path: Path) -> None:
    """One process does not either: the working directory is not on the path of the command ``rlcore``."""
    ran = tmp_path / "ran"
    for name in ("types", "logging", "ctypes", "json", "numpy", "rlcore", "attrs"):
        (tmp_path / f"{name}.py").write_text(f"open({str(ran)!r}, 'a').write(__name__ + ' ')\n")
    child = run(tmp_path, "pass", ", workers: 2")
    try:
        assert until(lambda: "resume " in (tmp_path / "log").read_text() or child.poll() is not None, 120)
        os.kill(child.pid, signal.SIGINT)
        assert child.wait(60) == 130, (tmp_path / "log").read_text()
    finally:
        child.kill()
    assert not ran.exists(), ran.read_text()
