"""rlcore trains, saves, resumes and reports in a Python that lacks what Windows lacks; see ``without_posix.py``."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
import yaml

SCRIPT = Path(__file__).parent / "without_posix.py"


def start(*words: object) -> subprocess.Popen[str]:
    """A process of that command, in a Python without what Windows lacks."""
    environment = {**os.environ, "RLCORE_ALLOW_LOCAL": "1"}
    pipes: dict[str, Any] = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    return subprocess.Popen([sys.executable, SCRIPT, *map(str, words)], env=environment, **pipes)


def ended(*words: object) -> str:
    """Return what the command prints. It must exit with 0 and report no error or warning."""
    process = start(*words)
    out, err = process.communicate(timeout=120)
    assert process.returncode == 0 and "warning" not in err.lower() and "error" not in err, (words, out, err)
    return out


@pytest.fixture
def config_file(configure: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "config.yaml"
    path.write_text(yaml.safe_dump(configure({"stats.console": {}}, max_steps=120)))
    return path


def test_a_run_without_posix_equals_one_with_it(files: Any, make_run: Any, config_file: Path) -> None:
    """The console is on, a checkpoint is saved and resumed, and the status is read."""
    assert "Agent" in ended("run", config_file)
    ended("run", "--resume", "--run-id", "run", "--set", "behaviors.Agent.max_steps=200")
    report = json.loads(ended("status", files().path, "--json"))
    assert (report["running"], report["steps"], report["damaged"]) == (False, {"Agent": 200}, [])
    assert "200 (100%)" in ended("status", files().path)
    make_run({"checkpoint_settings.run_id": "other"}, max_steps=120).train()
    make_run({"checkpoint_settings": {"run_id": "other", "resume": True}}).train()
    assert files().steps == files("other").steps == [40, 80, 120, 160, 200]
    for step in files().steps:
        assert files().checkpoint(step) == files("other").checkpoint(step)
    assert not list(files().path.rglob(".rlcore-tmp-*"))


def test_a_run_without_posix_is_alone_in_its_directory(files: Any, config_file: Path) -> None:
    running = start("run", config_file, "--set", f"behaviors.Agent.max_steps={10**9}")
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
