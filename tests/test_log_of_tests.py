"""The conftest.py of this repository: a test finds the log of rlcore as the first one did."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from workspace import ROOT

TESTS = """\
import logging
import pytest
from rlcore.cli.log import show_log

@pytest.fixture(scope="module")
def shown():
    show_log(debug=True)

def warned(caplog):
    log = logging.getLogger("rlcore")
    kinds = {type(handler).__name__ for handler in log.handlers}
    found = log.propagate, log.level, "EchoHandler" in kinds
    logging.getLogger("rlcore.part").warning("once")
    return found, caplog.messages

def test_with_a_fixture_of_the_module_that_configures_the_log(shown):
    assert not logging.getLogger("rlcore").propagate

def test_after_the_fixture(caplog):
    assert warned(caplog) == ((True, logging.NOTSET, False), ["once"])

def test_that_configures_the_log_itself():
    show_log()

def test_after_the_test(caplog, monkeypatch):
    monkeypatch.setattr(logging.getLogger("rlcore"), "propagate", True)
    assert warned(caplog) == ((True, logging.NOTSET, False), ["once"])
"""


def test_what_a_test_changes_of_the_log_is_undone(tmp_path: Path) -> None:
    (tmp_path / "test_log.py").write_text(TESTS)
    (tmp_path / "pytest.ini").write_text("[pytest]\nmarkers = deep: as here\n")
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])}
    for name in [name for name in environment if name.startswith("PYTEST_")]:
        del environment[name]
    command = [sys.executable, "-m", "pytest", "-q", "-p", "conftest", "-p", "no:cacheprovider", "test_log.py"]
    ran = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stdout
    assert "4 passed" in ran.stdout
