"""Exported files in JavaScript: onnxruntime-web and onnxruntime-node compute what onnxruntime computes here."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import pytest
from made_once import made_once
from numpy.typing import NDArray
from onnx_files import PAIRS, export, export_policy, random_mask
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


def feeds_of(session: onnxruntime.InferenceSession, behavior: Any, rows: int, seed: int) -> dict[str, NDArray[Any]]:
    """Random values for every input: observations in their ranges, a mask, a memory and noise."""
    generator = np.random.default_rng(seed)
    mask, feeds = random_mask(behavior, rows, generator), {}
    for each in session.get_inputs():
        shape = (rows, *each.shape[1:])
        if each.name in ("action_mask", "action_masks"):
            assert mask is not None
            feeds[each.name] = mask if each.type == "tensor(bool)" else mask.astype(np.float32)
        elif each.type == "tensor(uint8)":
            feeds[each.name] = generator.integers(0, 256, shape, np.uint8)
        else:
            dtype = np.float64 if each.type == "tensor(double)" else np.float32
            feeds[each.name] = generator.standard_normal(shape).astype(dtype)
    return feeds


@pytest.mark.parametrize("package", ["onnxruntime-web", pytest.param("onnxruntime-node", marks=pytest.mark.deep)])
def test_node_computes_the_same_numbers(modules: Install, tmp_path: Path, package: str) -> None:
    """Files of all profiles: dense, convolutional and recurrent networks, and every kind of action."""
    jobs, expected = [], []
    for kind, profile in PAIRS:
        exported = export(kind, tmp_path, profile)
        session = onnxruntime.InferenceSession(str(exported.path), providers=["CPUExecutionProvider"])
        for rows in ROWS:
            feeds = feeds_of(session, exported.behavior, rows, seed=rows)
            names = [each.name for each in session.get_outputs()]
            expected.append(dict(zip(names, session.run(names, feeds), strict=True)))
            shown = {
                name: {"type": array.dtype.name, "dims": array.shape, "data": array.ravel().tolist()}
                for name, array in feeds.items()
            }
            jobs.append({"path": str(exported.path), "feeds": shown})
    job, answer = tmp_path / "job.json", tmp_path / "answer.json"
    job.write_text(json.dumps(jobs))
    node(modules(package), RUN, job, answer, package, cwd=tmp_path)
    found = json.loads(answer.read_text())
    assert len(found) == len(expected) == len(PAIRS) * len(ROWS)
    largest = 0.0
    for ours, theirs in zip(found, expected, strict=True):
        assert ours.keys() == theirs.keys()
        for name, array in theirs.items():
            assert tuple(ours[name]["dims"]) == array.shape
            numbers = np.reshape(ours[name]["data"], array.shape)
            np.testing.assert_allclose(numbers, array, rtol=1e-5, atol=1e-5)
            largest = max(largest, float(np.abs(numbers - array).max()))
    print(f"{package} {VERSION} differs by {largest:.1e}")


def test_the_program_of_the_page_acts_as_the_runtime_in_python(modules: Install, tmp_path: Path) -> None:
    (program,) = (block for block in blocks("js") if block.page == "docs/how-to/export.md")
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
