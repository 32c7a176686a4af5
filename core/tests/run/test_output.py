"""Commands end with one line and an exit code, whatever becomes of their output."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest


@pytest.fixture
def directory(make_run: Any, files: Any) -> Path:
    make_run({}).train()
    path: Path = files().path
    return path.rename(path.with_name("走行"))


def status(directory: Path, **options: Any) -> subprocess.CompletedProcess[bytes]:
    command = [sys.executable, "-P", "-m", "rlcore", "status", str(directory), "--allow-local"]
    return subprocess.run(command, stderr=subprocess.PIPE, timeout=60, **options)


def test_a_reader_that_is_gone_ends_a_command_in_silence(directory: Path) -> None:
    """``rlcore status RUN | head``"""
    reader, writer = os.pipe()
    os.close(reader)
    try:
        ended = status(directory, stdout=writer)
    finally:
        os.close(writer)
    assert (ended.returncode, ended.stderr) == (1, b"")


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="there is no /dev/full")
def test_a_full_disk_under_the_output_is_said(directory: Path) -> None:
    with open("/dev/full", "wb") as full:
        ended = status(directory, stdout=full)
    assert (ended.returncode, ended.stderr) == (5, b"error: output: No space left on device\n")


def test_a_path_that_the_terminal_cannot_write_is_escaped(directory: Path) -> None:
    ended = status(directory, stdout=subprocess.PIPE, env={**os.environ, "PYTHONIOENCODING": "cp1252"})
    assert (ended.returncode, ended.stderr) == (0, b"")
    assert rb"\u8d70\u884c:" in ended.stdout
