"""docs/how-to/publish.md: its commands create a package, upload it to a local index, and use it elsewhere."""

from __future__ import annotations

import json
import os
import re
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path

import attrs
import plugin_list
import pytest
import release
from pages import blocks
from virtualenvs import PIP, Venv, own_environment

import rlcore

pytestmark = pytest.mark.packaging

PAGE = "docs/how-to/publish.md"
ELSEWHERE = "python -m venv elsewhere && . elsewhere/bin/activate"
PORT = "8080"  # of the page; the test takes a free one
COMMANDS = {"pytest": "pytest", "rlcore": "rlcore.cli.main", "twine": "twine", "pypi-server": "pypiserver"}


def with_commands(venv: Venv) -> Venv:
    """Write the commands of the page, which run in this environment and see the layers below it."""
    python = venv.binaries / "python"
    lines = {name: f'exec {python} -m {module} "$@"' for name, module in COMMANDS.items()}
    lines["pip"] = f'exec {" ".join(PIP)} --python {python} "$@"'
    for name, line in lines.items():
        (venv.binaries / name).write_text(f"#!/bin/sh\n{line}\n")
        (venv.binaries / name).chmod(0o755)
    return venv


@attrs.define
class Shell:
    """Runs commands one after another, each in the directory in which the previous one ended."""

    venv: Venv
    directory: Path
    port: int

    def run(self, command: str) -> str:
        """Run a line of the page; return what it printed."""
        environment = own_environment() | {"PATH": f"{self.venv.binaries}{os.pathsep}{os.environ['PATH']}"}
        line = command.replace(PORT, str(self.port))
        ran = subprocess.run(
            ["bash", "-euc", f"{line}\npwd > {self.venv.directory}/cwd"],
            cwd=self.directory, env=environment, capture_output=True, text=True, check=False,
        )  # fmt: skip
        assert ran.returncode == 0, f"{command}\n{ran.stdout}{ran.stderr}"
        self.directory = Path((self.venv.directory / "cwd").read_text().strip())
        return ran.stdout


@pytest.fixture
def port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])


@pytest.fixture
def serve(tmp_path: Path, port: int) -> Iterator[Callable[[str, Shell], None]]:
    """``serve(command, shell)``: start the page's index, and wait until it answers; it ends with the test."""
    started: list[subprocess.Popen[bytes]] = []

    def start(command: str, shell: Shell) -> None:
        words = command.replace(PORT, str(port)).removesuffix("&").split()
        assert words[words.index("--interface") + 1] == "127.0.0.1"
        python = str(shell.venv.binaries / "python")
        with (tmp_path / "index.log").open("wb") as log:
            started.append(
                subprocess.Popen(
                    [python, "-m", COMMANDS[words[0]], *words[1:]],
                    cwd=shell.directory,
                    env=own_environment(),
                    stdout=log,
                    stderr=log,
                )
            )
        until = time.monotonic() + 30
        while True:
            try:
                urllib.request.urlopen(f"http://127.0.0.1:{port}/simple/", timeout=5).close()
                return
            except OSError:
                assert time.monotonic() < until, (tmp_path / "index.log").read_text()
                time.sleep(0.1)

    yield start
    for process in started:
        process.terminate()
        process.wait(10)


@pytest.mark.skipif(sys.platform == "win32", reason="the page's commands are those of a POSIX shell")
def test_the_commands_of_the_page_publish_a_plugin_and_use_it_elsewhere(
    tmp_path: Path,
    port: int,
    serve: Callable[[str, Shell], None],
    make_venv: Callable[..., Venv],
    tested: Venv,
    capsys: pytest.CaptureFixture[str],
) -> None:
    tools = make_venv("build", "hatchling", "editables", "pypiserver", "twine", below=tested)
    author, user = (with_commands(make_venv(below=layer)) for layer in (tools, tested))
    shell = Shell(author, tmp_path, port)
    printed = {}
    for block in (block for block in blocks("yaml") if block.page == PAGE):
        (tmp_path / block.title).write_text(block.text)
    lines = [line for block in blocks("sh") if block.page == PAGE for line in block.text.splitlines()]
    assert len(lines) > 15 and ELSEWHERE in lines
    for line in lines:
        if line == ELSEWHERE:  # this environment has the layers with rlcore and numpy below it
            shell = Shell(user, shell.directory, port)
        elif line.endswith("&"):
            serve(line, shell)
        else:
            printed[line] = shell.run(line)
    assert "rlcore-acme/acme: ok" in printed["rlcore plugins doctor acme"]
    assert "rlcore-acme" in user.distributions() and "twine" not in user.distributions()
    assert json.loads((tmp_path / "results/walk/result.json").read_text())["outcome"] == "done"
    check_the_list_of_plugins(port, capsys)


def check_the_list_of_plugins(port: int, capsys: pytest.CaptureFixture[str]) -> None:
    """The package is found by its metadata, among all packages of the index and by its name."""
    for names in ([], ["rlcore_acme"]):
        assert plugin_list.main([f"http://127.0.0.1:{port}/simple", *names]) == 0
        table = capsys.readouterr().out
        bounds = re.escape(release.bounds(rlcore.__version__))
        assert re.search(rf"^\| `rlcore-acme` \| 0\.1\.0 \| .* \| environments, trainers \| `{bounds}` \|", table, re.M)
