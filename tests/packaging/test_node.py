"""Exported files in JavaScript: the program of the page acts as the runtime in Python."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from made_once import made_once
from onnx_files import export_policy
from pages import blocks
from workspace import ROOT

from rlcore import BehaviorSpec, ObservationSpec
from rlcore_onnx.runtime import load
from rlcore_torch import NetworkSettings
from rlcore_torch.policy.untrained import untrained_policy

pytestmark = pytest.mark.packaging

VERSION = "1.30.0"
RUN = ROOT / "tests/support/run_onnx.mjs"
ROWS = (1, 3)
Install = Callable[[str], Path]


@pytest.fixture(scope="session")
def modules(tmp_path_factory: pytest.TempPathFactory) -> Install:
    """``modules(package)``: a directory in which Node finds it. Skips the test without Node or if npm fails."""
    for program in ("node", "npm"):
        if shutil.which(program) is None:
            pytest.skip(f"there is no {program}")

    def installed(name: str) -> Path:
        package = f"{name}@{VERSION}"

        def install(directory: Path) -> None:
            (directory / "package.json").write_text('{"private": true, "type": "module"}')
            command = ["npm", "install", "--ignore-scripts", "--no-audit", "--no-fund", package]
            ran = subprocess.run(command, cwd=directory, capture_output=True, text=True, check=False, timeout=300)
            (directory / "problem").write_text("" if ran.returncode == 0 else ran.stderr)

        directory = made_once(tmp_path_factory, package, install)
        problem = (directory / "problem").read_text()
        if problem:
            pytest.skip(f"npm cannot install {package}: {problem.splitlines()[0]}")
        return directory

    return installed


def node(modules: Path, script: Path, *arguments: Path | str, cwd: Path) -> str:
    """Run a copy of ``script`` that finds the package; return what it prints."""
    copy = shutil.copy(script, modules / script.name)
    ran = subprocess.run(["node", copy, *arguments], cwd=cwd, capture_output=True, text=True, check=False, timeout=120)
    assert ran.returncode == 0, ran.stderr
    return ran.stdout


def test_the_program_of_the_page_acts_as_the_runtime_in_python(modules: Install, tmp_path: Path) -> None:
    (program,) = (block for block in blocks("js") if block.page == "docs/how-to/act.md")
    script = tmp_path / "act.mjs"
    script.write_text(program.text)
    pole = BehaviorSpec("Pole", (ObservationSpec("observation", (4,), np.float32),), discrete=(2,))
    seen = np.array([[0.01, -0.02, 0.03, 0.04]], np.float32)
    chosen = set()
    for seed in range(6):
        export_policy(untrained_policy(pole, NetworkSettings(hidden_units=16), seed), pole, tmp_path / "Pole.onnx")
        actions = load(tmp_path / "Pole.onnx").act(seen)
        assert actions.discrete is not None
        assert int(node(modules("onnxruntime-web"), script, cwd=tmp_path)) == actions.discrete[0, 0]
        chosen.add(int(actions.discrete[0, 0]))
        (tmp_path / "Pole.onnx").unlink()
        if len(chosen) == 2:
            break
    assert chosen == {0, 1}
