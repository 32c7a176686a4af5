"""Files that were changed at random: no loader crashes, hangs, writes or runs code; see ``fuzz.py``."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.faults

FUZZ = Path(__file__).with_name("fuzz.py")


def test_loaders_refuse_changed_files_or_accept_them(tmp_path: Path) -> None:
    fuzz(tmp_path, "--trials", "10", "--minutes", "5")


@pytest.mark.deep
@pytest.mark.parametrize("loader", ["checkpoint", "configuration", "recording"])
def test_a_loader_refuses_changed_files_or_accepts_them_for_two_minutes(loader: str, tmp_path: Path) -> None:
    fuzz(tmp_path, loader, "--minutes", "2", "--seed", "1")


def fuzz(directory: Path, *arguments: str) -> None:
    """A process of its own, because a library may crash it."""
    command = [sys.executable, str(FUZZ), *arguments]
    done = subprocess.run(command, cwd=directory, capture_output=True, text=True, timeout=800)
    assert done.returncode == 0, done.stdout + done.stderr
    print(done.stdout)
