"""rlcore trains, saves, resumes and reports in a Python that lacks what Windows lacks; see ``without_posix.py``."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

Command = Callable[..., "subprocess.Popen[str]"]
SCRIPT = Path(__file__).parent / "without_posix.py"


@pytest.fixture
def start(tmp_path: Path) -> Command:
    """``start("run", path)``: a process of that command, in a Python without what Windows lacks."""

    def process(*words: object) -> subprocess.Popen[str]:
        environment = {**os.environ, "RLCORE_ALLOW_LOCAL": "1"}
        pipes: dict[str, Any] = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
        line = [sys.executable, SCRIPT, *map(str, words)]
        return subprocess.Popen(line, cwd=tmp_path, env=environment, **pipes)

    return process


@pytest.fixture
def ended(start: Command) -> Callable[..., str]:
    """``ended("run", path)``: what the command prints. It must exit with 0 and report no error or warning."""

    def run(*words: object) -> str:
        process = start(*words)
        out, err = process.communicate(timeout=120)
        assert process.returncode == 0 and "warning" not in err.lower() and "error" not in err, (words, out, err)
        return out

    return run


def test_a_run_without_posix_equals_one_with_it(
    configure: Any, files: Any, make_run: Any, ended: Callable[..., str], tmp_path: Path
) -> None:
    """The console is on, a checkpoint is saved and resumed, and the status is read."""
    path = tmp_path / "config.yaml"
    path.write_text(yaml.safe_dump(configure({"stats.console": {}}, max_steps=120)))
    assert "Agent" in ended("run", path)
    ended("run", "--resume", "--run-id", "run", "--set", "behaviors.Agent.max_steps=200")
    report = json.loads(ended("status", files().path, "--json"))
    assert (report["running"], report["steps"], report["damaged"]) == (False, {"Agent": 200}, [])
    assert "200 (100%)" in ended("status", files().path)
    make_run({"checkpoint_settings.run_id": "other"}, max_steps=120).train()
    make_run({"checkpoint_settings": {"run_id": "other", "resume": True}}).train()
    assert files().steps == files("other").steps == [40, 80, 120, 160, 200]
    for step in files().steps:
        assert files().checkpoint(step) == files("other").checkpoint(step)
    leftovers = [each.name for each in files().path.rglob("*") if each.name.startswith(".rlcore-tmp-")]
    assert leftovers == []


def test_a_run_without_posix_is_alone_in_its_directory(
    configure: Any, files: Any, start: Command, ended: Callable[..., str], tmp_path: Path
) -> None:
    path = tmp_path / "config.yaml"
    path.write_text(yaml.safe_dump(configure(max_steps=10**9)))
    running = start("run", path)
    try:
        deadline = time.monotonic() + 60
        while not files().steps:
            assert running.poll() is None and time.monotonic() < deadline
            time.sleep(0.05)
        for _ in range(2):  # looking at the lock does not take it away
            assert json.loads(ended("status", files().path, "--json"))["running"] is True
        second = start("run", "--resume", "--run-id", "run")
        _, err = second.communicate(timeout=120)
        assert second.returncode == 5 and "another process is writing to this run" in err, err
    finally:
        running.terminate()
        running.communicate(timeout=60)
    assert json.loads(ended("status", files().path, "--json"))["running"] is False
