"""Commands of the plugin ray in processes of their own, and a plugin that ends or holds a run at its checkpoints."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import psutil
from rank_training import PPO

from rlcore import load_checkpoint
from rlcore.storage.checkpoints import find_checkpoints

DEADLINE = 240.0
ENDED = (psutil.STATUS_ZOMBIE, psutil.STATUS_DEAD)
# With a file "kill-RUN", the run kills itself when it has saved a checkpoint, once for each line of the file. With a
# file "hold-RUN", the run waits after a checkpoint until the file is gone.
PLUGIN = """
import os, signal, time
from pathlib import Path
from rlcore import hookimpl

@hookimpl
def rlcore_checkpoint_saved(run, step, path):
    name = path.parent.parent.name
    Path(f"saved-{name}").touch()
    while Path(f"hold-{name}").exists():
        time.sleep(0.05)
    kill = Path(f"kill-{name}")
    lines = kill.read_text().splitlines() if kill.exists() else []
    if lines:
        kill.write_text("\\n".join(lines[1:]))
        os.kill(os.getpid(), signal.SIGKILL)
"""
CONFIG = f"{PPO}checkpoint_settings: {{run_id: run}}\nplugins: {{local: [./at_checkpoints.py]}}\n"
LINES = "from rlcore.cli.main import process; process()"


def prepare(where: Path) -> None:
    """Write a configuration and its plugin to the directory ``where``."""
    where.mkdir(exist_ok=True)
    (where / "config.yaml").write_text(CONFIG)
    (where / "at_checkpoints.py").write_text(PLUGIN)


def begin(where: Path, *arguments: str | Path) -> subprocess.Popen[str]:
    """Start ``rlcore ARGUMENTS`` in ``where``, in a process group of its own as in a terminal."""
    command = [sys.executable, "-c", LINES, *map(str, arguments)]
    environ = {**os.environ, "OMP_NUM_THREADS": "1", "RAY_AUTH_MODE": "token"}
    return subprocess.Popen(
        command, cwd=where, env=environ, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        start_new_session=True,
    )  # fmt: skip


def ended(job: subprocess.Popen[str]) -> str:
    """Wait for the end of ``job``, and return its output."""
    try:
        return job.communicate(timeout=DEADLINE)[0]
    except BaseException:
        os.killpg(job.pid, signal.SIGKILL)
        raise


def rlcore(where: Path, *arguments: str | Path, code: int = 0) -> str:
    """Run ``rlcore ARGUMENTS`` in ``where`` and return what it prints."""
    job = begin(where, *arguments)
    output = ended(job)
    assert job.returncode == code, output
    return output


def wait_until(condition: Callable[[], object], what: str) -> None:
    deadline = time.monotonic() + DEADLINE
    while not condition():
        assert time.monotonic() < deadline, what
        time.sleep(0.05)


def processes_of(job: subprocess.Popen[str]) -> list[psutil.Process]:
    """The processes that a command started, and those that they started."""
    return [each for each in psutil.Process(job.pid).children(recursive=True) if runs(each)]


def runs(process: psutil.Process) -> bool:
    """Whether a process is there that has not ended."""
    try:
        return process.status() not in ENDED
    except psutil.NoSuchProcess:
        return False


def wait_until_gone(processes: Sequence[psutil.Process]) -> None:
    """Wait until none of the processes is left."""
    _, alive = psutil.wait_procs(processes, timeout=DEADLINE)
    assert not any(map(runs, alive))


def listening(processes: Sequence[psutil.Process]) -> set[str]:
    """The addresses at which the processes can be reached."""
    found = set()
    for each in processes:
        try:
            connections = each.net_connections(kind="inet")
        except psutil.Error:  # it has ended
            continue
        found |= {one.laddr.ip.removeprefix("::ffff:") for one in connections if one.status == psutil.CONN_LISTEN}
    return found


def last_state(directory: Path) -> tuple[int, Any]:
    """The step of the last checkpoint of a run, and its state without what depends on the clock and on files."""
    checkpoint = find_checkpoints(directory / "checkpoints")[-1]
    state = load_checkpoint(checkpoint.path)
    parts = (state["run"].get("ranks") or {"parts": {}})["parts"]
    of_others = {
        (rank, *path): leaf
        for rank, part in parts.items()
        for path, leaf in zip(part["paths"], part["leaves"], strict=True)
        if path[-1] != "wall_seconds"
    }
    run = {key: value for key, value in state["run"].items() if key in ("steps", "environment", "episodes")}
    return checkpoint.step, {**state, "run": run, "ranks": of_others}


def assert_equal_runs(one: Path, other: Path) -> None:
    """Check that two runs ended with the same state, bit for bit."""
    (step, left), (last, right) = last_state(one), last_state(other)
    assert step == last
    np.testing.assert_equal(left, right)
