"""The conftest.py of this repository: a test finds the process as the first one did."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from workspace import ROOT

LOG = """\
import logging
import pytest
from rlcore.cli.terminal import show_log

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

IMPORTS = """\
import importlib
import sys
from importlib.util import find_spec
import pytest

@pytest.fixture(scope="module")
def of_module(tmp_path_factory):
    path = tmp_path_factory.mktemp("of_module")
    (path / "shared.py").write_text("")
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(path)
        import shared
        yield

def test_that_imports_what_it_wrote(tmp_path, of_module):
    (tmp_path / "own.py").write_text("")
    sys.path.append(str(tmp_path))
    import own

def test_after_it(of_module, monkeypatch, tmp_path):
    assert find_spec("own") is None and "shared" in sys.modules and find_spec("shared")
    (tmp_path / "patched.py").write_text("")
    monkeypatch.syspath_prepend(tmp_path)
    import patched

def test_after_a_patch(of_module):
    assert find_spec("patched") is None and "shared" in sys.modules
"""


@pytest.mark.parametrize(("tests", "count"), [(LOG, 4), (IMPORTS, 3)], ids=["log", "imports"])
def test_what_a_test_changes_is_undone(tmp_path: Path, tests: str, count: int) -> None:
    (tmp_path / "test_process.py").write_text(tests)
    (tmp_path / "pytest.ini").write_text("[pytest]\nmarkers = deep: as here\n")
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])}
    for name in [name for name in environment if name.startswith("PYTEST_")]:
        del environment[name]
    command = [sys.executable, "-m", "pytest", "-q", "-p", "conftest", "-p", "no:cacheprovider", "test_process.py"]
    ran = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stdout
    assert f"{count} passed" in ran.stdout
